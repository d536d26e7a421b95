// SPDX-License-Identifier: Apache-2.0
// Formats the facts of a model file as text: tables that place the keys of --json, and pictures
// made of characters.
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

// --- Pictures of an arena in characters: slots over time, and the parts of the arena ---

struct MapSlot {
  std::vector<std::string> labels;  // the first that fits is shown; the last may be cut
  format::SlotView place;
};

struct MapOp {
  uint32_t number = 0;
  std::string name;
};

// Limits the ops beside each other, as every op index needs 5 columns.
size_t map_width() { return text_columns() - 14; }  // of the boxes, without the scale to their left
size_t map_ops_max() { return map_width() / 5; }

struct Share {
  char letter = ' ';
  std::string name;
  uint64_t bytes = 0;
};

constexpr size_t kMapHeight = 16;  // approximate; thin slots get extra rows

struct Box {
  size_t left = 0, right = 0, top = 0, bottom = 0;  // borders, both inclusive
};

// Boxes are drawn on two layers, horizontal and vertical lines. Corners are where both are set.
class Canvas {
 public:
  Canvas(size_t width, size_t height)
      : across_(height, std::vector<bool>(width)),
        down_(height, std::vector<bool>(width)),
        text_(height, std::string(width, ' ')) {}

  void draw(const Box& box, const std::vector<std::string>& labels) {
    for (size_t x = box.left; x <= box.right; ++x) {
      across_[box.top][x] = across_[box.bottom][x] = true;
    }
    for (size_t y = box.top; y <= box.bottom; ++y) {
      down_[y][box.left] = down_[y][box.right] = true;
    }
    const size_t room = box.right - box.left - 1;
    const auto fits = [room](const std::string& label) { return label.size() <= room; };
    const auto found = std::ranges::find_if(labels, fits);
    const std::string& name = found != labels.end() ? *found : labels.back();
    const size_t indent = room > name.size() ? 1 : 0;
    const std::string shown = name.substr(0, room - std::min(room, indent));
    text_[box.top + 1].replace(box.left + 1 + indent, shown.size(), shown);
  }

  std::string row(size_t y) const {
    std::string row = text_[y];
    for (size_t x = 0; x < row.size(); ++x) {
      if (across_[y][x] || down_[y][x]) row[x] = !down_[y][x] ? '-' : !across_[y][x] ? '|' : '+';
    }
    return row;
  }

 private:
  std::vector<std::vector<bool>> across_, down_;
  std::vector<std::string> text_;
};

// The offsets where slots begin or end, ascending, and the text row of each.
struct Scale {
  std::vector<uint32_t> edges;
  std::vector<size_t> rows;

  size_t row(uint32_t edge) const {
    return rows[static_cast<size_t>(std::lower_bound(edges.begin(), edges.end(), edge) -
                                    edges.begin())];
  }
};

Scale make_scale(const std::vector<MapSlot>& slots) {
  Scale scale;
  for (const MapSlot& slot : slots) {
    scale.edges.push_back(slot.place.offset);
    scale.edges.push_back(slot.place.offset + slot.place.width);
  }
  std::sort(scale.edges.begin(), scale.edges.end());
  scale.edges.erase(std::unique(scale.edges.begin(), scale.edges.end()), scale.edges.end());
  const size_t height = std::min<size_t>(kMapHeight, 2 * size_t{scale.edges.back()});
  size_t row = 0;
  for (size_t i = 0; i < scale.edges.size(); ++i) {
    if (i > 0) {
      const double columns = scale.edges[i] - scale.edges[i - 1];
      const double share = columns / scale.edges.back() * static_cast<double>(height);
      row += std::max<size_t>(2, static_cast<size_t>(std::lround(share)));
    }
    scale.rows.push_back(row);
  }
  return scale;
}

// Returns the width of an op's stripe: enough for all names, if the page is wide enough.
size_t stripe_width(const std::vector<MapOp>& ops, const std::vector<MapSlot>& slots) {
  size_t wanted = 0;
  for (const MapOp& op : ops) wanted = std::max(wanted, op.name.size() + 3);
  for (const MapSlot& slot : slots) {
    const size_t stripes = slot.place.last_op - slot.place.first_op + 1;
    wanted = std::max(wanted, (slot.labels[0].size() + 3 + stripes - 1) / stripes);
  }
  return std::min(wanted, map_width() / ops.size());
}

// Returns the ops' names, or their indices if a name does not fit.
std::string header(const std::vector<MapOp>& ops, size_t stripe) {
  const bool has_names =
      std::ranges::all_of(ops, [&](const MapOp& op) { return op.name.size() + 2 <= stripe; });
  std::string text = fmt::format("{:>8} ", has_names ? "column" : "op");
  for (const MapOp& op : ops) {
    text += fmt::format(" {:<{}}", has_names ? op.name : std::to_string(op.number), stripe - 1);
  }
  return text;
}

