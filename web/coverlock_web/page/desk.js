// The desk: a visitor's picture, the verdict on it, and what can be seen of its mark.

import { byId, element, painted } from "./elements.js";
import { toFile } from "./picture.js";
import { smoothed } from "./residual.js";
import { resized } from "./resampling.js";
import { decodePicture } from "./shown.js";
import { verdictView } from "./verdict_view.js";
import { viewer } from "./viewer.js";

const LARGEST_SHOWN = 1024;
const NONE = "No picture yet.";

export class Desk {
  /** `samples` names functions that make pictures to try. */
  constructor(verifier, samples) {
    Object.assign(this, { verifier, samples, picture: null, file: null, asked: 0 });
    onFile("picture", (file) => this.take(file));
    onFile("original", (file) => this.compare(file));
    byId("identifier").addEventListener("input", () => this.clear(this.picture ? "Press Enter to verify again." : NONE));
    byId("identifier").addEventListener("change", () => this.answer(() => this.judged()));
    for (const button of document.querySelectorAll("[data-sample]")) {
      button.addEventListener("click", () => this.take(this.sample(button.dataset.sample)));
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

  sample(name) {
    const jpeg = name === "jpeg";
    return toFile(this.samples[name](), `${name}.${jpeg ? "jpg" : "png"}`, jpeg ? "image/jpeg" : "image/png", 0.9);
  }

  /** Verify a picture file, or a promise of one, in the place of the picture before; then show it. */
  async take(given) {
    this.picture = this.file = null;
    byId("desk-result").hidden = true;
    let taken = null;
    await this.answer(async (isCurrent) => {
      const file = await given;
      if (!file) throw new Error("what was dropped is not a file: drop a picture file");
      const picture = await decodePicture(file);
      if (!isCurrent()) return [];
      taken = picture;
      Object.assign(this, { picture, file });
      return this.judged();
    });
    if (taken && taken === this.picture) this.show(shown(taken));
  }

  show(seen) {
    byId("compared").textContent = "";
    this.view(
      { picture: smoothed(seen), label: "smoothed" },
      seen,
      "Its fine detail, where a mark hides (an estimate: add the original to see the mark itself)",
    );
  }

  async compare(file) {
    const { picture } = this;
    const seen = shown(picture);
    const said = byId("compared");
    try {
      const original = await decodePicture(file);
      if (picture !== this.picture) return; // another one was chosen meanwhile
      if (Math.abs(Math.log((original.height / original.width) * (seen.width / seen.height))) > 0.02) {
        throw new Error(
          `${file.name} has ${original.width} x ${original.height} pixels, another shape than the picture: ` +
            "choose the original that it was made from",
        );
      }
      const before = resized(original, [seen.height, seen.width]);
      this.view({ picture: before, label: "original" }, seen, "What was added to the original");
      said.textContent = `compared with ${file.name}`;
    } catch (error) {
      this.show(seen);
      said.textContent = error.message;
    }
  }

  view(before, seen, label) {
    byId("desk-viewer").replaceChildren(viewer(before, { picture: seen, label: "this picture" }, label));
    byId("desk-result").hidden = false;
  }

  /** What the card shows of the picture at hand. */
  async judged() {
    const { picture, file, verifier } = this;
    const identifier = byId("identifier").value;
    if (!identifier.trim()) throw new Error("the identifier is empty: type the name that the picture should carry");
    if (!picture) return [quiet(NONE)];
    await painted();
    const started = performance.now();
    const verdict = await verifier.verify(picture, identifier);
    const took = Math.round(performance.now() - started);
    const about = `${file.name}, ${picture.width} × ${picture.height} pixels, in ${took} ms`;
    return [verdictView(verdict, verifier.settings), element("p", { class: "quiet small" }, about)];
  }

  /** Take away what the card shows, and whatever is still on its way to it. */
  clear(sentence) {
    this.asked += 1;
    byId("verdict").replaceChildren(quiet(sentence));
    byId("answer").setAttribute("aria-busy", "false");
    return this.asked;
  }

  /** Show in the card what `work` returns, or why it failed, unless something else was asked since. */
  async answer(work) {
    const asked = this.clear("Verifying …");
    const isCurrent = () => asked === this.asked;
    byId("answer").setAttribute("aria-busy", "true");
    const parts = await work(isCurrent).catch((error) => [element("p", { class: "error", role: "alert" }, error.message)]);
    if (!isCurrent()) return;
    byId("verdict").replaceChildren(...parts);
    byId("answer").setAttribute("aria-busy", "false");
  }
}

/** Act on every file that is chosen, the same one again too. */
function onFile(id, act) {
  byId(id).addEventListener("change", ({ target }) => {
    const [file] = target.files;
    target.value = "";
    if (file) act(file);
  });
}

function quiet(sentence) {
  return element("p", { class: "quiet" }, sentence);
}

/** A picture at a size that is worth showing. */
function shown(picture) {
  const shrink = Math.min(1, LARGEST_SHOWN / Math.max(picture.height, picture.width));
  return resized(picture, [Math.round(picture.height * shrink), Math.round(picture.width * shrink)]);
}
