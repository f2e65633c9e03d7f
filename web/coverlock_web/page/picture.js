// Pictures { pixels, height, width } of 8-bit RGB, and what browsers make of them.

/** A canvas that shows a picture. */
export function toCanvas({ pixels, height, width }, canvas = document.createElement("canvas")) {
  const image = new ImageData(width, height);
  for (let i = 0, j = 0; i < pixels.length; i += 3, j += 4) {
    image.data[j] = pixels[i];
    image.data[j + 1] = pixels[i + 1];
    image.data[j + 2] = pixels[i + 2];
    image.data[j + 3] = 255;
  }
  canvas.width = width;
  canvas.height = height;
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

/** A picture as a file, to be verified like one that was dropped, or to be kept. */
export async function toFile(picture, name, type = "image/png", quality = undefined) {
  const canvas = toCanvas(picture);
  const blob = await new Promise((done) => canvas.toBlob(done, type, quality));
  return new File([blob], name, { type });
}

/** The 8-bit RGB pixels of a bitmap, or of an image that has been loaded, over a background. */
export function toPicture(bitmap, background = "white") {
  const { data, height, width } = drawn(bitmap, background);
  const pixels = new Uint8Array(height * width * 3);
  for (let i = 0, j = 0; i < pixels.length; i += 3, j += 4) {
    pixels[i] = data[j];
    pixels[i + 1] = data[j + 1];
    pixels[i + 2] = data[j + 2];
  }
  return { pixels, height, width };
}

/** Whether nothing would show through a bitmap. */
export function isOpaque(bitmap) {
  const { data } = drawn(bitmap, null);
  for (let i = 3; i < data.length; i += 4) if (data[i] !== 255) return false;
  return true;
}

function drawn(bitmap, background) {
  const height = bitmap.naturalHeight ?? bitmap.height;
  const width = bitmap.naturalWidth ?? bitmap.width;
  const context = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
  if (background) {
    context.fillStyle = background;
    context.fillRect(0, 0, width, height);
  }
  context.drawImage(bitmap, 0, 0);
  return context.getImageData(0, 0, width, height);
}
