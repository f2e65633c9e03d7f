// The page comes alive: the bundle is checked, the runtime started, the story and the desk set up.

import { checkedGraph, fromBase64, openManifest, unpacked } from "./bundle.js";
import { Desk } from "./desk.js";
import { byId } from "./elements.js";
import { Lock } from "./lock.js";
import { matricesOf } from "./matrices.js";
import { Octave } from "./octave.js";
import { decodePicture } from "./shown.js";
import { Story } from "./story.js";
import { Verifier } from "./verifier.js";

async function start() {
  const settings = JSON.parse(byId("settings").textContent);
  const manifest = openManifest(settings.manifest);
  byId("manifest-digest").textContent = `schema ${manifest.schema}, SHA-256 ${manifest.sha256} ✓`;
  const parts = ["graph", "wasm", "runtime", "numbers"].map((id) => unpacked(byId(id)));
  const [graph, binary, runtime, numbers] = await Promise.all(parts);
  const { name, digest, content } = checkedGraph(manifest, settings.graph.file, graph);
  byId("graph-digest").textContent = `${name}, SHA-256 ${digest} ✓`;
  const code = URL.createObjectURL(new Blob([runtime], { type: "text/javascript" }));
  const verifier = await Verifier.open(await import(code), binary, content, settings.graph, openLock(settings.lock, numbers));
  const pairs = await Promise.all(settings.pairs.map(samplePair));
  const story = new Story(verifier, settings.identifier, pairs);
  const desk = new Desk(verifier, {
    marked: () => story.pair.locked,
    forged: () => story.forgery(story.pair.locked),
    clean: () => story.pair.target,
    jpeg: () => story.pair.locked,
  });
  for (const waiting of document.querySelectorAll("input:disabled, button:disabled")) waiting.disabled = false;
  Object.assign(globalThis, { coverlock: { verifier, story, desk, decodePicture } });
  say("ready", "Ready. The model’s digests match its manifest.");
}

/** The lock, with the matrices of its public map and of its hash. */
function openLock(settings, numbers) {
  const whitening = matricesOf(numbers, settings.matrices);
  const directions = whitening.splice(0, settings.hash.bands.length);
  return new Lock(settings, directions, settings.octave && new Octave(settings.octave, whitening));
}

/** A pair of sample photos; each picture is base 64 of a file inside the page. */
async function samplePair({ name, pictures }) {
  const decoded = Object.entries(pictures).map(async ([role, content]) => {
    return [role, await decodePicture(new File([fromBase64(content)], `${role}.webp`, { type: "image/webp" }))];
  });
  return { name, ...Object.fromEntries(await Promise.all(decoded)) };
}

function say(state, text) {
  byId("status").dataset.state = state;
  byId("status-text").textContent = text;
}

// A picture that is dropped beside the desk, or before it is ready, must not replace the page.
for (const kind of ["dragover", "drop"]) window.addEventListener(kind, (event) => event.preventDefault());
start().catch((error) => say("failed", `This page cannot verify anything: ${error.message}`));
