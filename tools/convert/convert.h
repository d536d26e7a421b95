// SPDX-License-Identifier: Apache-2.0
// Converts a checkpoint to a verified model file: open, recognise, build the graph, run the passes,
// lower, pack, check.
//
//   const Conversion done = convert_model("tinyllama/", "tinyllama", {}, parse_targets("native"));
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <variant>
#include <vector>

#include "arenite/target.h"
#include "convert/check/converted_model.h"
#include "convert/choose_by_loss.h"
#include "convert/exported/exported_model.h"
#include "convert/families/families.h"
#include "convert/modules/attention_modules.h"
#include "convert/open/opened.h"
#include "convert/program/program.h"
#include "convert/program/weights.h"
#include "convert/quantize_model.h"
#include "convert/sound/sound_parameters.h"
#include "convert/spec/model_options.h"
#include "convert/spec/model_spec.h"
#include "convert/tokenizers/tokenizer_source.h"

namespace arenite::convert {

// The model that was recognised in a file or folder.
struct Recognised {
  const char* form = "";  // its format, for messages: "GGUF"
  // Facts of this kind of model, for reports; `graph` is the computation.
  std::variant<TransformerSpec, EncoderDecoderSpec, AttentionModule, ExportedModel> facts;
  Graph graph{};
  TokenizerPlace tokenizer{};
  Account account{};
  std::string sound{};  // front end of the folder, as --sound takes it; or empty
};

// Tries the known forms in a fixed order and reads the first whose signature matches, or an
// attention module if `options` ask for one. Throws InputError for an unsupported model, and for an
// option that the model does not have or contradicts.
Recognised recognise(const Opened& model, const ModelOptions& options = {});

struct ConvertOptions {
  ModelOptions source{};
  std::filesystem::path tokenizer{};          // empty: the one in the same file, or beside it
  std::vector<std::string> without_passes{};  // names of passes that are left out
  WeightRules weights{};
  // replaces the single type of matrices that `weights` do not name
  std::optional<WeightBudget> budget{};
  Calibration calibration{};
  TensorType kv_cache = TensorType::kF32;  // default of sessions
  // The second of two exported programs, which takes the first one's output; or empty.
  std::filesystem::path decoder{};
  // Reference inputs and outputs, which also show at which lengths an exported program is valid.
  std::vector<AuthorFiles> expect{};
  std::filesystem::path labels{};  // names of the output's columns; empty: those beside the model
  std::string sound{};             // sound front end of the features (parse_sound), or empty
};

struct Conversion : ConvertedModel {
  Recognised model;
  std::vector<TypeFallback> fallbacks;       // matrices that could not have the wanted type
  std::vector<TypeChoice> choices;           // with a budget: those of all matrices without a rule
  std::optional<Quantization> quantization;  // if weights or caches are quantized
  std::vector<AuthorFiles> expect;           // those of the options, and a folder's samples

  // The facts of this kind of model, or null.
  const TransformerSpec* transformer() const { return std::get_if<TransformerSpec>(&model.facts); }
  const TransformerSpec* decoder() const {
    return transformer() != nullptr && transformer()->is_decoder ? transformer() : nullptr;
  }
  const TransformerSpec* encoder() const { return decoder() == nullptr ? transformer() : nullptr; }
  const EncoderDecoderSpec* encoder_decoder() const {
    return std::get_if<EncoderDecoderSpec>(&model.facts);
  }
  const AttentionModule* module() const { return std::get_if<AttentionModule>(&model.facts); }
  const ExportedModel* exported() const { return std::get_if<ExportedModel>(&model.facts); }
};

// Parses "native" (the best target of this CPU), "all", or names separated by commas. Throws
// InputError for an unknown name.
std::vector<Target> parse_targets(const std::string& text);

// Reads the model at `path`, packs it, and compares it in this process with the graph on every
// target that this CPU runs, also token by token if the model supports it. A folder with a
// facts.json (exported_folder.h) completes the options. Throws InputError for bad input.
Conversion convert_model(const std::filesystem::path& path, const std::string& name,
                         const ConvertOptions& options, const std::vector<Target>& targets);

// Throws InputError if the table of RoPE angles would be much larger than the model.
void check_angles(const TransformerSpec& spec, const std::string& path);

}  // namespace arenite::convert
