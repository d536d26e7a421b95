// SPDX-License-Identifier: Apache-2.0
// Reports a conversion: as JSON the facts of `arenite inspect` and those that only a conversion
// knows; as text one screen, and with --verbose all of it.
#include "cli/convert_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "cli/bundle.h"
#include "cli/commands.h"
#include "cli/report_facts.h"
#include "cli/text_table.h"
#include "convert/families/hf_models.h"
#include "convert/files/error.h"
#include "convert/tokenizers/tokenizer_source.h"
#include "convert/tokenizers/tokenizer_spec.h"
#include "core/targets.h"

namespace arenite::tool {
namespace {

using convert::AttentionModule;
using convert::EncoderDecoderSpec;
using convert::ExportedModel;
using convert::TransformerSpec;

// --- What the model is ---

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
      return "the sum of its tokens divided by the root of its length";
    case SelectKind::kWeightedMean:
      return "the mean of its tokens weighted by position";
    case SelectKind::kLast:
      return "its last token";
    case SelectKind::kSum:
      return "the sum of its tokens";
  }
  return "";
}

std::string shape_of(const TransformerSpec& spec) {
  std::string text = fmt::format("{} layers, {} wide, {} of {}", spec.layers.size(), spec.model_dim,
                                 counted(spec.heads, "head"), spec.head_dim);
  if (spec.is_decoder && spec.kv_heads != spec.heads) text += fmt::format(" on {}", spec.kv_heads);
  text += fmt::format(", {}MLP {} with {}, norms {}",
                      spec.is_decoder && spec.layers[0].gate ? "gated " : "", spec.ffn_dim,
                      convert::option_name(spec.activation), spec.norm_first ? "first" : "last");
  if (spec.is_headless) return text + ", no head: it gives hidden states";
  if (spec.is_decoder)
    return text + (spec.output ? "" : "; the embedding is the output matrix, too");
  if (spec.pooling == SelectKind::kAsAsked) return text;
  text += fmt::format("; a row for each sequence, from {}", describe(spec.pooling));
  for (const SelectKind more : spec.more_pooling) text += fmt::format(", and {}", describe(more));
  return text + (convert::is_normalized(spec) ? ", of length 1" : "");
}

std::string shape_of(const EncoderDecoderSpec& spec) {
  return fmt::format("encoder: {}\ndecoder: {}", shape_of(spec.encoder), shape_of(spec.decoder));
}

std::string shape_of(const AttentionModule& module) {
  std::string text =
      fmt::format("[tokens, {}] -> [tokens, {}], {} of {}", module.features,
                  module.output_features(), counted(module.heads, "head"), module.value_dim);
  if (module.head_dim != module.value_dim && module.head_dim != 0) {
    text += fmt::format(" (queries and keys {})", module.head_dim);
  }
  if (!module.separate_inputs) return text;
  return text + fmt::format(", columns [query {} | key {} | value {}]", module.query.inputs(),
                            module.key.inputs(), module.value.inputs());
}

std::string shape_of(const ExportedModel& exported) {
  return fmt::format("{} ops, recognised in {} of the program", exported.graph.order().size(),
                     exported.program->nodes.size());
}

// Returns the tokenizer's notes and those of a decoder.
std::vector<std::string> notes_of(const convert::Conversion& conversion) {
  std::vector<std::string> notes;
  if (conversion.program.tokenizer) notes = conversion.program.tokenizer->notes;
  const EncoderDecoderSpec* const both = conversion.encoder_decoder();
  if (const TransformerSpec* const decoder = both ? &both->decoder : conversion.decoder()) {
    notes.insert(notes.end(), decoder->notes.begin(), decoder->notes.end());
  }
  return notes;
}

// --- JSON ---

struct Converted {
  const convert::Conversion& conversion;
  const WrittenFile& written;
  const ReportFacts& report;

  const ModelFacts& model() const { return report.model; }
};

std::vector<std::string> kinds() {
  return {"module", "decoder", "encoder", "encoder-decoder", "exported"};
}

OneOf<kinds> kind_of(const Converted& f) {
  const convert::Conversion& conversion = f.conversion;
  return {conversion.module() != nullptr            ? "module"
          : conversion.exported() != nullptr        ? "exported"
          : conversion.encoder_decoder() != nullptr ? "encoder-decoder"
          : conversion.decoder() != nullptr         ? "decoder"
                                                    : "encoder"};
}

std::string form_of(const Converted& f) {
  return f.conversion.module() != nullptr ? "a state dict" : f.conversion.model.form;
}

