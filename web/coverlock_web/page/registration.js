// Which part of the original frame a picture shows: coverlock_sdk/locking/registration.py, with its
// numbers. What Python calls a row is left out, since without a key there is one salt.

import { seenBits } from "./code_map.js";
import { isWhole } from "./frames.js";
import { rowOf } from "./matrices.js";
import { roundHalfEven } from "./statistics.js";

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
    const isPopular = popular.some(({ side }) => near(frame.side, side));
    return isPopular ? weights.popular / popular.length : weights.centred / sides;
  }
  const places = Math.max(1, roundHalfEven((1 - frame.side) / step)) + 1;
  return weights.anywhere / (sides * places ** 2);
}

/**
 * The frames that fit best, { frame, weight } each, family by family. A family none of whose frames weighs
 * `leastWeight` is left out. `score(frames, bands)` says how well frames fit by the lowest bands.
 */
export function* search(score, settings, leastWeight = 0) {
  for (const family of settings.families) {
    const weights = family.frames.map((frame) => weightOf(frame, settings));
    if (Math.max(...weights) >= leastWeight) yield refined(begun(family, score, settings), score, settings);
  }
}

/** The frame near one that was found that fits best, once more is known of the payload. */
export function nearby({ frame }, score, settings) {
  return refined([{ frame, start: frame, reach: 2 * settings.step }], score, settings)[0];
}

function refined(fits, score, settings) {
  for (const [bands, step] of settings.refined) {
    const kept = bands < 3 ? 2 * settings.left : settings.left;
    fits = apart(improved(fits, step, bands, score, settings), step, settings).slice(0, kept);
  }
  return fits.map(({ frame }) => ({ frame, weight: weightOf(frame, settings) }));
}

/** The best frames of a family, found by two bands or more. */
function begun({ frames, bands, kept, reach }, score, settings) {
  const starts = frames.map((frame) => ({ frame, start: frame, reach }));
  const best = scored(starts, bands, score).sort((a, b) => b.score - a.score).slice(0, 3 * kept);
  if (bands > 1) return best.slice(0, kept);
  const found = apart(improved(best, 0.016, 1, score, settings), settings.coarse, settings).slice(0, kept);
  const near = found.flatMap((fit) => settings.spread.map((offsets) => ({ ...fit, frame: moved(fit, offsets, settings) })));
  return apart(scored(near, 2, score), 0.008, settings).slice(0, kept);
}

function scored(fits, bands, score) {
  const scores = score(fits.map(({ frame }) => frame), bands);
  return fits.map((fit, place) => ({ ...fit, score: scores[place] }));
}

/** The best fits first, without those that are close to a better one. */
function apart(fits, distance, { worthALook }) {
  const kept = [];
  for (const fit of [...fits].sort((a, b) => compared(b, a)).slice(0, worthALook)) {
    if (kept.every((better) => distanceOf(fit.frame, better.frame) > distance)) kept.push(fit);
  }
  return kept;
}

/** Below zero if `one` is the worse fit; of two that fit alike, the smaller frame. */
function compared(one, other) {
  if (one.score !== other.score) return one.score - other.score;
  const axis = AXES.find((name) => one.frame[name] !== other.frame[name]);
  return axis ? one.frame[axis] - other.frame[axis] : 0;
}

function distanceOf(one, other) {
  return Math.max(...AXES.map((axis) => Math.abs(one[axis] - other[axis]) / UNITS[axis]));
}

/** Each frame moved by up to `step` along each axis to where a parabola has its top. */
function improved(fits, step, bands, score, settings) {
  if (!fits.length) return [];
  const stars = fits.map((fit) => [fit.frame, ...neighbours(fit, step, settings)]);
  const scores = score(stars.flat(), bands);
  let next = 0;
  const byStar = stars.map((star) => scores.slice(next, (next += star.length)));
  const there = byStar.map(([here, ...around], place) => {
    const axes = Array.from({ length: around.length / 2 }, (_, axis) => around.slice(2 * axis, 2 * axis + 2));
    const offsets = axes.map(([before, after]) => topOf(here, before, after) * step);
    return { ...fits[place], frame: moved(fits[place], offsets, settings) };
  });
  return scored(there, bands, score).map((fit, place) => {
    const here = { ...fits[place], score: byStar[place][0] };
    return compared(fit, here) >= 0 ? fit : here;
  });
}

function neighbours(fit, step, settings) {
  const axes = fit.frame.turn ? 4 : 3;
  return Array.from({ length: 2 * axes }, (_, place) => {
    const offsets = new Array(axes).fill(0);
    offsets[Math.floor(place / 2)] = place % 2 ? step : -step;
    return moved(fit, offsets, settings);
  });
}

/** The frame of a fit moved along side, x, y and turn, no further from its start than it may. */
function moved({ frame, start, reach }, [side, x, y, turn = 0], { leastSide }) {
  const within = (value, middle) => clipped(value, middle - reach, middle + reach);
  const low = Math.max(start.side - reach, leastSide), high = Math.min(start.side + reach, 1);
  return {
    side: clipped(frame.side + side, low, high),
    x: within(frame.x + x, start.x),
    y: within(frame.y + y, start.y),
    turn: frame.turn + turn * UNITS.turn,
  };
}

function clipped(value, low, high) {
  return Math.min(Math.max(value, low), high);
}

/** Where the parabola through three scores has its top, in steps, at most one away. */
function topOf(here, before, after) {
  const bend = before + after - 2 * here;
  if (bend >= 0) return after > before ? 1 : -1;
  return clipped((before - after) / (2 * bend), -1, 1);
}

/**
 * A score of frames of a view: how likely the numbers that lock the message have the signs that
 * `wanted` (bits) has, and how sure they are. `directions` is the public map.
 * Bits are dealt to the bands in turn; those of bands that are not looked at say nothing.
 */
export function payloadScore(octave, view, directions, wanted, sharpness) {
  return (frames, bands) => {
    const codes = octave.framed(view, frames, bands);
    return seenBits(codes, directions).map((seen, frame) => {
      const typical = Math.max(strength(codes.map((code) => rowOf(code, frame))), 1e-9);
      let total = 0;
      wanted.forEach((want, bit) => {
        if (bit % directions.length >= bands) return;
        total -= Math.abs(want) * softplus((-sharpness[bands] * Math.sign(want) * seen[bit]) / typical);
      });
      return total;
    });
  };
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

/** log(1 + e^value). */
function softplus(value) {
  return Math.max(value, 0) + Math.log1p(Math.exp(-Math.abs(value)));
}
