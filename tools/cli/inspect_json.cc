// SPDX-License-Identifier: Apache-2.0
// The tables of `arenite inspect --json`. Keys are never renamed, because programs read them.
#include <fmt/format.h>

#include <algorithm>

#include "arenite/version.h"
#include "cli/commands.h"
#include "cli/report_facts.h"
#include "convert/quantize/quantizers.h"
#include "format/bounds.h"

namespace arenite::tool {
namespace {

using format::OpRow;

// Names of enumerators.
std::vector<std::string> output_rows() { return {"tokens", "sequences"}; }
const char* mask_kind_name(MaskKind kind) {
  switch (kind) {
    case MaskKind::kBand:
      return "band";
    case MaskKind::kStrip:
      return "strip";
    case MaskKind::kTiles:
      return "tiles";
    case MaskKind::kPairs:
      return "pairs";
  }
  return "";
}
using MaskKindWord = OneOf<all_names<mask_kind_name>>;
using LayoutWord = OneOf<all_names<layout_name>>;
std::vector<std::string> axis_kinds() {
  return {"tokens", "constants", "joined", "one", "asked", "windows", "pixels", "blocks", "turns"};
}
std::vector<std::string> op_kinds() {
  std::vector<std::string> names;
  for (const OpRow& row : format::kAllOps) names.emplace_back(row.name);
  return names;
}
std::vector<std::string> weight_types() {
  std::vector<std::string> names;
  for (const TensorType type : convert::kWeightTypes) names.emplace_back(name(type));
  return names;
}
std::vector<std::string> stack_cpus() {
  std::vector<std::string> names;
  for (const StackBound& bound : kStackBounds) names.emplace_back(bound.cpu);
  return names;
}

// Returns nullopt for kUnlimited.
std::optional<uint32_t> limit(uint32_t value) {
  return value == kUnlimited ? std::nullopt : std::optional(value);
}

constexpr const char* kByTarget = "Bytes for each target";
constexpr const char* kKeptAs = "Type of stored keys and values";

// --- Ops ---

// Descriptions of op fields whose names are not enough.
struct FieldWords {
  std::string_view field;
  const char* words;
};
constexpr FieldWords kFieldWords[] = {
    {"tensor", "index of its weights"},
    {"cache", "index"},
    {"mask", "index"},
    {"terms", "tensor of the attention bias; null: none"},
    {"terms_by", "kind of the attention bias"},
    {"sinks", "tensor of the attention sinks; null: none"},
    {"score_cap", "soft cap of scores; 0: none"},
    {"tokens", "tensor of tokens"},
    {"positions", "tensor of positions"},
    {"types", "tensor of token types"},
    {"scale", "factor of the embedding"},
    {"norm", "its kind"},
    {"groups", "parts of a row that are normalized separately"},
    {"gain", "tensor"},
    {"bias", "tensor"},
    {"angles", "tensor"},
    {"function", "its name"},
    {"gated", "multiplied by a second input"},
    {"rows", "which rows are selected"},
};

// Calls `use(name, type, value)` for the fields that a row of the op table has. The value is that
// of `facts`, if any; absent tensors and tokens are null.
template <typename Use>
void for_each_field(const OpRow& row, const OpFacts* facts, const Use& use) {
  const Json count = schema_of_number("integer", 0.0);
  const auto value_of = [&](const auto& get) { return facts == nullptr ? Json() : Json(get()); };
  if (row.kind == format::OpKind::kAttention) {
    use("heads", count, value_of([&] { return facts->heads; }));
  }
  for (uint32_t i = 0; i < format::kOpNumbers; ++i) {
    const auto& [field, type, optional] = row.numbers[i];
    if (type == format::NumberType::kNone) continue;
    format::OpView op;
    op.kind = row.kind;
    const std::string name = field_name(field);
    if (type == format::NumberType::kChoice) {
      use(name, schema_of_type("string"), value_of([&] { return function_name(facts->op); }));
    } else if (is_terms_by(op, i)) {
      use(name, schema_of_words({std::begin(kScoreTermsNames), std::end(kScoreTermsNames)}),
          value_of([&] { return terms_name(facts->op); }));
    } else {
      const bool is_absent =
          optional && facts != nullptr && facts->op.numbers[i] == format::kAbsent;
      use(name, schema_of_either(count, schema_of_type("null")),
          is_absent ? Json() : value_of([&] { return facts->op.numbers[i]; }));
    }
  }
  for (uint32_t i = 0; i < format::kOpReals; ++i) {
    if (row.reals[i].type == format::RealType::kNone) continue;
    use(field_name(row.reals[i].field), schema_of_type("number"),
        value_of([&] { return facts->op.reals[i]; }));
  }
  if (row.kind == format::OpKind::kActivation) {
    use("gated", schema_of_type("boolean"),
        value_of([&] { return facts->op.views[format::kFactor].width != 0; }));
  }
}

void add_fields(Json& json, const OpFacts& facts) {
  for_each_field(
      format::row_of(facts.op.kind), &facts,
      [&](const std::string& name, const Json&, const Json& value) { json[name] = value; });
}

void add_field_keys(ObjectSchema& schema) {
  for (const OpRow& row : format::kAllOps) {
    for_each_field(row, nullptr, [&](const std::string& name, const Json& type, const Json&) {
      const auto words = std::ranges::find(kFieldWords, name, &FieldWords::field);
      schema.add(name.c_str(), words == std::end(kFieldWords) ? "" : words->words, type, false);
    });
  }
}

}  // namespace

template <>
inline constexpr auto kFacts<OpFacts> = std::tuple(
    Fact("index", &OpFacts::index), Fact("name", &OpFacts::name),
    Fact("kind", [](const OpFacts& f) { return OneOf<op_kinds>{op_kind_name(f.op.kind)}; }),
    Fact("reads_slots", &OpFacts::reads), Fact("writes_slot", &OpFacts::writes),
    Fact("multiply_adds_per_token", [](const OpFacts& f) { return f.cost.per_token; }),
    Fact("multiply_adds_per_key", "per key that a token sees",
         [](const OpFacts& f) { return f.cost.per_pair; }),
    Fact("multiply_adds_per_pass", "Over all positions", &OpFacts::pass_multiply_adds),
    Fact("bytes_read_per_pass", [](const OpFacts& f) { return f.pass_traffic.read; }),
    Fact("bytes_written_per_pass", [](const OpFacts& f) { return f.pass_traffic.written; }),
    MoreFacts<OpFacts>{add_fields, add_field_keys});

// --- Slots, tensors, masks and caches ---

template <>
inline constexpr auto kFacts<Axis> = std::tuple(
    Fact("kind",
         [](const Axis& f) {
           return OneOf<axis_kinds>{axis_kinds()[static_cast<uint32_t>(f.kind)]};
         }),
    Fact("source", "the axis that it is derived from", &Axis::source),
    Fact("other", "for a concatenation: the axis whose rows follow those of source", &Axis::other),
    Fact("rows", "Of constants", &Axis::rows),
    Fact("stride", "of windows, in rows of source", &Axis::stride),
    Fact("window", "for windows: rows of source under one window, without padding", &Axis::window));

template <>
inline constexpr auto kFacts<SlotFacts> = std::tuple(
    Fact("index", &SlotFacts::index), Fact("label", &SlotFacts::label),
    Fact("width", "Floats", [](const SlotFacts& f) { return f.slot.width; }),
    Fact("column", "first column, in floats of a token's row",
         [](const SlotFacts& f) { return f.slot.offset; }),
    Fact("per_output", "holds only output rows, or one row per sequence",
         &SlotFacts::is_per_output),
    Fact("axis", "index into model.axes", [](const SlotFacts& f) { return f.slot.axis; }),
    Fact("area", "axis whose part of the activations holds it", &SlotFacts::area),
    Fact("first_op", "first op that writes it", [](const SlotFacts& f) { return f.slot.first_op; }),
    Fact("last_op", "last op that reads it", [](const SlotFacts& f) { return f.slot.last_op; }));

template <>
inline constexpr auto kFacts<TensorFacts> = std::tuple(
    Fact("index", &TensorFacts::index), Fact("name", &TensorFacts::name),
    Fact("outputs", [](const TensorFacts& f) { return f.shape.outputs; }),
    Fact("inputs", [](const TensorFacts& f) { return f.shape.inputs; }),
    Fact("layout", [](const TensorFacts& f) { return LayoutWord{layout_name(f.shape.layout)}; }),
    Fact("packed_bytes", kByTarget, &TensorFacts::packed_bytes));

template <>
inline constexpr auto kFacts<MaskFacts> = std::tuple(
    Fact("index", &MaskFacts::index),
    Fact("kind", [](const MaskFacts& f) { return MaskKindWord{mask_kind_name(f.mask.kind)}; }),
    Fact("description", &MaskFacts::description),
    Fact("positions", "0: any number", [](const MaskFacts& f) { return f.mask.positions; }),
    Fact("lookback", "null: all", [](const MaskFacts& f) { return limit(f.mask.lookback); }),
    Fact("lookahead", "null: all", [](const MaskFacts& f) { return limit(f.mask.lookahead); }),
    Fact("bytes", &MaskFacts::bytes),
    Fact("dense_bytes", "size of the same mask as one float per pair", &MaskFacts::dense_bytes));

template <>
inline constexpr auto kFacts<CacheFacts> = std::tuple(
    Fact("index", &CacheFacts::index),
    Fact("kv_heads", [](const CacheFacts& f) { return f.cache.shape.kv_heads; }),
    Fact("head_dim", [](const CacheFacts& f) { return f.cache.shape.head_dim; }),
    Fact("value_dim", [](const CacheFacts& f) { return f.cache.shape.value_dim; }),
    Fact("lookback", "null: all", [](const CacheFacts& f) { return limit(f.cache.lookback); }),
    Fact("bytes", kByTarget, &CacheFacts::bytes));

// --- Targets ---

template <>
inline constexpr auto kFacts<Packing> = std::tuple(Fact("nr", &Packing::nr),
                                                   Fact("kr", &Packing::kr),
                                                   Fact("mr", &Packing::mr));

template <>
inline constexpr auto kFacts<ArenaPlan> = std::tuple(
    Fact("session_bytes", &ArenaPlan::session_bytes),
    Fact("kv_cache_bytes", &ArenaPlan::kv_cache_bytes),
    Fact("activation_bytes", &ArenaPlan::activation_bytes),
    Fact("scratch_bytes", &ArenaPlan::scratch_bytes), Fact("total_bytes", &ArenaPlan::total_bytes));

template <>
inline constexpr auto kFacts<TargetFacts> = std::tuple(
    Fact("name", [](const TargetFacts& f) { return name(f.target); }),
    Fact("cpus", [](const TargetFacts& f) { return cpus_of(f.target); }),
    Fact("packings", "Tile sizes by type of weights",
         [](const TargetFacts& f) {
           ForEach<weight_types, Packing> packings;
           for (const TensorType type : convert::kWeightTypes) {
             packings.values.push_back(f.packed.packing(type));
           }
           return packings;
         }),
    Fact("offset", "In the file", [](const TargetFacts& f) { return f.packed.segment.begin(); }),
    Fact("bytes", [](const TargetFacts& f) { return f.packed.segment.bytes(); }),
    Fact("crc32c", [](const TargetFacts& f) { return f.packed.segment.crc32c; }),
    Fact("kernel_set", "Kernel set with these tile sizes",
         [](const TargetFacts& f) { return packed_for(f.target); }),
    Fact("running_kernel_set", "Kernel set that runs this target on this CPU",
         [](const TargetFacts& f) { return kernel_set_name(f.target); }),
    Fact("runs_here", "On this CPU", &TargetFacts::runs_here),
    Fact("chosen", "Model::load chooses this target on this CPU", &TargetFacts::chosen),
    Fact("arena", "At these sizes", [](const TargetFacts& f) { return f.arena.plan; }),
    Fact("smallest_slice", kSmallestSlice, &TargetFacts::slice));

// --- Bounds ---

template <>
inline constexpr auto kFacts<CallFacts> = std::tuple(
    Fact("held", "Rows before", [](const CallFacts& f) { return f.size.held; }),
    Fact("rows", "Rows now", [](const CallFacts& f) { return f.size.rows; }),
    Fact("outputs", "Output rows", [](const CallFacts& f) { return f.size.outputs; }),
    Fact("stored", "Keys of another axis", [](const CallFacts& f) { return f.size.stored; }),
    Fact("multiply_adds", [](const CallFacts& f) { return f.work.multiply_adds; }),
    Fact("bytes_read", [](const CallFacts& f) { return f.work.bytes_read; }),
    Fact("multiply_adds_not_finite", "if values are not finite",
         [](const CallFacts& f) { return f.work_not_finite.multiply_adds; }),
    Fact("bytes_read_not_finite", [](const CallFacts& f) { return f.work_not_finite.bytes_read; }));

template <>
inline constexpr auto kFacts<CallEstimate> =
    std::tuple(Fact("name", &CallEstimate::name),
               Fact("held", "Rows before", [](const CallEstimate& f) { return f.size.held; }),
               Fact("rows", "Rows now", [](const CallEstimate& f) { return f.size.rows; }),
               Fact("instructions", "By measured rates", &CallEstimate::instructions),
               Fact("milliseconds", "An estimate", &CallEstimate::milliseconds));

template <>
inline constexpr auto kFacts<BoardEstimate> =
    std::tuple(Fact("name", [](const BoardEstimate& f) { return f.board->name; }),
               Fact("chip", [](const BoardEstimate& f) { return f.board->chip; }),
               Fact("core", "The CPU whose instructions were counted",
                    [](const BoardEstimate& f) { return f.core->name; }),
               Fact("target", [](const BoardEstimate& f) { return name(f.target); }),
               Fact("clock_mhz", &BoardEstimate::clock_mhz),
               Fact("cycles_per_instruction", "An estimate", &BoardEstimate::cycles),
               Fact("calls", &BoardEstimate::calls));

namespace {

struct BoundsOfFunction {
  BoundsOfFunction(const FunctionFacts& of) : facts(&of) {}  // NOLINT: implicit
  const FunctionFacts* facts;
};

}  // namespace

template <>
constexpr auto kFacts<BoundsOfFunction> = std::tuple(
    Fact("function", [](const BoundsOfFunction& f) { return f.facts->name; }),
    Fact("run", [](const BoundsOfFunction& f) { return f.facts->run; }),
    Fact("step", [](const BoundsOfFunction& f) { return Sometimes<CallFacts>{f.facts->step}; }));

constexpr auto kBounds = part(
    "bounds", "Upper bounds for any input",
    Fact("stack_bytes", "Stack of any call, by CPU",
         [](const ModelFacts&) {
           ForEach<stack_cpus, uint32_t> bytes;
           for (const StackBound& bound : kStackBounds) bytes.values.push_back(bound.bytes);
           return bytes;
         }),
    Fact("arena_bytes", "Exactly",
         [](const ModelFacts& f) { return f.shown_target().arena.plan.total_bytes; }),
    Fact("flash_bytes", "The file", [](const ModelFacts& f) { return f.footer.file_bytes; }),
    Fact("load_steps", "Basic blocks that Model::load runs, in unoptimized code", load_steps_max),
    Fact("run", "A pass over the most tokens of a call",
         [](const ModelFacts& f) { return f.functions[0].run; }),
    Fact("step", "The last token of a full context; only where the model is causal",
         [](const ModelFacts& f) { return Sometimes<CallFacts>{f.functions[0].step}; }),
    Fact("others", "Bounds of the functions after the first", [](const ModelFacts& f) {
      return std::vector<BoundsOfFunction>(f.functions.begin() + 1, f.functions.end());
    }));

// --- The model ---

constexpr const char* kImage = "Size of the images that it reads; null: none";

template <>
constexpr auto kFacts<ImageFacts> = std::tuple(Fact("channels", &ImageFacts::channels),
                                               Fact("height", &ImageFacts::height),
                                               Fact("width", &ImageFacts::width));

template <>
inline constexpr auto kFacts<SizeOptions> =
    std::tuple(Fact("positions", &SizeOptions::positions),
               Fact("tokens", "Most tokens in one call", &SizeOptions::tokens),
               Fact("sequences", &SizeOptions::sequences), Fact("threads", &SizeOptions::threads),
               Fact("kv_cache", kKeptAs, [](const SizeOptions& f) { return name(f.kv_type()); }));

template <>
inline constexpr auto kFacts<InputSizes> = std::tuple(Fact("positions", &InputSizes::positions_max),
                                                      Fact("tokens", &InputSizes::tokens_max));

template <>
inline constexpr auto kFacts<InputFacts> = std::tuple(
    Fact("name", &InputFacts::name), Fact("features", "0: it reads tokens", &InputFacts::features),
    Fact("vocab_size", "0: it reads features",
         [](const InputFacts& f) { return f.input.vocab_size; }),
    Fact("token_types", &InputFacts::token_types),
    Fact("positions_max", "0: any number",
         [](const InputFacts& f) { return f.input.positions_max; }),
    Fact("tokens_min", "Shortest sequence", [](const InputFacts& f) { return f.input.tokens_min; }),
    Fact("tokens_step", "Lengths are tokens_min plus multiples of it; 0 and 1: any",
         [](const InputFacts& f) { return f.tokens_step; }),
    Fact("image", kImage, &InputFacts::image),
    Fact("takes_pairs", "Calls pass a 0/1 matrix of which tokens see which, 1 = visible",
         &InputFacts::takes_pairs),
    Fact("axis", "Axis of its tokens", &InputFacts::axis));

template <>
inline constexpr auto kFacts<FunctionFacts> =
    std::tuple(Fact("name", &FunctionFacts::name),
               Fact("inputs", "Inputs that it takes", &FunctionFacts::inputs),
               Fact("inputs_read", "Inputs of other functions whose keys and values it reads",
                    &FunctionFacts::inputs_read),
               Fact("output_features", &FunctionFacts::output_features),
               Fact("output_rows",
                    [](const FunctionFacts& f) {
                      return OneOf<output_rows>{f.has_row_of_sequence ? "sequences" : "tokens"};
                    }),
               Fact("causal", "It can be fed step by step", &FunctionFacts::causal),
               Fact("first_op", [](const FunctionFacts& f) { return f.function.first_op; }),
               Fact("ops", [](const FunctionFacts& f) { return f.function.ops; }));

constexpr auto kFilePart =
    part("file", "", Fact("path", &ModelFacts::path),
         Fact("bytes", [](const ModelFacts& f) { return f.footer.file_bytes; }),
         Fact("metadata_bytes", [](const ModelFacts& f) { return f.footer.metadata_bytes; }),
         Fact("format_version", [](const ModelFacts& f) { return f.footer.format_version; }),
         Fact("producer", "The program that wrote it",
              [](const ModelFacts& f) { return f.reader.producer(); }));

constexpr auto kModelPart = part(
    "model", "", Fact("name", [](const ModelFacts& f) { return f.reader.name(); }),
    Fact("architecture", [](const ModelFacts& f) { return f.reader.architecture(); }),
    Fact("vocab_size", "0: it reads features",
         [](const ModelFacts& f) { return f.reader.vocab_size(); }),
    Fact("tokenizer", "Its kind; empty: none", &ModelFacts::tokenizer_kind),
    Fact("sound", "How samples of sound become the first input; empty: unknown",
         &ModelFacts::sound),
    Fact("hidden_states", "Hidden states that a hook can read",
         [](const ModelFacts& f) { return f.reader.hidden_states(); }),
    Fact("input_features", "0: it reads tokens", &ModelFacts::input_features),
    Fact("image", kImage, [](const ModelFacts& f) { return image_facts(f.reader, 0); }),
    Fact("prefix_rows", "Most rows of a sequence besides its tokens",
         [](const ModelFacts& f) { return prefix_rows(f.reader); }),
    Fact("axes", "Row axes of the activations",
         [](const ModelFacts& f) { return f.reader.axes(); }),
    Fact("inputs", "All inputs; the other keys of model describe the first", &ModelFacts::inputs),
    Fact("functions", "Ranges of ops; a call runs one of them", &ModelFacts::functions),
    Fact("token_types", [](const ModelFacts& f) { return f.reader.token_types(); }),
    Fact("output_features", &ModelFacts::output_features),
    Fact("output_rows", [](const ModelFacts& f) { return OneOf<output_rows>{f.output_rows()}; }),
    Fact("labels", &ModelFacts::labels),
    Fact("positions_max", "0: any number",
         [](const ModelFacts& f) { return f.reader.positions_max(); }),
    Fact("tokens_min", "Shortest sequence; above 1: whole sequences only",
         [](const ModelFacts& f) { return f.reader.tokens_min(); }),
    Fact("lengths_claimed",
         "The user vouched that all lengths give the author's model (--any-length)",
         [](const ModelFacts& f) { return f.lengths_claimed; }),
    Fact("causal", [](const ModelFacts& f) { return f.reader.causal(); }),
    Fact("kv_cache", kKeptAs, [](const ModelFacts& f) { return name(f.reader.kv_cache()); }));

constexpr auto kSelfTestPart =
    part("self_test", "",
         Fact("tokens", "0: none", [](const ModelFacts& f) { return f.reader.self_test().tokens; }),
         Fact("bytes", [](const ModelFacts& f) { return f.reader.self_test().segment.bytes(); }),
         Fact("crc32c", [](const ModelFacts& f) { return f.reader.self_test().segment.crc32c; }));

template <>
inline constexpr auto kFacts<ModelFacts> =
    std::tuple(kFilePart, kModelPart, kSelfTestPart,
               Fact("sizes", "Session sizes that all numbers assume", &ModelFacts::sizes),
               Fact("sizes_of_others", "Sizes of the inputs after the first",
                    [](const ModelFacts& f) {
                      return std::span<const InputSizes>(f.sizes.others, f.reader.inputs() - 1);
                    }),
               Fact("needs", "Parts of the runtime that it uses", &ModelFacts::needs),
               Fact("ops", "Ops, with the fields of their kind", &ModelFacts::ops),
               Fact("slots", &ModelFacts::slots), Fact("tensors", &ModelFacts::tensors),
               Fact("masks", &ModelFacts::masks), Fact("caches", &ModelFacts::caches),
               Fact("targets", &ModelFacts::targets), kBounds,
               Fact("board", "Estimate of calls on a board; only with --board",
                    [](const ModelFacts& f) { return Sometimes<BoardEstimate>{f.board}; }));

// --- The report ---

template <>
inline constexpr auto kFacts<FilePart> = std::tuple(Fact("name", &FilePart::name),
                                                    Fact("bytes", &FilePart::bytes));

template <>
inline constexpr auto kFacts<TensorGroup> =
    std::tuple(Fact("name", &TensorGroup::name), Fact("tensors", &TensorGroup::tensors),
               Fact("numbers", &TensorGroup::numbers), Fact("bytes", &TensorGroup::bytes),
               Fact("bytes_by_type", "Bytes of each type of weights", [](const TensorGroup& f) {
                 std::vector<Named<uint64_t>> bytes;
                 for (uint32_t type = 0; type < kTensorTypes; ++type) {
                   if (f.bytes_by_type[type] == 0) continue;
                   bytes.push_back({name(static_cast<TensorType>(type)), f.bytes_by_type[type]});
                 }
                 return bytes;
               }));

template <>
inline constexpr auto kFacts<TensorPlace> =
    std::tuple(Fact("tensor", &TensorPlace::tensor),
               Fact("type", [](const TensorPlace& f) { return name(f.type); }),
               Fact("layer", &TensorPlace::layer), Fact("part", &TensorPlace::part),
               Fact("read_by", "Indices of ops", &TensorPlace::ops));

// An absent value becomes null, and so does a value that is not finite: JSON has no such numbers.
template <auto member>
constexpr auto or_null = [](const auto& facts) { return std::optional<double>(facts.*member); };

template <>
inline constexpr auto kFacts<LimitCheck> = std::tuple(
    Fact("option", "\"--max-bytes\"", &LimitCheck::option),
    Fact("asked", or_null<&LimitCheck::asked>), Fact("found", or_null<&LimitCheck::found>),
    Fact("unit", &LimitCheck::unit), Fact("is_met", &LimitCheck::is_met),
    Fact("offenders", "Parts that broke the limit, the worst first", &LimitCheck::offenders));

template <>
inline constexpr auto kFacts<OutputComparison> =
    std::tuple(Fact("text", "Text that outputs were compared on", &OutputComparison::text),
               Fact("tokens", &OutputComparison::tokens),
               Fact("mean_kl", "Nats a token", &OutputComparison::mean_kl),
               Fact("top1_agreement", "Share of tokens, 0 to 1", &OutputComparison::top1_agreement),
               Fact("float_perplexity", &OutputComparison::float_perplexity),
               Fact("quantized_perplexity", &OutputComparison::quantized_perplexity));

template <>
inline constexpr auto kFacts<HiddenStateError> =
    std::tuple(Fact("name", &HiddenStateError::name),
               Fact("mean_cosine", or_null<&HiddenStateError::mean_cosine>),
               Fact("least_cosine", or_null<&HiddenStateError::least_cosine>));

template <>
inline constexpr auto kFacts<convert::QuantizedTensor> =
    std::tuple(Fact("name", &convert::QuantizedTensor::name),
               Fact("type", [](const convert::QuantizedTensor& f) { return name(f.type); }),
               Fact("method", "Rounding method", &convert::QuantizedTensor::method),
               Fact("signal_to_noise_db", "null: nothing changed",
                    or_null<&convert::QuantizedTensor::decibels>),
               Fact("float_bytes", &convert::QuantizedTensor::float_bytes),
               Fact("bytes", &convert::QuantizedTensor::bytes));

template <>
inline constexpr auto kFacts<ConversionNote> =
    std::tuple(Fact("kind", &ConversionNote::kind), Fact("subject", &ConversionNote::subject),
               Fact("text", &ConversionNote::text), Fact("tensors", &ConversionNote::tensors));

template <>
inline constexpr auto kFacts<ConversionFacts> = std::tuple(
    Fact("source", &ConversionFacts::source),
    Fact("weights", "As asked for", &ConversionFacts::weights),
    Fact("calibration", "Calibration text and its source", &ConversionFacts::calibration),
    Fact("limits", "Limits that the conversion had to meet", &ConversionFacts::limits),
    Fact("outputs", "Quantized outputs compared with float32; null: nothing to compare",
         &ConversionFacts::outputs),
    Fact("hidden_states", "Cosine similarity of quantized hidden states with float32",
         &ConversionFacts::hidden_states),
    Fact("tensors", "Quantized tensors", &ConversionFacts::tensors),
    Fact("notes", "Deviations from what was asked for", &ConversionFacts::notes));

template <>
inline constexpr auto kFacts<WeightsReport> = std::tuple(
    Fact("parameters", "Parameters as PyTorch counts them; null: only the conversion knows",
         [](const WeightsReport& f) {
           return f.conversion ? std::optional(f.conversion->parameters) : std::nullopt;
         }),
    Fact("file_parts", "Bytes by part of the file", &WeightsReport::file_parts),
    Fact("types", "Tensors by their type", &WeightsReport::types),
    Fact("layers", "By layer", &WeightsReport::layers),
    Fact("parts", "By their role in a layer", &WeightsReport::parts),
    Fact("tensors", &WeightsReport::places),
    Fact("conversion", "What the conversion found; null: not known", &WeightsReport::conversion));

template <>
inline constexpr auto kFacts<MaskPicture> = std::tuple(
    Fact("positions", &MaskPicture::positions), Fact("visible_pairs", &MaskPicture::visible),
    Fact("ops", "Ops that apply the mask", &MaskPicture::ops),
    Fact("rows", "# all visible, + partly visible, . hidden", &MaskPicture::rows));

// The whole report, for --report FILE.json.
template <>
inline constexpr auto kFacts<ReportFacts> =
    std::tuple_cat(kFacts<WeightsReport>, std::tuple(Fact("masks", &ReportFacts::masks)));

constexpr const char* kReportWords = "Contents of the --report page; only in FILE.json of --report";

Json inspect_facts() {
  Json schema = schema_of<ModelFacts>();
  Json report = schema_of<ReportFacts>();
  ObjectSchema with_report{std::move(schema["properties"]), std::move(schema["required"])};
  with_report.add("report", kReportWords, std::move(report), false);
  return with_report.take();
}

Json facts_of(const ModelFacts& facts) { return json_of(facts); }

Json facts_of_weights(const WeightsReport& facts) { return json_of(facts); }
Json weights_schema() { return schema_of<WeightsReport>(); }

Json facts_of(const ReportFacts& facts) {
  Json json = json_of(facts.model);
  json["report"] = json_of(facts);
  return json;
}

}  // namespace arenite::tool
