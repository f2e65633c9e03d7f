// Which part of the original frame a picture shows: coverlock_sdk/locking/registration.py, with its
// numbers. What Python calls a row is left out, since without a key there is one salt.

import { seenBits } from "./code_map.js";
import { isWhole, straightened } from "./frames.js";
import { rowOf, solved } from "./matrices.js";
import { clipped, roundHalfEven, sum } from "./statistics.js";

/** What a step moves a frame by; a turn by the angle that moves the rim as far. */
const UNITS = { side: 1, x: 1, y: 1, turn: 100 };
const AXES = Object.keys(UNITS);

/** The prior weight of the cell of the fine grid that a frame lies in. */
export function weightOf(frame, settings) {
  const { step, weights, sides, popular, turnedCells } = settings;
  const near = (one, other) => Math.abs(one - other) <= step + 1e-9;
  if (isWhole(frame)) return weights.whole;
  if (frame.turn) return weights.turned / turnedCells;
  if (near(frame.x, 0.5) && near(frame.y, 0.5)) {
    const isPopular = popular.some((side) => near(frame.side, side));
    return isPopular ? weights.popular / popular.length : weights.centred / sides;
  }
  const places = Math.max(1, roundHalfEven((1 - frame.side) / step)) + 1;
  return weights.anywhere / (sides * places ** 2);
}

/** Looks for the frames of one picture that fit what was read best. */
export class Search {
  /**
   * The numbers that lock the message, by the public map `directions`, should have the signs that `wanted` (bits)
   * has, which are as sure as they are large. A frame on its way is a fit { frame, prior, low, high }.
   */
  constructor(octave, view, directions, wanted, settings) {
    Object.assign(this, { octave, view, directions, wanted, settings });
  }

  /** A few frames { frame, weight }, the best first. A family none of whose frames weighs `leastWeight` is left out. */
  best(leastWeight = 0) {
    const { families, stages, step, left, leftTurned } = this.settings;
    const chosen = families.filter(({ frames }) => weightOf(frames[0], this.settings) >= leastWeight);
    const fits = this.moved(chosen.flatMap((family) => this.begun(family)), stages.middle);
    const scored = this.scored(fits, stages.middle);
    const unturned = apart(scored.filter(({ frame }) => !frame.turn), 2 * step, left);
    const turned = apart(scored.filter(({ frame }) => frame.turn), 2 * step, leftTurned);
    return this.finished([...unturned, ...turned]);
  }

  /** The best frame near one that was found, once more is known of the payload. */
  near({ frame }) {
    const reach = axesOf((axis) => 2 * this.settings.step * UNITS[axis]);
    return this.finished([this.fit(frame, 0, reach)])[0];
  }

  /** The best frames of a family. */
  begun({ frames, weight, stage, begin, kept, reach }) {
    const { stages, coarse, step } = this.settings;
    const isLow = stage === "low";
    const fits = frames.map((frame) => {
      const start = frame.turn ? straightened(frame.turn, this.view.aspect) : frame;
      return this.fit(start, Math.log(weight), { ...reach, turn: UNITS.turn });
    });
    const best = this.firstScored(fits, stages[stage]).sort((a, b) => b.score - a.score).slice(0, 3 * begin);
    const found = apart(best, isLow ? coarse / 2 : step, begin);
    if (!isLow) return found;
    return this.widened(apart(this.scored(this.moved(found, stages.low), stages.low), 2 * step, kept));
  }

  /** A fit that may leave its frame by `reach`, with a side that is allowed. */
  fit(frame, prior, reach) {
    const low = axesOf((axis) => frame[axis] - reach[axis]), high = axesOf((axis) => frame[axis] + reach[axis]);
    low.side = Math.max(low.side, this.settings.leastSide);
    high.side = Math.min(high.side, 1);
    return { frame, prior, low, high };
  }

  /** Fits with the best of several sides. */
  widened(fits) {
    const { wider, stages } = this.settings;
    return fits.map((fit) => {
      const several = wider.map((side) => movedBy(fit, { side }));
      return this.scored(several, stages.middle).reduce((best, other) => (other.score > best.score ? other : best));
    });
  }

  finished(fits) {
    const { fine } = this.settings.stages;
    for (let round = 0; round < 2; round++) fits = this.moved(fits, fine);
    return this.scored(fits, fine).sort((a, b) => b.score - a.score).map(({ frame }) => {
      const aspect = frame.turn ? this.view.aspect : 1;
      return { frame: { ...frame, aspect }, weight: weightOf(frame, this.settings) };
    });
  }

