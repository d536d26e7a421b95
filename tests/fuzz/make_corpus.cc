// SPDX-License-Identifier: Apache-2.0
// Writes sound model files for a fuzzer to start from: make_corpus FOLDER.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <span>

#include "support/decoder_factory.h"
#include "support/encoder_factory.h"
#include "support/model_factory.h"
#include "support/tokenizer_model.h"

namespace {

void write(const std::filesystem::path& path, std::span<const std::byte> file) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(file.data()), static_cast<std::streamsize>(file.size()));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_corpus FOLDER\n");
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  std::filesystem::create_directories(folder);
  const std::vector<arenite::Target> targets = {arenite::Target::kPortable,
                                                arenite::Target::kX86_64_v3};
  for (const arenite::test::ModuleSpec& spec : arenite::test::all_specs()) {
    // Small files are mutated where it matters; the wide one is mostly weights.
    if (spec.name == "wide") continue;
    write(folder / spec.name, make_model(spec, targets).span());
  }
  for (const char* const name : {"gpt2", "phi", "gemma", "q8", "q4", "int8_cache"}) {
    arenite::test::DecoderShape shape = arenite::test::decoder_named(name);
    shape.windows.resize(1);
    shape.positions_max = 20;
    write(folder / name, make_decoder_model(shape, targets).span());
  }
  for (arenite::test::EncoderShape shape : arenite::test::all_encoders()) {
    if (shape.name == "wide") continue;
    shape.layers = 1;
    shape.positions_max = 20;
    write(folder / shape.name, make_encoder_model(shape, targets).span());
  }
  // One tokenizer of each kind.
  using arenite::test::model_with;
  const std::vector<std::string> words = {"the", " the", "re", " there"};
  write(folder / "bytes", model_with(arenite::test::byte_spec(words)).span());
  write(folder / "bytes_spaces",
        model_with(arenite::test::byte_spec(words, arenite::format::Pattern::kSpaces)).span());
  write(
      folder / "pieces",
      model_with(arenite::test::piece_spec({" the", " t", "he", " ", "t", "h", "e"}, true)).span());
  write(folder / "word_pieces",
        model_with(arenite::test::word_spec({"the", "cafe", "un", "##aff", "##able", "i", "!"}))
            .span());
  // A ring at the smallest context that makes one: the tables of angles are most of the file.
  arenite::test::DecoderShape ring = arenite::test::smallest_decoder();
  ring.positions_max = 1200;
  write(folder / "ring", make_decoder_model(ring, targets).span());
  return 0;
}
