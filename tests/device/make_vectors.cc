// SPDX-License-Identifier: Apache-2.0
// Chooses the models, inputs and texts of the device tests, and computes the expected results in
// double precision. Runs on the build machine.
//
// Usage: make_device_vectors TARGETS SOURCE OUTPUT, with TARGETS as for `arenite convert --target`
// and SOURCE the folder of this repository. Writes the C++ file OUTPUT.cc, which includes the bytes
// of OUTPUT.bin.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "arenite/tokenizer.h"
#include "convert/check/pack_model.h"
#include "convert/convert.h"
#include "convert/files/npy.h"
#include "convert/files/output_files.h"
#include "convert/program/weights.h"
#include "convert/sound/sound_parameters.h"
#include "device/pytorch_cases.h"
#include "device/vector_writer.h"
#include "device/vectors.h"
#include "support/decoder_factory.h"
#include "support/encoder_factory.h"
#include "support/model_factory.h"
#include "support/reference_models.h"
#include "support/tokenizer_model.h"

namespace arenite::device {
namespace {

using Path = std::filesystem::path;
using Targets = std::vector<Target>;

// An odd number of tokens, more than two mask tiles.
constexpr uint32_t kTokens = 37;
constexpr uint32_t kPoints = 67;
// Sums of at most a few hundred products, each rounded, on activations of this size: as the
// ordinary tests of sessions have it.
constexpr double kSmallModelError = 300 * 64 * 0x1p-24;
constexpr double kStepError = 0.05;          // where a last bit decides between two of 256 steps
constexpr double kTrainedModelError = 2e-5;  // as a share of the largest output

double largest(std::span<const double> values) {
  double size = 1.0;
  for (const double value : values) size = std::max(size, std::abs(value));
  return size;
}

// Packs the model with a self-test, like the converter.
convert::AlignedBytes pack(const convert::Program& program, const Targets& targets) {
  return convert::pack_model(program, targets, program.name);
}

void add_modules(VectorWriter& writer, const Targets& targets) {
  for (const test::ModuleSpec& spec : test::all_specs()) {
    const convert::AttentionModule module = test::make_module(spec);
    const convert::AlignedBytes file = pack(compile(build_graph(module), spec.name), targets);
    NewModelCase one = {spec.name, writer.file(file.span()), file.span()};
    one.tokens = kTokens;
    one.features = test::random_floats(size_t{kTokens} * module.features, 7);
    one.expected = reference_module(module, one.features).values;
    one.tolerance = kSmallModelError;
    writer.model_case(one);
  }
}

void add_decoders(VectorWriter& writer, const Targets& of_floats, const Targets& targets) {
  for (const test::DecoderShape& shape : test::all_decoders()) {
    const convert::AlignedBytes file =
        pack(test::decoder_program(shape), shape.rounds_rows() ? targets : of_floats);
    NewModelCase one = {shape.name, writer.file(file.span()), file.span()};
    one.tokens = kTokens;
    one.ids = test::random_ids(kTokens, shape.vocab_size);
    one.expected =
        evaluate(with_stored_weights(test::decoder_graph(shape)), {one.ids, {}, {}}).values;
    one.tolerance = shape.rounds_rows() ? kStepError : kSmallModelError;
    one.rounds_rows = shape.rounds_rows() && shape.kv_cache == TensorType::kF32;
    writer.model_case(one);
  }
}

// Three sequences of different lengths in one batch.
void add_encoders(VectorWriter& writer, const Targets& targets) {
  for (const test::EncoderShape& shape : test::all_encoders()) {
    const convert::AlignedBytes file = pack(test::encoder_program(shape), targets);
    const convert::TransformerSpec spec = test::make_encoder(shape);
    NewModelCase batch = {shape.name, writer.file(file.span()), file.span()};
    batch.sequences = 3;
    batch.tokens = kTokens;
    batch.lengths = {5, kTokens, 1};
    const size_t tokens = size_t{batch.sequences} * kTokens;
    if (shape.vocab_size != 0) {
      batch.ids = test::random_ids(tokens, shape.vocab_size);
    } else {
      batch.features = test::random_floats(tokens * shape.input_features, 7);
    }
    for (uint32_t s = 0; s < batch.sequences; ++s) {
      const size_t begin = size_t{s} * kTokens;
      const size_t width = shape.input_features;
      const convert::Evaluation alone =
          shape.vocab_size != 0
              ? reference_encoder(spec, std::span(batch.ids).subspan(begin, batch.lengths[s]))
              : reference_encoder(spec, std::span<const float>(batch.features)
                                            .subspan(begin * width, batch.lengths[s] * width));
      batch.expected.insert(batch.expected.end(), alone.values.begin(), alone.values.end());
    }
    batch.tolerance = kSmallModelError;
    writer.model_case(batch);
  }
}

// The arrays of a folder: [sequences, tokens, features] to anything.
void add_arrays(VectorWriter& writer, const std::string& name, std::span<const std::byte> file,
                const Path& input_file, const Path& output_file) {
  const convert::NpyArray input = convert::NpyArray::read(input_file);
  NewModelCase batch = {name, writer.file(file), file};
  batch.sequences = static_cast<uint32_t>(input.shape()[0]);
  batch.tokens = static_cast<uint32_t>(input.shape()[1]);
  batch.features = input.to_f32();
  batch.expected = convert::NpyArray::read(output_file).to_f64();
  batch.tolerance = kTrainedModelError * largest(batch.expected);
  writer.model_case(batch);
}

// Adds a linear layer of six outputs on log mel energies.
void add_sound(VectorWriter& writer, const Targets& targets) {
  constexpr uint32_t kBands = 40, kOutputs = 6;
  convert::Graph graph;
  graph.architecture = kSoundName;
  convert::WeightRef weight;
  weight.name = "weight";
  weight.rows = kOutputs;
  weight.columns = kBands;
  weight.load = [] { return test::random_floats(size_t{kOutputs} * kBands, 3); };
  graph.output = graph.add_linear("head", {weight, {}}, graph.add_features(kBands));
  convert::Program program = convert::compile(graph, kSoundName);
  program.sound = convert::make_sound_table(
      convert::parse_sound("rate=16000,window=400,hop=160,fft=512,mels=40,add=1e-6,dc=remove,"
                           "preemphasis=0.97,frames=window,scale=slaney,norm=slaney"));
  const convert::AlignedBytes file = pack(program, targets);
  NewModelCase one = {kSoundName, writer.file(file.span()), file.span()};
  one.tokens = kTokens;
  one.features = test::random_floats(size_t{kTokens} * kBands, 7);
  one.expected = evaluate(with_stored_weights(graph), {{}, {}, one.features}).values;
  one.tolerance = kSmallModelError;
  writer.model_case(one);
  writer.sound_digest(file.span());
}

void add_recall(VectorWriter& writer, const Path& folder, const Targets& targets) {
  convert::ModelOptions options;
  options.heads = 2;
  const convert::Conversion model =
      convert::convert_model(folder / "recall.safetensors", "recall", {.source = options}, targets);
  add_arrays(writer, "recall", model.file.span(), folder / "input.npy",
             folder / "expected_output.npy");
}

void add_vibration(VectorWriter& writer, const Path& folder, const Targets& targets) {
  const convert::Conversion model = convert::convert_model(folder, "vibration", {}, targets);
  add_arrays(writer, "vibration", model.file.span(), folder / "input.npy",
             folder / "expected_logits.npy");
}

void add_home_intent(VectorWriter& writer, const Path& folder, const Targets& targets) {
  const convert::Conversion model = convert::convert_model(folder, "home-intent", {}, targets);
  const nlohmann::json expected = nlohmann::json::parse(std::ifstream(folder / "expected.json"));
  const std::string file = writer.file(model.file.span());
  const nlohmann::json& logits = expected.at("logits");
  NewModelCase prompt = {"home-intent", file, model.file.span()};
  prompt.outputs = Outputs::kLast;
  prompt.ids = logits.at("prompt_ids").get<std::vector<TokenId>>();
  prompt.tokens = static_cast<uint32_t>(prompt.ids.size());
  prompt.expected = logits.at("last_token").get<std::vector<double>>();
  prompt.tolerance = kTrainedModelError * largest(prompt.expected);
  writer.model_case(prompt);
  for (const nlohmann::json& command : expected.at("cases")) {
    writer.command_case(file, command.at("command").get<std::string>() + "<|do|>",
                        command.at("prompt_ids").get<std::vector<TokenId>>(),
                        command.at("ids").get<std::vector<TokenId>>(),
                        command.at("text").get<std::string>());
  }
  writer.reserve_for_commands(model.file.span());
}

// Adds texts for one tokenizer. The expected tokens are this machine's, which the ordinary tests
// compare with other programs.
void add_texts(VectorWriter& writer, const convert::TokenizerSpec& spec,
               const std::vector<std::string>& texts) {
  const test::TestTokenizer tokenizer(spec);
  const convert::AlignedBytes file = test::model_with(spec);
  const std::string name = writer.file(file.span());
  for (const std::string& text : texts) {
    const std::vector<TokenId> ids = tokenizer.encode_bare(text);
    writer.text_case(name, text, ids, tokenizer.decode(ids));
  }
}

void add_tokenizers(VectorWriter& writer) {
  const std::vector<std::string> words = {"the", " the", "re", " there", "\xE2\x82\xAC"};
  const std::vector<std::string> texts = {"", "the there", "  there\nthe re", "1234 \xE2\x82\xAC!",
                                          "\xFF\xC3\xA9"};
  add_texts(writer, test::byte_spec(words), texts);
  add_texts(writer, test::byte_spec(words, test::space_splits()), texts);
  add_texts(writer, test::piece_spec({" the", " t", "he", " ", "t", "h", "e", "r", "re"}, true),
            texts);
  add_texts(writer, test::word_spec({"the", "cafe", "un", "##aff", "##able", "i", "!"}),
            {"the unaffable Caf\xC3\xA9!", "THE \xC4\xB0 there", ""});
}

void add_points(VectorWriter& writer) {
  std::vector<double> points = {0.0, -0.0};
  while (points.size() < kPoints) {
    points.push_back((static_cast<double>(points.size()) - kPoints / 2) * 0.375);
  }
  writer.function_points(points);
}

void write(const std::string& path, std::span<const std::byte> bytes) {
  convert::AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

void make(const Targets& all, const Path& source, const Path& output) {
  const Path models = source / "models";
  // Its weights in float32 lie as those of portable, and take a board's flash twice.
  Targets targets = all;
  std::erase(targets, Target::kCortexMDsp);
  VectorWriter writer;
  add_points(writer);
  add_modules(writer, targets);
  add_decoders(writer, targets, all);
  add_encoders(writer, targets);
  add_pytorch_cases(writer, source / "tests" / "convert" / "data", targets);
  add_sound(writer, targets);
  add_recall(writer, models / "recall", targets);
  add_vibration(writer, models / "vibration", targets);
  add_home_intent(writer, models / "home-intent", targets);
  add_tokenizers(writer);
  writer.model_to_damage(
      pack(test::decoder_program(test::smallest_decoder()), {Target::kPortable}).span());
  const std::string files_path = std::filesystem::absolute(output).string() + ".bin";
  write(files_path, writer.files());
  const std::string text = writer.text(files_path);
  write(output.string() + ".cc", std::as_bytes(std::span(text)));
}

}  // namespace
}  // namespace arenite::device

int main(int argc, char** argv) {
  if (argc != 4) {
    fmt::print(stderr, "usage: {} TARGETS SOURCE OUTPUT\n", argv[0]);
    return 2;
  }
  try {
    arenite::device::make(arenite::convert::parse_targets(argv[1]), argv[2], argv[3]);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}
