// The hash `octave`: whitened cosines of light and colour in octave bands, under any frame
// (coverlock_sdk/hashing/octave.py, which explains it).

import { product, stacked } from "./matrices.js";
import { View } from "./views.js";

export class Octave {
  /** `settings` and `whitening`, a matrix (dimensions, features) per band, come from Python. */
  constructor(settings, whitening) {
    this.settings = settings;
    this.whitening = whitening;
    this.rings = settings.octaves.map(([low, high]) => ring(low, high));
    this.colours = ring(0, settings.colours);
  }

  /** What frames of a thumbnail are tried on. */
  view(thumbnail, aspect = 1) {
    return new View(thumbnail, aspect, this.settings);
  }

  /**
   * The codes of a view if it showed each of `frames`: a matrix (frames, dimensions) for each lowest band.
   * A search asks for few bands, or a smaller `size` of the thumbnail, which cost less.
   */
  framed(view, frames, bands = this.rings.length, size = null) {
    const { side, octaves, colours } = this.settings;
    const rings = this.rings.slice(0, bands);
    const light = view.products(0, size ?? side, frames, rings, octaves[bands - 1][1]);
    const [reds, blues] = [1, 2].map((channel) => {
      return view.products(channel, size ? side / 4 : side, frames, [this.colours], colours);
    });
    const lowest = light.map(([low], frame) => [low, reds[frame], blues[frame]].flat(2));
    return this.whitening.slice(0, bands).map((whitening, band) => {
      return product(stacked(band ? light.map((parts) => parts[band]) : lowest), whitening);
    });
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