// Draws time from left to right, a stripe per op, headed by names if all fit, else by indices.
// Draws the columns of the activation area from top to bottom. A slot is a box from its writer to
// its last reader. The ops of a slot's place are indices of `ops`. The result is as wide as text
// may be. REQUIRES: 0 < ops.size() <= map_ops_max().
std::vector<std::string> draw_slots(const std::vector<MapOp>& ops,
                                    const std::vector<MapSlot>& slots) {
  const size_t stripe = stripe_width(ops, slots);
  const Scale scale = make_scale(slots);
  const size_t width = stripe * ops.size() + 1;
  Canvas canvas(width, scale.rows.back() + 1);
  for (const MapSlot& slot : slots) {
    const format::SlotView& place = slot.place;
    canvas.draw({place.first_op * stripe, (place.last_op + 1) * stripe, scale.row(place.offset),
                 scale.row(place.offset + place.width)},
                slot.labels);
  }
  std::vector<std::string> lines = {header(ops, stripe)};
  for (size_t y = 0; y <= scale.rows.back(); ++y) {
    const auto edge = std::find(scale.rows.begin(), scale.rows.end(), y);
    const std::string mark =
        edge == scale.rows.end()
            ? ""
            : std::to_string(scale.edges[static_cast<size_t>(edge - scale.rows.begin())]);
    lines.push_back(fmt::format("{:>8} {}", mark, canvas.row(y)));
  }
  for (std::string& line : lines) line.erase(line.find_last_not_of(' ') + 1);
  return lines;
}

// Draws a bar of about `width` letters with a legend below. Leaves out parts without bytes; every
// other part gets at least one letter.
std::vector<std::string> draw_shares(const std::vector<Share>& shares, size_t width) {
  uint64_t total = 0;
  for (const Share& share : shares) total += share.bytes;
  std::string bar;
  std::string legend;
  uint64_t before = 0;
  for (const Share& share : shares) {
    if (share.bytes == 0) continue;
    before += share.bytes;
    const double end = static_cast<double>(before) / static_cast<double>(total);
    const size_t filled = static_cast<size_t>(std::lround(end * static_cast<double>(width)));
    bar.resize(std::max(filled, bar.size() + 1), share.letter);
    const double percent = 100.0 * static_cast<double>(share.bytes) / static_cast<double>(total);
    legend += fmt::format("{}{} {} {} %", legend.empty() ? "" : ", ", share.letter, share.name,
                          percent < 1.0 ? "<1" : fmt::format("{:.0f}", percent));
  }
  return {fmt::format("[{}]", bar), fmt::format(" {}", legend)};
}

// --- Facts that only text has, derived from JSON ---

constexpr size_t kTargetColumnsMax = 3;
constexpr size_t kClassesMax = 12;
constexpr size_t kBarWidth = 80;        // of the parts of an arena, on a wide terminal
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

// Draws the ops [begin, end) of `drawn` and the slots that they need.
std::string slot_map(const ModelFacts& facts, const DrawnOps& drawn, size_t begin, size_t end) {
  std::vector<MapOp> ops;
  std::vector<MapSlot> slots;
  for (size_t i = begin; i < end; ++i) {
    ops.push_back({drawn.ops[i], convert::printable(facts.ops[drawn.ops[i]].name)});
  }
  for (size_t i = 0; i < facts.slots.size(); ++i) {
    const SlotFacts& slot = facts.slots[i];
    const std::optional<DrawnSpan> span = drawn_span(drawn, slot.slot);
    if (slot.area != facts.reader.area_of(0) || !span || span->last < begin || span->first >= end)
      continue;
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

// Draws many ops in pieces below each other. Equal layers are drawn once.
std::string slot_maps(const ModelFacts& facts) {
  const DrawnOps drawn = ops_to_draw(facts, map_ops_max());
  std::string text;
  for (const DrawnOps::Repeat& repeat : drawn.repeats) {
    text += fmt::format("  {}\n", describe(drawn, repeat));
  }
  for (size_t begin = 0; begin < drawn.ops.size(); begin += map_ops_max()) {
    if (begin > 0) text += '\n';
    text += slot_map(facts, drawn, begin, std::min(begin + map_ops_max(), drawn.ops.size()));
  }
  return text;
}

std::string pictures(const ModelFacts& facts) {
  const ArenaPlan& plan = facts.shown_target().arena.plan;
  const std::vector<std::string> bar = draw_shares({{'s', "session", plan.session_bytes},
                                                    {'k', "kv cache", plan.kv_cache_bytes},
                                                    {'a', "activations", plan.activation_bytes},
                                                    {'x', "scratch", plan.scratch_bytes}},
                                                   std::min(kBarWidth, text_columns() - 6));
  return fmt::format(
             "\n  {}, {} bytes\n  {}\n"
             "\n  Activations: {} floats a token; slots from the op that fills them to the last "
             "reader\n",
             name(facts.shown_target().target), grouped(plan.total_bytes), fmt::join(bar, "\n  "),
             grouped(facts.shown_target().packed.formula.axes[facts.reader.area_of(0)].activations /
                     sizeof(float))) +
         slot_maps(facts);
}

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
         "\n" + formulas(facts) + pictures(facts);
}

// Shows the estimated calls on a board and how accurate the estimates are.
std::string board(const ModelFacts& facts) {
  if (!facts.board) return "";
  const BoardEstimate& estimate = *facts.board;
  const bool has_energy = estimate.board->microwatts_per_mhz != 0.0;
  TextTable table(
      {"call", ">instructions", fmt::format(">ms at {:g} MHz", estimate.clock_mhz), "energy"});
  for (const CallEstimate& call : estimate.calls) {
    table.add_row({call.name, grouped(call.instructions),
                   call.milliseconds < 1000.0
                       ? fmt::format("{:.3g}", call.milliseconds)
                       : grouped(static_cast<uint64_t>(std::llround(call.milliseconds))),
                   has_energy ? call.energy_class : "not known"});
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
  if (has_energy) {
    notes += fmt::format(" Energy is coarser, by some {:g} microwatts a MHz: {}.",
                         estimate.board->microwatts_per_mhz, kEnergyClasses);
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
