// SPDX-License-Identifier: Apache-2.0
// The facts of a model file as sections of text.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cli/inspect_facts.h"
#include "cli/report.h"
#include "cli/report_facts.h"
#include "cli/text_table.h"
#include "convert/files/error.h"
#include "convert/masks/masks.h"
#include "convert/quantize/quantizers.h"
#include "format/bounds.h"
#include "format/reader.h"

namespace arenite::tool {
namespace {

// --- Pictures of an arena in characters: slots over time, and the shares of its parts ---

struct MapSlot {
  std::vector<std::string> labels;  // the first that has room is shown; the last is cut to fit
  format::SlotView place;
};

struct MapOp {
  uint32_t number = 0;
  std::string name;
};

// More do not fit beside each other.
constexpr size_t kMapOpsMax = 17;

struct Share {
  char letter = ' ';
  std::string name;
  uint64_t bytes = 0;
};

constexpr size_t kMapWidth = 86;   // of the boxes; the scale to their left takes 10 more
constexpr size_t kMapHeight = 16;  // about; thin slots get more than their share
static_assert(kMapWidth / kMapOpsMax >= 5, "the number of any op has room");

struct Box {
  size_t left = 0, right = 0, top = 0, bottom = 0;  // borders, both ends included
};

// Boxes are drawn as two layers of lines, horizontal and vertical; corners are where both are.
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

// Where slots begin and end, from top to bottom, and the row of each such edge.
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

// The width of the stripe of an op: room for all names, if there is.
size_t stripe_width(const std::vector<MapOp>& ops, const std::vector<MapSlot>& slots) {
  size_t wanted = 0;
  for (const MapOp& op : ops) wanted = std::max(wanted, op.name.size() + 3);
  for (const MapSlot& slot : slots) {
    const size_t stripes = slot.place.last_op - slot.place.first_op + 1;
    wanted = std::max(wanted, (slot.labels[0].size() + 3 + stripes - 1) / stripes);
  }
  return std::min(wanted, kMapWidth / ops.size());
}

// Names, or numbers where a name has no room.
std::string header(const std::vector<MapOp>& ops, size_t stripe) {
  const bool has_names =
      std::ranges::all_of(ops, [&](const MapOp& op) { return op.name.size() + 2 <= stripe; });
  std::string text = fmt::format("{:>8} ", has_names ? "column" : "op");
  for (const MapOp& op : ops) {
    text += fmt::format(" {:<{}}", has_names ? op.name : std::to_string(op.number), stripe - 1);
  }
  return text;
}

// Time goes from left to right, one stripe for each op, with its name where all names have room and
// else with its number; the columns of the activation area go from top to bottom; each slot is a
// box from the op that fills it to the last op that reads it. Ops of a slot's place are indices of
// `ops`. At most 100 characters wide. REQUIRES: 0 < ops.size() <= kMapOpsMax.
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

// A bar of about `width` letters and, below it, what they stand for. Parts without bytes are left
// out; all others have at least one letter.
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

// --- Tables ---

// A column of bytes for each target, of those that are alike one: few differ in what they need.
class TargetColumns {
 public:
  static constexpr size_t kColumnsMax = 3;

  // `bytes_of(row, target)` for rows [0, rows).
  template <typename BytesOf>
  TargetColumns(const ModelFacts& facts, size_t rows, const BytesOf& bytes_of) : facts_(facts) {
    std::map<std::vector<uint64_t>, size_t> known;
    for (size_t t = 0; t < facts.targets.size(); ++t) {
      std::vector<uint64_t> column;
      for (size_t row = 0; row < rows; ++row) column.push_back(bytes_of(row, t));
      const auto [place, is_new] = known.emplace(column, groups_.size());
      if (is_new) groups_.emplace_back();
      groups_[place->second].push_back(t);
    }
  }

  void add_titles(std::vector<std::string>& titles) const {
    for (size_t i = 0; i < shown(); ++i) {
      titles.push_back('>' + name_of(facts_.targets[groups_[i].front()]));
    }
  }

  template <typename BytesOf>
  void add_cells(std::vector<std::string>& cells, const BytesOf& bytes_of) const {
    for (size_t i = 0; i < shown(); ++i) cells.push_back(grouped(bytes_of(groups_[i].front())));
  }

  // Who shares a column, and who has none.
  std::string notes() const {
    std::string text;
    for (size_t i = 0; i < shown(); ++i) {
      if (groups_[i].size() == 1) continue;
      text += fmt::format("  as {}: {}\n", name_of(facts_.targets[groups_[i].front()]),
                          names({groups_[i].begin() + 1, groups_[i].end()}));
    }
    std::vector<size_t> others;
    for (size_t i = shown(); i < groups_.size(); ++i) {
      others.insert(others.end(), groups_[i].begin(), groups_[i].end());
    }
    if (!others.empty()) text += fmt::format("  --json has those for {}\n", names(others));
    return text;
  }

