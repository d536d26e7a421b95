// SPDX-License-Identifier: Apache-2.0
// Writes valid model files, one of each kind.
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "convert/check/pack_model.h"
#include "convert/program/program.h"
#include "convert/program/writer.h"
#include "convert/tokenizers/tokenizer_spec.h"
#include "format/file_layout.h"
#include "fuzz/seeds.h"
#include "runtime/session/functions_fixture.h"
#include "runtime/session/mixture_fixture.h"
#include "runtime/session/windows_fixture.h"
#include "support/decoder_factory.h"
#include "support/encoder_factory.h"
#include "support/model_factory.h"
#include "support/tokenizer_model.h"

namespace arenite::test {
namespace {

const std::vector<Target> kSeedTargets = {Target::kPortable, Target::kX86_64_v3};

class ModelSeeds {
 public:
  explicit ModelSeeds(const std::filesystem::path& corpus)
      : files_(corpus, "model_run"),
        integers_(corpus, "model_run_integers"),
        packed_(corpus, "model_repack"),
        metadata_(corpus, "model_load") {}

  void write(const std::string& name, const convert::AlignedBytes& model) const {
    const std::span<const std::byte> file = model.span();
    std::string choosing(sizeof(uint32_t), '\1');
    choosing.append(reinterpret_cast<const char*>(file.data()), file.size());
    files_.write(name, choosing);
    integers_.write(name, choosing);
    packed_.write(name, choosing);
    format::Footer footer;
    std::memcpy(&footer, file.last(sizeof(footer)).data(), sizeof(footer));
    const size_t bytes = static_cast<size_t>(footer.metadata_bytes);
    const size_t weights = (file.size() - sizeof(footer) - bytes) / format::kSegmentUnit;
    const uint32_t units = static_cast<uint32_t>(weights);
    std::string input(sizeof(units) + bytes, '\0');
    std::memcpy(input.data(), &units, sizeof(units));
    std::memcpy(input.data() + sizeof(units), file.data(), bytes);
    metadata_.write(name, input);
  }

