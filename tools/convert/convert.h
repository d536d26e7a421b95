// SPDX-License-Identifier: Apache-2.0
// From a checkpoint to a verified model file: open, recognise, build the graph, run the passes,
// lower, pack, check.
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

// What model lies in a file or folder.
struct Recognised {
  const char* form = "";  // that it came in, for people: "GGUF"
  // What its author would say of it, by its kind: for reports. The graph is what it computes.
  std::variant<TransformerSpec, AttentionModule, ExportedModel> facts;
  Graph graph{};
  TokenizerPlace tokenizer{};
  Account account{};
};

// Goes through the forms that are known, in one order, and reads the first that the file has the
// sign of; where `options` ask for one, an attention module. Throws InputError for a model that is
// not understood, and for an option that it does not have or says otherwise.
Recognised recognise(const Opened& model, const ModelOptions& options = {});

struct ConvertOptions {
  ModelOptions source{};
  std::filesystem::path tokenizer{};          // empty: the one in the same file, or beside it
  std::vector<std::string> without_passes{};  // names of passes that are left out
  WeightRules weights{};
  std::optional<WeightBudget> budget{};  // instead of one type for all that `weights` do not name
  Calibration calibration{};
  TensorType kv_cache = TensorType::kF32;  // what sessions keep that do not say
  // The second of two exported programs, which takes what the first gives; or empty.
  std::filesystem::path decoder{};
  // For which lengths an exported program is the model is found out from these.
  std::vector<AuthorFiles> expect{};
  std::filesystem::path labels{};  // names of what it gives out; empty: those beside the model
  std::string sound{};  // how features are made of sound (parse_sound); empty: nobody says
};

struct Conversion : ConvertedModel {
  Recognised model;
  std::vector<TypeFallback> fallbacks;  // matrices that could not have the type they were to have
  std::vector<TypeChoice> choices;      // with a budget: of all that no rule names
  std::optional<Quantization> quantization;  // where weights or caches are in few bits

  // The facts of this kind of model, or null.
  const TransformerSpec* transformer() const { return std::get_if<TransformerSpec>(&model.facts); }
  const TransformerSpec* decoder() const {
    return transformer() != nullptr && transformer()->is_decoder ? transformer() : nullptr;
  }
  const TransformerSpec* encoder() const { return decoder() == nullptr ? transformer() : nullptr; }
  const AttentionModule* module() const { return std::get_if<AttentionModule>(&model.facts); }
  const ExportedModel* exported() const { return std::get_if<ExportedModel>(&model.facts); }
};

// "native" (the best target of this CPU), "all", or names separated by commas. Throws InputError
// for an unknown name.
std::vector<Target> parse_targets(const std::string& text);

// Reads what lies at `path`, packs it, and runs the result in this process against the graph, on
// every target that this CPU has, token by token too where the model can be fed so. Throws
// InputError for bad input.
Conversion convert_model(const std::filesystem::path& path, const std::string& name,
                         const ConvertOptions& options, const std::vector<Target>& targets);

// Throws InputError where the table of RoPE's angles is out of proportion to the model.
void check_angles(const TransformerSpec& spec, const std::string& path);

}  // namespace arenite::convert
