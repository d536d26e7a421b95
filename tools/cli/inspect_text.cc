// SPDX-License-Identifier: Apache-2.0
// Formats the facts of a model file as text, for the shown target; --json has all of them.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/process.h"
#include "cli/report_facts.h"
#include "cli/text_table.h"
#include "convert/files/error.h"
#include "convert/quantize/quantizers.h"
#include "core/targets.h"
#include "format/bounds.h"

namespace arenite::tool {
namespace {

constexpr size_t kClassesMax = 12;

// Returns the tiles of the file's tensor types: "f32 8x32, q8 8x16c8".
std::string tiles(const ModelFacts& facts, const TargetFacts& target) {
  std::vector<std::string> parts;
  for (const TensorType type : convert::kWeightTypes) {
    const bool is_used = std::ranges::any_of(
        facts.tensors, [&](const TensorFacts& tensor) { return tensor.shape.type == type; });
    if (!is_used && type != TensorType::kF32) continue;
    parts.push_back(fmt::format("{} {}", name(type), tile_name(target.packed.packing(type))));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

// Image windows pack two values into one field: lines + 65536 * columns.
constexpr uint32_t kNoHalves = UINT32_MAX;
std::pair<uint32_t, uint32_t> halves_of(const format::OpView& op, uint32_t number) {
  using enum format::OpKind;
  const bool has_windows = op.kind == kConvolution || op.kind == kDepthwise || op.kind == kMaxPool;
  constexpr uint32_t kDilation = 1, kBefore = 2, kColumns = 3;
  const bool is_of_both = number == kDilation || number == kBefore;
  if (!has_windows || !is_of_both || op.numbers[kColumns] == 0) return {0, kNoHalves};
  return {op.numbers[number] & 0xFFFF, op.numbers[number] >> 16};
}

// Describes an op by the widths that it reads and writes, its function and its fields, without
// trivial values. --json has all of it.
std::string op_shape(const OpFacts& facts) {
  const format::OpView& op = facts.op;
  const format::OpRow& row = format::row_of(op.kind);
  std::vector<std::string> reads;
  for (uint32_t i = 0; i < format::kOutput; ++i) {
    if (op.views[i].width != 0) reads.push_back(std::to_string(op.views[i].width));
  }
  const std::string output = std::to_string(op.views[format::kOutput].width);
  if (reads.empty()) reads.push_back(output);
  std::string text = fmt::format("{}", fmt::join(reads, ","));
  if (reads[0] != output) text += " -> " + output;
  if (facts.heads > 1) text += fmt::format(" heads {}", facts.heads);
  for (uint32_t i = 0; i < format::kOpNumbers; ++i) {
    const auto& [field, type, optional] = row.numbers[i];
    if (type == format::NumberType::kNone) continue;
    if (optional && op.numbers[i] == format::kAbsent) continue;
    if (is_terms_by(op, i)) {
      const bool has_own = is_of_queries(op.choice<ScoreTerms>(i));
      if (has_own) text += " terms";
      if (has_own || op.numbers[format::AttentionOp::kTerms] != format::kAbsent) {
        text += " by " + terms_name(op);
      }
      continue;
    }
    if (const auto [lines, columns] = halves_of(op, i); columns != kNoHalves) {
      const bool is_dilation = field_name(field) == "dilation";
      if (lines != uint32_t{is_dilation} || columns != lines) {
        text += fmt::format(" {} {}x{}", field_name(field), lines, columns);
      }
      continue;
    }
    if (type == format::NumberType::kCount && op.numbers[i] <= 1) continue;
    text += type == format::NumberType::kChoice
                ? fmt::format(", {}", function_name(op))
                : fmt::format(" {} {}", field_name(field), op.numbers[i]);
  }
  for (uint32_t i = 0; i < format::kOpReals; ++i) {
    if (row.reals[i].type != format::RealType::kFinite || op.reals[i] == 0.0f) continue;
    text += fmt::format(", {} {:g}", field_name(row.reals[i].field), op.reals[i]);
  }
  return text;
}

std::string class_names(const std::vector<std::string>& labels) {
  std::string text;
  for (size_t i = 0; i < std::min(labels.size(), kClassesMax); ++i) {
    text += (i == 0 ? "" : ", ") + convert::printable(labels[i], 40);
  }
  if (labels.size() > kClassesMax) text += fmt::format(" and {} more", labels.size() - kClassesMax);
  return text;
}

std::string input_text(const ModelFacts& facts, uint32_t index) {
  const InputFacts& input = facts.inputs[index];
  std::string text = input.image ? image_text(facts.reader, index)
                     : input.features != 0
                         ? fmt::format("[tokens, {}]", input.features)
                         : "tokens of a vocabulary of " + grouped(input.input.vocab_size);
  if (!input.takes_pairs) return text;
  text += ", and which tokens see which, [tokens, tokens]";
  if (input.role_of_pairs == "pairs") return text;
  return text + fmt::format(": 1 = visible in the API, {} = hidden in files",
                            input.role_of_pairs == "added_pairs" ? "-infinity" : "1");
}

std::string length_text(const InputFacts& input) {
  const uint32_t most = input.input.positions_max;
  std::string text = most == 0 ? "any length" : counted(most, input.image ? "pixel" : "position");
  if (!input.image && input.input.tokens_min > 1) {
    if (input.input.tokens_min == most) return "exactly " + text;
    text += fmt::format(", at least {}", input.input.tokens_min);
  }
  if (input.tokens_step > 1) text += fmt::format(", in steps of {}", input.tokens_step);
  return text;
}

void add_functions(const ModelFacts& facts, TitledLines& out) {
  for (uint32_t i = 0; i < facts.inputs.size(); ++i) {
    out.add("inputs", fmt::format("{}: {}, {}", convert::printable(facts.inputs[i].name, 40),
                                  input_text(facts, i), length_text(facts.inputs[i])));
  }
  for (const FunctionFacts& function : facts.functions) {
    out.add("functions",
            fmt::format("{} takes {}{}{}, gives [{}, {}]; {}, {}",
                        convert::printable(function.name, 40), fmt::join(function.inputs, ", "),
                        function.inputs_read.empty() ? "" : ", sees ",
                        fmt::join(function.inputs_read, ", "),
                        function.has_row_of_sequence ? "sequences" : "tokens",
                        function.output_features, function.causal ? "causal" : "whole sequences",
                        counted(function.function.ops, "op")));
  }
}

void add_model(const ModelFacts& facts, TitledLines& out) {
  if (facts.has_several()) {
    add_functions(facts, out);
  } else {
    out.add("input", input_text(facts, 0));
  }
  out.add("sound", convert::printable(facts.sound, 200));
  if (!facts.tokenizer_kind.empty()) {
    out.add("tokenizer", facts.tokenizer_kind + ", " + counted(facts.tokenizer_tokens, "token"));
  }
  if (!facts.has_several()) {
    out.add("output", fmt::format("[{}, {}]", facts.output_rows(), facts.output_features()));
  }
  out.add("classes", class_names(facts.labels));
  if (const uint32_t rows = prefix_rows(facts.reader); rows != 0) {
    out.add("prefix", counted(rows, "row") + " of constants before the tokens of each sequence");
  }
  if (facts.has_several()) return;
  out.add("context", fmt::format("{}{}, {}", length_text(facts.inputs[0]),
                                 facts.lengths_claimed ? ", as its user claims" : "",
                                 calls_text(facts.reader)));
}

std::string header(const ModelFacts& facts, bool is_brief) {
  const format::ModelReader& reader = facts.reader;
  TitledLines out(2, 13);
  out.add("name", convert::printable(reader.name(), 80));
  out.add("architecture", convert::printable(reader.architecture(), 80));
  add_model(facts, out);
  if (!facts.caches.empty()) {
    const bool is_asked = facts.sizes.kv_type() != reader.kv_cache();
    out.add("caches", fmt::format("{}, as {} says", name(facts.sizes.kv_type()),
                                  is_asked ? "--kv" : "the file"));
  }
  out.add("file",
          fmt::format("{} bytes, {} of them metadata, format {}", grouped(facts.footer.file_bytes),
                      grouped(facts.footer.metadata_bytes), facts.footer.format_version));
  const format::SelfTestView test = reader.self_test();
  out.add("self-test",
          test.tokens == 0
              ? "none"
              : fmt::format("{}, {} bytes that arenite strip removes",
                            counted(test.tokens, reader.reads_images() ? "pixel" : "token"),
                            grouped(test.segment.bytes())));
  out.add("written by", convert::printable(reader.producer(), 80));
  if (is_brief) {
    const TargetFacts& target = facts.shown_target();
    const ArenaPlan& plan = target.arena.plan;
    out.add("weights", fmt::format("{} bytes packed for {} (kernels {}){}",
                                   grouped(target.packed.segment.bytes()), name(target.target),
                                   packed_for(target.target),
                                   target.runs_here ? "" : ", which this CPU cannot run"));
    out.add("arena", fmt::format("{} bytes: session {}, kv cache {}, activations {}, scratch {}",
                                 grouped(plan.total_bytes), grouped(plan.session_bytes),
                                 grouped(plan.kv_cache_bytes), grouped(plan.activation_bytes),
                                 grouped(plan.scratch_bytes)));
  }
  return convert::visible(facts.path) + "\n" + out.text();
}

std::string targets(const ModelFacts& facts) {
  TextTable table({"target", "tiles", ">bytes", "on this CPU"});
  TitledLines served(1, 0);
  for (const TargetFacts& target : facts.targets) {
    const char* const runs = target.chosen      ? "runs, with kernels "
                             : target.runs_here ? "could run, with kernels "
                                                : "cannot run";
    table.add_row({name(target.target), tiles(facts, target),
                   grouped(target.packed.segment.bytes()),
                   target.runs_here ? runs + std::string(kernel_set_name(target.target)) : runs});
    served.add("", fmt::format("{} serves {}", name(target.target), cpus_of(target.target)));
  }
  return "Targets\n" + table.text() + served.text();
}

std::string program(const ModelFacts& facts) {
  TextTable table({">op", "name", "kind", "shape", ">products", "", "slots"});
  const format::ModelReader& reader = facts.reader;
  Checked per_token = 0, per_key = 0, per_pass = 0;
  for (const OpFacts& op : facts.ops) {
    const bool by_key = op.cost.per_pair != 0;
    const uint64_t products = by_key ? op.cost.per_pair : op.cost.per_token;
    table.add_row({std::to_string(op.index), convert::printable(op.name, 80),
                   op_kind_name(op.op.kind), op_shape(op), products == 0 ? "" : grouped(products),
                   products == 0 ? ""
                   : by_key      ? "a key"
                                 : "a row",
                   fmt::format("{} -> {}", fmt::join(op.reads, ","), op.writes)});
    const Checked rows = rows_of_token(reader, reader.whole_axis(reader.axis_of_op(op.index)));
    per_token = per_token + rows * op.cost.per_token;
    per_key = per_key + rows * op.cost.per_pair;
    per_pass = per_pass + op.pass_multiply_adds;
  }
  const std::string of_token =
      facts.has_several() ? ""
                          : fmt::format("A token that sees K keys: {} + {} K. ",
                                        grouped(per_token.value()), grouped(per_key.value()));
  return fmt::format("Program\n{}  {}A pass over {}: {}.\n", table.text(), of_token,
                     sizes_text(reader, facts.sizes.positions_of_inputs(), "position"),
                     grouped(per_pass.value()));
}

std::string calls_table(const ModelFacts& facts) {
  TextTable table({"call", ">multiply-adds", ">bytes read", ">not finite", ">bytes read"});
  for (const FunctionFacts& function : facts.functions) {
    for (const auto& call : {std::optional(function.run), function.step}) {
      if (!call) continue;
      table.add_row({call->name, grouped(call->work.multiply_adds), grouped(call->work.bytes_read),
                     grouped(call->work_not_finite.multiply_adds),
                     grouped(call->work_not_finite.bytes_read)});
    }
  }
  return table.text();
}

std::string bounds_text(const ModelFacts& facts) {
  std::string stacks;
  for (const StackBound& bound : kStackBounds) {
    stacks += fmt::format("{}{}{} {}", stacks.empty() ? "" : ", ", grouped(bound.bytes),
                          stacks.empty() ? " bytes on" : "", bound.cpu);
  }
  const TargetFacts& target = facts.shown_target();
  TitledLines out(2, 6);
  out.add("stack", "at most " + stacks);
  out.add("arena", fmt::format("{} bytes on {}, exactly", grouped(target.arena.plan.total_bytes),
                               name(target.target)));
  out.add("slice", fmt::format("{} multiply-adds, the largest block of any op: that of op {}",
                               grouped(target.slice.multiply_adds), target.slice.op));
  out.add("flash", fmt::format("{} bytes, the file", grouped(facts.footer.file_bytes)));
  out.add("load",
          fmt::format("at most {} steps: blocks of code, as a compiler makes them that does "
                      "not optimize",
                      grouped(load_steps_max(facts))));
  return "Bounds for any input\n" + in_columns(out.text(), text_columns()) + calls_table(facts);
}

std::string tensors(const ModelFacts& facts) {
  if (facts.tensors.empty()) return "";
  const TargetFacts& target = facts.shown_target();
  TextTable table({">no.", "name", ">shape", "type", ">bytes"});
  for (const TensorFacts& tensor : facts.tensors) {
    table.add_row({std::to_string(tensor.index), convert::printable(tensor.name, 80),
                   fmt::format("[{}, {}]", tensor.shape.outputs, tensor.shape.inputs),
                   name(tensor.shape.type),
                   grouped(tensor.packed_bytes[facts.shown_target_index()].value)});
  }
  return fmt::format("Tensors [outputs, inputs]; bytes for {}\n", name(target.target)) +
         table.text();
}

std::string masks(const ModelFacts& facts) {
  std::string text = facts.masks.empty() ? "" : "Masks\n";
  for (const MaskFacts& mask : facts.masks) {
    text += fmt::format(
        "  mask {}: {}, {}; {} bytes, dense {}\n", mask.index,
        convert::printable(mask.description, 1000),
        mask.mask.positions == 0 ? "any length" : counted(mask.mask.positions, "position"),
        grouped(mask.bytes), grouped(mask.dense_bytes));
  }
  return text;
}

std::string caches(const ModelFacts& facts) {
  if (facts.caches.empty()) return "";
  TextTable table({">cache", ">heads", ">key", ">value", "holds", ">bytes"});
  for (const CacheFacts& facts_of_cache : facts.caches) {
    const format::CacheView& cache = facts_of_cache.cache;
    const std::string holds =
        cache.lookback == kUnlimited ? "all" : fmt::format("last {}", uint64_t{cache.lookback} + 1);
    const uint32_t axis = facts.reader.axis_of_cache(facts_of_cache.index);
    table.add_row({std::to_string(facts_of_cache.index), std::to_string(cache.shape.kv_heads),
                   std::to_string(cache.shape.head_dim), std::to_string(cache.shape.value_dim),
                   holds + of_inputs(facts.reader, axis),
                   grouped(facts_of_cache.bytes[facts.shown_target_index()].value)});
  }
  return fmt::format("Caches of keys and values, floats per head; bytes for {}\n",
                     name(facts.shown_target().target)) +
         table.text();
}

std::string arena(const ModelFacts& facts) {
  const SizeOptions& sizes = facts.sizes;
  TextTable table({"target", ">session", ">kv cache", ">activations", ">scratch", ">total bytes"});
  for (const TargetFacts& target : facts.targets) {
    const ArenaPlan& plan = target.arena.plan;
    table.add_row({name(target.target), grouped(plan.session_bytes), grouped(plan.kv_cache_bytes),
                   grouped(plan.activation_bytes), grouped(plan.scratch_bytes),
                   grouped(plan.total_bytes)});
  }
  return fmt::format("Arena for P = {}, T = {} a call, S = {}, N = {}\n",
                     sizes_text(facts.reader, sizes.positions_of_inputs(), "position"),
                     sizes_text(facts.reader, sizes.tokens_of_inputs(), "token"),
                     counted(sizes.sequences, "sequence"), counted(sizes.threads, "thread")) +
         table.text();
}

// Shows the estimated calls on a board and how accurate the estimates are.
std::string board(const ModelFacts& facts) {
  if (!facts.board) return "";
  const BoardEstimate& estimate = *facts.board;
  TextTable table({"call", ">instructions", fmt::format(">ms at {:g} MHz", estimate.clock_mhz)});
  for (const CallEstimate& call : estimate.calls) {
    table.add_row({call.name, grouped(call.instructions),
                   call.milliseconds < 1000.0
                       ? fmt::format("{:.3g}", call.milliseconds)
                       : grouped(static_cast<uint64_t>(std::llround(call.milliseconds)))});
  }
  const char* const integer_rows = estimate.core->integer_rows;
  // In software floating point, products with zero are faster.
  const char* const within =
      integer_rows == nullptr ? "10 %" : "10 %, or 25 % where many weights of attention are zero,";
  std::string notes = fmt::format(
      "Instructions: by rates measured on a {} in QEMU, within {} of what it counts, of whole "
      "calls with one sequence. Milliseconds are an estimate, of {:g} cycles an instruction by "
      "ARM's public figures of the CPU, without memory that waits.",
      estimate.core->name, within, estimate.cycles);
  if (integer_rows != nullptr) {
    notes += fmt::format(
        " In q8 with keys and values in int8, a runtime compiled with ARENITE_INTEGER_ROWS takes "
        "fewer: {}.",
        integer_rows);
  }
  return fmt::format("On {} ({}), for {}\n", estimate.board->name, estimate.board->chip,
                     name(estimate.target)) +
         table.text() + in_columns("  " + notes, text_columns());
}

}  // namespace

std::string model_as_text(const ModelFacts& facts, size_t width) {
  TitledLines out(0, width);
  add_model(facts, out);
  return out.text();
}

std::string facts_in_brief(const ModelFacts& facts) {
  const std::string estimate = board(facts);
  return header(facts, true) + (estimate.empty() ? "" : "\n") + estimate;
}

std::string facts_as_text(const ModelFacts& facts) {
  std::string text = header(facts, false);
  for (const std::string& section :
       {targets(facts), program(facts), bounds_text(facts), board(facts), tensors(facts),
        masks(facts), caches(facts), arena(facts)}) {
    if (!section.empty()) text += "\n" + section;
  }
  return text;
}

}  // namespace arenite::tool
