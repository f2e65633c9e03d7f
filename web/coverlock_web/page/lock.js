// From what the graph sees of a picture to a verdict: coverlock_sdk/locking/lock.py, without keys.

import { seenBits } from "./code_map.js";
import { WHOLE } from "./frames.js";
import { stacked } from "./matrices.js";
import { confidence, lockedReading, unlockedReading } from "./readings.js";
import { Search, strength } from "./registration.js";
import { corrected } from "./statistics.js";

const EMPTY = "the picture is nearly empty, and anything could pass for it";

export class Lock {
  /**
   * `settings` and `directions`, the public map, come from Python. `octave` is the hash that computes codes;
   * without it the graph has computed them already.
   */
  constructor(settings, directions, octave = null) {
    Object.assign(this, { settings, directions, octave });
  }

  /** The verdict on the watermark alone: its payload is the message. */
  verifyBare(decoded, message) {
    return this.verdict(unlockedReading(this.settings, this.logOdds(decoded, message.length), message));
  }

  /**
   * Whether a picture carries a message, in the frame where it fits best. `aspect` is its width over its height.
   * `decode` reads it put back in the place that it has in a frame: a decoder finds more there than in a crop that
   * fills its view.
   */
  async verify(decoded, description, message, { aspect = 1, decode = null } = {}) {
    const { octave, settings } = this;
    const view = octave ? octave.view(description, aspect) : description;
    const weakest = Math.min(...this.code(view).map((band) => strength([band.numbers])));
    if (weakest < settings.faint) return rejected(message.length, EMPTY);
    const picture = { decoded, view, message };
    const verdict = this.read(picture, WHOLE, octave ? settings.registration.weights.whole : 1);
    return verdict.accepted || !octave ? verdict : this.registered(picture, decode, verdict);
  }

  /** What a picture shows in a frame of some weight. */
  read({ decoded, view, message }, frame, weight) {
    const [seen] = seenBits(this.code(view, frame), this.directions);
    const odds = this.logOdds(decoded, message.length);
    return this.verdict(lockedReading(this.settings, odds, seen, message, frame, 1 / weight));
  }

  /**
   * The first verdict that accepts a picture in one of the frames that fit best, or else the best one there or
   * `verdict`. If the best of the frames is promising, the picture is read once more, put back in its place.
   */
  async registered(picture, decode, verdict) {
    const { fpr, promising } = this.settings;
    const legible = this.logOdds(picture.decoded, picture.message.length).filter((value) => Math.abs(value) > 1e-3);
    const found = this.search(picture).best(2 ** -legible.length / fpr);
    const read = found.map(({ frame, weight }) => this.read(picture, frame, weight / 2));
    const best = read.find(({ accepted }) => accepted) ?? read.reduce(better, verdict);
    const least = Math.min(...read.map(({ uncorrected }) => uncorrected));
    if (best.accepted || !decode || least > promising) return best;
    const placed = found[read.findIndex(({ uncorrected }) => uncorrected === least)];
    const again = { ...picture, decoded: await decode(placed.frame) };
    const { frame, weight } = this.search(again).near(placed);
    return better(best, this.read(again, frame, weight / 2));
  }

  /** A search for the frames that fit what was read. */
  search({ decoded, view, message }) {
    const odds = this.logOdds(decoded, message.length);
    const wanted = odds.map((value, bit) => Math.tanh(value / 2) * (1 - 2 * message[bit]));
    return new Search(this.octave, view, this.directions, wanted, this.settings.registration);
  }

  /** The code of a picture in one frame: a matrix of one row per band. */
  code(view, frame = WHOLE) {
    if (this.octave) return this.octave.framed(view, [frame]);
    let start = 0;
    return this.settings.hash.bands.map((size) => stacked([view.slice(start, (start += size))]));
  }

  /** Calibrated log-odds of a message of `bits`; its repeats in a long payload are added up. */
  logOdds(decoded, bits) {
    const { decoder, maxConfidence } = this.settings;
    const odds = new Array(bits).fill(0);
    decoded.forEach((logit, index) => {
      const right = confidence(logit, decoder, maxConfidence);
      const trusted = Math.max(Math.log(right / (1 - right)), 1e-9);
      odds[index % bits] += logit > 0 ? trusted : -trusted;
    });
    return odds;
  }

  verdict({ matches, weights, pValue, tries, frame, agreement, floor }) {
    const p = corrected(pValue, tries);
    const accepted = p <= this.settings.fpr && agreement >= floor;
    return {
      accepted,
      pValue: p,
      uncorrected: pValue,
      matches,
      weights,
      matched: matches.filter(Boolean).length,
      bits: matches.length,
      agreement,
      floor,
      frame: accepted ? frame : null,
      reason: null,
    };
  }
}

/** The verdict that passes; of two that do, or do not, the one with the lesser p-value. */
function better(one, other) {
  if (one.accepted !== other.accepted) return one.accepted ? one : other;
  return other.pValue < one.pValue ? other : one;
}

function rejected(bits, reason) {
  const none = new Array(bits).fill(false);
  const empty = { matches: none, weights: none.map(Number), matched: 0, bits, agreement: 0, floor: 0 };
  return { accepted: false, pValue: 1, ...empty, frame: null, reason };
}
