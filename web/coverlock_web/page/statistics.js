// How likely an unmarked picture would do as well: coverlock_sdk/locking/statistics.py, by the same
// operations in the same order, so that both give the same numbers.

/** P(sum of weights times coins >= s) for s = 0 ... sum(weights), exactly; fair coins, or others. */
export function softTail(weights, heads = 0.5) {
  let distribution = Float64Array.of(1);
  for (const weight of Array.from(weights).sort((a, b) => a - b)) {
    const longer = new Float64Array(distribution.length + weight);
    for (let s = 0; s < distribution.length; s++) longer[s] = (1 - heads) * distribution[s];
    for (let s = 0; s < distribution.length; s++) longer[s + weight] += heads * distribution[s];
    distribution = longer;
  }
  for (let s = distribution.length - 2; s >= 0; s--) distribution[s] += distribution[s + 1];
  return distribution.map((value) => Math.min(value, 1));
}

/** Integer weights from the probability that each bit is right: log-odds in steps of the largest. */
export function softWeights(confidence, maxWeight) {
  const logOdds = confidence.map((share) => Math.log(share / (1 - share)));
  const largest = Math.max(...logOdds, 1e-12);
  return logOdds.map((odds) => roundHalfEven((Math.max(odds, 0) / largest) * maxWeight));
}

export function softPValue(matches, weights) {
  return softTail(weights)[matchedSum(matches, weights)];
}

/** The p-value of the best of `tries` tests. */
export function corrected(pValue, tries) {
  return pValue >= 1 ? 1 : Math.min(1, -Math.expm1(tries * Math.log1p(-pValue)));
}

/** What the bits that match weigh. */
export function matchedSum(matches, weights) {
  return sum(weights.filter((_, bit) => matches[bit]));
}

export function sum(values) {
  return values.reduce((total, value) => total + value, 0);
}

export function clipped(value, low, high) {
  return Math.min(Math.max(value, low), high);
}

export function roundHalfEven(value) {
  const rounded = Math.round(value);
  return rounded - value === 0.5 && rounded % 2 ? rounded - 1 : rounded;
}
