// SPDX-License-Identifier: Apache-2.0
// Formats the facts of a model file as text: tables that place the keys of --json, and masks made
// of characters.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/help.h"
#include "cli/process.h"
#include "cli/report.h"
#include "cli/text_table.h"
#include "convert/files/error.h"
#include "convert/masks/masks.h"
#include "convert/quantize/quantizers.h"
#include "convert/sound/sound_parameters.h"
#include "core/targets.h"

namespace arenite::tool {
namespace {

// --- Facts that only text has, derived from JSON ---

constexpr size_t kTargetColumnsMax = 3;
constexpr size_t kClassesMax = 12;
constexpr uint32_t kPictureCells = 16;  // rows and columns of a mask's picture

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

// Adds the sums over the program's ops.
void add_sums(const ModelFacts& facts, Json& json) {
  Checked per_token = 0, per_pair = 0, per_pass = 0;
  for (uint32_t i = 0; i < facts.ops.size(); ++i) {
    const OpFacts& op = facts.ops[i];
    const format::ModelReader& reader = facts.reader;
    const Checked rows = rows_of_token(reader, reader.whole_axis(reader.axis_of_op(i)));
    per_token = per_token + rows * op.cost.per_token;
    per_pair = per_pair + rows * op.cost.per_pair;
    per_pass = per_pass + op.pass_multiply_adds;
  }
  json["sums"] = {
      {"token", per_token.value()}, {"key", per_pair.value()}, {"pass", per_pass.value()}};
}

Json facts_for_text(const ModelFacts& facts) {
  Json json = facts_of(facts);
  add_page(json, facts);
  json["target"] = json["targets"][facts.shown_target_index()];
  for (size_t i = 0; i < facts.ops.size(); ++i) json["ops"][i]["shape"] = op_shape(facts.ops[i]);
  for (size_t i = 0; i < facts.tensors.size(); ++i) {
    json["tensors"][i]["type"] = name(facts.tensors[i].shape.type);
  }
  for (Json& cache : json["caches"]) {
    const Json& lookback = cache["lookback"];
    cache["holds"] =
        (lookback.is_null() ? "all" : fmt::format("last {}", lookback.get<uint64_t>() + 1)) +
        of_inputs(facts.reader, facts.reader.axis_of_cache(cache["index"].get<uint32_t>()));
  }
  add_sums(facts, json);
  return json;
}

// --- Tables ---

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
  if (const SoundNumbers* const sound = facts.reader.sound().numbers) {
    out.add("sound", convert::printable(convert::describe_sound(*sound), 200));
  }
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

std::string program(const ModelFacts& facts, const Json& json) {
  return "Program\n" +
         table({{">op", "{index:d}"},
                {"name", "{name@80}"},
                {"kind", "{kind}"},
                {"shape", "{shape}"},
                {">products",
                 "<{?multiply_adds_per_key}{multiply_adds_per_key}>"
                 "<{!multiply_adds_per_key}{?multiply_adds_per_token}{multiply_adds_per_token}>"},
                {"",
                 "<{?multiply_adds_per_key}a key>"
                 "<{!multiply_adds_per_key}{?multiply_adds_per_token}a row>"},
                {"slots", "{reads_slots:d} -> {writes_slot:d}"}},
               json["ops"]) +
         (facts.has_several()
              ? "  "
              : filled("  A token that sees K keys: {sums.token} + {sums.key} K. ", json)) +
         filled("A pass over {page.positions@400}: {sums.pass}.\n", json);
}

std::string calls_table(const ModelFacts& facts) {
  TextTable table({"call", ">multiply-adds", ">bytes read", ">not finite", ">bytes read"});
  for (const FunctionFacts& function : facts.functions) {
    for (const auto& call : {std::optional(function.run), function.step}) {
      if (!call) continue;
      table.add_row({call->name, grouped(call->multiply_adds), grouped(call->bytes_read),
                     grouped(call->multiply_adds_not_finite),
                     grouped(call->bytes_read_not_finite)});
    }
  }
  return table.text();
}

std::string bounds_text(const ModelFacts& facts, const Json& json) {
  std::string stacks;
  for (const auto& [cpu, bytes] : json["bounds"]["stack_bytes"].items()) {
    stacks += fmt::format("{}{}{} {}", stacks.empty() ? "" : ", ", grouped(bytes.get<uint64_t>()),
                          stacks.empty() ? " bytes on" : "", cpu);
  }
  return "Bounds for any input\n  stack  " + wrapped("at most " + stacks, text_columns(), 9) +
         filled(
             "\n  arena  {bounds.arena_bytes} bytes on {target.name}, exactly\n"
             "  slice  {target.smallest_slice.multiply_adds} multiply-adds, the largest block of "
             "any op: that of op {target.smallest_slice.op:d}\n"
             "  flash  {bounds.flash_bytes} bytes, the file\n"
             "  load   at most {bounds.load_steps} steps: blocks of code, as a compiler makes them "
             "that does not optimize\n",
             json) +
         calls_table(facts);
}

// Appends byte columns to `columns`: one per target, but one for all targets with equal bytes, as
// most need the same. Notes below say which targets share a column and which have none.
std::string table_by_target(std::vector<Column> columns, const Json& list, const std::string& key) {
  std::vector<std::pair<Json, std::vector<std::string>>> groups;  // bytes, and the targets
  for (const auto& [target, first] : list[0][key].items()) {
    Json bytes = Json::array();
    for (const Json& row : list) bytes.push_back(row[key][target]);
    const auto known =
        std::ranges::find_if(groups, [&bytes](const auto& group) { return group.first == bytes; });
    if (known != groups.end()) {
      known->second.push_back(target);
    } else {
      groups.push_back({bytes, {target}});
    }
  }
  std::string notes;
  const auto note = [&](const std::string& words, const std::vector<std::string>& names) {
    const std::string text = fmt::format("{} {}", words, fmt::join(names, ", "));
    notes += "  " + wrapped(text, text_columns(), 4) + "\n";
  };
  std::vector<std::string> others;
  for (size_t i = 0; i < groups.size(); ++i) {
    std::vector<std::string> names = groups[i].second;
    if (i >= kTargetColumnsMax) {
      others.insert(others.end(), names.begin(), names.end());
      continue;
    }
    columns.push_back({">" + names[0], fmt::format("{{{}.{}}}", key, names[0])});
    if (names.size() == 1) continue;
    const std::string first = names[0];
    names.erase(names.begin());
    note(fmt::format("as {}:", first), names);
  }
  if (!others.empty()) note("--json has those for", others);
  return table(columns, list) + notes;
}

std::string tensors(const Json& json) {
  if (json["tensors"].empty()) return "";
  return "Tensors [outputs, inputs]; bytes for each target\n" +
         table_by_target({{">no.", "{index:d}"},
                          {"name", "{name@80}"},
                          {">shape", "[{outputs:d}, {inputs:d}]"},
                          {"type", "{type}"}},
                         json["tensors"], "packed_bytes");
}

std::string masks(const ModelFacts& facts, const Json& json) {
  std::string text = facts.masks.empty() ? "" : "Masks\n";
  for (size_t i = 0; i < facts.masks.size(); ++i) {
    text += filled(
        "  mask {index:d}: {description@1000}, <{?positions}{positions#position}>"
        "<{!positions}any length>; {bytes} bytes, dense {dense_bytes}\n",
        json["masks"][i]);
    const uint32_t positions = facts.masks[i].mask.positions;
    const uint32_t drawn = positions == 0 ? facts.sizes.positions : positions;
    for (const std::string& row :
         convert::MaskPairs(facts.masks[i].mask, drawn).draw(kPictureCells)) {
      text += "    ";
      for (const char cell : row) text += {' ', cell};
      text += '\n';
    }
    if (drawn > kPictureCells) {
      text += fmt::format("     {} queries down, {} keys across: # all seen, + some, . none\n",
                          grouped(drawn), grouped(drawn));
    }
  }
  return text;
}

std::string caches(const Json& json) {
  if (json["caches"].empty()) return "";
  return "Caches of keys and values, floats per head; bytes for each target\n" +
         table_by_target({{">cache", "{index:d}"},
                          {">heads", "{kv_heads:d}"},
                          {">key", "{head_dim:d}"},
                          {">value", "{value_dim:d}"},
                          {"holds", "{holds}"}},
                         json["caches"], "bytes");
}

// --- The arena ---

std::string arena(const Json& json) {
  return filled(
             "Arena for P = {page.positions@400}, T = {page.tokens@400} a call, "
             "S = {sizes.sequences#sequence}, N = {sizes.threads#thread}\n",
             json) +
         table({{"target", "{name}"},
                {">session", "{arena.session_bytes}"},
                {">kv cache", "{arena.kv_cache_bytes}"},
                {">activations", "{arena.activation_bytes}"},
                {">scratch", "{arena.scratch_bytes}"},
                {">total bytes", "{arena.total_bytes}"}},
               json["targets"]);
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
         table.text() + "  " + wrapped(notes, text_columns(), 2) + "\n";
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
  const Json json = facts_for_text(facts);
  std::string text = header(facts, false);
  for (const std::string& section :
       {targets(facts), program(facts, json), bounds_text(facts, json), board(facts), tensors(json),
        masks(facts, json), caches(json), arena(json)}) {
    if (!section.empty()) text += "\n" + section;
  }
  return text;
}

}  // namespace arenite::tool
