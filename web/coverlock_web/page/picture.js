// Picture files to 8-bit RGB as Pillow would read them: colour profiles ignored, turned upright,
// transparency over white.

const MIN_SIDE = 32;
const MAX_PIXELS = 178_956_970;

/** Decode a picture file, or throw one sentence that says what is wrong with it. */
export async function decodePicture(file) {
  if (file.size === 0) throw new Error(`${file.name} is empty (0 bytes)`);
  await refuseAnimation(file);
  let bitmap;
  try {
    bitmap = await createImageBitmap(file, {
      colorSpaceConversion: "none",
      premultiplyAlpha: "none",
      imageOrientation: "from-image",
    });
  } catch {
    throw new Error(
      `${file.name} is not a picture that this browser can open: save it as PNG, JPEG or WebP`,
    );
  }
  try {
    requireSize(bitmap);
    return toPicture(bitmap);
  } finally {
    bitmap.close();
  }
}

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

/** The 8-bit RGB pixels of a bitmap, or of an image that has been loaded. */
export function toPicture(bitmap) {
  const height = bitmap.naturalHeight ?? bitmap.height;
  const width = bitmap.naturalWidth ?? bitmap.width;
  const canvas = new OffscreenCanvas(width, height);
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.fillStyle = "white";
  context.fillRect(0, 0, width, height);
  context.drawImage(bitmap, 0, 0);
  const { data } = context.getImageData(0, 0, width, height);
  const pixels = new Uint8Array(height * width * 3);
  for (let i = 0, j = 0; i < pixels.length; i += 3, j += 4) {
    pixels[i] = data[j];
    pixels[i + 1] = data[j + 1];
    pixels[i + 2] = data[j + 2];
  }
  return { pixels, height, width };
}

function requireSize({ height, width }) {
  if (Math.min(height, width) < MIN_SIDE) {
    throw new Error(
      `a picture of ${width} x ${height} pixels is too small to carry a mark: ` +
        `both sides must have at least ${MIN_SIDE}`,
    );
  }
  if (height * width > MAX_PIXELS) {
    throw new Error(`a picture of ${width} x ${height} pixels is too large for this page`);
  }
}

async function refuseAnimation(file) {
  if (!("ImageDecoder" in globalThis) || !["image/gif", "image/webp", "image/png"].includes(file.type)) return;
  let frames = 1;
  try {
    const decoder = new ImageDecoder({ data: await file.arrayBuffer(), type: file.type });
    await decoder.tracks.ready;
    frames = decoder.tracks.selectedTrack.frameCount;
    decoder.close();
  } catch {
    return; // whatever is wrong with the file is said when it is decoded
  }
  if (frames > 1) {
    throw new Error(`an animation of ${frames} frames is not one picture: drop one of its frames`);
  }
}