 private:
  size_t shown() const { return std::min(groups_.size(), kColumnsMax); }
  std::string name_of(const TargetFacts& target) const { return name(target.target); }
  std::string names(const std::vector<size_t>& targets) const {
    std::vector<std::string> names;
    for (const size_t t : targets) names.push_back(name_of(facts_.targets[t]));
    return fmt::format("{}", fmt::join(names, ", "));
  }

  const ModelFacts& facts_;
  std::vector<std::vector<size_t>> groups_;  // targets whose bytes are alike
};

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
                     grouped(per_token.value()), grouped(per_pair.value()),
                     counted(facts.sizes.positions, "position"), grouped(per_pass.value()));
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

// "    multiply-adds  1,234 T + 56 O + 8 B min(K, 90)", in lines of at most 100 columns. Parts that
// are 0 are left out.
class Sum {
 public:
  explicit Sum(const std::string& name) : lines_{fmt::format("    {:<13} ", name)} {}

  void add(uint64_t factor, const std::string& sizes = "") {
    if (factor == 0) return;
    const std::string term =
        (is_empty_ ? " " : " + ") + grouped(factor) + (sizes.empty() ? "" : " " + sizes);
    is_empty_ = false;
    if (lines_.back().size() + term.size() > kColumnsMax) lines_.emplace_back(kIndent, ' ');
    lines_.back() += term;
  }
  std::string text() const {
    return fmt::format("{}{}\n", fmt::join(lines_, "\n"), is_empty_ ? " 0" : "");
  }

 private:
  static constexpr size_t kColumnsMax = 100;
  static constexpr size_t kIndent = 18;
  std::vector<std::string> lines_;
  bool is_empty_ = true;
};

std::string keys_of(const AttentionBound& op) {
  return op.keys_max == UINT64_MAX ? "K" : fmt::format("min(K, {})", grouped(op.keys_max));
}

std::string work_formulas(const CallBounds& bounds) {
  Sum products("multiply-adds"), more_products("multiply-adds");
  Sum bytes("bytes read"), more_bytes("bytes read");
  products.add(bounds.multiply_adds_per_row, "T");
  products.add(bounds.multiply_adds_per_output, "O");
  bytes.add(bounds.bytes_once);
  bytes.add(bounds.bytes_per_row, "T");
  bytes.add(bounds.bytes_per_output, "O");
  for (const AttentionBound& op : bounds.attention) {
    products.add(op.multiply_adds, "T " + keys_of(op));
    more_products.add(op.multiply_adds_not_finite, "T " + keys_of(op));
    bytes.add(op.bytes, "B " + keys_of(op));
    more_bytes.add(op.bytes_not_finite, "T " + keys_of(op));
  }
  const std::string text = products.text() + bytes.text();
  if (bounds.attention.empty()) return text;
  return text + "  Numbers that are not finite, such as NaN, add at most\n" + more_products.text() +
         more_bytes.text();
}

std::string calls_table(const ModelFacts& facts) {
  TextTable table({"call", ">multiply-adds", ">bytes read", ">not finite", ">bytes read"});
  const auto add = [&](const CallFacts& call) {
    table.add_row({call.name, grouped(call.multiply_adds), grouped(call.bytes_read),
                   grouped(call.multiply_adds_not_finite), grouped(call.bytes_read_not_finite)});
  };
  add(largest_run(facts));
  if (const std::optional<CallFacts> step = last_step(facts)) add(*step);
  return table.text();
}

std::string bounds_text(const ModelFacts& facts) {
  std::vector<std::string> stacks;
  for (const StackBound& bound : kStackBounds) {
    const char* const bytes = stacks.empty() ? " bytes on" : "";
    stacks.push_back(fmt::format("{}{} {}", grouped(bound.bytes), bytes, bound.cpu));
  }
  const TargetFacts& target = facts.shown_target();
  const uint32_t prefix = facts.reader.prefix_rows();
  std::string text = fmt::format(
      "Bounds, whatever is fed to it\n"
      "  stack  at most {}\n"
      "  arena  {} bytes on {}, exactly\n"
      "  flash  {} bytes, the file\n"
      "  load   at most {} steps: blocks of code, as a compiler makes them that does not optimize\n"
      "  A call with T rows of a sequence that holds H, of which O are given out; K = H + T, and\n"
      "  B = T / {} rounded up. Several sequences add up, but read the first number once.{}\n",
      fmt::join(stacks, ", "), grouped(target.arena.plan.total_bytes), name(target.target),
      grouped(facts.footer.file_bytes), grouped(load_steps_max(facts)),
      facts.call_bounds.block_rows,
      prefix == 0 ? ""
                  : fmt::format("\n  The first call of a sequence has {} besides.",
                                counted(prefix, "row")));
  return text + work_formulas(facts.call_bounds) + calls_table(facts);
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
