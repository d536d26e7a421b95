// SPDX-License-Identifier: Apache-2.0
// Runs the page's module in Node: the commands of models/home-intent, the words of heard.wav, and
// a model that the module cannot run. Prints what is said wrongly.
//
// Usage: models_test.mjs PAGE_FOLDER MODELS_FOLDER REFUSED_MODEL
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [page, models, refused] = process.argv.slice(2);
const { Arenite } = await import(pathToFileURL(`${page}/arenite.js`));
const file = (folder, name) => ({ name, bytes: new Uint8Array(readFileSync(`${folder}/${name}`)) });
const module = file(page, "arenite.wasm"), text = file(page, "intent.arn");
const sound = file(page, "wake.arn");
let wrong = 0;
function expect(what, found, expected) {
  if (found !== expected) console.log(`${what}: ${found}, expected ${expected}`, ++wrong);
}

const arenite = await Arenite.load(module, text, sound);
expect("kernels", arenite.kernels, "simd128");
const { cases } = JSON.parse(readFileSync(`${models}/home-intent/expected.json`));
for (const { command, text: action } of cases) expect(command, arenite.answer(command), action);
expect("an empty command", typeof arenite.answer(""), "string");
expect("a long command", typeof arenite.answer("on ".repeat(400)), "string");

const wave = readFileSync(`${models}/wake/heard.wav`);
const samples = new Float32Array((wave.length - 44) / 2);
for (let i = 0; i < samples.length; ++i) samples[i] = wave.readInt16LE(44 + 2 * i) / 32768;
let words = "";
for (let at = 0; at < samples.length; at += 128) {
  const word = arenite.hear(samples.subarray(at, at + 128));
  if (word) words += ` ${word} ${((at + 128) / arenite.rate).toFixed(1)}`;
}
expect("heard", words, " yes 0.9 stop 1.7 left 3.7 right 4.6");

async function message(...files) {
  try {
    await Arenite.load(...files);
  } catch (error) { return error.message; }
  return "no error";
}
const elsewhere = await message(module, text, { bytes: new Uint8Array(readFileSync(refused)), name: "avx2.arn" });
expect("a model for another CPU", /^avx2\.arn: .*x86-64-v3.*/.test(elsewhere) || elsewhere, true);
const cut = { name: "cut.arn", bytes: text.bytes.slice(0, 1000) };
const damaged = await message(module, cut, sound);
expect("a damaged model", /^cut\.arn: /.test(damaged) || damaged, true);
console.log(elsewhere), console.log(damaged);
const { heard, taken } = arenite.seconds;
console.log(`${cases.length} commands; ${heard.toFixed(1)} s heard in ${taken.toFixed(3)} s`);
process.exit(wrong === 0 ? 0 : 1);
