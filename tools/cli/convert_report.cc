// SPDX-License-Identifier: Apache-2.0
// The lines that a conversion prints.
#include "cli/convert_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>

#include "arenite/arena_formula.h"
#include "cli/session_sizes.h"
#include "cli/text_table.h"
#include "convert/families/hf_models.h"
#include "convert/tokenizers/tokenizer_source.h"
#include "convert/tokenizers/tokenizer_spec.h"
#include "format/reader.h"

namespace arenite::tool {
namespace {

// --- Weights and kernels: the facts that a report shows, as lines ---

constexpr size_t kListWidth = 80;
constexpr size_t kNameMax = 40;  // of tensors

// A list after a title, a few parts to a line.
void print_list(const char* title, const std::vector<std::string>& parts) {
  std::string line;
  std::string_view start = title;
  for (const std::string& part : parts) {
    if (!line.empty() && line.size() + part.size() > kListWidth) {
      fmt::print("{:<10} {},\n", std::exchange(start, ""), line);
      line.clear();
    }
    line += (line.empty() ? "" : ", ") + part;
  }
  if (!line.empty()) fmt::print("{:<10} {}\n", start, line);
}

void print_tensors(const std::vector<QuantizedTensor>& tensors) {
  if (tensors.empty()) return;
  TextTable table({"matrix", "type", ">bytes", ">signal to noise", "by"});
  for (const QuantizedTensor& tensor : tensors) {
    table.add_row({convert::printable(tensor.name, kNameMax), tensor.type, grouped(tensor.bytes),
                   std::isfinite(tensor.signal_to_noise_db)
                       ? fmt::format("{:.1f} dB", tensor.signal_to_noise_db)
                       : "as it was",
                   tensor.method});
  }
  fmt::print("matrices   in few bits\n{}", table.text());
}

void print_layers(const std::vector<HiddenStateError>& states) {
  if (states.empty()) return;
  std::vector<std::string> cosines;
  for (const HiddenStateError& state : states) {
    cosines.push_back(fmt::format("{} {:.5f}", state.name, state.mean_cosine));
  }
  fmt::print("layers     mean cosine of their hidden states in few bits and in float32\n");
  print_list("", cosines);
}

// "f32 4x16, q8 4x8c8": a tensor has the kernel of its type.
std::string kernels_of(const ReportFacts& facts, uint32_t target) {
  std::vector<std::string> tiles;
  for (const KernelUse& use : facts.kernels) {
    if (use.target != facts.model.targets[target].target || use.layout == format::Layout::kPlain)
      continue;
    const Packing packing = facts.model.targets[target].packed.packing(use.type);
    tiles.push_back(fmt::format("{} {}", name(use.type), tile_name(packing)));
  }
  return fmt::format("{}: {}", kernel_set_name(facts.model.targets[target].target),
                     fmt::join(tiles, ", "));
}

// What few bits cost each matrix and each layer, and what did not go as asked.
void print_few_bits(const ConversionFacts& facts) {
  print_tensors(facts.tensors);
  print_layers(facts.hidden_states);
  for (const ConversionNote& note : facts.notes) {
    if (note.kind == "chosen") continue;  // these have lines of their own
    fmt::print("note       {}{}{}\n", note.subject, note.subject.empty() ? "" : " ", note.text);
    if (note.tensors.size() > 1) print_list("", note.tensors);
  }
}

// For each target the CPUs that it serves, its kernels, and the bytes that a token reads.
void print_kernels(const ReportFacts& facts) {
  const char* title = "serves";
  for (const TargetFacts& target : facts.model.targets) {
    fmt::print("{:<10} {}: {}\n", std::exchange(title, ""), name(target.target),
               cpus_of(target.target));
  }
  std::vector<std::string> titles = {"target", "kernels, and their tiles by type of weights"};
  if (!facts.decode.empty()) titles.insert(titles.end(), {">first token", ">last token"});
  TextTable table(titles);
  for (uint32_t i = 0; i < facts.model.targets.size(); ++i) {
    std::vector<std::string> row = {name(facts.model.targets[i].target), kernels_of(facts, i)};
    for (size_t token = 0; token < titles.size() - 2; ++token) {
      const double bytes = token == 0 ? facts.decode[i].value.first : facts.decode[i].value.last;
      row.push_back(grouped(static_cast<uint64_t>(bytes)));
    }
    table.add_row(row);
  }
  fmt::print("kernels    {}\n{}",
             facts.decode.empty()
                 ? "that multiply the weights"
                 : "and the bytes of weights and cache that decoding a token reads",
             table.text());
}

// --- The model ---

void print_shape(const convert::AttentionModule& module) {
  fmt::print("module     {}\n", module.architecture);
  fmt::print("shape      [tokens, {}] -> [tokens, {}], {} of {}{}\n", module.features,
             module.output_features(), counted(module.heads, "head"), module.value_dim,
             module.head_dim == module.value_dim || module.head_dim == 0
                 ? ""
                 : fmt::format(" (queries and keys {})", module.head_dim));
  if (module.separate_inputs) {
    fmt::print("input      columns [query {} | key {} | value {}]\n", module.query.inputs(),
               module.key.inputs(), module.value.inputs());
  }
}

void print_context(uint32_t positions) {
  fmt::print("context    {} positions\n",
             positions == 0 ? "any number of" : std::to_string(positions));
}

// Lines of text, all but the first below the title's end.
void print_lines(std::string_view title, std::string_view text) {
  while (true) {
    const size_t end = text.find('\n');
    fmt::print("{:<11}{}\n", title, text.substr(0, end));
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 1);
    title = "";
  }
}

void print_masks(const convert::AttentionModule& module, const convert::Program& program) {
  print_context(module.positions_max);
  for (size_t i = 0; i < program.masks.size(); ++i) {
    const convert::CompiledMask& mask = program.masks[i];
    std::string bytes = fmt::format("{} bytes", mask.bytes());
    if (mask.positions != 0) {
      const uint64_t cells = uint64_t{mask.positions} * mask.positions;
      bytes += fmt::format(", dense {}", cells * sizeof(float));
    }
    fmt::print("{}{}; {}\n", i == 0 ? "mask       " : "           ", mask.describe(), bytes);
    fmt::print("           {}\n", module.mask_origins[i]);
  }
}

// Of the file's targets.
size_t name_width(const format::ModelReader& reader) {
  size_t width = 10;
  for (uint32_t i = 0; i < reader.packed_count(); ++i) {
    width = std::max(width, std::string(name(static_cast<Target>(reader.packed(i).target))).size());
  }
  return width;
}

// What the arena takes for any sizes, in bytes.
void print_formulas(const format::ModelReader& reader) {
  for (uint32_t i = 0; i < reader.packed_count(); ++i) {
    std::string target = name(static_cast<Target>(reader.packed(i).target));
    for (const std::string& line : formula_lines(reader.formula(i))) {
      fmt::print("{}{:<{}} {}\n", i == 0 && !target.empty() ? "formula    " : "           ", target,
                 name_width(reader), line);
      target.clear();
    }
  }
}

// For each target its arena, and how far its results are from the reference.
void print_targets(const convert::ConvertedModel& conversion, const char* outputs) {
  const format::ModelReader reader(conversion.file.span());
  const SessionOptions options = default_session_options(reader);
  const SessionSizes session = default_sizes(reader);
  for (uint32_t i = 0; i < reader.packed_count(); ++i) {
    const convert::TargetCheck& check = conversion.checks[i];
    const ArenaSizes sizes = evaluate(reader.formula(i), session, reader.prefix_rows());
    fmt::print("{}{:<{}} arena {:>12} bytes, ", i == 0 ? "target     " : "           ",
               name(check.target), name_width(reader), sizes.total_bytes.value());
    if (check.ran) {
      fmt::print("largest error {:.1e}\n", check.largest_error);
    } else {
      fmt::print("not checked: this CPU cannot run it\n");
    }
  }
  if (reader.packed_count() == 1) {
    fmt::print("           for {}\n           and no other CPU: --target all packs for every one\n",
               cpus_of(conversion.checks[0].target));
  }
  fmt::print(
      "arena      for one sequence of {} positions, {} in a call, on one thread\n",
      options.positions_max,
      options.tokens_max == options.positions_max ? "all" : std::to_string(options.tokens_max));
  print_formulas(reader);
  fmt::print("error      against double precision, {} tokens, {} up to {:.2f}\n",
             conversion.checked_tokens, outputs, conversion.largest_output);
  const std::optional<double> computing = conversion.computing_error();
  fmt::print(
      "           computing {}, storing the weights{} {}\n",
      computing ? fmt::format("{:.1e}", *computing) : "not checked",
      convert::rounds_activations(conversion.program) ? " and rounding rows to int8" : "",
      conversion.storing_error == 0.0 ? "0" : fmt::format("{:.1e}", conversion.storing_error));
}

// How weights were rounded, and what that cost.
void print_quantization(const convert::Conversion& conversion) {
  if (!conversion.quantization) return;
  const convert::Quantization& quantization = *conversion.quantization;
  std::map<std::string, std::pair<size_t, double>> methods;  // matrices, the least decibels
  for (const convert::QuantizedTensor& tensor : quantization.tensors) {
    auto& [count, least] = methods[fmt::format("{} by {}", name(tensor.type), tensor.method)];
    least = count == 0 ? tensor.decibels : std::min(least, tensor.decibels);
    ++count;
  }
  for (const auto& [method, found] : methods) {
    fmt::print("           {}: {}, {:.1f} dB of signal to noise or more\n", method,
               found.first == 1 ? std::string("1 matrix") : fmt::format("{} matrices", found.first),
               found.second);
  }
  if (quantization.calibration) {
    fmt::print("calibrated {}\n", quantization.calibration->source);
  }
  if (!quantization.evaluation) return;
  const convert::ModelComparison& found = *quantization.evaluation;
  fmt::print("few bits   compared with float32 on {} sequences, {} rows{}\n", found.sequences,
             found.rows, quantization.calibration ? " that were held out" : " that were made up");
  if (found.has_perplexity && quantization.calibration) {
    fmt::print("           perplexity {:.3f}, was {:.3f}: {:+.2f} %\n", found.other.value(),
               found.reference.value(), 100.0 * found.perplexity_increase());
  }
  if (found.has_probabilities) {
    fmt::print("           mean KL {:.4f}, the most probable one is the same in {:.2f} %\n",
               found.mean_kl, 100.0 * found.top1_agreement);
  }
  const auto least = std::ranges::min_element(found.hidden_cosines);
  if (least != found.hidden_cosines.end()) {
    fmt::print("           cosine of outputs {:.5f}, of hidden states {:.5f} or more\n",
               found.output_cosine, *least);
  } else {
    fmt::print("           cosine of outputs {:.5f}\n", found.output_cosine);
  }
}

// How many weights have which type, where not all are float32.
void print_weights(const convert::Conversion& conversion, const ConversionFacts& facts) {
  const format::ModelReader reader(conversion.file.span());
  const Target target = static_cast<Target>(reader.packed(0).target);
  const char* title = "weights";
  for (const TensorType type : convert::kWeightTypes) {
    uint64_t numbers = 0;
    uint64_t bytes = 0;
    for (const convert::ProgramTensor& tensor : conversion.program.tensors) {
      if (tensor.type != type) continue;
      numbers += uint64_t{tensor.outputs} * tensor.inputs;
      bytes += format::stored_bytes(tensor.shape(), packing_of(target, type)).value();
    }
    if (numbers == 0 || (type == TensorType::kF32 && !convert::has_few_bits(conversion.program))) {
      continue;
    }
    fmt::print("{:<10} {:<4} {:>12} numbers, {:>12} bytes for {}\n", std::exchange(title, ""),
               name(type), numbers, bytes, name(target));
  }
  for (const convert::TypeChoice& choice : conversion.choices) {
    fmt::print("chosen     {} is {}: {}\n", choice.name, name(choice.type), choice.reason);
  }
  print_quantization(conversion);
  print_few_bits(facts);
}

// The first lines of a whole model.
void print_layers(const convert::Conversion& conversion, const convert::TransformerSpec& spec,
                  uint32_t kv_heads, bool gated) {
  fmt::print("model      {}, from {}; {} parameters\n", spec.architecture, conversion.model.form,
             parameters_of(conversion.program));
  fmt::print("shape      {} layers, {} wide, {} of {}{}, {} {} with {}, norms {}\n",
             spec.layers.size(), spec.model_dim, counted(spec.heads, "head"), spec.head_dim,
             kv_heads == spec.heads ? "" : fmt::format(" on {}", kv_heads),
             gated ? "gated MLP" : "MLP", spec.ffn_dim, convert::option_name(spec.activation),
             spec.norm_first ? "first" : "last");
}

void print_tokenizer(const convert::Program& program) {
  if (program.tokenizer) {
    fmt::print("tokenizer  {} tokens, from {}\n", program.tokenizer->tokens.size(),
               program.tokenizer->origin);
    const std::string unicode = convert::describe_unicode(*program.tokenizer);
    if (!unicode.empty()) fmt::print("unicode    {}\n", unicode);
    for (const std::string& note : program.tokenizer->notes) fmt::print("note       {}\n", note);
  } else {
    fmt::print("tokenizer  none found: the model reads and gives token ids (--tokenizer FILE)\n");
  }
}

void print_decoder(const convert::Conversion& conversion) {
  const convert::TransformerSpec& spec = *conversion.decoder();
  print_layers(conversion, spec, spec.kv_heads, spec.layers[0].gate.has_value());
  fmt::print("vocabulary {} tokens{}\n", spec.vocab_size,
             spec.output || spec.is_headless ? "" : "; the embedding is the output matrix, too");
  if (spec.is_headless) {
    fmt::print("output     the last hidden states, {} numbers a token: it has no head\n",
               spec.model_dim);
  }
  print_context(spec.positions_max);
  for (const convert::CompiledMask& mask : conversion.program.masks) {
    fmt::print("mask       {}\n", mask.describe());
  }
  print_tokenizer(conversion.program);
  for (const std::string& note : spec.notes) fmt::print("note       {}\n", note);
}

const char* describe(SelectKind pooling) {
  switch (pooling) {
    case SelectKind::kAsAsked:
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
  }
  return "";
}

// Which rows an encoder gives out.
std::string describe_rows(const convert::TransformerSpec& spec) {
  if (spec.pooling == SelectKind::kAsAsked) return "a row for each token";
  std::string text = fmt::format("a row for each sequence, from {}", describe(spec.pooling));
  for (const SelectKind pooling : spec.more_pooling) {
    text += fmt::format(", and {}", describe(pooling));
  }
  return text;
}

void print_encoder(const convert::Conversion& conversion) {
  const convert::TransformerSpec& spec = *conversion.encoder();
  const convert::Program& program = conversion.program;
  print_layers(conversion, spec, spec.heads, false);
  if (spec.vocab_size == 0) {
    fmt::print("input      {} features\n", spec.input_features);
  } else {
    fmt::print("vocabulary {} tokens{}\n", spec.vocab_size,
               spec.token_types > 1 ? fmt::format(", {} types", spec.token_types) : "");
  }
  print_context(spec.positions_max);
  const bool has_logits = !spec.head.empty() && spec.head.back().is_token_embedding;
  for (const convert::CompiledMask& mask : program.masks) {
    fmt::print(
        "mask       {}{}\n", mask.describe(),
        spec.causal && spec.pooling == SelectKind::kAsAsked ? "; it runs token by token, too" : "");
  }
  fmt::print("output     {}: {} {}{}\n", describe_rows(spec),
             program.slots[program.output_slot].width, has_logits ? "logits of tokens" : "numbers",
             convert::is_normalized(spec) ? ", of length 1" : "");
  if (!spec.labels.empty()) {
    fmt::print("classes    {}\n", fmt::join(spec.labels, ", "));
  }
  if (spec.vocab_size != 0) print_tokenizer(program);
}

// Sizes that a family would be known by are not to be had of a program.
void print_exported(const convert::Conversion& conversion) {
  const convert::ExportedModel& model = *conversion.exported();
  const convert::Program& program = conversion.program;
  fmt::print("model      {}, from {}; {} parameters\n", model.graph.architecture,
             conversion.model.form, parameters_of(program));
  fmt::print("ops        {}, recognised in {} of the program\n", model.graph.order().size(),
             model.program->nodes.size());
  if (const auto image = program.patches()) {
    fmt::print("input      images [{}, {}, {}]\n", image->channels, image->height, image->width);
  } else if (model.graph.vocab_size == 0) {
    fmt::print("input      {} features\n", program.slots[program.input_slot].width);
  } else {
    fmt::print("vocabulary {} tokens\n", model.graph.vocab_size);
  }
  print_context(model.graph.positions_max);
  print_lines("length     ", model.length);
  for (const convert::CompiledMask& mask : program.masks) {
    fmt::print("mask       {}\n", mask.describe());
  }
  fmt::print("output     a row for each {}: {} numbers\n",
             model.has_row_of_sequence ? "sequence" : "token",
             program.slots[program.output_slot].width);
  const std::string time =
      model.compared_seconds < 1.0 ? "" : fmt::format(" ({:.0f} s)", model.compared_seconds);
  fmt::print(
      "program    computed op by op on {} in double precision: largest difference {:.1e}{}\n",
      counted(model.compared_inputs, "input"), model.largest_difference, time);
  if (model.graph.vocab_size != 0) print_tokenizer(program);
}

void print_expect(const convert::AuthorCheck& check) {
  fmt::print("expect     as the author's model gave it: {} sequence{} of {} tokens{}\n",
             check.sequences, check.sequences == 1 ? "" : "s", check.tokens,
             check.of_last_tokens ? ", their last" : "");
  fmt::print("           largest difference {:.1e}, outputs up to {:.2f}\n",
             check.largest_difference, check.largest_value);
  if (!check.difference_in_few_bits) return;
  fmt::print("           that is in float32; of this file, with its few bits, {:.1e}\n",
             *check.difference_in_few_bits);
}

void print_file(const convert::ConvertedModel& conversion, const WrittenFile& written) {
  for (const convert::AuthorCheck& check : written.expect) print_expect(check);
  const format::SelfTestView test = format::ModelReader(conversion.file.span()).self_test();
  if (test.tokens != 0) {
    fmt::print("self-test  {} tokens, {} bytes of the file\n", test.tokens, test.segment.bytes());
  }
  fmt::print("file       {}, {} bytes\n", written.path.string(), conversion.file.size());
}

}  // namespace

