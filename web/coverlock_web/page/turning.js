// Maps turned back by some degrees, as Pillow's affine transform does it: zero outside, borders
// repeated inside (`_turned` of coverlock_sdk/hashing/octave.py).

import { matrix } from "./matrices.js";

/** Square maps turned back, what is seen of them, and how much wider than the picture they are. */
export function turned(maps, turn) {
  const size = maps[0].columns, half = size / 2;
  const angle = (turn * Math.PI) / 180;
  const cos = Math.cos(angle), sin = Math.sin(angle);
  const stretch = cos + Math.abs(sin);
  const made = maps.map(() => matrix(size, size)), seen = matrix(size, size);
  const across = { places: new Int32Array(4), weights: new Float64Array(4) };
  const down = { places: new Int32Array(4), weights: new Float64Array(4) };
  for (let place = 0; place < size * size; place++) {
    const column = (place % size) + 0.5, row = Math.floor(place / size) + 0.5;
    const x = stretch * (cos * column + sin * row) + half - half * stretch * (cos + sin);
    const y = stretch * (cos * row - sin * column) + half - half * stretch * (cos - sin);
    if (x < 0 || x >= size || y < 0 || y >= size) continue;
    seen.numbers[place] = 1;
    setTaps(across, x - 0.5, size);
    setTaps(down, y - 0.5, size);
    for (let map = 0; map < maps.length; map++) made[map].numbers[place] = sampled(maps[map], across, down);
  }
  return { maps: made, seen, stretch };
}

/** The four samples around a place on an axis, and their weights in the cubic through them. */
function setTaps({ places, weights }, place, size) {
  const first = Math.floor(place), share = place - first;
  const square = share * share, cube = square * share;
  for (let step = 0; step < 4; step++) places[step] = Math.min(Math.max(first + step - 1, 0), size - 1);
  weights[0] = 2 * square - share - cube;
  weights[1] = 1 - 2 * square + cube;
  weights[2] = share + square - cube;
  weights[3] = cube - square;
}

function sampled({ columns, numbers }, across, down) {
  let value = 0;
  for (let i = 0; i < 4; i++) {
    const start = down.places[i] * columns;
    let line = 0;
    for (let j = 0; j < 4; j++) line += across.weights[j] * numbers[start + across.places[j]];
    value += down.weights[i] * line;
  }
  return value;
}
