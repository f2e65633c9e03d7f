// Pictures to verdicts, by the exported graph on ONNX Runtime Web.

import { judge } from "./lock.js";
import { codeword } from "./messages.js";
import { resized } from "./resampling.js";

export class Verifier {
  /** `runtime` is the module onnxruntime-web; `binary` its WebAssembly; `graph` the exported one. */
  static async open(runtime, binary, graph, format) {
    runtime.env.wasm.wasmBinary = binary;
    runtime.env.wasm.numThreads = 1; // more would need headers that a plain file does not have
    const session = await runtime.InferenceSession.create(graph, { executionProviders: ["wasm"] });
    return new Verifier(runtime, session, format);
  }

  constructor(runtime, session, format) {
    this.runtime = runtime;
    this.session = session;
    this.format = format;
  }

  /** Decoder and hash logits of a picture of any size. */
  async logits(picture) {
    const [height, width] = this.format.size;
    const { pixels } = resized(picture, this.format.size);
    const images = new this.runtime.Tensor("uint8", pixels, [1, height, width, 3]);
    const { decoder_logits: decoded, hash_logits: hashed } = await this.session.run({ images });
    return { decoded: Array.from(decoded.data), hashed: Array.from(hashed.data) };
  }

  /** Whether a picture carries an identifier; `locked: false` asks the bare watermark. */
  async verify(picture, identifier, { locked = true } = {}) {
    const { bits, payloadBits, publicKey } = this.format;
    const message = codeword(identifier, locked ? bits : payloadBits, publicKey);
    return judge(this.format, await this.logits(picture), message, { locked });
  }
}
