// A picture put back in the place that it has in the original frame: coverlock_sdk/images/placing.py,
// in 8 bits. Around an upright picture its outermost pixels go on; around a turned one is its mean.

import { toByte } from "./resampling.js";

/** The original frame as far as a picture shows it, at the picture's size. */
export function placed(picture, frame) {
  const { height, width } = picture;
  const angle = (frame.turn * Math.PI) / 180;
  const cos = Math.cos(angle) / frame.side, sin = Math.sin(angle) / frame.side;
  const around = frame.turn ? means(picture) : null;
  const pixels = new Uint8Array(height * width * 3);
  for (let row = 0, place = 0; row < height; row++) {
    for (let column = 0; column < width; column++) {
      const right = column + 0.5 - frame.x * width, down = row + 0.5 - frame.y * height;
      const x = cos * right + sin * down + width / 2, y = cos * down - sin * right + height / 2;
      const outside = around && (x < 0 || x >= width || y < 0 || y >= height);
      for (let channel = 0; channel < 3; channel++, place++) {
        pixels[place] = toByte((outside ? around[channel] : sampled(picture, x - 0.5, y - 0.5, channel)) / 255);
      }
    }
  }
  return { pixels, height, width };
}

/** The level between pixels, from the four around; borders are repeated. */
function sampled({ pixels, height, width }, x, y, channel) {
  const left = Math.floor(x), top = Math.floor(y);
  const at = (row, column) => pixels[(clipped(row, height) * width + clipped(column, width)) * 3 + channel];
  const across = (row) => at(row, left) + (at(row, left + 1) - at(row, left)) * (x - left);
  const above = across(top);
  return above + (across(top + 1) - above) * (y - top);
}

function clipped(place, length) {
  return Math.min(Math.max(place, 0), length - 1);
}

function means({ pixels }) {
  const totals = [0, 0, 0];
  pixels.forEach((level, place) => (totals[place % 3] += level));
  return totals.map((total) => (total * 3) / pixels.length);
}
