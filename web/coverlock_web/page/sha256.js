// SHA-256 and HMAC in plain JavaScript. The browser's own crypto.subtle is missing on pages that
// are served over plain HTTP from another machine, and it cannot answer at once.

const ROUND_CONSTANTS = fractions(64, (prime) => Math.cbrt(prime));
const START = fractions(8, (prime) => Math.sqrt(prime));

/** The first 32 bits of the fractional parts of a root of the first primes. */
function fractions(count, root) {
  const found = [];
  for (let candidate = 2; found.length < count; candidate++) {
    if (found.every(([prime]) => candidate % prime)) {
      found.push([candidate, ((root(candidate) % 1) * 2 ** 32) | 0]);
    }
  }
  return Int32Array.from(found, ([, fraction]) => fraction);
}

/** The SHA-256 of bytes, as 32 bytes. */
export function sha256(bytes) {
  const state = START.slice();
  const words = new Int32Array(64);
  const whole = bytes.length - (bytes.length % 64);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let offset = 0; offset < whole; offset += 64) compress(state, words, view, offset);
  const tail = padded(bytes.subarray(whole), bytes.length);
  for (let offset = 0; offset < tail.byteLength; offset += 64) compress(state, words, tail, offset);
  const digest = new DataView(new ArrayBuffer(32));
  state.forEach((word, index) => digest.setInt32(4 * index, word));
  return new Uint8Array(digest.buffer);
}

/** The HMAC-SHA256 of a message under a key of at most 64 bytes. */
export function hmac(key, message) {
  const inner = new Uint8Array(64 + message.length).fill(0x36, 0, 64);
  const outer = new Uint8Array(64 + 32).fill(0x5c, 0, 64);
  key.forEach((byte, index) => {
    inner[index] ^= byte;
    outer[index] ^= byte;
  });
  inner.set(message, 64);
  outer.set(sha256(inner), 64);
  return sha256(outer);
}

export function hex(bytes) {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function padded(rest, length) {
  const tail = new Uint8Array(rest.length < 56 ? 64 : 128);
  tail.set(rest);
  tail[rest.length] = 0x80;
  const view = new DataView(tail.buffer);
  view.setBigUint64(tail.length - 8, BigInt(length) * 8n);
  return view;
}

function compress(state, words, view, offset) {
  for (let t = 0; t < 16; t++) words[t] = view.getInt32(offset + 4 * t);
  for (let t = 16; t < 64; t++) {
    const w15 = words[t - 15], w2 = words[t - 2];
    const s0 = rotate(w15, 7) ^ rotate(w15, 18) ^ (w15 >>> 3);
    const s1 = rotate(w2, 17) ^ rotate(w2, 19) ^ (w2 >>> 10);
    words[t] = (words[t - 16] + s0 + words[t - 7] + s1) | 0;
  }
  let a = state[0], b = state[1], c = state[2], d = state[3];
  let e = state[4], f = state[5], g = state[6], h = state[7];
  for (let t = 0; t < 64; t++) {
    const s1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
    const first = (h + s1 + ((e & f) ^ (~e & g)) + ROUND_CONSTANTS[t] + words[t]) | 0;
    const s0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
    const second = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    h = g; g = f; f = e; e = (d + first) | 0;
    d = c; c = b; b = a; a = (first + second) | 0;
  }
  state[0] += a; state[1] += b; state[2] += c; state[3] += d;
  state[4] += e; state[5] += f; state[6] += g; state[7] += h;
}

function rotate(word, count) {
  return (word >>> count) | (word << (32 - count));
}
