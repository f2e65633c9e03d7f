// What an identifier stands for where there is no key: the same codeword as in Python.

import { hmac } from "./sha256.js";

const encoder = new TextEncoder();

/** The bits that stand for `identifier` under the public key (`Key.stream` in Python). */
export function codeword(identifier, bits, publicKey) {
  if (!identifier.isWellFormed()) {
    throw new Error("the identifier contains characters that are not text");
  }
  const secret = encoder.encode(publicKey);
  const label = encoder.encode(`codeword/${identifier}`);
  const counted = new Uint8Array(label.length + 8);
  const view = new DataView(counted.buffer);
  view.setUint32(0, label.length);
  counted.set(label, 4);
  const message = new Uint8Array(bits);
  for (let bit = 0, digest; bit < bits; bit++) {
    if (bit % 256 === 0) {
      view.setUint32(label.length + 4, bit / 256);
      digest = hmac(secret, counted);
    }
    message[bit] = (digest[(bit % 256) >> 3] >> (7 - (bit & 7))) & 1;
  }
  return message;
}