  /** How far numbers have the signs they should have, frame by frame; zero in bands that are not looked at. */
  agreement(frames, { bands, size, sharpness }) {
    if (!frames.length) return [];
    const codes = this.octave.framed(this.view, frames, bands, size);
    return seenBits(codes, this.directions).map((seen, frame) => {
      const typical = Math.max(strength(codes.map((code) => rowOf(code, frame))), 1e-9);
      return seen.map((number, bit) => (sharpness * Math.sign(this.wanted[bit]) * number) / typical);
    });
  }

  /** Fits with the score that `judge`, a score of each number and its bit, gives them. */
  judged(fits, stage, judge) {
    const agreements = this.agreement(fits.map(({ frame }) => frame), stage);
    return fits.map((fit, place) => {
      const scores = this.wanted.map((want, bit) => Math.abs(want) * judge(agreements[place][bit], bit));
      return { ...fit, score: fit.prior + sum(scores) };
    });
  }

  /** Scores by how likely numbers have the signs they should have. */
  scored(fits, stage) {
    return this.judged(fits, stage, (number) => -Math.log1p(Math.exp(Math.min(-number, 30))));
  }

  /** Scores of a first grid: numbers that agree well enough count alike. */
  firstScored(fits, stage) {
    const blunt = { ...stage, sharpness: this.settings.stages.low.sharpness };
    const isHigher = (bit) => bit % this.directions.length > 0;
    return this.judged(fits, blunt, (number, bit) => Math.min((isHigher(bit) ? 2 : 1) * number - Math.LN2, 0));
  }

  /** Fits moved to where they should fit best, by how numbers change with each axis. */
  moved(fits, stage) {
    const stars = fits.map(({ frame }) => {
      const axes = frame.turn ? AXES : AXES.slice(0, 3);
      return [frame, ...axes.map((axis) => ({ ...frame, [axis]: frame[axis] + stage.step * UNITS[axis] }))];
    });
    const agreements = this.agreement(stars.flat(), stage);
    return fits.map((fit, place) => {
      const [here, ...around] = agreements.splice(0, stars[place].length);
      const way = this.way(here, around, stage);
      return movedBy(fit, Object.fromEntries(way.map((far, axis) => [AXES[axis], far * UNITS[AXES[axis]]])));
    });
  }

  /** How far to go along each axis: Newton steps on a linear model of numbers. */
  way(here, around, { step, reach }) {
    const slopes = around.map((there) => there.map((number, bit) => (number - here[bit]) / step));
    let way = slopes.map(() => 0);
    for (let round = 0; round < 3; round++) {
      const pull = way.map((far) => -far / reach ** 2);
      const bend = slopes.map((_, row) => slopes.map((_, column) => (row === column ? reach ** -2 : 0)));
      this.wanted.forEach((want, bit) => {
        const there = here[bit] + sum(slopes.map((slope, axis) => way[axis] * slope[bit]));
        const doubt = 1 / (1 + Math.exp(clipped(there, -30, 30)));
        slopes.forEach((slope, row) => {
          const share = Math.abs(want) * doubt * slope[bit];
          pull[row] += share;
          slopes.forEach((other, column) => (bend[row][column] += share * (1 - doubt) * other[bit]));
        });
      });
      way = solved(bend, pull).map((more, axis) => clipped(way[axis] + more, -2 * reach, 2 * reach));
    }
    return way;
  }
}

/** The first `count` of the best fits, without those that are close to a better one. */
function apart(fits, distance, count) {
  const kept = [];
  const areFar = (one, other) => AXES.some((axis) => Math.abs(one[axis] - other[axis]) / UNITS[axis] > distance);
  for (const fit of [...fits].sort((a, b) => b.score - a.score)) {
    if (kept.length < count && kept.every(({ frame }) => areFar(frame, fit.frame))) kept.push(fit);
  }
  return kept;
}

/** A fit moved along some axes, no further than it may. */
function movedBy(fit, moves) {
  const { frame, low, high } = fit;
  return { ...fit, frame: axesOf((axis) => clipped(frame[axis] + (moves[axis] ?? 0), low[axis], high[axis])) };
}

function axesOf(make) {
  return Object.fromEntries(AXES.map((axis) => [axis, make(axis)]));
}

/** The root of the mean square of numbers, given in parts. */
export function strength(parts) {
  let total = 0, count = 0;
  for (const part of parts) {
    for (const value of part) total += value * value;
    count += part.length;
  }
  return Math.sqrt(total / count);
}
