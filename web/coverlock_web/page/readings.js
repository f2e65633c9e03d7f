// What one picture shows in one frame, and how closely that must agree:
// coverlock_sdk/locking/readings.py, verdict.py and calibration.py, for the soft rule.

import { matchedSum, roundHalfEven, softPValue, softTail, softWeights, sum } from "./statistics.js";

/** Log-odds are trusted as they are. */
const PLAIN = { scale: 1, power: 1 };

/** The probability that a logit has the right sign. */
export function confidence(logit, { scale, power }, most) {
  const odds = Math.min(scale * Math.abs(logit) ** power, 50);
  return Math.min(1 / (1 + Math.exp(-odds)), most);
}

/** What the decoder reads where there is no lock. */
export function unlockedReading(settings, odds, message) {
  const sure = odds.map((value) => confidence(value, PLAIN, settings.maxConfidence));
  const matches = odds.map((value, bit) => Number(value > 0) === message[bit]);
  return { ...judgedBits(settings, matches, sure), tries: 1, frame: null, agreement: sum(matches) / matches.length, floor: 0 };
}

/** What decoder and hash show together; `seen` are the numbers whose signs lock the message. */
export function lockedReading(settings, odds, seen, message, frame, tries) {
  const read = odds.map((value) => confidence(value, PLAIN, settings.maxConfidence));
  const sure = read.map((right, bit) => {
    const certain = confidence(seen[bit], settings.hash.calibration, settings.maxConfidence);
    return right * certain + (1 - right) * (1 - certain);
  });
  const matches = odds.map((value, bit) => (Number(value > 0) ^ Number(seen[bit] > 0)) === message[bit]);
  return { ...judgedBits(settings, matches, sure), tries, frame, ...tightest(settings, matches, read) };
}

function judgedBits(settings, matches, sure) {
  const weights = softWeights(sure, settings.maxWeight);
  return { matches, weights, pValue: softPValue(matches, weights) };
}

/** Agreement and floor where a reading is nearest to falling short, over all bands. */
function tightest({ floors, hash }, matches, legibility) {
  const weights = legibility.map((share) => roundHalfEven((2 * share - 1) * floors.steps));
  const pairs = [held(matches, weights, floors.forger, floors.odds)];
  const bands = hash.bands.length;
  for (let band = 0; bands > 1 && band < bands; band++) {
    const own = (_, bit) => bit % bands === band;
    const kept = [matches, weights].map((each) => each.filter(own));
    pairs.push(held(...kept, floors.bandForger, floors.bandOdds[band]));
  }
  const spare = (pair) => pair.agreement - pair.floor;
  return pairs.reduce((least, pair) => (spare(pair) < spare(least) ? pair : least));
}

/** The weighed share of bits that match, and the least that is asked for. */
function held(matches, weights, forger, odds) {
  const total = sum(weights);
  if (!total) return { agreement: 0, floor: 1 };
  const enough = softTail(weights, forger).findIndex((share) => share <= odds);
  const least = enough < 0 ? total + 1 : enough;
  return { agreement: matchedSum(matches, weights) / total, floor: least / total };
}
