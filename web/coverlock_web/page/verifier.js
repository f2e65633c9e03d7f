// Pictures to verdicts, by the exported graph on ONNX Runtime Web.

import { codeword } from "./messages.js";
import { placed } from "./placing.js";
import { resized, viewed } from "./resampling.js";

export class Verifier {
  /**
   * `runtime` is the module onnxruntime-web, `binary` its WebAssembly, `content` the exported graph,
   * `graph` its size and outputs.
   */
  static async open(runtime, binary, content, graph, lock) {
    runtime.env.wasm.wasmBinary = binary;
    runtime.env.wasm.numThreads = 1; // more would need headers that a plain file does not have
    const session = await runtime.InferenceSession.create(content, { executionProviders: ["wasm"] });
    return new Verifier(runtime, session, graph, lock);
  }

  constructor(runtime, session, graph, lock) {
    Object.assign(this, { runtime, session, graph, lock, settings: lock.settings });
  }

  /** What the graph sees of a picture of its size: decoder logits, and what the hash needs of it. */
  async seen({ pixels }) {
    const { size, outputs } = this.graph;
    const images = new this.runtime.Tensor("uint8", pixels, [1, ...size, 3]);
    const found = await this.session.run({ images });
    const [decoded, description] = outputs.map((name) => found[name].data);
    return { decoded: Array.from(decoded), description };
  }

  /** The picture that the graph is given of one of any size. */
  resampled(picture) {
    return resized(picture, this.graph.size);
  }

  /** Whether a picture carries an identifier; `locked: false` asks the bare watermark. */
  async verify(picture, identifier, { locked = true } = {}) {
    const { bits, payloadBits, publicKey } = this.settings;
    const message = codeword(identifier, locked ? bits : payloadBits, publicKey);
    const { decoded, description } = await this.seen(this.resampled(picture));
    if (!locked) return this.lock.verifyBare(decoded, message);
    let view = null;
    const decode = async (frame) => {
      view ??= viewed(picture, this.graph.size);
      return (await this.seen(placed(view, frame))).decoded;
    };
    return this.lock.verify(decoded, description, message, { aspect: picture.width / picture.height, decode });
  }
}
