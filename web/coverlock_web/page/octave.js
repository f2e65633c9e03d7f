// The hash `octave`: whitened cosines of light and colour in octave bands, under any frame
// (coverlock_sdk/hashing/octave.py, which explains it). A thumbnail is (3, side, side) in [0, 1].

import { dot, matrix, product, stacked } from "./matrices.js";
import { turned } from "./turning.js";

export class Octave {
  /** `settings` and `whitening`, a matrix (dimensions, features) per band, come from Python. */
  constructor(settings, whitening) {
    this.settings = settings;
    this.whitening = whitening;
    this.rings = settings.octaves.map(([low, high]) => ring(low, high));
    this.colours = ring(0, settings.colours);
  }

  /** What frames are tried on: light and two colours of a thumbnail, as it is and turned. */
  view(thumbnail) {
    const { side, opponent } = this.settings;
    const channel = side * side;
    const maps = opponent.map(([red, green, blue]) => {
      const map = matrix(side, side);
      for (let place = 0; place < channel; place++) {
        map.numbers[place] =
          red * thumbnail[place] + green * thumbnail[channel + place] + blue * thumbnail[2 * channel + place];
      }
      return map;
    });
    return { maps, turns: new Map([[0, { maps: maps.map(transposed), seen: null, stretch: 1 }]]) };
  }

  /** The codes of a view if it showed each of `frames`: a matrix (frames, dimensions) for each lowest band. */
  framed(view, frames, bands = this.rings.length) {
    const top = this.settings.octaves[bands - 1][1];
    const rows = new Map(); // frames of one height share half of the work
    const features = frames.map((frame) => {
      const shown = remembered(view.turns, frame.turn, () => this.turned(view, frame.turn));
      const height = `${frame.turn} ${frame.side} ${frame.y}`;
      const down = remembered(rows, height, () => this.down(shown, frame, top));
      return this.features(down, this.axis(frame.side * shown.stretch, frame.x, top), bands);
    });
    return this.whitening.slice(0, bands).map((whitening, band) => {
      return product(stacked(features.map((parts) => parts[band])), whitening);
    });
  }

  turned(view, turn) {
    const { maps, seen, stretch } = turned(view.maps, turn);
    return { maps: maps.map(transposed), seen: transposed(seen), stretch };
  }

  /** The cosines down, summed and times the maps of a view and what is seen of it. */
  down({ maps, seen, stretch }, frame, top) {
    const axis = this.axis(frame.side * stretch, frame.y, top);
    const counts = [top, this.settings.colours, this.settings.colours];
    return {
      values: maps.map((map, channel) => product(axis, map, counts[channel] + 1)),
      seen: seen && product(axis, seen),
      sums: sums(axis),
    };
  }

  /** What each band is computed from, before whitening. */
  features({ values, seen, sums: sumsDown }, across, bands) {
    const sumsAcross = sums(across);
    const level = (u, v) => (seen ? dot(seen, u, across, v) : sumsDown[u] * sumsAcross[v]);
    const parts = (map, rings) => {
      const mean = dot(map, 0, across, 0) / Math.max(level(0, 0), 1e-12);
      return rings.map((waves) => waves.map(({ u, v }) => dot(map, u, across, v) - mean * level(u, v)));
    };
    const [light, ...colours] = values;
    const [lowest, ...others] = parts(light, this.rings.slice(0, bands));
    return [[lowest, ...colours.flatMap((map) => parts(map, [this.colours]))].flat(), ...others];
  }

  /** The tapered cosines (top + 1, side) of one axis of a picture that shows part of it. */
  axis(share, centre, top) {
    const { side, taper } = this.settings;
    const axis = matrix(top + 1, side);
    for (let sample = 0; sample < side; sample++) {
      const place = centre + ((sample + 0.5) / side - 0.5) * share;
      const border = Math.min(Math.max(Math.min(place, 1 - place) / taper, 0), 1);
      const rise = (Math.sin((Math.PI / 2) * border) ** 2 * share) / side;
      const step = Math.cos(Math.PI * place);
      // cos(u a) = 2 cos(a) cos((u - 1) a) - cos((u - 2) a)
      for (let wave = 0, here = rise, next = rise * step; wave <= top; wave++) {
        axis.numbers[wave * side + sample] = here;
        [here, next] = [next, 2 * step * next - here];
      }
    }
    return axis;
  }
}

/** The waves, u down and v across, whose length is above `low` and up to `high`. */
function ring(low, high) {
  const waves = [];
  for (let u = 0; u <= high; u++) {
    for (let v = 0; v <= high; v++) {
      const square = u * u + v * v;
      if (square > low * low && square <= high * high) waves.push({ u, v });
    }
  }
  return waves;
}

function transposed({ rows, columns, numbers }) {
  const made = matrix(columns, rows);
  for (let place = 0; place < numbers.length; place++) {
    made.numbers[(place % columns) * rows + Math.floor(place / columns)] = numbers[place];
  }
  return made;
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
