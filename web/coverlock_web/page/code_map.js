// From the code of a picture to the numbers whose signs lock a message: the public map of
// coverlock_sdk/locking/code_maps.py, as one matrix (dimensions, bits) per band.

import { times } from "./matrices.js";

/** The numbers (bits,) that the map shows of a code, or of its lowest bands: others are zero. */
export function seenBits(code, directions) {
  const bits = directions.reduce((total, { columns }) => total + columns, 0);
  const seen = new Float64Array(bits);
  let start = 0;
  for (let band = 0; start < code.length; band++) {
    const own = directions[band];
    const found = times(code.subarray(start, start + own.rows), own);
    found.forEach((value, place) => {
      seen[place * directions.length + band] = value; // bits are dealt to the bands in turn
    });
    start += own.rows;
  }
  return seen;
}
