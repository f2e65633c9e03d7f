// A thumbnail seen under many frames: its products with tapered cosines of the original frame
// (coverlock_sdk/hashing/views.py, which explains it).

import { dot, matrix, product } from "./matrices.js";
import { clipped } from "./statistics.js";
import { turned } from "./turning.js";

export class View {
  /** `thumbnail` is (3, side, side) in [0, 1]; `aspect` is the picture's width over its height. */
  constructor(thumbnail, aspect, settings) {
    Object.assign(this, { aspect, taper: settings.taper });
    const { side } = settings;
    const maps = settings.opponent.map((share) => transposedMap(thumbnail, share, side));
    const halves = maps.map(halved), quarters = halves.map(halved);
    this.maps = new Map([maps, halves, quarters].map((sized) => [sized[0].rows, sized]));
  }

  /**
   * What one channel shows of each of `frames`, at one size: per ring of waves { u, v } up to `top`, the products
   * with its cosines, the tapered mean removed.
   */
  products(channel, size, frames, rings, top) {
    const map = this.maps.get(size)[channel];
    const turns = new Map([[0, { map, seen: null, stretch: 1 }]]);
    const rows = new Map(); // frames of one height share half of the work
    return frames.map(({ side, x, y, turn }) => {
      const shown = remembered(turns, turn, () => turned(map, turn, this.aspect));
      const share = side * shown.stretch;
      const down = remembered(rows, `${turn} ${side} ${y}`, () => this.down(shown, share, y, top));
      const across = this.axis(share, x, top, size), sumsAcross = sums(across);
      const level = (u, v) => (down.seen ? dot(down.seen, u, across, v) : down.sums[u] * sumsAcross[v]);
      const mean = dot(down.map, 0, across, 0) / Math.max(level(0, 0), 1e-12);
      return rings.map((ring) => ring.map(({ u, v }) => dot(down.map, u, across, v) - mean * level(u, v)));
    });
  }

  /** The cosines down: their sums, and their products with a map and where it shows. */
  down({ map, seen }, share, centre, top) {
    const axis = this.axis(share, centre, top, map.rows);
    return { map: product(axis, map), seen: seen && product(axis, seen), sums: sums(axis) };
  }

  /** The tapered cosines (top + 1, size) of an axis that shows a share of the frame's around a centre. */
  axis(share, centre, top, size) {
    const axis = matrix(top + 1, size);
    for (let sample = 0; sample < size; sample++) {
      const place = centre + ((sample + 0.5) / size - 0.5) * share;
      const border = clipped(Math.min(place, 1 - place) / this.taper, 0, 1);
      const rise = (Math.sin((Math.PI / 2) * border) ** 2 * share) / size;
      const step = Math.cos(Math.PI * place);
      // cos(u a) = 2 cos(a) cos((u - 1) a) - cos((u - 2) a)
      for (let wave = 0, here = rise, next = rise * step; wave <= top; wave++) {
        axis.numbers[wave * size + sample] = here;
        [here, next] = [next, 2 * step * next - here];
      }
    }
    return axis;
  }
}

/** Light or a colour, a share of each of red, green and blue, column by column as products need it. */
function transposedMap(thumbnail, [red, green, blue], side) {
  const map = matrix(side, side), channel = side * side;
  for (let place = 0; place < channel; place++) {
    map.numbers[(place % side) * side + Math.floor(place / side)] =
      red * thumbnail[place] + green * thumbnail[channel + place] + blue * thumbnail[2 * channel + place];
  }
  return map;
}

/** A map of half the size, of the means of four. */
function halved({ rows, numbers }) {
  const map = matrix(rows / 2, rows / 2);
  for (let place = 0; place < map.numbers.length; place++) {
    const first = 2 * (Math.floor(place / map.rows) * rows + (place % map.rows));
    map.numbers[place] = (numbers[first] + numbers[first + 1] + numbers[first + rows] + numbers[first + rows + 1]) / 4;
  }
  return map;
}

/** The sum of every row of an axis. */
function sums(axis) {
  const ones = { numbers: new Float32Array(axis.columns).fill(1) };
  return Float64Array.from({ length: axis.rows }, (_, row) => dot(axis, row, ones, 0));
}

function remembered(known, name, make) {
  if (!known.has(name)) known.set(name, make());
  return known.get(name);
}
