// SPDX-License-Identifier: Apache-2.0
// The facts of a model file as sections of text.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/arena_map.h"
#include "cli/drawn_ops.h"
#include "cli/inspect_facts.h"
#include "cli/report_facts.h"
#include "cli/target_columns.h"
#include "cli/text_table.h"
#include "convert/files/error.h"
#include "convert/masks/masks.h"
#include "convert/quantize/quantized_matrix.h"

namespace arenite::tool {
namespace {

using convert::printable;

constexpr size_t kNameMax = 80;  // of ops and tensors, in tables that have room
constexpr size_t kNameMin = 17;
constexpr size_t kNameColumn = 1;
constexpr size_t kTextColumnsMax = 100;
constexpr size_t kBarWidth = 80;        // of the shares of an arena
constexpr uint32_t kPictureCells = 16;  // rows and columns of the picture of a mask

std::string target_name(const TargetFacts& target) { return name(target.target); }

std::string label(const std::string& name) { return printable(name, kNameMax); }

// The begin and the end of a name say most. REQUIRES: width > 3.
std::string shortened(const std::string& text, size_t width) {
  if (text.size() <= width) return text;
  const size_t end = (width - 3) / 2;
  return text.substr(0, width - 3 - end) + "..." + text.substr(text.size() - end);
}

// A table whose second column are names, which are shortened as far as its lines need it.
std::string table_of_names(const std::vector<std::string>& titles,
                           std::vector<std::vector<std::string>> rows) {
  size_t others = 2;
  for (size_t column = 0; column < titles.size(); ++column) {
    if (column == kNameColumn) continue;
    size_t width = titles[column].size() - (titles[column].starts_with('>') ? 1 : 0);
    for (const auto& row : rows) width = std::max(width, row[column].size());
    others += width + 2;
  }
  const size_t room = std::max(kTextColumnsMax - std::min(others, kTextColumnsMax), kNameMin);
  TextTable table(titles);
  for (std::vector<std::string>& row : rows) {
    row[kNameColumn] = shortened(row[kNameColumn], room);
    table.add_row(std::move(row));
  }
  return table.text();
}

std::string class_names(const std::vector<std::string>& labels) {
  constexpr size_t kShown = 12;
  std::string text;
  for (size_t i = 0; i < labels.size() && i < kShown; ++i) {
    text += (i == 0 ? "" : ", ") + printable(labels[i], 40);
  }
  return labels.size() > kShown ? text + fmt::format(" and {} more", labels.size() - kShown) : text;
}

std::string header(const ModelFacts& facts) {
  const format::ModelReader& reader = facts.reader;
  std::string text = facts.path + "\n";
  const auto add = [&](const char* what, const std::string& value) {
    if (!value.empty()) text += fmt::format("  {:<13} {}\n", what, value);
  };
  add("name", printable(reader.name(), 80));
  add("architecture", printable(reader.architecture(), 80));
  add("input", reader.reads_images() ? image_text(reader.image_patches())
               : reader.vocab_size() == 0
                   ? fmt::format("[tokens, {}]", facts.input_features)
                   : fmt::format("tokens of a vocabulary of {}", grouped(reader.vocab_size())));
  if (!facts.tokenizer_kind.empty()) {
    add("tokenizer",
        fmt::format("{}, {}", facts.tokenizer_kind, counted(facts.tokenizer_tokens, "token")));
  }
  add("output", fmt::format("[{}, {}]", facts.output_rows(), facts.output_features()));
  add("classes", class_names(facts.labels));
  std::string context =
      reader.positions_max() == 0 ? "any length" : counted(reader.positions_max(), "position");
  if (reader.tokens_min() > 1) context += fmt::format(", at least {}", reader.tokens_min());
  if (reader.prefix_rows() != 0) {
    add("prefix", fmt::format("{} of constants before the tokens of each sequence",
                              counted(reader.prefix_rows(), "row")));
  }
  add("context", fmt::format("{}, {}", context, calls_text(reader)));
  if (reader.caches() != 0) {
    const bool is_default = facts.sizes.kv_type() == reader.kv_cache();
    add("caches", fmt::format("{}{}", name(facts.sizes.kv_type()),
                              is_default ? ", as the file says" : ", as --kv says"));
  }
  add("file",
      fmt::format("{} bytes, {} of them metadata, format {}", grouped(facts.footer.file_bytes),
                  grouped(facts.footer.metadata_bytes), facts.footer.format_version));
  add("self-test", reader.self_test().tokens == 0
                       ? "none"
                       : fmt::format("{}, {} bytes that arenite strip removes",
                                     counted(reader.self_test().tokens, "token"),
                                     grouped(reader.self_test().segment.bytes())));
  add("written by", printable(reader.producer(), 80));
  return text;
}

// The tiles of the types that the file's tensors have: "f32 8x32, q8 8x16c8".
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

std::string targets(const ModelFacts& facts) {
  TextTable table({"target", "tiles", ">bytes", "on this CPU"});
  for (const TargetFacts& target : facts.targets) {
    const std::string kernels = kernel_set_name(target.target);
    table.add_row({target_name(target), tiles(facts, target),
                   grouped(target.packed.segment.bytes()),
                   target.chosen      ? fmt::format("runs, with kernels {}", kernels)
                   : target.runs_here ? fmt::format("could run, with kernels {}", kernels)
                                      : "cannot run"});
  }
  std::string text = "Targets\n" + table.text();
  for (const TargetFacts& target : facts.targets) {
    text += fmt::format("  {} serves {}\n", target_name(target), cpus_of(target.target));
  }
  return text;
}

// Widths of what an op reads and makes, then its function and numbers, as its row names them, but
// for what goes without saying: --json has all of it.
std::string op_shape(const format::OpView& op) {
  const format::OpRow& row = format::row_of(op.kind);
  std::vector<std::string> reads;
  for (uint32_t i = 0; i < format::kOutput; ++i) {
    if (op.views[i].width != 0) reads.push_back(std::to_string(op.views[i].width));
  }
  const std::string output = std::to_string(op.views[format::kOutput].width);
  if (reads.empty()) reads.push_back(output);
  std::string text = fmt::format("{}", fmt::join(reads, ","));
  if (reads[0] != output) text += " -> " + output;
  for (uint32_t i = 0; i < format::kOpNumbers; ++i) {
    const auto& [field, type, optional] = row.numbers[i];
    if (type == format::NumberType::kNone) continue;
    if (optional && op.numbers[i] == format::kAbsent) continue;
    if (is_terms_by(op, i)) {
      if (op.numbers[format::AttentionOp::kTerms] != format::kAbsent)
        text += " by " + terms_name(op);
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

std::string program(const ModelFacts& facts) {
  std::vector<std::vector<std::string>> rows;
  Checked per_token = 0, per_pair = 0, per_pass = 0;
  for (size_t i = 0; i < facts.ops.size(); ++i) {
    const OpFacts& op = facts.ops[i];
    const bool products = op.cost.per_token != 0 || op.cost.per_pair != 0;
    const bool pairs = op.cost.per_pair != 0;
    rows.push_back({std::to_string(i), label(op.name), op_kind_name(op.op.kind), op_shape(op.op),
                    products ? grouped(pairs ? op.cost.per_pair : op.cost.per_token) : "",
                    pairs      ? "a key"
                    : products ? "a row"
                               : "",
                    fmt::format("{} -> {}", fmt::join(op.reads, ","), op.writes)});
    per_token = per_token + op.cost.per_token;
    per_pair = per_pair + op.cost.per_pair;
    per_pass = per_pass + op.pass_multiply_adds;
  }
  return "Program\n" +
         table_of_names({">op", "name", "kind", "shape", ">products", "", "slots"},
                        std::move(rows)) +
         fmt::format("  A token that sees K keys: {} + {} K. A pass over {}: {}.\n",
                     grouped(per_token.saturated()), grouped(per_pair.saturated()),
                     counted(facts.sizes.positions, "position"), grouped(per_pass.saturated()));
}

// What worst-case timing starts from.
std::string traffic(const ModelFacts& facts) {
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < facts.ops.size(); ++i) {
    const OpFacts& op = facts.ops[i];
    rows.push_back({std::to_string(i), label(op.name), grouped(op.pass_multiply_adds),
                    grouped(op.pass_traffic.read), grouped(op.pass_traffic.written)});
  }
  return fmt::format("A pass over {}, for {}\n", counted(facts.sizes.positions, "position"),
                     target_name(facts.shown_target())) +
         table_of_names({">op", "name", ">multiply-adds", ">bytes read", ">bytes written"},
                        std::move(rows));
}

std::string tensors(const ModelFacts& facts) {
  if (facts.tensors.empty()) return "";
  const TargetColumns columns(facts, facts.tensors.size(), [&](size_t row, size_t target) {
    return facts.tensors[row].packed_bytes[target].value;
  });
  std::vector<std::string> titles = {">no.", "name", ">shape", "type"};
  columns.add_titles(titles);
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < facts.tensors.size(); ++i) {
    const TensorFacts& tensor = facts.tensors[i];
    std::vector<std::string> row = {
        std::to_string(i), label(tensor.name),
        fmt::format("[{}, {}]", tensor.shape.outputs, tensor.shape.inputs),
        name(tensor.shape.type)};
    columns.add_cells(row, [&](size_t target) { return tensor.packed_bytes[target].value; });
    rows.push_back(std::move(row));
  }
  return "Tensors [outputs, inputs]; bytes for each target\n" +
         table_of_names(titles, std::move(rows)) + columns.notes();
}

std::string masks(const ModelFacts& facts) {
  std::string text = facts.masks.empty() ? "" : "Masks\n";
  for (size_t i = 0; i < facts.masks.size(); ++i) {
    const MaskFacts& facts_of = facts.masks[i];
    const uint32_t positions = facts_of.mask.positions;
    text += fmt::format("  mask {}: {}, {}; {} bytes, dense {}\n", i, facts_of.description,
                        positions == 0 ? "any length" : counted(positions, "position"),
                        grouped(facts_of.bytes), grouped(facts_of.dense_bytes));
    const uint32_t drawn = positions == 0 ? facts.sizes.positions : positions;
    for (const std::string& row : convert::MaskPairs(facts_of.mask, drawn).draw(kPictureCells)) {
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

std::string caches(const ModelFacts& facts) {
  if (facts.caches.empty()) return "";
  const TargetColumns columns(facts, facts.caches.size(), [&](size_t row, size_t target) {
    return facts.caches[row].bytes[target].value;
  });
  std::vector<std::string> titles = {">cache", ">heads", ">key", ">value", "holds"};
  columns.add_titles(titles);
  TextTable table(titles);
  for (size_t i = 0; i < facts.caches.size(); ++i) {
    const CacheFacts& cache = facts.caches[i];
    std::vector<std::string> row = {
        std::to_string(i), std::to_string(cache.cache.shape.kv_heads),
        std::to_string(cache.cache.shape.head_dim), std::to_string(cache.cache.shape.value_dim),
        cache.cache.lookback == kUnlimited
            ? std::string("all")
            : fmt::format("last {}", uint64_t{cache.cache.lookback} + 1)};
    columns.add_cells(row, [&](size_t target) { return cache.bytes[target].value; });
    table.add_row(row);
  }
  return "Caches of keys and values, floats per head; bytes for each target\n" + table.text() +
         columns.notes();
}

std::string sizes_text(const SizeOptions& sizes) {
  return fmt::format("P = {}, T = {} a call, S = {}, N = {}", counted(sizes.positions, "position"),
                     counted(sizes.tokens, "token"), counted(sizes.sequences, "sequence"),
                     counted(sizes.threads, "thread"));
}

std::string bytes_table(const ModelFacts& facts) {
  TextTable table({"target", ">session", ">kv cache", ">activations", ">scratch", ">total bytes"});
  for (const TargetFacts& target : facts.targets) {
    const ArenaPlan& plan = target.arena.plan;
    table.add_row({name(target.target), grouped(plan.session_bytes), grouped(plan.kv_cache_bytes),
                   grouped(plan.activation_bytes), grouped(plan.scratch_bytes),
                   grouped(plan.total_bytes)});
  }
  return table.text();
}

std::string formulas(const ModelFacts& facts) {
  TextTable table({"target", "bytes for any sizes, each part rounded up to 64"});
  for (const TargetFacts& target : facts.targets) {
    std::string first = name(target.target);
    for (const std::string& line : formula_lines(target.formula)) {
      table.add_row({first, line});
      first.clear();
    }
  }
  return table.text();
}

// The drawn ops [begin, end) and the slots that they need.
std::string slot_map(const ModelFacts& facts, const DrawnOps& drawn, size_t begin, size_t end) {
  std::vector<MapOp> ops;
  std::vector<MapSlot> slots;
  for (size_t i = begin; i < end; ++i) {
    ops.push_back({drawn.ops[i], convert::printable(facts.ops[drawn.ops[i]].name)});
  }
  for (size_t i = 0; i < facts.slots.size(); ++i) {
    const SlotFacts& slot = facts.slots[i];
    const std::optional<DrawnSpan> span = drawn_span(drawn, slot.slot);
    if (slot.slot.per_output || !span || span->last < begin || span->first >= end) continue;
    const std::string name = convert::printable(slot.label);
    const std::string part = convert::printable(split_op_name(slot.label).part);
    MapSlot place = {{fmt::format("{} {} [{}]", i, name, slot.slot.width),
                      fmt::format("{} {}", i, name), fmt::format("{} {}", i, part)},
                     slot.slot};
    place.place.first_op = static_cast<uint32_t>(std::max(span->first, begin) - begin);
    place.place.last_op = static_cast<uint32_t>(std::min(span->last, end - 1) - begin);
    slots.push_back(std::move(place));
  }
  std::string text;
  if (slots.empty()) return text;
  for (const std::string& line : draw_slots(ops, slots)) text += line + "\n";
  return text;
}

// In pieces below each other where the ops are many; layers that are alike are drawn once.
std::string slot_maps(const ModelFacts& facts) {
  const DrawnOps drawn = ops_to_draw(facts, kMapOpsMax);
  std::string text;
  for (const DrawnOps::Repeat& repeat : drawn.repeats) {
    text += fmt::format("  {}\n", describe(drawn, repeat));
  }
  for (size_t begin = 0; begin < drawn.ops.size(); begin += kMapOpsMax) {
    if (begin > 0) text += '\n';
    text += slot_map(facts, drawn, begin, std::min(begin + kMapOpsMax, drawn.ops.size()));
  }
  return text;
}

std::string pictures(const ModelFacts& facts) {
  std::string text;
  const TargetFacts& shown = facts.shown_target();
  const ArenaPlan& plan = shown.arena.plan;
  text += fmt::format("\n  {}, {} bytes\n", name(shown.target), grouped(plan.total_bytes));
  for (const std::string& line : draw_shares({{'s', "session", plan.session_bytes},
                                              {'k', "kv cache", plan.kv_cache_bytes},
                                              {'a', "activations", plan.activation_bytes},
                                              {'x', "scratch", plan.scratch_bytes}},
                                             kBarWidth)) {
    text += fmt::format("  {}\n", line);
  }
  text += fmt::format(
      "\n  Activations: {} floats a token; slots from the op that fills them to the last reader\n",
      grouped(shown.packed.formula.activation_bytes_per_token / sizeof(float)));
  return text + slot_maps(facts);
}

std::string arena(const ModelFacts& facts) {
  return fmt::format("Arena for {}\n{}\n{}{}", sizes_text(facts.sizes), bytes_table(facts),
                     formulas(facts), pictures(facts));
}

}  // namespace

std::string facts_in_brief(const ModelFacts& facts) {
  const TargetFacts& target = facts.shown_target();
  const ArenaPlan& plan = target.arena.plan;
  return header(facts) +
         fmt::format("  {:<13} {} bytes packed for {} (kernels {}){}\n", "weights",
                     grouped(target.packed.segment.bytes()), name(target.target),
                     kernel_set_name(target.target),
                     target.runs_here ? "" : ", which this CPU cannot run") +
         fmt::format("  {:<13} {} bytes: session {}, kv cache {}, activations {}, scratch {}\n",
                     "arena", grouped(plan.total_bytes), grouped(plan.session_bytes),
                     grouped(plan.kv_cache_bytes), grouped(plan.activation_bytes),
                     grouped(plan.scratch_bytes));
}

std::string facts_as_text(const ModelFacts& facts) {
  std::string text = header(facts);
  for (const std::string& section :
       {targets(facts), program(facts), traffic(facts), bounds_text(facts), tensors(facts),
        masks(facts), caches(facts), arena(facts)}) {
    if (!section.empty()) text += "\n" + section;
  }
  return text;
}

}  // namespace arenite::tool
