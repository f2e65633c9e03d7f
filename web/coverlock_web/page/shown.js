// What "the picture" is: the pixels that this browser shows, if others would show the same
// (coverlock_sdk/images/colours.py). Colours are managed by the browser itself.

import { isOpaque, toPicture } from "./picture.js";
import { viewed } from "./resampling.js";

const MIN_SIDE = 32;
const MAX_PIXELS = 178_956_970;
const ALIKE = 0.8;
const MOSTLY = 0.5;
const SIDE = 128;
const BLOCK = 8;
const NOISE = 1e-4;
const LUMA = [0.299, 0.587, 0.114];
const GAIN_MAPS = ["hdrgm:", "hdrgainmap", "iso:ts:21496:-1"];

/** Decode a picture file, or throw one sentence that says what is wrong with it. */
export async function decodePicture(file) {
  if (file.size === 0) throw new Error(`${file.name} is empty (0 bytes)`);
  await refuseOtherPictures(file);
  const bitmap = await decoded(file, "default");
  const plain = await decoded(file, "none");
  try {
    requireSize(bitmap);
    return requireOneLook(bitmap, plain);
  } finally {
    bitmap.close();
    plain.close();
  }
}

async function decoded(file, colorSpaceConversion) {
  try {
    return await createImageBitmap(file, { colorSpaceConversion });
  } catch {
    throw new Error(
      `${file.name} is not a picture that this browser can open, or it is damaged: ` +
        "save it again as PNG, JPEG or WebP",
    );
  }
}

/** The picture over white, unless its profile or its transparency would show another one. */
function requireOneLook(bitmap, plain) {
  const picture = toPicture(bitmap);
  requireAlike(picture, toPicture(plain), "where its colour profile is ignored: convert it to sRGB first");
  if (isOpaque(bitmap)) return picture;
  const overBlack = toPicture(bitmap, "black");
  let through = 0;
  picture.pixels.forEach((level, i) => (through += level - overBlack.pixels[i]));
  if (through > (1 - MOSTLY) * 255 * picture.pixels.length) {
    throw new Error("the picture is mostly transparent: lay it over a background first");
  }
  requireAlike(picture, overBlack, "over white and over black: lay it over a background first");
  return picture;
}

function requireAlike(one, other, where) {
  if (equal(one.pixels, other.pixels)) return;
  if (likeness(grey(one), grey(other)) < ALIKE) throw new Error(`the picture looks different ${where}`);
}

function equal(one, other) {
  for (let i = 0; i < one.length; i++) if (one[i] !== other[i]) return false;
  return true;
}

/** How alike two grey views of 128 x 128 are, in what is coarse and in what is fine: the lower. */
export function likeness(one, other) {
  const [a, b] = [one, other].map(split);
  return Math.min(agreement(a.fine, b.fine), agreement(a.coarse, b.coarse));
}

function agreement(a, b) {
  const noise = NOISE * a.length;
  const dot = (x, y) => x.reduce((sum, value, i) => sum + value * y[i], 0);
  return (2 * dot(a, b) + noise) / (dot(a, a) + dot(b, b) + noise);
}

/** The means of blocks around the overall one, and what is left of the blocks without them. */
function split(view) {
  const across = SIDE / BLOCK;
  const blockOf = (i) => Math.floor(i / SIDE / BLOCK) * across + Math.floor((i % SIDE) / BLOCK);
  const means = new Float64Array(across * across);
  view.forEach((level, i) => (means[blockOf(i)] += level / BLOCK ** 2));
  const mean = means.reduce((sum, value) => sum + value, 0) / means.length;
  return { fine: view.map((level, i) => level - means[blockOf(i)]), coarse: means.map((value) => value - mean) };
}

function grey(picture) {
  const { levels } = viewed(picture, [SIDE, SIDE]);
  return Float64Array.from({ length: SIDE * SIDE }, (_, i) =>
    LUMA.reduce((sum, weight, channel) => sum + weight * levels[3 * i + channel], 0),
  );
}

function requireSize({ height, width }) {
  if (Math.min(height, width) < MIN_SIDE) {
    throw new Error(
      `a picture of ${width} x ${height} pixels is too small to carry a mark: ` +
        `both sides must have at least ${MIN_SIDE}`,
    );
  }
  if (height * width > MAX_PIXELS) {
    throw new Error(`a picture of ${width} x ${height} pixels is too large for this page`);
  }
}

/** Refuse animations, and files that hold another rendition for HDR screens. */
async function refuseOtherPictures(file) {
  const data = await file.arrayBuffer();
  const text = new TextDecoder("latin1").decode(data);
  if (GAIN_MAPS.some((mark) => text.includes(mark))) {
    throw new Error(
      "the file holds a second rendition for HDR screens (a gain map), which may show another picture: " +
        "save it without",
    );
  }
  if (!("ImageDecoder" in globalThis) || !["image/gif", "image/webp", "image/png"].includes(file.type)) return;
  let frames = 1;
  try {
    const decoder = new ImageDecoder({ data, type: file.type });
    await decoder.tracks.ready;
    frames = decoder.tracks.selectedTrack.frameCount;
    decoder.close();
  } catch {
    return; // whatever is wrong with the file is said when it is decoded
  }
  if (frames > 1) {
    throw new Error(`an animation of ${frames} frames is not one picture: drop one of its frames`);
  }
}
