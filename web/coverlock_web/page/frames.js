// Which part of the original picture a picture shows: coverlock_sdk/hashing/frames.py.

export const WHOLE = { side: 1, x: 0.5, y: 0.5, turn: 0 };

/** Whether nothing was cut away or turned. */
export function isWhole({ side, x, y, turn }) {
  return side === WHOLE.side && x === WHOLE.x && y === WHOLE.y && turn === WHOLE.turn;
}

/** A frame in words, as the verdict shows it. */
export function frameText(frame) {
  if (isWhole(frame)) return "the whole picture";
  const { side, x, y, turn } = frame;
  let part = `${percent(side ** 2)} of the picture`;
  if (Math.abs(x - 0.5) + Math.abs(y - 0.5) > 0.01) part += ` around (${percent(x)}, ${percent(y)})`;
  return turn ? `${part}, turned by ${turn.toFixed(1)} degrees` : part;
}

function percent(share) {
  return `${Math.round(100 * share)} %`;
}