// Adds the facts of `arenite inspect --json`, and those of a report.
void add_inspected(Json& json, const Converted& f) {
  json.update(facts_of(f.model()));
  json["report"] = facts_of_weights(f.report);
}
void add_inspected_keys(ObjectSchema& schema) {
  Json inspected = inspect_facts();
  inspected["properties"].erase("report");
  schema.properties.update(inspected["properties"]);
  for (const Json& key : inspected["required"]) schema.required.push_back(key);
  schema.add("report", "", weights_schema());
}

}  // namespace

template <>
constexpr auto kFacts<convert::TargetCheck> =
    std::tuple(Fact("name", [](const convert::TargetCheck& f) { return name(f.target); }),
               Fact("largest_error", "null: not checked, since this CPU lacks it",
                    [](const convert::TargetCheck& f) {
                      return f.ran ? std::optional(f.largest_error) : std::nullopt;
                    }));

template <>
constexpr auto kFacts<convert::TokenizerSpec> =
    std::tuple(Fact("tokens", [](const convert::TokenizerSpec& f) { return f.tokens.size(); }),
               Fact("origin", &convert::TokenizerSpec::origin));

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
                    "Difference of the quantized file; largest_difference is then that of the same "
                    "model in float32",
                    &convert::AuthorCheck::difference_in_few_bits));

constexpr auto kCheck =
    part("check", "Comparison of the result with double precision",
         Fact("tokens", [](const Converted& f) { return f.conversion.checked_tokens; }),
         Fact("largest_output", [](const Converted& f) { return f.conversion.largest_output; }),
         Fact("computing_error",
              "Largest error of the targets' kernels, given the file's weights; null: not checked",
              [](const Converted& f) { return f.conversion.computing_error(); }),
         Fact("storing_error", "Error of storing the weights in the file",
              [](const Converted& f) { return f.conversion.storing_error; }),
         Fact(
             "targets", [](const Converted& f) -> auto& { return f.conversion.checks; }));

template <>
constexpr auto kFacts<Converted> = std::tuple(
    Fact("kind", kind_of), Fact("source", "Format of the checkpoint", form_of),
    Fact("parameters", [](const Converted& f) { return f.report.conversion->parameters; }),
    Fact("shape", "In words",
         [](const Converted& f) {
           return std::visit([](const auto& model) { return shape_of(model); },
                             f.conversion.model.facts);
         }),
    Fact("length", "exported: lengths at which the result equals the model, and why; one per line",
         [](const Converted& f) {
           const ExportedModel* const exported = f.conversion.exported();
           return exported != nullptr ? Sometimes<std::string>(exported->length)
                                      : Sometimes<std::string>();
         }),
    Fact("program", "exported: compared with the program that was read",
         [](const Converted& f) {
           const ExportedModel* const exported = f.conversion.exported();
           return exported != nullptr ? Sometimes<const ExportedModel*>(exported)
                                      : Sometimes<const ExportedModel*>();
         }),
    Fact(
        "tokenizer", [](const Converted& f) -> auto& { return f.conversion.program.tokenizer; }),
    Fact("mask_origins", "module: origin of each mask",
         [](const Converted& f) {
           const AttentionModule* const module = f.conversion.module();
           return module != nullptr ? module->mask_origins : std::vector<std::string>();
         }),
    Fact("notes", [](const Converted& f) { return notes_of(f.conversion); }), kCheck,
    Fact(
        "chosen", "Types chosen by --weights auto",
        [](const Converted& f) -> auto& { return f.conversion.choices; }),
    Fact(
        "given", "Facts given by options or by the checkpoint",
        [](const Converted& f) -> auto& { return f.conversion.account.given; }),
    Fact(
        "assumed", "Facts that nothing gave",
        [](const Converted& f) -> auto& { return f.conversion.account.assumed; }),
    Fact(
        "expect", "Comparisons with the author's outputs, one per --expect and sample",
        [](const Converted& f) -> auto& { return f.written.expect; }),
    Fact("checkpoint_bytes", [](const Converted& f) { return f.written.checkpoint_bytes; }),
    MoreFacts<Converted>{add_inspected, add_inspected_keys});

Json convert_facts() { return schema_of<Converted>(); }

// --- Text ---

