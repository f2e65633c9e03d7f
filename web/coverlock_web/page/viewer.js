// Two pictures under a slider, and their difference magnified.

import { element } from "./elements.js";
import { toCanvas } from "./picture.js";
import { difference, magnified, psnr } from "./residual.js";

const GAINS = { min: 1, max: 60, start: 20 };

/** A viewer of `before` and `after`, { picture, label } each, of one size. */
export function viewer(before, after, residualLabel) {
  const residual = difference(after.picture, before.picture);
  return element("div", { class: "viewer" }, compared(before, after), magnifier(after, residual, residualLabel));
}

function compared(before, after) {
  const over = toCanvas(before.picture);
  over.className = "over";
  const stage = element("div", { class: "stage" }, toCanvas(after.picture), over, element("span", { class: "divider" }));
  const slider = element("input", {
    type: "range", min: 0, max: 100, value: 50, "aria-label": `Compare: ${before.label} to ${after.label}`,
  });
  const moved = () => {
    stage.style.setProperty("--at", `${slider.value}%`);
    slider.setAttribute("aria-valuetext", `${slider.value} % ${before.label}`);
  };
  slider.addEventListener("input", moved);
  moved();
  stage.append(slider);
  return element(
    "figure",
    {},
    stage,
    element("figcaption", { class: "sides" }, element("span", {}, `◀ ${before.label}`), element("span", {}, `${after.label} ▶`)),
  );
}

function magnifier(after, residual, label) {
  const canvas = element("canvas", { role: "img", "aria-label": label });
  const gain = element("input", { type: "range", ...GAINS, value: GAINS.start, "aria-label": "Magnification" });
  const shown = element("output", {});
  const draw = () => {
    toCanvas(magnified(after.picture, residual, Number(gain.value)), canvas);
    shown.textContent = `× ${gain.value}`;
  };
  gain.addEventListener("input", draw);
  draw();
  const decibels = psnr(residual);
  const strength = Number.isFinite(decibels) ? `, ${decibels.toFixed(1)} dB` : ", no difference";
  return element(
    "figure",
    {},
    element("div", { class: "stage" }, canvas),
    element("figcaption", { class: "gain" }, element("span", {}, `${label}${strength}`), gain, shown),
  );
}
