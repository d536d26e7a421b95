// SPDX-License-Identifier: Apache-2.0
// Sound model files, one of each kind.
#include <string>
#include <vector>

#include "fuzz/seeds.h"
#include "support/decoder_factory.h"
#include "support/encoder_factory.h"
#include "support/model_factory.h"
#include "support/tokenizer_model.h"

namespace arenite::test {

void write_model_seeds(const std::filesystem::path& corpus) {
  const SeedFolder folder(corpus, "model_run");
  const std::vector<Target> targets = {Target::kPortable, Target::kX86_64_v3};
  for (const ModuleSpec& spec : all_specs()) {
    // Small files are mutated where it matters; the wide one is mostly weights.
    if (spec.name == "wide") continue;
    folder.write(spec.name, make_model(spec, targets).span());
  }
  for (const char* const name : {"gpt2", "phi", "gemma", "q8", "q4", "int8_cache"}) {
    DecoderShape shape = decoder_named(name);
    shape.windows.resize(1);
    shape.positions_max = 20;
    folder.write(name, make_decoder_model(shape, targets).span());
  }
  for (EncoderShape shape : all_encoders()) {
    if (shape.name == "wide") continue;
    shape.layers = 1;
    shape.positions_max = 20;
    folder.write(shape.name, make_encoder_model(shape, targets).span());
  }
  // One tokenizer of each kind.
  const std::vector<std::string> words = {"the", " the", "re", " there"};
  folder.write("bytes", model_with(byte_spec(words)).span());
  folder.write("bytes_spaces", model_with(byte_spec(words, format::Pattern::kSpaces)).span());
  folder.write("pieces",
               model_with(piece_spec({" the", " t", "he", " ", "t", "h", "e"}, true)).span());
  folder.write("word_pieces",
               model_with(word_spec({"the", "cafe", "un", "##aff", "##able", "i", "!"})).span());
  // A ring at the smallest context that makes one: the tables of angles are most of the file.
  DecoderShape ring = smallest_decoder();
  ring.positions_max = 1200;
  folder.write("ring", make_decoder_model(ring, targets).span());
}

}  // namespace arenite::test
