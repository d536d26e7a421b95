// SPDX-License-Identifier: Apache-2.0
// What a conversion made, as one JSON object.
#include "cli/commands.h"
#include "cli/convert_report.h"
#include "cli/report.h"
#include "cli/session_sizes.h"
#include "convert/families/hf_models.h"
#include "format/reader.h"

namespace arenite::tool {
namespace {

std::vector<std::string> kinds() { return {"module", "decoder", "encoder", "exported"}; }
std::vector<std::string> rows_given_out() { return {"tokens", "sequences"}; }

// Sizes of the model, as far as its kind has them.
struct ShapeFacts {
  Sometimes<uint64_t> layers{}, model_dim{}, heads{}, head_dim{}, value_dim{}, ffn_dim{},
      vocab_size{};
  uint64_t output_features = 0;
  Sometimes<std::string> activation{};
  Sometimes<bool> norm_first{}, causal{};
  Sometimes<uint64_t> kv_heads{};
  Sometimes<bool> gated_mlp{}, tied{};
  Sometimes<uint64_t> input_features{}, token_types{};
  Sometimes<bool> normalize{};
};

struct TokenizerFacts {
  uint64_t tokens = 0;
  std::string origin;
};

struct ConvertedMask {
  std::string description;
  uint64_t bytes = 0;
  uint64_t dense_bytes = 0;
  std::optional<std::string> origin;
};

// What was recognised in the checkpoint.
struct RecognisedFacts {
  OneOf<kinds> kind;
  std::string architecture;
  std::string source;
  uint64_t parameters = 0;
  ShapeFacts shape{};
  uint64_t context = 0;
  const convert::ExportedModel* exported = nullptr;  // null for the other kinds
  OneOf<rows_given_out> output_rows{"tokens"};
  std::vector<std::string> labels{};
  std::optional<TokenizerFacts> tokenizer{};
  std::vector<std::string> notes{};
  std::vector<ConvertedMask> masks{};
};

struct ConvertedFacts : RecognisedFacts {
  const convert::Conversion& conversion;
  const WrittenFile& written;
  const WeightsReport& report;
  format::ModelReader reader;