uint64_t parameters_of(const convert::Program& program) {
  uint64_t parameters = 0;
  for (const convert::ProgramTensor& tensor : program.tensors) {
    if (tensor.name.starts_with("angles") || tensor.name.starts_with("slopes")) continue;
    parameters += uint64_t{tensor.outputs} * tensor.inputs + tensor.bias.size();
  }
  return parameters;
}

void print_conversion(const convert::Conversion& conversion, const WrittenFile& written,
                      const ReportFacts& facts) {
  const convert::TransformerSpec* const decoder = conversion.decoder();
  if (decoder != nullptr) {
    print_decoder(conversion);
  } else if (conversion.encoder() != nullptr) {
    print_encoder(conversion);
  } else if (conversion.exported() != nullptr) {
    print_exported(conversion);
  } else {
    print_shape(*conversion.module());
    print_masks(*conversion.module(), conversion.program);
  }
  // What the conversion rests on that is not to be read off the tensors.
  print_list("given", conversion.account.given);
  print_list("assumed", conversion.account.assumed);
  if (facts.conversion) print_weights(conversion, *facts.conversion);
  print_kernels(facts);
  print_targets(conversion, decoder != nullptr && !decoder->is_headless ? "logits" : "outputs");
  print_file(conversion, written);
}

}  // namespace arenite::tool
