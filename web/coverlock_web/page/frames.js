// Which part of the original picture a picture shows: coverlock_sdk/frames.py.

export const WHOLE = { side: 1, x: 0.5, y: 0.5, turn: 0, aspect: 1 };

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

/** How much wider than a turned picture the upright frame is that just holds it. */
export function uprightStretch(turn, aspect) {
  const angle = (Math.abs(turn) * Math.PI) / 180;
  return Math.cos(angle) + Math.sin(angle) * Math.max(aspect, 1 / aspect);
}

/** What is left of a picture that was turned and cut to its proportions without corners. */
export function straightened(turn, aspect) {
  return { ...WHOLE, side: 1 / uprightStretch(turn, aspect), turn, aspect };
}

function percent(share) {
  return `${Math.round(100 * share)} %`;
}
