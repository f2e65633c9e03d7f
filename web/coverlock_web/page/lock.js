// From logits to verdicts: LockFormat and Judge of coverlock_sdk/locking, without keys.

import { hardPValue, softPValue, softWeights, sum } from "./statistics.js";

/**
 * The verdict on one picture. `format` is what the page was built with (bits, calibrations, selection,
 * rule, fpr, floor); without `locked` the payload is judged as it is, as the bare watermark does,
 * and the message is as long as the payload.
 */
export function judge(format, { decoded, hashed }, message, { locked = true } = {}) {
  const odds = logOdds(format, decoded, message.length);
  let read = odds.map((value) => Number(value > 0));
  const legible = odds.map((value) => trust(value, { scale: 1, power: 1 }, format.maxConfidence));
  let confidence = legible;
  if (locked) {
    const chosen = format.selection.map((index) => hashed[index]);
    read = read.map((bit, index) => bit ^ Number(chosen[index] > 0));
    confidence = confidence.map((right, index) => {
      const certain = trust(chosen[index], format.hash, format.maxConfidence);
      return right * certain + (1 - right) * (1 - certain);
    });
  }
  const matches = read.map((bit, index) => bit === message[index]);
  const weigh = (trusted) => softWeights(trusted, format.maxWeight);
  return verdict(format, matches, weigh(confidence), weigh(legible), locked);
}

function verdict(format, matches, weights, legible, locked) {
  const soft = format.rule === "soft";
  const pValue = soft ? softPValue(matches, weights) : hardPValue(matches);
  const counted = soft && legible.some(Boolean) ? legible : matches.map(() => 1);
  const agreement = sum(counted.filter((_, bit) => matches[bit])) / sum(counted);
  const floor = locked ? format.floor : 0;
  return {
    accepted: pValue <= format.fpr && agreement >= floor,
    pValue,
    matches,
    weights,
    matched: matches.filter(Boolean).length,
    bits: matches.length,
    agreement,
    floor,
  };
}

/** Calibrated log-odds of a message of `bits`; its repeats in a long payload are added up. */
function logOdds(format, decoded, bits) {
  const odds = new Array(bits).fill(0);
  decoded.forEach((logit, index) => {
    const right = trust(logit, format.decoder, format.maxConfidence);
    const trusted = Math.max(Math.log(right / (1 - right)), 1e-9);
    odds[index % bits] += logit > 0 ? trusted : -trusted;
  });
  return odds;
}

/** The probability that a logit has the right sign. */
function trust(logit, { scale, power }, most) {
  const odds = Math.min(scale * Math.abs(logit) ** power, 50);
  return Math.min(1 / (1 + Math.exp(-odds)), most);
}
