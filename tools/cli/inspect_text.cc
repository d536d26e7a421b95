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
  if (facts.reader.reads_images()) json["images"] = image_text(facts.reader);
  json["classes"] = class_names(facts.labels);
  json["has_several"] = facts.has_several();
  if (facts.has_several()) {
    json["several"] = {{"inputs", json["model"]["inputs"]},
                       {"functions", json["model"]["functions"]}};
    for (uint32_t i = 0; i < facts.reader.inputs(); ++i) {
      Json& input = json["several"]["inputs"][i];
      if (facts.reader.reads_images(i)) input["images"] = image_text(facts.reader, i);
      input["has_least"] = facts.reader.tokens_min(i) > 1;
    }
  }
  json["has_least"] = facts.reader.tokens_min() > 1;
  json["takes_pairs"] = facts.reader.takes_pairs();
  json["kv_is_asked"] = facts.sizes.kv_type() != facts.reader.kv_cache();
  json["target"] = json["targets"][facts.shown_index()];
  for (size_t i = 0; i < facts.targets.size(); ++i) {
    json["targets"][i]["tiles"] = tiles(facts, facts.targets[i]);
  }
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

constexpr Line kHeader[] = {
    {"name", "{?model.name}{model.name@80}"},
    {"architecture", "{?model.architecture}{model.architecture@80}"},
    {"input",
     "{!has_several}<{images}><{!images}{?model.vocab_size}tokens of a vocabulary of "
     "{model.vocab_size}>"
     "<{!images}{!model.vocab_size}[tokens, {model.input_features:d}]>"
     "<{?takes_pairs}, and which tokens see which, [tokens, tokens]>"},
    {"inputs",
     "{name@40}: <{images}><{!images}{?vocab_size}tokens of a vocabulary of {vocab_size}>"
     "<{!images}{!vocab_size}[tokens, {features:d}]><{?takes_pairs} and pairs of tokens>, "
     "<{?positions_max}{positions_max#position}>"
     "<{!positions_max}any length><{?has_least}, at least {tokens_min:d}>",
     "several.inputs"},
    {"functions",
     "{name@40} takes {inputs}<{?inputs_read}, sees {inputs_read}>, gives "
     "[{output_rows}, {output_features:d}]; <{?causal}causal><{!causal}whole sequences>, {ops#op}",
     "several.functions"},
    {"sound", "{?model.sound}{model.sound@100}"},
    {"tokenizer", "{?model.tokenizer}{model.tokenizer}, {page.tokenizer_tokens#token}"},
    {"output", "{!has_several}[{model.output_rows}, {model.output_features:d}]"},
    {"classes", "{?classes}{classes@1000}"},
    {"prefix",
     "{?model.prefix_rows}{model.prefix_rows#row} of constants before the tokens of each "
     "sequence"},
    {"context",
     "{!has_several}<{?images}{model.positions_max#pixel}>"
     "<{!images}{?model.positions_max}{model.positions_max#position}>"
     "<{!model.positions_max}any length>"
     "<{!images}{?has_least}, at least {model.tokens_min:d}>"
     "<{?model.lengths_claimed}, as its user claims>, {page.calls}"},
    {"caches", "{?caches}{sizes.kv_cache}, as <{?kv_is_asked}--kv><{!kv_is_asked}the file> says"},
    {"file",
     "{file.bytes} bytes, {file.metadata_bytes} of them metadata, format "
     "{file.format_version}"},
    {"self-test",
     "<{!self_test.tokens}none><{?images}{?self_test.tokens}{self_test.tokens#pixel}, >"
     "<{!images}{?self_test.tokens}{self_test.tokens#token}, >"
     "<{?self_test.tokens}{self_test.bytes} bytes that arenite strip removes>"},
    {"written by", "{file.producer@80}"},
};
constexpr Line kBrief[] = {
    {"weights",
     "{target.bytes} bytes packed for {target.name} (kernels {target.kernel_set})"
     "<{!target.runs_here}, which this CPU cannot run>"},
    {"arena",
     "{target.arena.total_bytes} bytes: session {target.arena.session_bytes}, kv cache "
     "{target.arena.kv_cache_bytes}, activations {target.arena.activation_bytes}, scratch "
     "{target.arena.scratch_bytes}"},
};

std::string header(const ModelFacts& facts, const Json& json) {
  return convert::visible(facts.path) + "\n" + lines(kHeader, json, 2, 13);
}

std::string targets(const Json& json) {
  return "Targets\n" +
         table({{"target", "{name}"},
                {"tiles", "{tiles}"},
                {">bytes", "{bytes}"},
                {"on this CPU",
                 "<{?chosen}runs, with kernels {running_kernel_set}>"
                 "<{!chosen}{?runs_here}could run, with kernels {running_kernel_set}>"
                 "<{!runs_here}cannot run>"}},
               json["targets"]) +
         lines(std::vector<Line>{{"", "{name} serves {cpus}", "targets"}}, json, 1, 0);
}

std::string program(const Json& json) {
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
         filled(
             "  <{!has_several}A token that sees K keys: {sums.token} + {sums.key} K. >A pass over "
             "{page.positions@400}: {sums.pass}.\n",
             json);
}

// Shows the memory traffic per op, for worst-case timing.
std::string traffic(const Json& json) {
  return filled("A pass over {page.positions@400}, for {target.name}\n", json) +
         table({{">op", "{index:d}"},
                {"name", "{name@80}"},
                {">multiply-adds", "{multiply_adds_per_pass}"},
                {">bytes read", "{bytes_read_per_pass}"},
                {">bytes written", "{bytes_written_per_pass}"}},
               json["ops"]);
}

