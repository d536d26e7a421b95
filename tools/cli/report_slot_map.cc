// SPDX-License-Identifier: Apache-2.0
// Each op is a stripe of equal width; names are written where stripes and rectangles have room.
#include "cli/report_slot_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/html.h"
#include "cli/report_facts.h"
#include "cli/text_table.h"

namespace arenite::tool {
namespace {

constexpr uint32_t kOpsDrawn = 512;     // of a program; the middle of a longer one is left out
constexpr uint32_t kOpsDrawnLast = 96;  // of these, at its end
constexpr uint32_t kNamedWidth = 14;    // of a stripe that has room for its op's name
constexpr size_t kLabelCharacters = 18;
constexpr double kCharacterWidth = 6.2;  // of the small font, about
constexpr double kMapHeight = 240.0;
constexpr double kMapLeft = 64.0;

// Where ops lie, from left to right.
class Stripes {
 public:
  explicit Stripes(const SlotMap& map) : first_op_(map.first_op), ops_(map.end_op - map.first_op) {}

  uint32_t left_out() const { return ops_ > kOpsDrawn ? ops_ - kOpsDrawn : 0; }
  // One for each op that is drawn, and one for those left out.
  uint32_t count() const { return left_out() > 0 ? kOpsDrawn + 1 : ops_; }
  // The stripe of those left out; or count().
  uint32_t gap() const { return left_out() > 0 ? kOpsDrawn - kOpsDrawnLast : count(); }
  uint32_t width() const { return std::clamp(960u / count(), 2u, 96u); }
  double x(uint32_t stripe) const { return kMapLeft + stripe * width(); }

  // REQUIRES: stripe != gap().
  uint32_t op(uint32_t stripe) const {
    return first_op_ + (stripe < gap() ? stripe : stripe - 1 + left_out());
  }
  // Ops before and after the map belong to its first and its last stripe.
  uint32_t stripe(uint32_t op) const {
    const uint32_t place = std::clamp(op, first_op_, first_op_ + ops_ - 1) - first_op_;
    if (place < gap()) return place;
    return place < gap() + left_out() ? gap() : place - left_out() + 1;
  }

