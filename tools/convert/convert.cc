// SPDX-License-Identifier: Apache-2.0
#include "convert/convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "convert/families/training_facts.h"
#include "convert/families/transformer_graph.h"
#include "convert/files/checkpoint.h"
#include "convert/files/error.h"
#include "convert/files/input_limits.h"
#include "convert/modules/module_graph.h"
#include "convert/modules/module_recognition.h"
#include "convert/passes/passes.h"
#include "convert/program/conversion_steps.h"
#include "convert/program/lowering.h"
#include "convert/tokenizers/tokenizer_source.h"

namespace arenite::convert {
namespace {

// Above this share of the largest output the conversion itself is wrong.
constexpr double kModelErrorMax = 1e-3;
constexpr double kModuleErrorMax = 1e-4;

AttentionModule read_module(const std::filesystem::path& path, const ModuleOptions& options) {
  const auto checkpoint = std::make_shared<const Checkpoint>(Checkpoint::read(path));
  TensorStore store(checkpoint->file_name());
  store.add(checkpoint);
  if (options.heads != 0) return read_attention_module(store, options);
  const std::filesystem::path config = path.parent_path() / "config.json";
  TrainingFacts facts(*checkpoint,
                      std::filesystem::exists(config) ? config : std::filesystem::path());
  ModuleOptions with_heads = options;
  with_heads.written_heads = facts.heads();
  return read_attention_module(store, with_heads);
}

// Of the larger matrices, which make up nearly all of a model.
uint64_t weights_of(const DecoderSpec& spec) {
  const uint64_t width = spec.model_dim;
  return width * spec.vocab_size + spec.layers.size() * width * (2 * width + 2 * spec.ffn_dim);
}

// All of a conversion that comes after its program.
void finish(ConvertedModel& conversion, const std::filesystem::path& path,
            const std::vector<Target>& targets, double error_max) {
  conversion.file = pack_model(conversion.program, targets, quote(path.string()));
  check_conversion(conversion, path.string(), targets, error_max);
}

}  // namespace

std::vector<Target> parse_targets(const std::string& text) {
  std::vector<Target> targets;
  if (text == "all" || text == "native") {
    for (uint32_t i = 0; i < kTargets; ++i) targets.push_back(static_cast<Target>(i));
    if (text == "all") return targets;
    while ((cpu_targets() & bit(targets.back())) == 0) targets.pop_back();
    return {targets.back()};
  }
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    uint32_t index = 0;
    while (index < kTargets && part != name(static_cast<Target>(index))) ++index;
    if (index == kTargets) {
      std::string known;
      for (uint32_t i = 0; i < kTargets; ++i) {
        known += fmt::format("{}{}", i == 0 ? "" : ", ", name(static_cast<Target>(i)));
      }
      throw InputError("unknown target {}: expected native, all, or some of {}", quote(part),
                       known);
    }
    const Target target = static_cast<Target>(index);
    if (std::find(targets.begin(), targets.end(), target) == targets.end()) {
      targets.push_back(target);
    }
    begin = end + 1;
  }
  return targets;
}

Program compile(const Graph& graph, const std::string& name,
                const std::vector<std::string>& without_passes) {
  Graph rewritten = graph;
  run_passes(rewritten, without_passes);
  return lower(std::move(rewritten), name);
}

void check_angles(const DecoderSpec& spec, const std::string& path) {
  if (!spec.rope) return;
  const uint64_t angles = uint64_t{spec.positions_max} * spec.rope->rotary_dim;
  const uint64_t angles_max = kAnglesBase + kAnglesPerWeight * weights_of(spec);
  if (angles <= angles_max) return;
  throw InputError(
      "{}: a context of {} positions takes a table of {} angles: at most {} are accepted for a "
      "model of this size; pass --context N with fewer positions",
      path, spec.positions_max, angles, angles_max);
}

Conversion convert_checkpoint(const std::filesystem::path& checkpoint, const std::string& name,
                              const ModuleOptions& options, const std::vector<Target>& targets,
                              const std::vector<std::string>& without_passes) {
  Conversion conversion;
  conversion.module = read_module(checkpoint, options);
  conversion.account = conversion.module.account;
  conversion.graph = build_graph(conversion.module);
  conversion.program = compile(conversion.graph, name, without_passes);
  finish(conversion, checkpoint, targets, kModuleErrorMax);
  return conversion;
}

DecoderConversion convert_decoder(const std::filesystem::path& path, const std::string& name,
                                  const ConvertOptions& options,
                                  const std::vector<Target>& targets) {
  DecoderConversion conversion;
  conversion.source = open_decoder(path, options.source);
  conversion.account = conversion.source.account;
  const std::string quoted = quote(path.string());
  limit_context(conversion.source.spec.positions_max, options.context, quoted);
  check_angles(conversion.source.spec, quoted);
  conversion.graph = build_graph(conversion.source.spec);
  conversion.program = compile(conversion.graph, name, options.without_passes);
  conversion.program.tokenizer = tokenizer_for(path, options.tokenizer, conversion.source);
  finish(conversion, path, targets, kModelErrorMax);
  return conversion;
}

EncoderConversion convert_encoder(const std::filesystem::path& path, const std::string& name,
                                  const ConvertOptions& options,
                                  const std::vector<Target>& targets) {
  EncoderConversion conversion;
  conversion.source = open_encoder(path, options.source);
  conversion.account = conversion.source.account;
  EncoderSpec& spec = conversion.source.spec;
  const std::string quoted = quote(path.string());
  limit_context(spec.positions_max, options.context, quoted);
  conversion.graph = build_graph(spec);
  conversion.program = compile(conversion.graph, name, options.without_passes);
  if (spec.vocab_size != 0) {
    const EncoderSource& source = conversion.source;
    conversion.program.tokenizer =
        encoder_tokenizer(source.tokenizer_folder.empty() ? path : source.tokenizer_folder,
                          options.tokenizer, spec.vocab_size, source.lowers_case);
  } else if (!options.tokenizer.empty()) {
    throw InputError("{}: --tokenizer: the model reads features, not text: drop the option",
                     quoted);
  }
  finish(conversion, path, targets, kModelErrorMax);
  return conversion;
}

}  // namespace arenite::convert
