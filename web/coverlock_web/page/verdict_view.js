// A verdict as a person reads it: the answer, the evidence on a scale, and every bit.

import { element, svg } from "./elements.js";
import { frameText, isWhole } from "./frames.js";

/** The full card: answer, p-value on its scale, bits. */
export function verdictView(verdict, settings) {
  return element(
    "div",
    { class: "verdict", "data-accepted": String(verdict.accepted), "data-p": verdict.pValue },
    badge(verdict),
    element("p", { class: "why" }, why(verdict, settings)),
    scale(verdict, settings),
    bits(verdict),
    element(
      "p",
      { class: "quiet small" },
      `${isChance(verdict) ? "" : `${verdict.matched} of ${verdict.bits} bits match · `}` +
        `p\u00a0=\u00a0${scientific(verdict.pValue)} · false-positive rate ${settings.fprText}`,
    ),
  );
}

/** One line, for what is beside the point of a card. */
export function verdictLine(label, verdict) {
  return element(
    "p",
    { class: "line", "data-accepted": String(verdict.accepted) },
    element("b", {}, label),
    ` ${answer(verdict)}, ${isChance(verdict) ? "no better than chance" : `${verdict.matched} of ${verdict.bits} bits`}, ` +
      `p\u00a0=\u00a0${scientific(verdict.pValue)}`,
  );
}

function badge(verdict) {
  const mark = verdict.accepted ? "M5 12.5l4.5 4.5L19 7.5" : "M6 6l12 12M18 6L6 18";
  return element(
    "p",
    { class: "badge" },
    svg("svg", { viewBox: "0 0 24 24", "aria-hidden": "true" }, svg("path", { d: mark })),
    element("strong", {}, answer(verdict)),
  );
}

/** Whether unmarked pictures often do as well: then a count of bits would mislead. */
function isChance(verdict) {
  return !verdict.accepted && verdict.pValue > 0.01;
}

function answer(verdict) {
  return verdict.accepted ? "accepted" : "rejected";
}

function why(verdict, settings) {
  if (verdict.reason) return `No verdict is possible: ${verdict.reason}.`;
  if (verdict.accepted) {
    const part = verdict.frame && !isWhole(verdict.frame) ? `It shows ${frameText(verdict.frame)}. ` : "";
    return `${part}An unmarked picture would match this well about once in ${count(1 / verdict.pValue)}.`;
  }
  if (verdict.pValue <= settings.fpr) {
    return (
      `Of what can be read, ${percent(verdict.agreement)} agrees: more than chance, and less than the ` +
      `${percent(verdict.floor)} that a locked picture needs.`
    );
  }
  return isChance(verdict)
    ? "The bits match no better than those of a picture that was never marked."
    : `The match is not good enough: ${count(1 / verdict.pValue)} unmarked pictures would have one like it.`;
}

/** The p-value on a logarithmic scale, with the threshold. */
function scale(verdict, settings) {
  const full = verdict.bits * Math.log10(2);
  const share = (p) => `${Math.min(Math.max(-Math.log10(p) / full, 0), 1) * 100}%`;
  const track = element(
    "div",
    { class: "track" },
    element("span", { class: "fill" }),
    element("span", { class: "threshold" }),
  );
  track.children[0].style.width = share(verdict.pValue);
  track.children[1].style.left = share(settings.fpr);
  const needed = element("span", { class: "needed" }, `needed: p ≤ ${settings.fprText}`);
  needed.style.left = `clamp(4.2rem, ${share(settings.fpr)}, 100% - 4.2rem)`;
  return element(
    "div",
    {
      class: "scale",
      role: "img",
      "aria-label": `Evidence: p = ${verdict.pValue.toPrecision(2)}, needed at most ${settings.fpr}`,
    },
    track,
    element(
      "div",
      { class: "ends small quiet", "aria-hidden": "true" },
      element("span", {}, "chance"),
      needed,
      element("span", {}, "certain"),
    ),
  );
}

/** Every bit as a bar: up where it matches, down where it does not, long where it is trusted. */
function bits(verdict) {
  const step = 8, height = 40, middle = height / 2;
  const most = Math.max(...verdict.weights, 1);
  const bars = verdict.matches.map((match, bit) => {
    const length = 2 + (middle - 3) * (verdict.weights[bit] / most);
    const y = match ? middle - length : middle + 1;
    return svg("rect", { class: match ? "hit" : "miss", x: bit * step + 1, y, width: step - 3, height: length, rx: 1.5 });
  });
  return svg(
    "svg",
    {
      class: "bits",
      viewBox: `0 0 ${verdict.bits * step} ${height}`,
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": `${verdict.matched} of ${verdict.bits} bits match`,
    },
    ...bars,
  );
}

/** A probability as people write it, such as 5.4 × 10⁻²⁰. */
function scientific(value) {
  if (value >= 0.001) return value.toPrecision(2);
  const [mantissa, exponent] = value.toExponential(1).split("e");
  return `${mantissa}\u00a0×\u00a010${raised(exponent)}`;
}

function raised(digits) {
  return [...digits].map((digit) => (digit === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit])).join("");
}

function count(value) {
  if (value < 1e6) return new Intl.NumberFormat("en", { maximumSignificantDigits: 2 }).format(value);
  const power = Math.floor(Math.log10(value));
  const names = [[12, "trillion"], [9, "billion"], [6, "million"]];
  const [zeros, name] = names.find(([least]) => power >= least);
  if (power < 15) return `${Number((value / 10 ** zeros).toPrecision(2))} ${name}`;
  return `10${raised(String(power))}`;
}

function percent(share) {
  return `${Math.round(100 * share)} %`;
}
