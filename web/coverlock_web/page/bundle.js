// The exported bundle inside the page: unpacked, and refused unless every digest is the manifest's.

import { hex, sha256 } from "./sha256.js";

const BLANK = "0".repeat(64);

/** Check a manifest (its own text) and return it parsed. */
export function openManifest(text) {
  const manifest = JSON.parse(text);
  const blanked = new TextEncoder().encode(text.replace(manifest.sha256, BLANK));
  if (hex(sha256(blanked)) !== manifest.sha256) {
    throw new Error("the manifest is not as it was written (its SHA-256 differs)");
  }
  if (manifest.key_fingerprint !== null) {
    throw new Error("pictures of this bundle are marked with a key, and a page never holds one");
  }
  return manifest;
}

/** The graph `name` that the manifest lists, if `content` is it. */
export function checkedGraph(manifest, name, content) {
  const digest = hex(sha256(content));
  if (digest !== manifest.files[name]) {
    throw new Error(`${name} is not the file that was exported (its SHA-256 differs)`);
  }
  return { name, digest, content };
}

/** The bytes of an element of the page that holds base 64 of gzip. */
export async function unpacked(element) {
  const stream = new Blob([fromBase64(element.textContent)]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** The bytes that base 64 stands for. */
export function fromBase64(text) {
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = letters.charCodeAt(i);
  return bytes;
}
