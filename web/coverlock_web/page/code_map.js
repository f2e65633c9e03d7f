// From codes of a picture to the numbers whose signs lock a message: the public map of
// coverlock_sdk/locking/secret_rotations.py, as one matrix (bits, dimensions) per band.

import { product } from "./matrices.js";

/** The numbers (bits,) that the map shows of codes, by their lowest bands: others are zero. */
export function seenBits(codes, directions) {
  const bits = directions.reduce((total, { rows }) => total + rows, 0);
  const seen = Array.from({ length: codes[0].rows }, () => new Float64Array(bits));
  codes.forEach((code, band) => {
    const { columns, numbers } = product(code, directions[band]);
    numbers.forEach((value, place) => {
      const bit = (place % columns) * directions.length + band; // bits are dealt to the bands in turn
      seen[Math.floor(place / columns)][bit] = value;
    });
  });
  return seen;
}
