// What a mark adds to a picture: lifting it, pasting it elsewhere, and making it visible.

/** `marked` minus `cover`, signed, (height, width, 3). Both have the same size. */
export function difference(marked, cover) {
  return Int16Array.from(marked.pixels, (value, index) => value - cover.pixels[index]);
}

/** The forgery: `target` plus a residual that was lifted from another picture. */
export function transplanted(target, residual) {
  const pixels = Uint8Array.from(target.pixels, (value, index) =>
    Math.min(Math.max(value + residual[index], 0), 255),
  );
  return { ...target, pixels };
}

/** A residual around mid-grey, `gain` times as strong. */
export function magnified({ height, width }, residual, gain) {
  const pixels = Uint8Array.from(residual, (value) => Math.min(Math.max(128 + gain * value, 0), 255));
  return { pixels, height, width };
}

/** Peak signal-to-noise ratio in decibels of a residual. */
export function psnr(residual) {
  const squares = residual.reduce((total, value) => total + value * value, 0);
  return squares === 0 ? Infinity : 10 * Math.log10((255 * 255 * residual.length) / squares);
}

/** A picture without its fine detail: each pixel the mean of the square around it. */
export function smoothed({ pixels, height, width }, reach = 1) {
  const across = averaged(pixels, height, width, reach, 3, width * 3);
  return { pixels: averaged(across, width, height, reach, width * 3, 3), height, width };
}

/** Running means along one axis: `length` samples `step` apart on each of `lines` lines. */
function averaged(pixels, lines, length, reach, step, stride) {
  const result = new Uint8Array(pixels.length);
  for (let line = 0; line < lines; line++) {
    for (let channel = 0; channel < 3; channel++) {
      const offset = line * stride + channel;
      for (let i = 0; i < length; i++) {
        const first = Math.max(i - reach, 0), last = Math.min(i + reach, length - 1);
        let total = 0;
        for (let j = first; j <= last; j++) total += pixels[offset + j * step];
        result[offset + i * step] = Math.round(total / (last - first + 1));
      }
    }
  }
  return result;
}
