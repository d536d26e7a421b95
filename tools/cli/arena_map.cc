// SPDX-License-Identifier: Apache-2.0
// Boxes are drawn as two layers of lines, horizontal and vertical; corners are where both are.
#include "cli/arena_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace arenite::tool {
namespace {

constexpr size_t kMapWidth = 86;   // of the boxes; the scale to their left takes 10 more
constexpr size_t kMapHeight = 16;  // about; thin slots get more than their share
static_assert(kMapWidth / kMapOpsMax >= 5, "the number of any op has room");

struct Box {
  size_t left = 0, right = 0, top = 0, bottom = 0;  // borders, both ends included
};

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

}  // namespace

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

}  // namespace arenite::tool
