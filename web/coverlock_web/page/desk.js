// The desk: a visitor's picture, the verdict on it, and what can be seen of its mark.

import { byId, element, painted } from "./elements.js";
import { decodePicture, toFile } from "./picture.js";
import { smoothed } from "./residual.js";
import { resized } from "./resampling.js";
import { verdictView } from "./verdict_view.js";
import { viewer } from "./viewer.js";

const LARGEST_SHOWN = 1024;

export class Desk {
  /** `samples` names functions that make pictures to try. */
  constructor(verifier, samples) {
    Object.assign(this, { verifier, samples, picture: null, file: null });
    byId("picture").addEventListener("change", (event) => this.take(event.target.files[0]));
    byId("original").addEventListener("change", (event) => this.compare(event.target.files[0]));
    byId("identifier").addEventListener("change", () => this.picture && this.judge());
    for (const button of document.querySelectorAll("[data-sample]")) {
      button.addEventListener("click", () => this.trySample(button.dataset.sample));
    }
    this.acceptDrops(byId("drop"));
  }

  acceptDrops(zone) {
    zone.addEventListener("dragover", () => zone.classList.add("over"));
    zone.addEventListener("dragleave", () => zone.classList.remove("over"));
    window.addEventListener("drop", (event) => {
      zone.classList.remove("over");
      this.take(event.dataTransfer.files[0]);
    });
  }

  async trySample(name) {
    const picture = this.samples[name]();
    const jpeg = name === "jpeg";
    await this.take(await toFile(picture, `${name}.${jpeg ? "jpg" : "png"}`, jpeg ? "image/jpeg" : "image/png", 0.9));
  }

  async take(file) {
    if (!file) return;
    await this.guarded(async () => {
      this.picture = await decodePicture(file);
      this.file = file;
      byId("compared").textContent = "";
      const seen = shown(this.picture);
      this.view(
        { picture: smoothed(seen), label: "smoothed" },
        seen,
        "Its fine detail, where a mark hides (an estimate: add the original to see the mark itself)",
      );
      await this.judge();
    });
  }

  async compare(file) {
    if (!file) return;
    await this.guarded(async () => {
      const original = await decodePicture(file);
      const seen = shown(this.picture);
      if (Math.abs(Math.log((original.height / original.width) * (seen.width / seen.height))) > 0.02) {
        throw new Error(
          `${file.name} has ${original.width} x ${original.height} pixels, another shape than the picture: ` +
            "choose the original that it was made from",
        );
      }
      const before = resized(original, [seen.height, seen.width]);
      this.view({ picture: before, label: "original" }, seen, "What was added to the original");
      byId("compared").textContent = `compared with ${file.name}`;
    });
  }

  view(before, seen, label) {
    byId("desk-viewer").replaceChildren(viewer(before, { picture: seen, label: "this picture" }, label));
    byId("desk-result").hidden = false;
  }

  async judge() {
    const identifier = byId("identifier").value;
    const answer = byId("answer");
    answer.setAttribute("aria-busy", "true");
    await painted();
    const started = performance.now();
    const verdict = await this.verifier.verify(this.picture, identifier);
    const took = Math.round(performance.now() - started);
    const { height, width } = this.picture;
    byId("verdict").replaceChildren(
      verdictView(verdict, this.verifier.format),
      element("p", { class: "quiet small" }, `${this.file.name}, ${width} × ${height} pixels, in ${took} ms`),
    );
    answer.setAttribute("aria-busy", "false");
  }

  /** Run something of which a failure is a sentence on the page. */
  async guarded(work) {
    const box = byId("verify-error");
    box.hidden = true;
    try {
      await work();
    } catch (error) {
      box.textContent = error.message;
      box.hidden = false;
      byId("answer").setAttribute("aria-busy", "false");
    }
  }
}

/** A picture at a size that is worth showing. */
function shown(picture) {
  const shrink = Math.min(1, LARGEST_SHOWN / Math.max(picture.height, picture.width));
  return resized(picture, [Math.round(picture.height * shrink), Math.round(picture.width * shrink)]);
}