namespace {

constexpr size_t kListWidth = 66;  // fits 80 columns after a title
constexpr size_t kTitleWidth = 10;
constexpr size_t kNotesMax = 3;  // without --verbose

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

// "255,168 bytes", "255,168 to 324,480 bytes"
std::string range_of_bytes(uint64_t least, uint64_t most) {
  return least == most ? grouped(most) + " bytes"
                       : fmt::format("{} to {} bytes", grouped(least), grouped(most));
}

void add_quantization_loss(const Converted& f, bool verbose, TitledLines& out) {
  if (!f.conversion.quantization) return;
  const convert::Quantization& quantization = *f.conversion.quantization;
  std::map<std::string, std::pair<size_t, double>> methods;  // count of matrices, least decibels
  for (const convert::QuantizedTensor& tensor : quantization.tensors) {
    auto& [count, least] = methods[fmt::format("{} by {}", name(tensor.type), tensor.method)];
    least = count == 0 ? tensor.decibels : std::min(least, tensor.decibels);
    ++count;
  }
  for (const auto& [method, found] : methods) {
    out.add("weights",
            fmt::format("{}: {}, {:.1f} dB or more", method,
                        found.first == 1 ? "1 matrix" : fmt::format("{} matrices", found.first),
                        found.second));
  }
  if (!quantization.evaluation) return;
  const convert::ModelComparison& found = *quantization.evaluation;
  if (verbose) {
    out.add("quantized",
            fmt::format("compared with float32 on {}, {} that were {}",
                        counted(found.sequences, "sequence"), counted(found.rows, "row"),
                        quantization.calibration ? "held out" : "made up"));
  }
  if (found.has_perplexity && quantization.calibration) {
    out.add("quantized",
            fmt::format("perplexity {:.3f}, was {:.3f}: {:+.2f} %", found.other.value(),
                        found.reference.value(), 100.0 * found.perplexity_increase()));
  }
  if (found.has_probabilities) {
    out.add("quantized", fmt::format("mean KL {:.4f}, same most probable token in {:.2f} %",
                                     found.mean_kl, 100.0 * found.top1_agreement));
  }
  if (found.has_probabilities && !verbose) return;
  const auto least = std::ranges::min_element(found.hidden_cosines);
  out.add("quantized", fmt::format("cosine of outputs {:.5f}", found.output_cosine) +
                           (least == found.hidden_cosines.end()
                                ? ""
                                : fmt::format(", of hidden states {:.5f} or more", *least)));
}

// Adds the comparison with the program, with double precision, and with the author's outputs.
void add_accuracy(const Converted& f, bool verbose, TitledLines& out) {
  const convert::Conversion& conversion = f.conversion;
  if (const ExportedModel* const exported = conversion.exported()) {
    out.add("program",
            fmt::format("largest difference {:.1e}, op by op in double precision on {}{}",
                        exported->largest_difference, counted(exported->compared_inputs, "input"),
                        exported->compared_seconds < 1.0
                            ? ""
                            : fmt::format(" ({:.0f} s)", exported->compared_seconds)));
  }
  const auto ran = std::ranges::count(conversion.checks, true, &convert::TargetCheck::ran);
  const std::optional<double> computing = conversion.computing_error();
  out.add("error", fmt::format("computing {}, storing the weights{} {}; outputs reach {:.2f}",
                               computing ? fmt::format("{:.1e}", *computing) : "not checked",
                               convert::rounds_activations(conversion.program) ? " and rows" : "",
                               conversion.storing_error == 0.0
                                   ? "0"
                                   : fmt::format("{:.1e}", conversion.storing_error),
                               conversion.largest_output));
  if (ran == 0) out.add("error", "not checked: this CPU cannot run it");
  if (verbose) {
    out.add("error", fmt::format("against double precision, {}, on this CPU {} of {}",
                                 counted(conversion.checked_tokens,
                                         f.model().reader.reads_images() ? "pixel" : "token"),
                                 ran, counted(conversion.checks.size(), "target")));
  }
  for (const convert::AuthorCheck& check : f.written.expect) {
    out.add("expect",
            fmt::format("as the author's model gave it: {} of {}{}",
                        counted(check.sequences, "sequence"), counted(check.tokens, "token"),
                        check.of_last_tokens ? ", their last" : ""));
    out.add("expect",
            fmt::format("largest difference {:.1e}, outputs up to {:.2f}{}",
                        check.largest_difference, check.largest_value,
                        check.difference_in_few_bits
                            ? fmt::format("; quantized, {:.1e}", *check.difference_in_few_bits)
                            : ""));
  }
}

// Adds the bytes of the file beside the checkpoint's, and of its parts.
void add_bytes(const Converted& f, TitledLines& out) {
  out.add("file",
          fmt::format("{}, {} bytes; the checkpoint has {}",
                      convert::printable(f.written.path.string(), 4096),
                      grouped(f.conversion.file.size()), grouped(f.written.checkpoint_bytes)));
  uint64_t weights = 0;
  for (const TargetFacts& target : f.model().targets) weights += target.packed.segment.bytes();
  std::vector<std::string> parts = {fmt::format("weights {} for {}", grouped(weights),
                                                f.model().targets.size() == 1
                                                    ? name(f.model().targets[0].target)
                                                    : counted(f.model().targets.size(), "target"))};
  for (const FilePart& part : f.report.file_parts) {
    if (part.name.starts_with("weights") || part.name.starts_with("padding")) continue;
    parts.push_back(part.name + " " + grouped(part.bytes));
  }
  out.add("file", listed(parts));
}

void add_targets(const Converted& f, TitledLines& out) {
  std::vector<std::string> names;
  uint64_t least = UINT64_MAX, most = 0;
  for (const TargetFacts& target : f.model().targets) {
    names.emplace_back(name(target.target));
    least = std::min(least, target.arena.plan.total_bytes);
    most = std::max(most, target.arena.plan.total_bytes);
  }
  if (names.size() == kTargets) {
    out.add("targets", fmt::format("all {}: 'arenite help targets' has them", kTargets));
  } else if (names.size() > 1) {
    out.add("targets", listed(names));
  } else {
    const Target only = f.model().targets[0].target;
    out.add("target", fmt::format("{}: {}", name(only), cpus_of(only)));
    if (only != Target::kPortable) {
      out.add("target", "and no other CPU: --target all packs for every one");
    }
  }
  const SizeOptions& sizes = f.model().sizes;
  const format::ModelReader& reader = f.model().reader;
  const bool takes_all =
      std::ranges::equal(sizes.tokens_of_inputs().of, sizes.positions_of_inputs().of);
  out.add("arena", fmt::format("{} for one sequence of {}, {} in a call, on one thread",
                               range_of_bytes(least, most),
                               sizes_text(reader, sizes.positions_of_inputs(), "position"),
                               takes_all ? "all" : grouped(sizes.tokens)));
}

// Suggests commands to run next with the file.
void add_next_steps(const Converted& f, TitledLines& out) {
  const std::string file = convert::printable(f.written.path.string());
  const bool reads_text = f.conversion.program.tokenizer.has_value();
  const bool is_classifier = !f.model().labels.empty();
  const std::string input = reads_text ? "--text TEXT" : "--input X.npy";
  const bool writes_text = reads_text && f.conversion.decoder() != nullptr && !is_classifier &&
                           !f.conversion.decoder()->is_headless;
  out.add("next", writes_text     ? fmt::format("arenite generate {} --prompt TEXT", file)
                  : is_classifier ? fmt::format("arenite classify {} {}", file, input)
                  : reads_text && f.conversion.encoder() != nullptr
                      ? fmt::format("arenite embed-text {} --text TEXT", file)
                      : fmt::format("arenite run {} --input X.npy --output Y.npy", file));
  const bool is_for_boards =
      f.model().targets.size() == 1 && (bit(f.model().targets[0].target) & kPlainTargets) != 0;
  if (is_for_boards) {
    out.add("next", fmt::format("arenite bundle {} -o FOLDER: its sources for a board", file));
  }
  out.add("more", "--verbose, or --report FILE.html");
}

void add_notes(const Converted& f, bool verbose, TitledLines& out) {
  std::vector<std::string> notes = notes_of(f.conversion);
  for (const ConversionNote& note : f.report.conversion->notes) {
    if (note.kind == "chosen") continue;  // has lines of its own
    std::string text =
        convert::visible(note.subject) + (note.subject.empty() ? "" : " ") + note.text;
    if (verbose && note.tensors.size() > 1) text += "\n" + listed(note.tensors);
    notes.push_back(text);
  }
  for (size_t i = 0; i < notes.size() && (verbose || i < kNotesMax); ++i) out.add("note", notes[i]);
  if (!verbose && notes.size() > kNotesMax) {
    out.add("note", fmt::format("{} more", notes.size() - kNotesMax));
  }
}

void add_model(const Converted& f, bool verbose, TitledLines& out) {
  const convert::Conversion& conversion = f.conversion;
  const AttentionModule* const module = conversion.module();
  if (module != nullptr) {
    out.add("module", module->architecture);
  } else {
    out.add("model", fmt::format("{}, from {}; {} parameters", f.model().reader.architecture(),
                                 form_of(f), grouped(f.report.conversion->parameters)));
  }
  if (conversion.exported() == nullptr || verbose) {
    out.add(conversion.exported() != nullptr ? "ops" : "shape",
            std::visit([](const auto& model) { return shape_of(model); }, conversion.model.facts));
  }
  out.append(model_as_text(f.model(), kTitleWidth));
  for (size_t i = 0; module != nullptr && i < module->mask_origins.size(); ++i) {
    const MaskFacts& mask = f.model().masks[i];
    out.add("mask", fmt::format("{}; {} bytes, dense {}\n{}", mask.description, grouped(mask.bytes),
                                grouped(mask.dense_bytes), module->mask_origins[i]));
  }
  if (const ExportedModel* const exported = conversion.exported()) {
    const bool is_short = !verbose && !f.model().reader.reads_images();
    const size_t end = is_short ? exported->length.find("\nalso computed at ") : std::string::npos;
    if (verbose || is_short) out.add("length", exported->length.substr(0, end));
  }
  if (const std::optional<convert::TokenizerSpec>& spec = conversion.program.tokenizer) {
    if (verbose) {
      out.add("tokenizer", fmt::format("from {}", spec->origin));
      out.add("unicode", convert::describe_unicode(*spec));
    }
  } else if (f.model().reader.vocab_size() != 0) {
    out.add("tokenizer", "none found: the model reads and gives token ids (--tokenizer FILE)");
  }
  add_notes(f, verbose, out);
  // For an exported program: how its inputs are read.
  const bool is_exported = conversion.exported() != nullptr;
  if (verbose || is_exported) out.add("given", listed(conversion.account.given));
  out.add("assumed", listed(conversion.account.assumed));
}

// Adds the types and the loss of each matrix and layer, the errors of each target, and all that
// `arenite inspect` says.
void add_details(const Converted& f, TitledLines& out) {
  for (const convert::TypeChoice& choice : f.conversion.choices) {
    out.add("chosen", fmt::format("{} is {}: {}", choice.name, name(choice.type), choice.reason));
  }
  const ConversionFacts& found = *f.report.conversion;
  out.add("calibrated", found.calibration);
  if (!found.tensors.empty()) {
    TextTable table({"matrix", "type", ">bytes", ">signal to noise", "by"});
    for (const convert::QuantizedTensor& tensor : found.tensors) {
      const double noise = tensor.decibels;
      table.add_row({convert::printable(tensor.name, 40), name(tensor.type), grouped(tensor.bytes),
                     std::isfinite(noise) ? fmt::format("{:.1f} dB", noise) : "as it was",
                     tensor.method});
    }
    out.append("matrices   quantized\n" + table.text());
  }
  std::vector<std::string> cosines;
  for (const HiddenStateError& state : found.hidden_states) {
    cosines.push_back(fmt::format("{} {:.5f}", state.name, state.mean_cosine));
  }
  if (!cosines.empty()) {
    out.add("layers",
            "mean cosine of their quantized and float32 hidden states\n" + listed(cosines));
  }
  TextTable checks({"target", ">arena bytes", ">largest error"});
  for (size_t i = 0; i < f.conversion.checks.size(); ++i) {
    const convert::TargetCheck& check = f.conversion.checks[i];
    checks.add_row({name(check.target), grouped(f.model().targets[i].arena.plan.total_bytes),
                    check.ran ? fmt::format("{:.1e}", check.largest_error) : "cannot run here"});
  }
  out.append(checks.text() + "\n" + facts_as_text(f.model()));
}

std::string as_text(const Converted& f, bool verbose) {
  TitledLines out(0, kTitleWidth);
  add_model(f, verbose, out);
  add_quantization_loss(f, verbose, out);
  add_accuracy(f, verbose, out);
  add_bytes(f, out);
  add_targets(f, out);
  if (verbose) {
    add_details(f, out);
  } else {
    add_next_steps(f, out);
  }
  return out.text();
}

}  // namespace

std::string describe_conversion(const convert::Conversion& conversion, const WrittenFile& written,
                                const ReportFacts& facts, ConversionOutput output) {
  const Converted converted = {conversion, written, facts};
  if (output == ConversionOutput::kJson) return document(json_of(converted)) + "\n";
  return as_text(converted, output == ConversionOutput::kVerbose);
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
