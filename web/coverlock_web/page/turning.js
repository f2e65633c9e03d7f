// A map turned back by some degrees, as Pillow's affine transform does it: zero outside, borders
// repeated inside (`_turned` of coverlock_sdk/hashing/views.py). Maps lie column by column.

import { uprightStretch } from "./frames.js";
import { matrix } from "./matrices.js";
import { clipped } from "./statistics.js";

/** A square map turned back, where it shows, and how much further than the picture it reaches. */
export function turned(map, turn, aspect) {
  const size = map.rows, half = size / 2;
  const angle = (turn * Math.PI) / 180, stretch = uprightStretch(turn, aspect);
  const cos = Math.cos(angle) * stretch, sin = Math.sin(angle) * stretch;
  const made = matrix(size, size), seen = matrix(size, size);
  const across = { places: new Int32Array(4), weights: new Float64Array(4) };
  const down = { places: new Int32Array(4), weights: new Float64Array(4) };
  for (let place = 0; place < size * size; place++) {
    const right = Math.floor(place / size) + 0.5 - half, below = (place % size) + 0.5 - half;
    const x = cos * right + (sin / aspect) * below, y = cos * below - sin * aspect * right;
    const shown = clipped(half + 0.5 - Math.abs(x), 0, 1) * clipped(half + 0.5 - Math.abs(y), 0, 1);
    seen.numbers[place] = shown;
    if (x < -half || x >= half || y < -half || y >= half) continue;
    setTaps(across, x + half - 0.5, size);
    setTaps(down, y + half - 0.5, size);
    made.numbers[place] = shown * sampled(map, across, down);
  }
  return { map: made, seen, stretch };
}

/** The four samples around a place on an axis, and their weights in the cubic through them. */
function setTaps({ places, weights }, place, size) {
  const first = Math.floor(place), share = place - first;
  const square = share * share, cube = square * share;
  for (let step = 0; step < 4; step++) places[step] = clipped(first + step - 1, 0, size - 1);
  weights[0] = 2 * square - share - cube;
  weights[1] = 1 - 2 * square + cube;
  weights[2] = share + square - cube;
  weights[3] = cube - square;
}

function sampled({ rows, numbers }, across, down) {
  let value = 0;
  for (let i = 0; i < 4; i++) {
    const start = across.places[i] * rows;
    let line = 0;
    for (let j = 0; j < 4; j++) line += down.weights[j] * numbers[start + down.places[j]];
    value += across.weights[i] * line;
  }
  return value;
}
