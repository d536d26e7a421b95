// SPDX-License-Identifier: Apache-2.0
// Converts the models of these tests without the converter's own check, so that wrong conversions
// fail here. Runs on the build machine, also for tests that run on another one.
//
// Usage: golden_converter module FILE OUTPUT TARGETS HEADS CONTEXT causal|bidirectional FEATURES
//        golden_converter decoder MODEL OUTPUT TARGET [TOKENIZER]
//        golden_converter few_bits MODEL OUTPUT TARGETS WEIGHTS calibrated|rounded [TOKENIZER]
//        golden_converter encoder MODEL OUTPUT TARGET [gelu] [norm_first] [bidirectional]
//        [unscaled]
// WEIGHTS may end with +int8, the type of keys and values. HEADS, CONTEXT and FEATURES may be 0 if
// the file determines them.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "convert/convert.h"
#include "convert/exported/exported_model.h"
#include "convert/modules/attention_modules.h"
#include "convert/passes/passes.h"
#include "convert/program/writer.h"
#include "convert/tokenizers/tokenizer_source.h"

namespace arenite::convert {
namespace {

using Words = std::vector<std::string>;

constexpr char kName[] = "golden";

AlignedBytes convert_module(const Words& words) {
  ModelOptions options;
  options.heads = static_cast<uint32_t>(std::stoul(words.at(4)));
  options.context = static_cast<uint32_t>(std::stoul(words.at(5)));
  options.mask = words.at(6) == "causal" ? MaskChoice::kCausal : MaskChoice::kBidirectional;
  options.features = static_cast<uint32_t>(std::stoul(words.at(7)));
  return write_model(
      compile(build_graph(read_attention_module(open_model(words[1]), options)), kName),
      parse_targets(words.at(3)));
}

AlignedBytes convert_decoder(const Words& words) {
  Recognised model = recognise(open_model(words[1]));
  Program program = compile(std::move(model.graph), kName);
  program.tokenizer = tokenizer_for(model.tokenizer, words.size() > 4 ? words[4] : "");
  return write_model(program, parse_targets(words.at(3)));
}

// Quantizes like `arenite convert --weights`, or like `--calibrate none` as well.
AlignedBytes convert_in_few_bits(const Words& words) {
  Recognised model = recognise(open_model(words[1]));
  Graph graph = std::move(model.graph);
  const std::string& weights = words.at(4);
  const bool has_int8_cache = weights.ends_with("+int8");
  const TensorType type = parse_weight_type(weights.substr(0, weights.find('+')));
  choose_types(graph, {type, parse_weight_rules("", type)});
  graph = rewrite(std::move(graph));
  if (has_int8_cache) graph.kv_cache = TensorType::kInt8;
  std::optional<TokenizerSpec> tokenizer;
  if (graph.inputs[0].vocab_size != 0) {
    tokenizer = tokenizer_for(model.tokenizer, words.size() > 6 ? words[6] : "");
  }
  RoundingCache before;
  quantize_weights(graph, kName, tokenizer, {.files = {}, .is_off = words.at(5) == "rounded"},
                   before);
  Program program = lower(graph, kName);
  program.tokenizer = tokenizer;
  return write_model(program, parse_targets(words.at(3)));
}

AlignedBytes convert_encoder(const Words& words) {
  ModelOptions options;
  if (std::ranges::count(words, "gelu") != 0) options.activation = Activation::kGeluErf;
  if (std::ranges::count(words, "norm_first") != 0) options.norm_first = true;
  if (std::ranges::count(words, "bidirectional") != 0) options.mask = MaskChoice::kBidirectional;
  if (std::ranges::count(words, "unscaled") != 0) options.embedding_scale = EmbeddingScale{};
  return write_model(compile(recognise(open_model(words[1]), options).graph, kName),
                     parse_targets(words.at(3)));
}

AlignedBytes convert_exported(const Words& words) {
  const ExportedModel model = read_exported_model(words[1], {});
  return write_model(compile(model.graph, kName), parse_targets(words.at(3)));
}

AlignedBytes convert(const Words& words) {
  if (words.at(0) == "module") return convert_module(words);
  if (words.at(0) == "decoder") return convert_decoder(words);
  if (words.at(0) == "few_bits") return convert_in_few_bits(words);
  if (words.at(0) == "encoder") return convert_encoder(words);
  if (words.at(0) == "exported") return convert_exported(words);
  throw std::runtime_error("unknown kind of model " + words[0]);
}

}  // namespace
}  // namespace arenite::convert

int main(int argc, char** argv) {
  try {
    const std::vector<std::string> words(argv + 1, argv + argc);
    const arenite::convert::AlignedBytes model = arenite::convert::convert(words);
    std::ofstream file(words.at(2), std::ios::binary);
    file.write(reinterpret_cast<const char*>(model.span().data()),
               static_cast<std::streamsize>(model.size()));
    if (!file.flush()) throw std::runtime_error("cannot write " + words[2]);
  } catch (const std::exception& error) {
    fmt::print(stderr, "golden_converter: {}\n", error.what());
    return 1;
  }
  return 0;
}
