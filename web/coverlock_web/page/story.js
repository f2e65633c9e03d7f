// The story: a mark is moved from one photo to another, and two verifiers are asked about it.

import { byId, element, painted } from "./elements.js";
import { toCanvas } from "./picture.js";
import { difference, transplanted } from "./residual.js";
import { resized } from "./resampling.js";
import { decodePicture } from "./shown.js";
import { verdictLine, verdictView } from "./verdict_view.js";
import { viewer } from "./viewer.js";

export class Story {
  /** `pairs` are { name, cover, bare, locked, target }; the pictures have one size. */
  constructor(verifier, identifier, pairs) {
    Object.assign(this, { verifier, identifier, pairs });
    byId("pairs").append(...pairs.map((pair, index) => this.choice(pair, index)));
    byId("transplant").addEventListener("click", () => this.transplant());
    byId("own-target").addEventListener("change", (event) => this.useOwn(event.target.files[0]));
    this.choose(pairs[0]);
  }

  choice(pair, index) {
    const radio = element("input", {
      type: "radio", name: "pair", id: `pair-${index}`, checked: index === 0, onchange: () => this.choose(pair),
    });
    return element("span", {}, radio, element("label", { for: radio.id }, pair.name));
  }

  choose(pair) {
    this.pair = pair;
    this.target = pair.target;
    this.show();
  }

  async useOwn(file) {
    if (!file) return;
    this.show();
    try {
      const { height, width } = this.pair.cover;
      this.target = resized(await decodePicture(file), [height, width]);
      this.show();
      await this.transplant();
    } catch (error) {
      byId("story-error").textContent = error.message;
      byId("story-error").hidden = false;
    }
  }

  show() {
    byId("source-picture").replaceChildren(described(this.pair.bare, "photo A, marked"));
    byId("target-picture").replaceChildren(described(this.target, "photo B, never marked"));
    byId("forged-picture").replaceChildren(element("span", {}, "the forgery"));
    byId("forged-picture").classList.add("empty");
    byId("story-result").hidden = true;
    byId("story-error").hidden = true;
  }

  /** B with the mark that `marked` shows on A. */
  forgery(marked) {
    return transplanted(this.target, difference(marked, this.pair.cover));
  }

  async transplant() {
    const { verifier, identifier, pair, target } = this;
    byId("transplant").disabled = true;
    const bare = this.forgery(pair.bare), locked = this.forgery(pair.locked);
    byId("forged-picture").replaceChildren(described(bare, "photo B with the mark of photo A"));
    byId("forged-picture").classList.remove("empty");
    await painted();
    const unlocked = { locked: false };
    const verdicts = {
      bareForged: await verifier.verify(bare, identifier, unlocked),
      lockedForged: await verifier.verify(locked, identifier),
      bareGenuine: await verifier.verify(pair.bare, identifier, unlocked),
      lockedGenuine: await verifier.verify(pair.locked, identifier),
    };
    byId("transplant").disabled = false;
    if (target !== this.target) return; // other photos were chosen meanwhile
    outcome("bare-outcome", verdicts.bareForged);
    outcome("locked-outcome", verdicts.lockedForged);
    byId("bare-forged").replaceChildren(verdictView(verdicts.bareForged, verifier.settings));
    byId("locked-forged").replaceChildren(verdictView(verdicts.lockedForged, verifier.settings));
    byId("bare-genuine").replaceChildren(verdictLine("Photo A itself:", verdicts.bareGenuine));
    byId("locked-genuine").replaceChildren(verdictLine("Photo A itself:", verdicts.lockedGenuine));
    byId("moral").textContent = moral(verdicts);
    byId("story-viewer").replaceChildren(
      viewer({ picture: target, label: "B" }, { picture: bare, label: "B with A’s mark" }, "The stolen mark"),
    );
    byId("story-result").hidden = false;
  }
}

function described(picture, label) {
  const canvas = toCanvas(picture);
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", label);
  return canvas;
}

function outcome(id, verdict) {
  byId(id).dataset.fooled = verdict.accepted;
  byId(id).textContent = verdict.accepted ? "fooled" : "not fooled";
}

/** What happened, which need not be what usually does. */
function moral({ bareForged, lockedForged }) {
  if (bareForged.accepted && !lockedForged.accepted) {
    return "The watermark vouches for a picture it never marked. The lock does not.";
  }
  if (!bareForged.accepted && !lockedForged.accepted) {
    return "Neither is fooled: this mark does not survive being moved to this picture.";
  }
  return lockedForged.accepted
    ? "The lock was fooled too: to its hash these two pictures look alike."
    : "The forgery was rejected.";
}