 private:
  SeedFolder files_;     // after a word that chooses, as model_run reads them
  SeedFolder integers_;  // the same
  SeedFolder packed_;    // the same for model_repack
  SeedFolder metadata_;  // as model_load reads it
};

void write_modules(const ModelSeeds& seeds) {
  for (const ModuleSpec& spec : all_specs()) {
    // Small files are mutated where it matters; the wide one is mostly weights.
    if (spec.name != "wide") seeds.write(spec.name, make_model(spec, kSeedTargets));
  }
}

void write_decoders(const ModelSeeds& seeds) {
  for (const char* const name : {"gpt2", "phi", "gemma", "q8", "q4", "int8_cache"}) {
    DecoderShape shape = decoder_named(name);
    shape.windows.resize(1);
    shape.positions_max = 20;
    seeds.write(name, make_decoder_model(shape, kSeedTargets));
  }
  // Tiles of all targets run on stand-ins.
  DecoderShape rounded = decoder_named("q4");
  rounded.windows.resize(1);
  rounded.positions_max = 20;
  for (uint32_t i = 0; i < kTargets; ++i) {
    const Target target = static_cast<Target>(i);
    seeds.write(std::string("q4_") + name(target), make_decoder_model(rounded, {target}));
  }
  // A ring at the smallest context that makes one: the tables of angles are most of the file.
  DecoderShape ring = smallest_decoder();
  ring.positions_max = 1200;
  seeds.write("ring", make_decoder_model(ring, kSeedTargets));
}

void write_encoders(const ModelSeeds& seeds) {
  for (EncoderShape shape : all_encoders()) {
    if (shape.name == "wide") continue;
    shape.layers = 1;
    shape.positions_max = 20;
    seeds.write(shape.name, make_encoder_model(shape, kSeedTargets));
  }
}

// Lengths in steps of 4; factors of halves of rows and of whole ones.
convert::Graph steps_graph() {
  convert::Graph graph;
  graph.architecture = "steps";
  graph.inputs[0].positions_max = 17;
  graph.inputs[0].tokens_min = 1;
  graph.inputs[0].tokens_step = 4;
  const convert::ValueId x = graph.add_features(kFeatures);
  const auto linear = [&](const char* name, uint32_t width) {
    return graph.add_linear(name, {weight(name, width, kFeatures), {}}, x);
  };
  const convert::ValueId rows =
      graph.add("relu", convert::ActivationNode{Activation::kRelu}, {linear("rows", kWidth)});
  const convert::ValueId halves =
      graph.add("halves", convert::MultiplyNode{}, {rows, linear("two", 2)});
  graph.output = graph.add("whole", convert::MultiplyNode{}, {halves, linear("one", 1)});
  return graph;
}

// Two inputs of two functions, or of one; images; blocks of rows; and the largest of windows.
void write_graphs(const ModelSeeds& seeds) {
  const std::pair<const char*, convert::Graph> graphs[] = {
      {"functions", functions_graph({})},
      {"functions_causal", functions_graph({.causal_memory = true})},
      {"functions_together", functions_graph({.together = true})},
      {"functions_image", functions_graph({.image = true})},
      {"blocks", long_graph(TensorType::kF32)},
      {"turns", graph_of({.causal = true, .turns = 3})},
      {"transposed", graph_of({.fixed = 29})},
      {"query_terms", graph_of({.causal = true, .query_terms = true})},
      {"key_terms", graph_of({.query_terms = true, .key_terms = true})},
      {"windows", stem_graph(kWholeStem)},
      {"windows_causal", stem_graph(kCausalStem)},
      {"windows_image", image_graph(kPooledStem)},
      {"experts", mixture()},
      {"experts_q4", mixture(TensorType::kQ4)},
      {"steps", steps_graph()},
  };
  for (const auto& [name, graph] : graphs) {
    seeds.write(name, convert::write_model(convert::compile(graph, name), kSeedTargets));
  }
}

// Writes the model in the tokenizer fuzzer's input format: a word whose low 10 bits are the length
// of the text.
void write_with_text(const SeedFolder& folder, const std::string& name,
                     const convert::AlignedBytes& model) {
  const std::string text = "The cafe's there, un\xC3\xA9 12 <s>  re";
  const std::span<const std::byte> file = model.span();
  format::Footer footer;
  std::memcpy(&footer, file.last(sizeof(footer)).data(), sizeof(footer));
  const uint32_t word = static_cast<uint32_t>(text.size()) | 100u << 10;
  std::string input(sizeof(word), '\0');
  std::memcpy(input.data(), &word, sizeof(word));
  input.append(reinterpret_cast<const char*>(file.data()),
               static_cast<size_t>(footer.metadata_bytes));
  folder.write(name, input + text);
}

// One of each kind.
void write_tokenizers(const std::filesystem::path& corpus, const ModelSeeds& seeds) {
  const std::vector<std::string> words = {"the", " the", "re", " there"};
  const std::vector<std::string> pieces = {" the", " t", "he", " ", "t", "h", "e"};
  const std::vector<std::string> parts = {"the", "cafe", "un", "##aff", "##able", "i", "!"};
  const std::vector<std::pair<std::string, convert::TokenizerSpec>> specs = {
      {"bytes", byte_spec(words)},
      {"bytes_spaces", byte_spec(words, space_splits())},
      {"bytes_steps",
       byte_spec(words, {{convert::kGpt2Split}, {"t", format::kOfBytes | format::kDropMatches}})},
      {"pieces", piece_spec(pieces, true)},
      {"pieces_unknown", piece_spec(pieces, false)},
      {"word_pieces", word_spec(parts)},
      {"unigram", unigram_spec()},
  };
  const SeedFolder folder(corpus, "tokenizer");
  for (const auto& [name, spec] : specs) {
    const convert::AlignedBytes model = model_with(spec);
    seeds.write(name, model);
    write_with_text(folder, name, model);
  }
  // Unicode's classes are most of these.
  write_with_text(folder, "gpt2", model_with(byte_spec(words, {{convert::kGpt2Split}})));
}

}  // namespace

void write_model_seeds(const std::filesystem::path& corpus) {
  const ModelSeeds seeds(corpus);
  write_modules(seeds);
  write_decoders(seeds);
  write_encoders(seeds);
  write_graphs(seeds);
  write_tokenizers(corpus, seeds);
}

}  // namespace arenite::test