 private:
  uint32_t first_op_;
  uint32_t ops_;
};

std::string upright(double x, double y, std::string_view text, std::string_view anchor) {
  return fmt::format("<g transform=\"translate({:.5g} {:.5g}) rotate(-90)\">{}</g>", x, y,
                     plot_text(0.0, 0.0, text, anchor));
}

// A slot's label where it has room: along, else upright, else none.
std::string slot_label(const std::string& label, double x, double y, double width, double height) {
  const std::string part = split_op_name(label).part;
  const std::string text = escaped(part, kLabelCharacters);
  const double length =
      kCharacterWidth * static_cast<double>(std::min(part.size(), kLabelCharacters)) + 6.0;
  if (length <= width && height >= 13.0) {
    return plot_text(x + width / 2.0, y + height / 2.0 + 4.0, text, "middle");
  }
  if (length <= height && width >= 12.0) {
    return upright(x + width / 2.0 + 4.0, y + height / 2.0, text, "middle");
  }
  return "";
}

std::string slot_shape(const SlotMap& map, const Stripes& stripes, size_t index, double top) {
  const SlotFacts& facts = map.model.slots[index];
  const double x = stripes.x(stripes.stripe(facts.slot.first_op));
  const double width = stripes.x(stripes.stripe(facts.slot.last_op) + 1) - x;
  const double scale = kMapHeight / static_cast<double>(map.columns());
  const double y = top + scale * facts.slot.offset;
  const double height = scale * facts.slot.width;
  const std::string what = fmt::format("slot {}: {}, {} floats a row, from op {} to op {}", index,
                                       escaped_name(facts.label), grouped(facts.slot.width),
                                       facts.slot.first_op, facts.slot.last_op);
  return element("g", element("title", what) +
                          fmt::format("<rect class=\"slot {}\" x=\"{:.5g}\" y=\"{:.5g}\" "
                                      "width=\"{:.5g}\" height=\"{:.5g}\"/>",
                                      slot_color(map.model, index), x, y, width, height) +
                          slot_label(facts.label, x, y, width, height)) +
         "\n";
}

// Room above the stripes for their names, upright, or for marks of layers.
double room_above(const SlotMap& map, const Stripes& stripes) {
  if (!map.has_op_names()) return 24.0;
  size_t longest = 0;
  for (uint32_t i = 0; i < stripes.count(); ++i) {
    longest = std::max(longest, map.model.ops[stripes.op(i)].name.size());
  }
  return 14.0 + kCharacterWidth * static_cast<double>(std::min(longest, kLabelCharacters));
}

// Upright above their stripes.
std::string op_names(const SlotMap& map, const Stripes& stripes, double top) {
  std::string content;
  for (uint32_t i = 0; i < stripes.count(); ++i) {
    content += upright(stripes.x(i) + stripes.width() / 2.0 + 4.0, top - 6.0,
                       escaped(map.model.ops[stripes.op(i)].name, kLabelCharacters), "start");
  }
  return content;
}

// A line where each layer begins, and its number where there is room.
std::string layer_marks(const SlotMap& map, const Stripes& stripes, double top) {
  std::string content = plot_text(kMapLeft - 6.0, top - 8.0, "layer", "end");
  std::string layer;
  double free_from = 0.0;
  for (uint32_t i = 0; i < stripes.count(); ++i) {
    const double x = stripes.x(i);
    if (i == stripes.gap()) {
      content += plot_text(x, top - 8.0, "&#8230;", "start");
      free_from = x + 2.0 * kCharacterWidth;
      continue;
    }
    const std::string here =
        escaped(split_op_name(map.model.ops[stripes.op(i)].name).layer, kLabelCharacters);
    if (here != layer) {
      content += fmt::format("<path class=\"grid\" d=\"M{:.5g} {:.5g}v{:g}\"/>", x, top - 4.0,
                             kMapHeight + 4.0);
      if (!here.empty() && x >= free_from) {
        content += plot_text(x + 2.0, top - 8.0, here, "start");
        free_from = x + kCharacterWidth * static_cast<double>(here.size()) + 8.0;
      }
    }
    layer = here;
  }
  return content;
}

// Bytes of a row, down the left side.
std::string column_scale(const SlotMap& map, double top) {
  const double bytes = static_cast<double>(map.columns() * sizeof(float));
  std::string content;
  for (const double share : {0.0, 0.25, 0.5, 0.75, 1.0}) {
    content += plot_text(kMapLeft - 6.0, top + share * kMapHeight + 4.0,
                         grouped(static_cast<uint64_t>(std::llround(share * bytes))), "end");
  }
  return content;
}

bool is_shown(const SlotMap& map, const format::SlotView& slot) {
  return (slot.per_output != 0) == map.per_output && slot.last_op >= map.first_op &&
         slot.first_op < map.end_op;
}

}  // namespace

uint64_t SlotMap::columns() const {
  uint64_t most = 0;
  for (const SlotFacts& facts : model.slots) {
    if ((facts.slot.per_output != 0) != per_output) continue;
    most = std::max(most, uint64_t{facts.slot.offset} + facts.slot.width);
  }
  return most;
}

bool SlotMap::has_op_names() const { return Stripes(*this).width() >= kNamedWidth; }

uint32_t SlotMap::ops_left_out() const { return Stripes(*this).left_out(); }

std::string draw_slot_map(const SlotMap& map, const DrawingText& text) {
  const Stripes stripes(map);
  const double top = room_above(map, stripes);
  std::string content =
      map.has_op_names() ? op_names(map, stripes, top) : layer_marks(map, stripes, top);
  content += column_scale(map, top);
  for (size_t i = 0; i < map.model.slots.size(); ++i) {
    if (is_shown(map, map.model.slots[i].slot)) content += slot_shape(map, stripes, i, top);
  }
  const double width = stripes.x(stripes.count()) + 8.0;
  return drawing(width, top + kMapHeight + 8.0, text, content,
                 fmt::format("class=\"plot\" style=\"width:{:g}px\"", width));
}

bool is_input(const ModelFacts& model, size_t slot) {
  return model.reader.vocab_size() == 0 && slot == model.reader.input_slot_of_rows();
}

std::string slot_color(const ModelFacts& model, size_t slot) {
  constexpr const char* kColors[] = {"c1", "c2", "c3", "c4", "c5", "c6", "c8", "c7", "c3", "c8"};
  static_assert(std::size(kColors) == format::kAllOpKinds);
  if (is_input(model, slot)) return "c8";
  return kColors[static_cast<size_t>(model.ops[model.slots[slot].slot.first_op].op.kind)];
}

}  // namespace arenite::tool