  SessionOptions sizes() const { return default_session_options(reader); }
};

// Arena and error of a target.
struct ConvertedTarget {
  Target target;
  uint64_t arena_bytes = 0;
  std::optional<double> largest_error;
};

std::vector<ConvertedTarget> targets_of(const ConvertedFacts& facts) {
  const SessionSizes sizes = default_sizes(facts.reader);
  std::vector<ConvertedTarget> targets;
  for (uint32_t i = 0; i < facts.reader.packed_count(); ++i) {
    const convert::TargetCheck& check = facts.conversion.checks[i];
    const ArenaSizes arena = evaluate(facts.reader.formula(i), sizes, facts.reader.prefix_rows());
    targets.push_back({check.target, arena.total_bytes.value(),
                       check.ran ? std::optional<double>(check.largest_error) : std::nullopt});
  }
  return targets;
}

std::vector<Named<ArenaFormula>> formulas_of(const ConvertedFacts& facts) {
  std::vector<Named<ArenaFormula>> formulas;
  for (uint32_t i = 0; i < facts.reader.packed_count(); ++i) {
    const auto target = static_cast<Target>(facts.reader.packed(i).target);
    formulas.push_back({name(target), facts.reader.formula(i)});
  }
  return formulas;
}

// What is the same for all whole models: `notes` are the model's own, as the report says them.
RecognisedFacts model_facts(const char* kind, const std::string& architecture,
                            const convert::Conversion& conversion,
                            const std::vector<std::string>& notes) {
  const convert::Program& program = conversion.program;
  RecognisedFacts facts = {{kind}, architecture, conversion.model.form, parameters_of(program)};
  facts.shape.output_features = program.slots[program.output_slot].width;
  if (program.tokenizer) {
    facts.tokenizer = {program.tokenizer->tokens.size(), program.tokenizer->origin};
    facts.notes = program.tokenizer->notes;
  }
  facts.notes.insert(facts.notes.end(), notes.begin(), notes.end());
  return facts;
}

void add_layers(const convert::TransformerSpec& spec, RecognisedFacts& facts) {
  facts.shape.layers = spec.layers.size();
  facts.shape.model_dim = spec.model_dim;
  facts.shape.heads = spec.heads;
  facts.shape.head_dim = spec.head_dim;
  facts.shape.ffn_dim = spec.ffn_dim;
  facts.shape.vocab_size = spec.vocab_size;
  facts.shape.activation = convert::option_name(spec.activation);
  facts.shape.norm_first = spec.norm_first;
  facts.shape.causal = spec.causal;
  facts.context = spec.positions_max;
}

RecognisedFacts recognised(const convert::AttentionModule& module,
                           const convert::Conversion& conversion) {
  RecognisedFacts facts = {
      {"module"}, module.architecture, "a state dict", parameters_of(conversion.program)};
  facts.shape.input_features = module.features;
  facts.shape.output_features = module.output_features();
  facts.shape.heads = module.heads;
  facts.shape.head_dim = module.head_dim;
  facts.shape.value_dim = module.value_dim;
  facts.context = module.positions_max;
  return facts;
}

RecognisedFacts decoder_facts(const convert::TransformerSpec& spec,
                              const convert::Conversion& conversion) {
  RecognisedFacts facts = model_facts("decoder", spec.architecture, conversion, spec.notes);
  add_layers(spec, facts);
  facts.shape.kv_heads = spec.kv_heads;
  facts.shape.gated_mlp = spec.layers[0].gate.has_value();
  facts.shape.tied = !spec.output.has_value();
  return facts;
}

RecognisedFacts encoder_facts(const convert::TransformerSpec& spec,
                              const convert::Conversion& conversion) {
  RecognisedFacts facts = model_facts("encoder", spec.architecture, conversion, {});
  add_layers(spec, facts);
  facts.shape.input_features = spec.input_features;
  facts.shape.token_types = spec.token_types;
  facts.shape.normalize = convert::is_normalized(spec);
  if (spec.pooling != SelectKind::kAsAsked) facts.output_rows = {"sequences"};
  facts.labels = spec.labels;
  return facts;
}

RecognisedFacts recognised(const convert::TransformerSpec& spec,
                           const convert::Conversion& conversion) {
  return spec.is_decoder ? decoder_facts(spec, conversion) : encoder_facts(spec, conversion);
}

RecognisedFacts recognised(const convert::ExportedModel& model,
                           const convert::Conversion& conversion) {
  RecognisedFacts facts = model_facts("exported", model.graph.architecture, conversion, {});
  facts.shape.vocab_size = model.graph.vocab_size;
  facts.shape.causal = model.causal;
  facts.context = model.graph.positions_max;
  facts.exported = &model;
  if (model.has_row_of_sequence) facts.output_rows = {"sequences"};
  return facts;
}

// Modules say where their masks are from.
std::vector<ConvertedMask> masks_of(const convert::Conversion& conversion) {
  std::vector<ConvertedMask> masks;
  for (const convert::CompiledMask& mask : conversion.program.masks) {
    const uint64_t positions = mask.positions;
    masks.push_back(
        {mask.describe(), mask.bytes(), positions * positions * sizeof(float), std::nullopt});
    if (conversion.module() == nullptr) continue;
    masks.back().origin = conversion.module()->mask_origins[masks.size() - 1];
  }
  return masks;
}

}  // namespace

template <>
constexpr auto kFacts<ShapeFacts> = std::tuple(
    Fact("layers", &ShapeFacts::layers), Fact("model_dim", &ShapeFacts::model_dim),
    Fact("heads", &ShapeFacts::heads), Fact("head_dim", &ShapeFacts::head_dim),
    Fact("value_dim", "module", &ShapeFacts::value_dim), Fact("ffn_dim", &ShapeFacts::ffn_dim),
    Fact("vocab_size", &ShapeFacts::vocab_size),
    Fact("output_features", &ShapeFacts::output_features),
    Fact("activation", &ShapeFacts::activation), Fact("norm_first", &ShapeFacts::norm_first),
    Fact("causal", &ShapeFacts::causal), Fact("kv_heads", "decoder", &ShapeFacts::kv_heads),
    Fact("gated_mlp", "decoder", &ShapeFacts::gated_mlp),
    Fact("tied", "decoder: output weights are the embedding", &ShapeFacts::tied),
    Fact("input_features", "encoder, module", &ShapeFacts::input_features),
    Fact("token_types", "encoder", &ShapeFacts::token_types),
    Fact("normalize", "encoder: rows have length 1", &ShapeFacts::normalize));

template <>
constexpr auto kFacts<TokenizerFacts> = std::tuple(Fact("tokens", &TokenizerFacts::tokens),
                                                   Fact("origin", &TokenizerFacts::origin));

template <>
constexpr auto kFacts<ConvertedMask> = std::tuple(Fact("description", &ConvertedMask::description),
                                                  Fact("bytes", &ConvertedMask::bytes),
                                                  Fact("dense_bytes", "Of a float for each pair",
                                                       &ConvertedMask::dense_bytes),
                                                  Fact("origin", &ConvertedMask::origin));

template <>
constexpr auto kFacts<ConvertedTarget> =
    std::tuple(Fact("name", [](const ConvertedTarget& f) { return name(f.target); }),
               Fact("cpus", [](const ConvertedTarget& f) { return cpus_of(f.target); }),
               Fact("arena_bytes", &ConvertedTarget::arena_bytes),
               Fact("largest_error", "null: not checked, since this CPU lacks it",
                    &ConvertedTarget::largest_error));

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

// A fact that only exported models have.
template <typename Get>
constexpr auto of_exported(Get get) {
  return [get](const RecognisedFacts& f) {
    using Value = std::remove_cvref_t<std::invoke_result_t<Get, const convert::ExportedModel&>>;
    return f.exported == nullptr ? Sometimes<Value>() : Sometimes<Value>(get(*f.exported));
  };
}

constexpr auto kRecognised = std::tuple(
    Fact("kind", &RecognisedFacts::kind), Fact("architecture", &RecognisedFacts::architecture),
    Fact("source", "The form it came in", &RecognisedFacts::source),
    Fact("parameters", &RecognisedFacts::parameters),
    Fact("shape", "With what its kind has", &RecognisedFacts::shape),
    Fact("context", "Positions; 0: any number", &RecognisedFacts::context),
    Fact("length", "exported: for which lengths the result is the model, and why; in lines",
         of_exported([](const convert::ExportedModel& model) { return model.length; })),
    Fact("tokens_min", "exported: the shortest sequence",
         of_exported([](const convert::ExportedModel& model) { return model.graph.tokens_min; })),
    Fact("program", "exported: compared with the program that was read",
         of_exported([](const convert::ExportedModel& model) { return &model; })),
    Fact("output_rows", &RecognisedFacts::output_rows), Fact("labels", &RecognisedFacts::labels),
    Fact("tokenizer", &RecognisedFacts::tokenizer), Fact("notes", &RecognisedFacts::notes),
    Fact("masks", &RecognisedFacts::masks));

constexpr auto kArena =
    part("arena", "The sizes that arena_bytes are for",
         Fact("positions", [](const ConvertedFacts& f) { return f.sizes().positions_max; }),
         Fact("tokens", [](const ConvertedFacts& f) { return f.sizes().tokens_max; }),
         Fact("sequences", [](const ConvertedFacts&) { return 1u; }),
         Fact("threads", [](const ConvertedFacts&) { return 1u; }),
         Fact("kv_cache", "What keys and values are kept as",
              [](const ConvertedFacts& f) { return name(f.reader.kv_cache()); }));

constexpr auto kCheck = part(
    "check", "The result against double precision",
    Fact("tokens", [](const ConvertedFacts& f) { return f.conversion.checked_tokens; }),
    Fact("largest_output", [](const ConvertedFacts& f) { return f.conversion.largest_output; }),
    Fact("computing_error", "Of the targets, with the file's weights; null: not checked",
         [](const ConvertedFacts& f) { return f.conversion.computing_error(); }),
    Fact("storing_error", "Of the weights in the file",
         [](const ConvertedFacts& f) { return f.conversion.storing_error; }));

constexpr auto kSelfTest = part(
    "self_test", "",
    Fact("tokens", "0: none", [](const ConvertedFacts& f) { return f.reader.self_test().tokens; }),
    Fact("bytes", [](const ConvertedFacts& f) {
      const format::SelfTestView test = f.reader.self_test();
      return test.tokens == 0 ? 0 : test.segment.bytes();
    }));

template <>
constexpr auto kFacts<ConvertedFacts> = std::tuple_cat(
    kRecognised,
    std::tuple(Fact("targets", targets_of), kArena, Fact("formula", "For each target", formulas_of),
               kCheck,
               Fact(
                   "chosen", "By --weights auto",
                   [](const ConvertedFacts& f) -> auto& { return f.conversion.choices; }),
               Fact(
                   "given", "By options, or by the checkpoint",
                   [](const ConvertedFacts& f) -> auto& { return f.conversion.account.given; }),
               Fact(
                   "assumed", "What nothing said",
                   [](const ConvertedFacts& f) -> auto& { return f.conversion.account.assumed; }),
               Fact(
                   "expect", "Compared with the author's own outputs, a pair of --expect each",
                   [](const ConvertedFacts& f) -> auto& { return f.written.expect; }),
               kSelfTest, Fact("report", [](const ConvertedFacts& f) { return &f.report; }),
               Fact("file", [](const ConvertedFacts& f) {
                 return WrittenPath{f.written.path, f.conversion.file.size()};
               })));

FactType convert_facts() { return type_of_fact<ConvertedFacts>(); }

std::string conversion_as_json(const convert::Conversion& conversion, const WrittenFile& written,
                               const ReportFacts& facts) {
  const auto found = std::visit([&](const auto& spec) { return recognised(spec, conversion); },
                                conversion.model.facts);
  ConvertedFacts converted = {found, conversion, written, facts,
                              format::ModelReader(conversion.file.span())};
  converted.masks = masks_of(conversion);
  return as_json(converted);
}

}  // namespace arenite::tool
