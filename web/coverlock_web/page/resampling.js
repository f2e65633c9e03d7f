// The SDK's one way to change the size of a picture: an antialiased triangle filter on rows, then on
// columns (coverlock_sdk/images/resampling.py). Every step is rounded to single precision as it is in
// Python, so that both see the same 8-bit picture.

const { fround } = Math;
const UNIT = Float32Array.from({ length: 256 }, (_, level) => level / 255);
const ROUND_UP_FROM = 0.5 - 2 ** -10; // half-way values go up on every machine

/** A picture { pixels, height, width } of 8-bit RGB at another size, rounded to 8 bits. */
export function resized(picture, size) {
  if (picture.height === size[0] && picture.width === size[1]) return picture;
  const { levels, height, width } = viewed(picture, size);
  const rounded = (level) => Math.floor(fround(fround(level * 255) + 1 - ROUND_UP_FROM));
  return { pixels: Uint8Array.from(levels, rounded), height, width };
}

/** A picture at a size as levels from 0 to 1 { levels, height, width }, not rounded to 8 bits. */
export function viewed({ pixels, height, width }, [rows, columns]) {
  const shorter = new Float32Array(rows * width * 3);
  taps(height, rows).forEach(({ start, weights }, row) => {
    const line = shorter.subarray(row * width * 3, (row + 1) * width * 3);
    weights.forEach((weight, tap) => {
      const offset = (start + tap) * width * 3;
      for (let i = 0; i < line.length; i++) line[i] += weight * UNIT[pixels[offset + i]];
    });
  });
  const levels = new Float32Array(rows * columns * 3);
  taps(width, columns).forEach(({ start, weights }, column) => {
    for (let row = 0; row < rows; row++) {
      for (let channel = 0; channel < 3; channel++) {
        const first = (row * width + start) * 3 + channel;
        let value = 0;
        for (let tap = 0; tap < weights.length; tap++) {
          value = fround(value + weights[tap] * shorter[first + 3 * tap]);
        }
        levels[(row * columns + column) * 3 + channel] = value;
      }
    }
  });
  return { levels, height: rows, width: columns };
}

/** For each target sample, the first source sample it sees and the weights from there on. */
function taps(source, target) {
  const scale = source / target;
  const reach = Math.max(scale, 1);
  return Array.from({ length: target }, (_, index) => {
    const centre = (index + 0.5) * scale;
    const start = Math.max(Math.ceil(centre - reach - 0.5), 0);
    const end = Math.min(Math.floor(centre + reach - 0.5), source - 1);
    const weights = [];
    for (let i = start; i <= end; i++) weights.push(1 - Math.abs(i + 0.5 - centre) / reach);
    const total = weights.reduce((a, b) => a + b, 0);
    return { start, weights: Float32Array.from(weights, (weight) => Math.max(weight, 0) / total) };
  });
}