// "    multiply-adds  1,234 T + 56 O + 8 T min(K, 90)", without terms that are 0.
std::string sum(const char* title, const Json& call, std::initializer_list<const char*> terms,
                const char* attention_term) {
  std::vector<std::string> found;
  for (const char* term : terms) found.push_back(filled(term, call));
  for (const Json& op : call["attention"]) {
    found.push_back(filled(
        std::string(attention_term) + " <{?stored}X><{!stored}{!keys_max}K><min(K, {keys_max})>",
        op));
  }
  std::erase(found, "");
  const std::string text = found.empty() ? "0" : fmt::format("{}", fmt::join(found, " + "));
  return fmt::format("    {:<13}  {}\n", title, wrapped(text, text_columns(), 19));
}

std::string work_formulas(const Json& call) {
  std::string text =
      sum("multiply-adds", call,
          {"{?multiply_adds_per_row}{multiply_adds_per_row} T",
           "{?multiply_adds_per_output}{multiply_adds_per_output} O"},
          "{multiply_adds_per_row_and_key} T") +
      sum("bytes read", call,
          {"{?bytes_read_once}{bytes_read_once}", "{?bytes_read_per_row}{bytes_read_per_row} T",
           "{?bytes_read_per_output}{bytes_read_per_output} O"},
          "{bytes_read_per_block_and_key} B");
  if (call["attention"].empty()) return text;
  return text + "  Numbers that are not finite, such as NaN, add at most\n" +
         sum("multiply-adds", call, {}, "{multiply_adds_per_row_and_key_not_finite} T") +
         sum("bytes read", call, {}, "{bytes_read_per_row_and_key_not_finite} T");
}

std::string calls_table(const ModelFacts& facts) {
  Json calls = Json::array();
  for (const FunctionFacts& function : facts.functions) {
    for (const auto& call : {std::optional(function.run), function.step}) {
      if (!call) continue;
      calls.push_back(json_of(*call));
      calls.back()["name"] = call->name;
    }
  }
  return table({{"call", "{name}"},
                {">multiply-adds", "{multiply_adds}"},
                {">bytes read", "{bytes_read}"},
                {">not finite", "{multiply_adds_not_finite}"},
                {">bytes read", "{bytes_read_not_finite}"}},
               calls);
}

std::string bounds_text(const ModelFacts& facts, const Json& json) {
  std::string stacks;
  for (const auto& [cpu, bytes] : json["bounds"]["stack_bytes"].items()) {
    stacks += fmt::format("{}{}{} {}", stacks.empty() ? "" : ", ", grouped(bytes.get<uint64_t>()),
                          stacks.empty() ? " bytes on" : "", cpu);
  }
  std::string formulas;
  for (const FunctionFacts& function : facts.functions) {
    if (facts.has_several()) formulas += "  " + convert::printable(function.name, 40) + "\n";
    formulas += work_formulas(json_of(function.bounds));
  }
  return "Bounds, whatever is fed to it\n  stack  " +
         wrapped("at most " + stacks, text_columns(), 9) +
         filled(
             "\n  arena  {bounds.arena_bytes} bytes on {target.name}, exactly\n"
             "  slice  {target.smallest_slice.multiply_adds} multiply-adds, the largest block of "
             "any op: that of op {target.smallest_slice.op:d}\n"
             "  flash  {bounds.flash_bytes} bytes, the file\n"
             "  load   at most {bounds.load_steps} steps: blocks of code, as a compiler makes them "
             "that does not optimize\n"
             "  A call with T rows of a sequence that holds H, of which O are given out; "
             "K = H + T, and\n"
             "  B = T / {bounds.call.block_rows} rounded up. Several sequences add up, but read "
             "the first number once.\n"
             "<{?has_several}  X keys are those of another input.\n>"
             "<{?model.prefix_rows}  The first call of a sequence has {model.prefix_rows#row} "
             "besides.\n>",
             json) +
         formulas + calls_table(facts);
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

std::string formulas(const ModelFacts& facts) {
  TextTable table({"target", "bytes for any sizes, each part rounded up to 64"});
  for (const TargetFacts& target : facts.targets) {
    std::string first = name(target.target);
    for (const std::string& line : formula_lines(facts.reader, target.formula)) {
      table.add_row({first, line});
      first.clear();
    }
  }
  return table.text();
}

std::string arena(const ModelFacts& facts, const Json& json) {
  return filled(
             "Arena for P = {page.positions@400},<{?has_several}\n > T = {page.tokens@400} a call, "
             "S = {sizes.sequences#sequence}, N = {sizes.threads#thread}\n",
             json) +
         table({{"target", "{name}"},
                {">session", "{arena.session_bytes}"},
                {">kv cache", "{arena.kv_cache_bytes}"},
                {">activations", "{arena.activation_bytes}"},
                {">scratch", "{arena.scratch_bytes}"},
                {">total bytes", "{arena.total_bytes}"}},
               json["targets"]) +
         "\n" + formulas(facts);
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

std::string facts_in_brief(const ModelFacts& facts) {
  const Json json = facts_for_text(facts);
  const std::string estimate = board(facts);
  return header(facts, json) + lines(kBrief, json, 2, 13) + (estimate.empty() ? "" : "\n") +
         estimate;
}

std::string facts_as_text(const ModelFacts& facts) {
  const Json json = facts_for_text(facts);
  std::string text = header(facts, json);
  for (const std::string& section :
       {targets(json), program(json), traffic(json), bounds_text(facts, json), board(facts),
        tensors(json), masks(facts, json), caches(json), arena(facts, json)}) {
    if (!section.empty()) text += "\n" + section;
  }
  return text;
}

}  // namespace arenite::tool
