// A picture put back in the place that it has in the original frame: coverlock_sdk/images/picture.py.
// Around an upright picture its outermost pixels go on; around a turned one is its mean.

import { clipped, roundHalfEven } from "./statistics.js";

/** The original frame as far as a view { levels, height, width } shows it, as a picture in 8 bits. */
export function placed(view, frame) {
  const { height, width } = view;
  const angle = (frame.turn * Math.PI) / 180;
  const cos = Math.cos(angle) / frame.side, sin = Math.sin(angle) / frame.side;
  // A view may have been squeezed: it has not always the picture's own proportions.
  const squeezed = (frame.aspect * height) / width;
  const around = frame.turn ? means(view) : null;
  const pixels = new Uint8Array(height * width * 3);
  for (let row = 0, place = 0; row < height; row++) {
    for (let column = 0; column < width; column++) {
      const right = column + 0.5 - frame.x * width, down = row + 0.5 - frame.y * height;
      const x = cos * right + (sin / squeezed) * down + width / 2, y = cos * down - sin * squeezed * right + height / 2;
      const outside = around && (x < 0 || x >= width || y < 0 || y >= height);
      for (let channel = 0; channel < 3; channel++, place++) {
        const level = outside ? around[channel] : sampled(view, x - 0.5, y - 0.5, channel);
        pixels[place] = roundHalfEven(level * 255);
      }
    }
  }
  return { pixels, height, width };
}

/** The level between pixels, from the four around; borders are repeated. */
function sampled({ levels, height, width }, x, y, channel) {
  const left = Math.floor(x), top = Math.floor(y);
  const at = (row, column) => {
    return levels[(clipped(row, 0, height - 1) * width + clipped(column, 0, width - 1)) * 3 + channel];
  };
  const across = (row) => at(row, left) + (at(row, left + 1) - at(row, left)) * (x - left);
  const above = across(top);
  return above + (across(top + 1) - above) * (y - top);
}

function means({ levels }) {
  const totals = [0, 0, 0];
  levels.forEach((level, place) => (totals[place % 3] += level));
  return totals.map((total) => (total * 3) / levels.length);
}
