// SPDX-License-Identifier: Apache-2.0
// Runs arenite.wasm: loads the module and its models, answers commands and hears words. Works in a
// browser and in Node.

const TEXT = 0, SOUND = 1;
const WORDS = ["", "", "yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go"];
const PAGE = 65536, ALIGNMENT = 64;

// Passes what the microphone hears to the page, which runs the model.
const LISTENER = `registerProcessor("listener", class extends AudioWorkletProcessor {
  process(inputs) {
    if (inputs[0].length > 0) this.port.postMessage(inputs[0][0].slice());
    return true;
  }
});`;

export class Arenite {
  // `module`, `text` and `sound` are { name, bytes }. Throws an Error that names the file.
  static async load(module, text, sound) {
    if (!WebAssembly.validate(module.bytes)) {
      throw new Error(`${module.name}: this browser lacks simd128`);
    }
    const { instance } = await WebAssembly.instantiate(module.bytes, {});
    return new Arenite(instance.exports, text, sound);
  }

  constructor(exports, text, sound) {
    this.web = exports;
    this.end = exports.__heap_base.value;
    this.arenaBytes = [this.#start(TEXT, text), this.#start(SOUND, sound)];
    this.kernels = this.#read(exports.web_kernels());
    this.rate = exports.web_rate();
    this.seconds = { heard: 0, taken: 0 };
  }

  // Returns what the command asks for, such as "light.bedroom.brightness=30".
  answer(command) {
    const bytes = new TextEncoder().encode(command);
    new Uint8Array(this.web.memory.buffer, this.web.web_text(), 512).set(bytes.slice(0, 500));
    if (!this.web.web_answer(bytes.length)) throw new Error(this.#read(this.web.web_text()));
    return this.#read(this.web.web_text());
  }

  // Hears samples, a Float32Array at `rate`. Returns the word that ends in them, or "".
  hear(samples) {
    const begin = performance.now();
    let word = "";
    for (let at = 0; at < samples.length; at += 640) {
      const piece = samples.subarray(at, at + 640);
      new Float32Array(this.web.memory.buffer, this.web.web_samples(), 640).set(piece);
      const heard = this.web.web_hear(piece.length);
      if (heard < 0) throw new Error(this.#read(this.web.web_text()));
      word = WORDS[heard] || word;
    }
    this.seconds.heard += samples.length / this.rate;
    this.seconds.taken += (performance.now() - begin) / 1000;
    return word;
  }

  // Calls onWord(word, seconds) for each word from the microphone.
  async listen(onWord) {
    const media = { audio: { echoCancellation: false, noiseSuppression: false,
                             autoGainControl: false } };
    const microphone = await navigator.mediaDevices.getUserMedia(media);
    const context = new AudioContext({ sampleRate: this.rate });
    const url = URL.createObjectURL(new Blob([LISTENER], { type: "text/javascript" }));
    await context.audioWorklet.addModule(url);
    const listener = new AudioWorkletNode(context, "listener", { numberOfOutputs: 0 });
    listener.port.onmessage = ({ data }) => onWord(this.hear(data), this.seconds);
    context.createMediaStreamSource(microphone).connect(listener);
  }

  #read(address) {
    const bytes = new Uint8Array(this.web.memory.buffer, address);
    return new TextDecoder().decode(bytes.slice(0, bytes.indexOf(0)));
  }

  // Lays `bytes` bytes behind all others. Returns their address.
  #place(bytes) {
    const address = Math.ceil(this.end / ALIGNMENT) * ALIGNMENT;
    this.end = address + bytes;
    const missing = this.end - this.web.memory.buffer.byteLength;
    if (missing > 0) this.web.memory.grow(Math.ceil(missing / PAGE));
    return address;
  }

  // Loads a model and creates its session. Returns the bytes of its arena.
  #start(kind, model) {
    const file = this.#place(model.bytes.byteLength);
    new Uint8Array(this.web.memory.buffer, file).set(new Uint8Array(model.bytes));
    const arenaBytes = this.web.web_load(kind, file, model.bytes.byteLength);
    if (arenaBytes === 0 || !this.web.web_start(kind, this.#place(arenaBytes), arenaBytes)) {
      throw new Error(`${model.name}: ${this.#read(this.web.web_text())}`);
    }
    return arenaBytes;
  }
}
