// SPDX-License-Identifier: Apache-2.0
// Formats a conversion as one JSON object by a table of keys, and as lines by a table of phrases
// that are filled in from the JSON.
#include "cli/convert_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "arenite/arena_formula.h"
#include "cli/commands.h"
#include "cli/report.h"
#include "cli/session_sizes.h"
#include "cli/text_table.h"
#include "convert/families/hf_models.h"
#include "convert/files/error.h"
#include "convert/sound/sound_parameters.h"
#include "convert/tokenizers/tokenizer_source.h"
#include "convert/tokenizers/tokenizer_spec.h"
#include "core/targets.h"
#include "format/reader.h"

namespace arenite::tool {
namespace {

using convert::AttentionModule;
using convert::ExportedModel;
using convert::TransformerSpec;

// --- JSON ---

struct Converted {
  const convert::Conversion& conversion;
  const WrittenFile& written;
  const WeightsReport& report;
  format::ModelReader reader;

  const convert::Program& program() const { return conversion.program; }
  SessionOptions sizes() const { return default_session_options(reader); }
};

template <typename... Gets>
struct ByKind : Gets... {
  using Gets::operator()...;
};

// A fact of the model kinds that one of `gets` accepts; other models omit the key.
template <typename Value, typename... Gets>
constexpr auto of_kinds(Gets... gets) {
  const auto none = [](const auto&) { return Sometimes<Value>(); };
  return [by_kind = ByKind<decltype(none), Gets...>{none, gets...}](const Converted& f) {
    return std::visit([&](const auto& facts) { return Sometimes<Value>(by_kind(facts)); },
                      f.conversion.model.facts);
  };
}
template <typename Value>
constexpr auto of_transformer(Value TransformerSpec::*member) {
  return of_kinds<Value>([member](const TransformerSpec& spec) { return spec.*member; });
}
template <typename Value, typename Get>
constexpr auto of_decoder(Get get) {
  return of_kinds<Value>([get](const TransformerSpec& spec) {
    return spec.is_decoder ? Sometimes<Value>(get(spec)) : Sometimes<Value>();
  });
}
template <typename Value, typename Get>
constexpr auto of_encoder(Get get) {
  return of_kinds<Value>([get](const TransformerSpec& spec) {
    return spec.is_decoder ? Sometimes<Value>() : Sometimes<Value>(get(spec));
  });
}

std::vector<std::string> kinds() { return {"module", "decoder", "encoder", "exported"}; }
std::vector<std::string> rows_given_out() { return {"tokens", "sequences"}; }

OneOf<kinds> kind_of(const Converted& f) {
  const convert::Conversion& conversion = f.conversion;
  return {conversion.module() != nullptr     ? "module"
          : conversion.exported() != nullptr ? "exported"
          : conversion.decoder() != nullptr  ? "decoder"
                                             : "encoder"};
}

std::string architecture_of(const Converted& f) {
  if (const ExportedModel* exported = f.conversion.exported()) return exported->graph.architecture;
  if (const AttentionModule* module = f.conversion.module()) return module->architecture;
  return f.conversion.transformer()->architecture;
}

uint32_t context_of(const Converted& f) {
  if (const ExportedModel* exported = f.conversion.exported())
    return exported->graph.inputs[0].positions_max;
  if (const AttentionModule* module = f.conversion.module()) return module->positions_max;
  return f.conversion.transformer()->positions_max;
}

OneOf<rows_given_out> output_rows_of(const Converted& f) {
  const ExportedModel* const exported = f.conversion.exported();
  const TransformerSpec* const encoder = f.conversion.encoder();
  const bool are_of_sequences = (exported != nullptr && exported->has_row_of_sequence) ||
                                (encoder != nullptr && encoder->pooling != SelectKind::kAsAsked);
  return {are_of_sequences ? "sequences" : "tokens"};
}

// Returns the tokenizer's notes and those of a decoder.
std::vector<std::string> notes_of(const Converted& f) {
  std::vector<std::string> notes;
  if (f.program().tokenizer) notes = f.program().tokenizer->notes;
  if (const TransformerSpec* const decoder = f.conversion.decoder()) {
    notes.insert(notes.end(), decoder->notes.begin(), decoder->notes.end());
  }
  return notes;
}

// A mask and, for a module, its origin.
struct ConvertedMask {
  const convert::CompiledMask* mask;
  std::optional<std::string> origin{};
};

std::vector<ConvertedMask> masks_of(const Converted& f) {
  std::vector<ConvertedMask> masks;
  for (const convert::CompiledMask& mask : f.program().masks) {
    masks.push_back({&mask});
    if (f.conversion.module() == nullptr) continue;
    masks.back().origin = f.conversion.module()->mask_origins[masks.size() - 1];
  }
  return masks;
}

// Arena and error of one target.
struct ConvertedTarget {
  Target target;
  uint64_t arena_bytes = 0;
  std::optional<double> largest_error;
  SmallestSlice slice;
};

std::vector<ConvertedTarget> targets_of(const Converted& f) {
  std::vector<ConvertedTarget> targets;
  for (uint32_t i = 0; i < f.reader.packed_count(); ++i) {
    const convert::TargetCheck& check = f.conversion.checks[i];
    const ArenaSizes arena =
        evaluate(f.reader.formula(i), f.reader.axes(), default_sizes(f.reader));
    targets.push_back({check.target, arena.total_bytes.value(),
                       check.ran ? std::optional<double>(check.largest_error) : std::nullopt,
                       smallest_slice(f.conversion.file.span(), i, f.sizes())});
  }
  return targets;
}

std::vector<Named<FormulaOfModel>> formulas_of(const Converted& f) {
  std::vector<Named<FormulaOfModel>> formulas;
  for (uint32_t i = 0; i < f.reader.packed_count(); ++i) {
    formulas.push_back(
        {name(static_cast<Target>(f.reader.packed(i).target)), formula_of(f.reader, i)});
  }
  return formulas;
}

}  // namespace

template <>
constexpr auto kFacts<ConvertedMask> =
    std::tuple(Fact("description", [](const ConvertedMask& f) { return f.mask->describe(); }),
               Fact("bytes", [](const ConvertedMask& f) { return f.mask->bytes(); }),
               Fact("dense_bytes", "Of a float for each pair",
                    [](const ConvertedMask& f) {
                      return uint64_t{f.mask->positions} * f.mask->positions * sizeof(float);
                    }),
               Fact("origin", &ConvertedMask::origin));

template <>
constexpr auto kFacts<convert::TokenizerSpec> =
    std::tuple(Fact("tokens", [](const convert::TokenizerSpec& f) { return f.tokens.size(); }),
               Fact("origin", &convert::TokenizerSpec::origin));

template <>
constexpr auto kFacts<ConvertedTarget> =
    std::tuple(Fact("name", [](const ConvertedTarget& f) { return name(f.target); }),
               Fact("cpus", [](const ConvertedTarget& f) { return cpus_of(f.target); }),
               Fact("arena_bytes", &ConvertedTarget::arena_bytes),
               Fact("largest_error", "null: not checked, since this CPU lacks it",
                    &ConvertedTarget::largest_error),
               Fact("smallest_slice", kSmallestSlice, &ConvertedTarget::slice));

template <>
constexpr auto kFacts<convert::ExportedModel> =
    std::tuple(Fact("inputs", &convert::ExportedModel::compared_inputs),
               Fact("seconds", &convert::ExportedModel::compared_seconds),
               Fact("largest_difference", &convert::ExportedModel::largest_difference),
               Fact("largest_value", &convert::ExportedModel::largest_value));

template <>
constexpr auto kFacts<convert::TypeChoice> =
    std::tuple(Fact("names", &convert::TypeChoice::name),
               Fact("type", [](const convert::TypeChoice& f) { return name(f.type); }),
               Fact("reason", &convert::TypeChoice::reason));

template <>
constexpr auto kFacts<convert::AuthorCheck> =
    std::tuple(Fact("sequences", &convert::AuthorCheck::sequences),
               Fact("tokens", &convert::AuthorCheck::tokens),
               Fact("of_last_tokens", &convert::AuthorCheck::of_last_tokens),
               Fact("largest_difference", &convert::AuthorCheck::largest_difference),
               Fact("largest_value", &convert::AuthorCheck::largest_value),
               Fact("difference_in_few_bits",
                    "Of the file, where it rounds weights or caches; largest_difference is then "
                    "that of the same model in float32",
                    &convert::AuthorCheck::difference_in_few_bits));

// The sizes of the model; each kind has some of them.
constexpr auto kShape = part(
    "shape", "With what its kind has",
    Fact("layers", of_kinds<uint64_t>([](const TransformerSpec& f) { return f.layers.size(); })),
    Fact("model_dim", of_transformer(&TransformerSpec::model_dim)),
    Fact("heads", of_kinds<uint32_t>([](const TransformerSpec& f) { return f.heads; },
                                     [](const AttentionModule& f) { return f.heads; })),
    Fact("head_dim", of_kinds<uint32_t>([](const TransformerSpec& f) { return f.head_dim; },
                                        [](const AttentionModule& f) { return f.head_dim; })),
    Fact("value_dim", "module",
         of_kinds<uint32_t>([](const AttentionModule& f) { return f.value_dim; })),
    Fact("ffn_dim", of_transformer(&TransformerSpec::ffn_dim)),
    Fact("vocab_size",
         of_kinds<uint32_t>([](const TransformerSpec& f) { return f.vocab_size; },
                            [](const ExportedModel& f) { return f.graph.inputs[0].vocab_size; })),
    Fact("output_features",
         [](const Converted& f) {
           return f.program().slots[f.program().functions[0].output_slot].width;
         }),
    Fact("activation", of_kinds<std::string>([](const TransformerSpec& f) {
           return convert::option_name(f.activation);
         })),
    Fact("norm_first", of_transformer(&TransformerSpec::norm_first)),
    Fact("causal", of_kinds<bool>([](const TransformerSpec& f) { return f.causal; },
                                  [](const ExportedModel& f) { return f.causal; })),
    Fact("kv_heads", "decoder",
         of_decoder<uint32_t>([](const TransformerSpec& f) { return f.kv_heads; })),
    Fact("gated_mlp", "decoder",
         of_decoder<bool>([](const TransformerSpec& f) { return f.layers[0].gate.has_value(); })),
    Fact("tied", "decoder: output weights are the embedding",
         of_decoder<bool>([](const TransformerSpec& f) { return !f.output.has_value(); })),
    Fact("input_features", "encoder, module",
         of_kinds<uint32_t>(
             [](const TransformerSpec& f) {
               return f.is_decoder ? Sometimes<uint32_t>() : Sometimes<uint32_t>(f.input_features);
             },
             [](const AttentionModule& f) { return f.features; })),
    Fact("token_types", "encoder",
         of_encoder<uint32_t>([](const TransformerSpec& f) { return f.token_types; })),
    Fact("normalize", "encoder: rows have length 1", of_encoder<bool>(convert::is_normalized)));

constexpr auto kRecognised = std::tuple(
    Fact("kind", kind_of), Fact("architecture", architecture_of),
    Fact("source", "The form it came in",
         [](const Converted& f) {
           return f.conversion.module() != nullptr ? "a state dict" : f.conversion.model.form;
         }),
    Fact("parameters", [](const Converted& f) { return f.report.conversion->parameters; }), kShape,
    Fact("inputs",
         [](const Converted& f) {
           std::vector<InputFacts> inputs;
           for (uint32_t i = 0; i < f.reader.inputs(); ++i) {
             inputs.push_back(input_facts(f.reader, i));
           }
           return inputs;
         }),
    Fact("functions", "Parts of the program, each of which a call runs",
         [](const Converted& f) {
           std::vector<FunctionFacts> functions;
           for (uint32_t i = 0; i < f.reader.functions(); ++i) {
             functions.push_back(function_facts(f.reader, i));
           }
           return functions;
         }),
    Fact("context", "Positions; 0: any number; of the first input", context_of),
    Fact("length", "exported: for which lengths the result is the model, and why; in lines",
         of_kinds<std::string>([](const ExportedModel& f) { return f.length; })),
    Fact("tokens_min", "exported: the shortest sequence",
         of_kinds<uint32_t>([](const ExportedModel& f) { return f.graph.inputs[0].tokens_min; })),
    Fact("program", "exported: compared with the program that was read",
         of_kinds<const ExportedModel*>([](const ExportedModel& f) { return &f; })),
    Fact("output_rows", output_rows_of),
    Fact("labels",
         [](const Converted& f) {
           const TransformerSpec* const encoder = f.conversion.encoder();
           return encoder != nullptr ? encoder->labels : std::vector<std::string>();
         }),
    Fact(
        "tokenizer", [](const Converted& f) -> auto& { return f.program().tokenizer; }),
    Fact("notes", notes_of), Fact("masks", masks_of));

constexpr auto kArena =
    part("arena", "The sizes that arena_bytes are for",
         Fact("positions", [](const Converted& f) { return f.sizes().positions_max; }),
         Fact("tokens", [](const Converted& f) { return f.sizes().tokens_max; }),
         Fact("sequences", [](const Converted&) { return 1u; }),
         Fact("threads", [](const Converted&) { return 1u; }),
         Fact("kv_cache", "What keys and values are kept as",
              [](const Converted& f) { return name(f.reader.kv_cache()); }));

constexpr auto kCheck =
    part("check", "The result against double precision",
         Fact("tokens", [](const Converted& f) { return f.conversion.checked_tokens; }),
         Fact("largest_output", [](const Converted& f) { return f.conversion.largest_output; }),
         Fact("computing_error", "Of the targets, with the file's weights; null: not checked",
              [](const Converted& f) { return f.conversion.computing_error(); }),
         Fact("storing_error", "Of the weights in the file",
              [](const Converted& f) { return f.conversion.storing_error; }));

constexpr auto kSelfTest =
    part("self_test", "",
         Fact("tokens", "0: none", [](const Converted& f) { return f.reader.self_test().tokens; }),
         Fact("bytes", [](const Converted& f) {
           const format::SelfTestView test = f.reader.self_test();
           return test.tokens == 0 ? 0 : test.segment.bytes();
         }));

// A part of the file.
struct PartOfFile {
  std::string name;
  uint64_t bytes = 0;
};
template <>
constexpr auto kFacts<PartOfFile> = std::tuple(Fact("name", &PartOfFile::name),
                                               Fact("bytes", &PartOfFile::bytes));

std::vector<PartOfFile> parts_of(const Converted& f) {
  std::vector<PartOfFile> parts;
  uint64_t left = f.conversion.file.size();
  const auto add = [&](std::string name, uint64_t bytes) {
    if (bytes != 0) parts.push_back({std::move(name), bytes});
    left -= bytes;
  };
  for (uint32_t i = 0; i < f.reader.packed_count(); ++i) {
    const format::PackedView& packed = f.reader.packed(i);
    add(fmt::format("weights for {}", name(static_cast<Target>(packed.target))),
        packed.segment.bytes());
  }
  const format::SelfTestView test = f.reader.self_test();
  add("self-test", test.tokens == 0 ? 0 : test.segment.bytes());
  add(f.program().tokenizer ? "metadata and tokenizer" : "metadata", left);
  return parts;
}

template <>
constexpr auto kFacts<Converted> = std::tuple_cat(
    kRecognised,
    std::tuple(Fact("targets", targets_of), kArena, Fact("formula", "For each target", formulas_of),
               kCheck,
               Fact(
                   "chosen", "By --weights auto",
                   [](const Converted& f) -> auto& { return f.conversion.choices; }),
               Fact(
                   "given", "By options, or by the checkpoint",
                   [](const Converted& f) -> auto& { return f.conversion.account.given; }),
               Fact(
                   "assumed", "What nothing said",
                   [](const Converted& f) -> auto& { return f.conversion.account.assumed; }),
               Fact(
                   "expect", "Compared with the author's own outputs, a pair of --expect each",
                   [](const Converted& f) -> auto& { return f.written.expect; }),
               kSelfTest, Fact("report", [](const Converted& f) { return &f.report; }),
               Fact("file",
                    [](const Converted& f) {
                      return WrittenPath{f.written.path, f.conversion.file.size()};
                    }),
               Fact("parameters_bytes", "Of the parameters in float32",
                    [](const Converted& f) { return 4 * f.report.conversion->parameters; }),
               Fact("parts", "Of the file", parts_of)));

Json convert_facts() { return schema_of<Converted>(); }

// --- Lines ---

namespace {

constexpr size_t kListWidth = 80;

// Joins the parts with commas, and breaks lines longer than kListWidth.
std::string listed(const std::vector<std::string>& parts) {
  std::string text;
  size_t line_begin = 0;
  for (const std::string& part : parts) {
    if (!text.empty() && text.size() - line_begin + part.size() > kListWidth) {
      text += ",\n";
      line_begin = text.size();
    } else if (!text.empty()) {
      text += ", ";
    }
    text += convert::visible(part);
  }
  return text;
}

const char* describe(SelectKind pooling) {
  switch (pooling) {
    case SelectKind::kAsAsked:
    case SelectKind::kTurns:
    case SelectKind::kTransposed:
    case SelectKind::kTaken:
      break;
    case SelectKind::kFirst:
      return "its first token";
    case SelectKind::kMean:
      return "the mean of its tokens";
    case SelectKind::kMax:
      return "the largest of its tokens";
    case SelectKind::kMeanSqrtLength:
      return "the sum of its tokens by the root of its length";
    case SelectKind::kWeightedMean:
      return "the mean of its tokens weighted by position";
    case SelectKind::kLast:
      return "its last token";
    case SelectKind::kSum:
      return "the sum of its tokens";
  }
  return "";
}

// Describes the rows that an encoder outputs.
std::string describe_rows(const convert::TransformerSpec& spec) {
  if (spec.pooling == SelectKind::kAsAsked) return "a row for each token";
  std::string text = fmt::format("a row for each sequence, from {}", describe(spec.pooling));
  for (const SelectKind pooling : spec.more_pooling) {
    text += fmt::format(", and {}", describe(pooling));
  }
  return text;
}

std::string output_of(const Converted& f) {
  const uint32_t width = f.program().slots[f.program().functions[0].output_slot].width;
  if (const ExportedModel* const exported = f.conversion.exported()) {
    return fmt::format("a row for each {}: {} numbers",
                       exported->has_row_of_sequence ? "sequence" : "token", width);
  }
  const TransformerSpec* const spec = f.conversion.transformer();
  if (spec == nullptr || (spec->is_decoder && !spec->is_headless)) return "";
  if (spec->is_headless) {
    return fmt::format("the last hidden states, {} numbers a token: it has no head",
                       spec->model_dim);
  }
  const bool has_logits = !spec->head.empty() && spec->head.back().is_token_embedding;
  return fmt::format("{}: {} {}{}", describe_rows(*spec), width,
                     has_logits ? "logits of tokens" : "numbers",
                     convert::is_normalized(*spec) ? ", of length 1" : "");
}

// Describes the input of a model that does not read text.
std::string input_of(const Converted& f) {
  if (const AttentionModule* const module = f.conversion.module()) {
    if (!module->separate_inputs) return "";
    return fmt::format("columns [query {} | key {} | value {}]", module->query.inputs(),
                       module->key.inputs(), module->value.inputs());
  }
  if (f.reader.vocab_size() != 0) return "";
  if (f.reader.reads_images()) return image_text(f.reader);
  return fmt::format("{} features", f.program().slots[f.program().inputs[0].slot].width);
}

void add_model(const Converted& f, Json& json) {
  json["input"] = input_of(f);
  json["output"] = output_of(f);
  if (!f.reader.has_one_function()) json["functions_of_several"] = json["functions"];
  if (const AttentionModule* const module = f.conversion.module()) {
    json["module"] = json["architecture"];
    if (module->head_dim != module->value_dim && module->head_dim != 0) {
      json["query_dim"] = module->head_dim;
    }
  }
  if (const TransformerSpec* const spec = f.conversion.transformer()) {
    if (spec->is_decoder && spec->kv_heads != spec->heads) json["kv_heads"] = spec->kv_heads;
    if (spec->token_types > 1) json["types"] = spec->token_types;
    json["is_tied"] = spec->is_decoder && !spec->output && !spec->is_headless;
    const bool steps = !spec->is_decoder && spec->causal && spec->pooling == SelectKind::kAsAsked;
    for (Json& mask : json["masks"]) mask["steps"] = steps;
  }
  if (const ExportedModel* const exported = f.conversion.exported()) {
    json["ops"] = {{"recognised", exported->graph.order().size()},
                   {"read", exported->program->nodes.size()}};
    if (exported->compared_seconds >= 1.0) json["seconds"] = exported->compared_seconds;
  }
  if (f.program().tokenizer) json["unicode"] = convert::describe_unicode(*f.program().tokenizer);
  if (f.program().sound) json["sound"] = convert::describe_sound(f.program().sound->numbers);
  json["given"] = listed(f.conversion.account.given);
  json["assumed"] = listed(f.conversion.account.assumed);
}

// Returns how many weights have which type; empty if all are float32.
Json weights_of(const Converted& f) {
  Json weights = Json::array();
  const Target target = static_cast<Target>(f.reader.packed(0).target);
  for (const TensorType type : convert::kWeightTypes) {
    uint64_t numbers = 0;
    uint64_t bytes = 0;
    for (const convert::ProgramTensor& tensor : f.program().tensors) {
      if (tensor.type != type) continue;
      numbers += uint64_t{tensor.outputs} * tensor.inputs;
      bytes += format::stored_bytes(tensor.shape(), packing_of(target, type)).value();
    }
    if (numbers == 0 || (type == TensorType::kF32 && !convert::has_few_bits(f.program()))) continue;
    weights.push_back(
        {{"type", name(type)}, {"numbers", numbers}, {"bytes", bytes}, {"target", name(target)}});
  }
  return weights;
}

// Adds how the weights were quantized, and the loss.
void add_quantization(const convert::Quantization& quantization, Json& json) {
  std::map<std::string, std::pair<size_t, double>> methods;  // count of matrices, least decibels
  for (const convert::QuantizedTensor& tensor : quantization.tensors) {
    auto& [count, least] = methods[fmt::format("{} by {}", name(tensor.type), tensor.method)];
    least = count == 0 ? tensor.decibels : std::min(least, tensor.decibels);
    ++count;
  }
  json["methods"] = Json::array();
  for (const auto& [method, found] : methods) {
    json["methods"].push_back(fmt::format(
        "{}: {}, {:.1f} dB of signal to noise or more", method,
        found.first == 1 ? "1 matrix" : fmt::format("{} matrices", found.first), found.second));
  }
  if (!quantization.evaluation) return;
  const convert::ModelComparison& found = *quantization.evaluation;
  json["compared"] = {
      {"sequences", found.sequences}, {"rows", found.rows}, {"cosine", found.output_cosine}};
  if (found.has_perplexity && quantization.calibration) {
    json["compared"]["increase"] = 100.0 * found.perplexity_increase();
  }
  if (found.has_probabilities) json["compared"]["agreement"] = 100.0 * found.top1_agreement;
  const auto least = std::ranges::min_element(found.hidden_cosines);
  if (least != found.hidden_cosines.end()) json["compared"]["least_cosine"] = *least;
}

// Adds the quantization loss of each matrix and layer, and notes on deviations from the request.
void add_few_bits(const ConversionFacts& facts, Json& json) {
  for (Json& tensor : json["report"]["conversion"]["tensors"]) {
    const double noise = tensor["signal_to_noise_db"].get<double>();
    tensor["noise"] = std::isfinite(noise) ? fmt::format("{:.1f} dB", noise) : "as it was";
  }
  std::vector<std::string> cosines;
  for (const HiddenStateError& state : facts.hidden_states) {
    cosines.push_back(fmt::format("{} {:.5f}", state.name, state.mean_cosine));
  }
  json["cosines"] = listed(cosines);
  json["few_bits_notes"] = Json::array();
  for (const ConversionNote& note : facts.notes) {
    if (note.kind == "chosen") continue;  // has lines of its own
    std::string text =
        convert::visible(note.subject) + (note.subject.empty() ? "" : " ") + note.text;
    if (note.tensors.size() > 1) text += "\n" + listed(note.tensors);
    json["few_bits_notes"].push_back(text);
  }
}

// Returns the kernel tile of each type: "avx2: f32 4x16, q8 4x8c8".
std::string kernels_of(const ReportFacts& facts, const TargetFacts& target) {
  std::vector<std::string> tiles;
  for (const KernelUse& use : facts.kernels) {
    if (use.target != target.target || use.layout == format::Layout::kPlain) continue;
    tiles.push_back(
        fmt::format("{} {}", name(use.type), tile_name(target.packed.packing(use.type))));
  }
  return fmt::format("{}: {}", packed_for(target.target), fmt::join(tiles, ", "));
}

// Instructions per multiply-add of products with 384 x 384 weights on a Cortex-M, for one row and
// for eight rows, counted by `make bench-cortex-m`. M3 and M0+ have no FPU.
struct CortexMCosts {
  Target target;
  const char* on;
  double f32[2], w8[2], q8[2], q4[2];  // zeros: left out, as it computes in float32
};
constexpr CortexMCosts kCortexMCosts[] = {
    {Target::kPortable, "M4, M7 and M33", {4.5, 2.8}, {6.3, 3.3}, {3.1, 2.4}, {5.6, 5.0}},
    {Target::kPortable, "M3", {90.7, 91.6}, {119.1, 98.8}, {3.6, 3.6}, {9.7, 9.3}},
    {Target::kPortable, "M0+", {139.6, 137.8}, {173.1, 145.0}, {5.6, 5.5}, {14.6, 14.0}},
    {Target::kPortable, "M3 with ARENITE_INTEGER_ROWS", {}, {}, {3.3, 3.2}, {5.8, 5.1}},
    {Target::kPortable, "M0+ with ARENITE_INTEGER_ROWS", {}, {}, {3.9, 3.7}, {8.9, 7.9}},
    {Target::kCortexMDsp, "M4, M7 and M33", {4.5, 2.8}, {6.3, 3.3}, {1.4, 1.0}, {1.5, 1.1}},
    {Target::kCortexMMve, "M55 and M85", {0.8, 0.6}, {6.3, 3.4}, {0.3, 0.2}, {0.4, 0.4}},
};

std::string cost_on_cortex_m(const CortexMCosts& costs) {
  std::vector<std::string> types;
  const auto add = [&](const char* type, const double(&counts)[2]) {
    if (counts[0] == 0.0) return;
    types.push_back(fmt::format("{} {:.1f} / {:.1f}", type, counts[0], counts[1]));
  };
  add("f32", costs.f32);
  add("w8", costs.w8);
  add("q8", costs.q8);
  add("q4", costs.q4);
  return fmt::format("{}: {} on {}", name(costs.target), fmt::join(types, ", "), costs.on);
}

void add_targets(const Converted& f, const ReportFacts& facts, size_t width, Json& json) {
  for (uint32_t i = 0; i < f.reader.packed_count(); ++i) {
    Json& target = json["targets"][i];
    target["kernels"] = kernels_of(facts, facts.model.targets[i]);
    target["formula"] = fmt::format("{}", fmt::join(formula_lines(f.reader, f.reader.formula(i)),
                                                    "\n" + std::string(width + 1, ' ')));
    if (facts.decode.empty()) continue;
    target["first"] = static_cast<uint64_t>(facts.decode[i].value.first);
    target["last"] = static_cast<uint64_t>(facts.decode[i].value.last);
  }
  Json& costs = json["cortex_m"] = Json::array();
  for (const CortexMCosts& row : kCortexMCosts) {
    if ((f.reader.file_targets() & bit(row.target)) == 0) continue;
    if (costs.empty()) costs.push_back("instructions a multiply-add, of one row / of eight");
    costs.push_back(cost_on_cortex_m(row));
  }
  json["images"] = f.reader.reads_images();
  if (f.reader.packed_count() == 1) {
    json["serves"] = json["targets"][0]["cpus"];
    json["serves_all"] = f.reader.file_targets() == bit(Target::kPortable);
  }
  if (f.reader.inputs() > 1) {
    json["positions_of_inputs"] =
        sizes_text(f.reader, default_sizes(f.reader).positions(), "position");
  }
  const bool takes_all = json["arena"]["tokens"] == json["arena"]["positions"];
  if (!takes_all) json["most_tokens"] = json["arena"]["tokens"];
  const TransformerSpec* const decoder = f.conversion.decoder();
  json["outputs"] = decoder != nullptr && !decoder->is_headless ? "logits" : "outputs";
  json["rounds_rows"] = convert::rounds_activations(f.program());
  if (f.conversion.storing_error != 0.0) json["storing_error"] = f.conversion.storing_error;
}

constexpr Line kModelLines[] = {
    {"module", "{module}"},
    {"model", "{!module}{architecture}, from {source}; {parameters:d} parameters"},
    {"shape",
     "{shape.layers:d} layers, {shape.model_dim:d} wide, {shape.heads#head} of "
     "{shape.head_dim:d}< on {kv_heads:d}>, <{?shape.gated_mlp}gated >MLP "
     "{shape.ffn_dim:d} with {shape.activation}, norms <{?shape.norm_first}first>"
     "<{!shape.norm_first}last>"},
    {"shape",
     "{?module}[tokens, {shape.input_features:d}] -> [tokens, {shape.output_features:d}], "
     "{shape.heads#head} of {shape.value_dim:d}< (queries and keys {query_dim:d})>"},
    {"ops", "{ops.recognised:d}, recognised in {ops.read:d} of the program"},
    {"input", "{?input}{input}"},
    {"vocabulary",
     "{?shape.vocab_size}{shape.vocab_size:d} tokens"
     "<{?is_tied}; the embedding is the output matrix, too><, {types:d} types>"},
    {"context",
     "{!functions_of_several}<{?context}{context:d}><{!context}any number of> "
     "<{?images}pixels><{!images}positions>"},
    {"length", "{length}"},
    {"function",
     "{name@40} takes {inputs}<{?inputs_read}, sees {inputs_read}>, gives "
     "{output_features#number} a row; {ops#op}",
     "functions_of_several"},
    {"mask",
     "{description}<{?origin}; {bytes:d} bytes><{?origin}{?dense_bytes}, dense "
     "{dense_bytes:d}><{?steps}; it runs token by token, too><\n{origin}>",
     "masks"},
    {"output", "{!functions_of_several}{?output}{output}"},
    {"classes", "{?labels}{labels@40}"},
    {"program",
     "computed op by op on {program.inputs#input} in double precision: largest "
     "difference {program.largest_difference:.1e}< ({seconds:.0f} s)>"},
    {"tokenizer",
     "<{tokenizer.tokens:d} tokens, from {tokenizer.origin}>"
     "<{!tokenizer}{?shape.vocab_size}none found: the model reads and gives token ids "
     "(--tokenizer FILE)>"},
    {"unicode", "{?unicode}{unicode}"},
    {"sound", "{?sound}{sound}"},
    {"note", "{}", "notes", true},
    {"given", "{?given}{given}"},
    {"assumed", "{?assumed}{assumed}"},
    {"weights", "{type:<4} {numbers:>12} numbers, {bytes:>12} bytes for {target}", "weights"},
    {"chosen", "{names} is {type}: {reason}", "chosen", true},
    {"", "{}", "methods"},
    {"calibrated", "{?report.conversion.calibration}{report.conversion.calibration}"},
    {"few bits",
     "compared with float32 on {compared.sequences:d} sequences, {compared.rows:d} "
     "rows that were <{?report.conversion.calibration}held out>"
     "<{!report.conversion.calibration}made up>"},
    {"",
     "perplexity {report.conversion.outputs.quantized_perplexity:.3f}, was "
     "{report.conversion.outputs.float_perplexity:.3f}: {compared.increase:+.2f} %"},
    {"",
     "mean KL {report.conversion.outputs.mean_kl:.4f}, the most probable one is the same in "
     "{compared.agreement:.2f} %"},
    {"",
     "cosine of outputs {compared.cosine:.5f}<, of hidden states {compared.least_cosine:.5f} "
     "or more>"},
};
constexpr Line kFewBitsLines[] = {
    {"layers",
     "{?cosines}mean cosine of their hidden states in few bits and in float32\n{cosines}"},
    {"note", "{}", "few_bits_notes", true},
    {"serves", "{name}: {cpus}", "targets"},
    {"cortex-m", "{}", "cortex_m"},
    {"kernels",
     "<{?has_decode}and the bytes of weights and cache that decoding a token reads>"
     "<{!has_decode}that multiply the weights>"},
};
constexpr Line kCheckLines[] = {
    {"", "for {serves}<{!serves_all}\nand no other CPU: --target all packs for every one>"},
    {"arena",
     "for one sequence of <{positions_of_inputs}>"
     "<{!positions_of_inputs}{arena.positions:d} positions>, <{most_tokens:d}>"
     "<{!most_tokens}all> in a call, on one thread"},
    {"slices", "of {slice} multiply-adds at least: the largest block of any op"},
};
constexpr Line kFileLines[] = {
    {"error",
     "against double precision, {check.tokens:d} <{?images}pixels><{!images}tokens>, {outputs} up "
     "to "
     "{check.largest_output:.2f}"},
    {"",
     "computing <{check.computing_error:.1e}><{!check.computing_error}not checked>, storing "
     "the weights<{?rounds_rows} and rounding rows to int8> <{storing_error:.1e}>"
     "<{!storing_error}0>"},
    {"expect",
     "as the author's model gave it: {sequences#sequence} of {tokens:d} tokens"
     "<{?of_last_tokens}, their last>\nlargest difference {largest_difference:.1e}, "
     "outputs up to {largest_value:.2f}<\nthat is in float32; of this file, with its "
     "few bits, {difference_in_few_bits:.1e}>",
     "expect", true},
    {"self-test",
     "{?self_test.tokens}{self_test.tokens:d} <{?images}pixels><{!images}tokens>, "
     "{self_test.bytes:d} bytes of "
     "the file"},
    {"file",
     "{file.path@4096}, {file.bytes:d} bytes; the parameters are {parameters_bytes:d} in float32"},
    {"", "{bytes:>12} {name}", "parts"},
};

std::string as_text(const Json& json, size_t width) {
  const auto print = [&json](std::span<const Line> rows) { return lines(rows, json, 0, 10); };
  std::string text = print(kModelLines);
  if (const Json& tensors = json["report"]["conversion"]["tensors"]; !tensors.empty()) {
    text += "matrices   in few bits\n" + table({{"matrix", "{name@40}"},
                                                {"type", "{type}"},
                                                {">bytes", "{bytes}"},
                                                {">signal to noise", "{noise}"},
                                                {"by", "{method}"}},
                                               tensors);
  }
  std::vector<Column> kernels = {{"target", "{name}"},
                                 {"kernels, and their tiles by type of weights", "{kernels}"}};
  if (json["has_decode"] == true) {
    kernels.push_back({">first token", "{first}"});
    kernels.push_back({">last token", "{last}"});
  }
  text += print(kFewBitsLines) + table(kernels, json["targets"]);
  const std::string target = fmt::format("{{name:<{}}} ", width);
  const std::string checked = target +
                              "arena {arena_bytes:>12} bytes, <largest error {largest_error:.1e}>"
                              "<{!largest_error}not checked: this CPU cannot run it>";
  const std::string formula = target + "{formula}";
  return text + print(std::vector<Line>{{"target", checked.c_str(), "targets"}}) +
         print(kCheckLines) + print(std::vector<Line>{{"formula", formula.c_str(), "targets"}}) +
         print(kFileLines);
}

}  // namespace

std::string describe_conversion(const convert::Conversion& conversion, const WrittenFile& written,
                                const ReportFacts& facts, bool as_json) {
  const Converted converted = {conversion, written, facts,
                               format::ModelReader(conversion.file.span())};
  Json json = json_of(converted);
  if (as_json) return document(json) + "\n";
  size_t width = 10;
  uint64_t slice = 0;
  for (const Json& target : json["targets"]) {
    width = std::max(width, target["name"].get<std::string>().size());
    slice = std::max(slice, target["smallest_slice"]["multiply_adds"].get<uint64_t>());
  }
  json["slice"] = slice;
  add_model(converted, json);
  json["weights"] = weights_of(converted);
  if (conversion.quantization) add_quantization(*conversion.quantization, json);
  add_few_bits(*facts.conversion, json);
  json["has_decode"] = !facts.decode.empty();
  add_targets(converted, facts, width, json);
  return as_text(json, width);
}

uint64_t parameters_of(const convert::Conversion& conversion) {
  if (const ExportedModel* const exported = conversion.exported()) return exported->parameters;
  uint64_t parameters = 0;
  for (const convert::ProgramTensor& tensor : conversion.program.tensors) {
    if (tensor.name.starts_with("angles") || tensor.name.starts_with("slopes")) continue;
    parameters += uint64_t{tensor.outputs} * tensor.inputs + tensor.bias.size();
  }
  return parameters;
}

}  // namespace arenite::tool
