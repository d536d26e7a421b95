// SPDX-License-Identifier: Apache-2.0
// Renders a report as an HTML page or JSON, and draws the picture of --svg.
#include "cli/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "cli/report_facts.h"
#include "cli/text_table.h"
#include "convert/files/error.h"
#include "core/utf8.h"

namespace arenite::tool {

extern const char* const kReportPage;  // the text of report.html; the build generates it

namespace {

std::string text_as_html(std::string_view text) {
  std::string html;
  for (const char c : convert::visible(text, "\n")) {
    html += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  }
  return html;
}

}  // namespace

std::string report_as_html(const ReportFacts& facts) {
  std::string page = kReportPage;
  const auto put = [&](const std::string_view place, const std::string& content) {
    page.replace(page.find(place), place.size(), content);
  };
  Json json = facts_of(facts);
  add_page(json, facts.model);
  json["page"]["large_tensors"] = facts.distributed_of;
  json["page"]["sampled_numbers"] = kSampledNumbers;
  put("{{facts}}", page_document(std::move(json)) + "\n");
  put("{{brief}}", text_as_html(facts_in_brief(facts.model)));
  return page;
}

std::string render_report(const ReportFacts& facts, const std::filesystem::path& file) {
  return file.extension() == ".json" ? document(facts_of(facts)) + "\n" : report_as_html(facts);
}

// --- The ops that a picture shows ---
//
// Equal layers are found by their ops, not by names, because exported programs have their author's
// names. The repeated run that saves most ops is folded first, then the parts around it.

namespace {

// The ops of a program that a picture of its arena shows. Of equal layers only the first is drawn.
struct DrawnOps {
  // The drawn ops [begin, end) stand for `times` repetitions: themselves and the ops that follow
  // them in the program with the same kinds and widths.
  struct Repeat {
    size_t begin = 0;
    size_t end = 0;
    uint32_t times = 1;
  };

  std::vector<uint32_t> ops;  // indices, ascending
  std::vector<Repeat> repeats{};
};

// Indices into DrawnOps::ops, both ends included.
struct DrawnSpan {
  size_t first = 0;
  size_t last = 0;
};

// The kind and widths of an op. Ops of equal shape look the same in a picture.
using Shape = std::vector<uint32_t>;

Shape shape_of(const format::OpView& op) {
  Shape shape = {static_cast<uint32_t>(op.kind)};
  for (const format::ColumnView& view : op.views) shape.push_back(view.width);
  return shape;
}

// Ops [begin, begin + times * period) repeat with this period, and so do those from each of the
// `slack` ops after begin on.
struct Run {
  size_t begin = 0;
  size_t period = 0;
  size_t times = 1;
  size_t slack = 0;

  size_t left_out() const { return (times - 1) * period; }
};

Run longest_run(const std::vector<uint32_t>& shapes, size_t begin, size_t end) {
  Run best;
  for (size_t period = 1; 2 * period <= end - begin; ++period) {
    size_t equal = 0;  // consecutive ops that equal the op one period later
    for (size_t i = begin; i + period < end; ++i) {
      equal = shapes[i] == shapes[i + period] ? equal + 1 : 0;
      const Run run = {i + 1 - equal, period, equal / period + 1, equal % period};
      const bool goes_on = run.begin == best.begin && period == best.period;
      if (run.left_out() > best.left_out() || goes_on) best = run;
    }
  }
  return best;
}

void add_all(size_t begin, size_t end, DrawnOps& drawn) {
  for (size_t i = begin; i < end; ++i) drawn.ops.push_back(static_cast<uint32_t>(i));
}

class Folder {
 public:
  explicit Folder(const ModelFacts& model) : model_(model) {
    std::vector<Shape> known;
    for (const OpFacts& op : model.ops) {
      const Shape shape = shape_of(op.op);
      const auto found = std::ranges::find(known, shape);
      shapes_.push_back(static_cast<uint32_t>(found - known.begin()));
      if (found == known.end()) known.push_back(shape);
    }
  }

  void fold(size_t begin, size_t end, DrawnOps& drawn) const {
    const Run run = longest_run(shapes_, begin, end);
    if (run.times == 1) return add_all(begin, end, drawn);
    const size_t start = start_of(run);
    fold(begin, start, drawn);
    const size_t first = drawn.ops.size();
    add_all(start, start + run.period, drawn);
    drawn.repeats.push_back({first, drawn.ops.size(), static_cast<uint32_t>(run.times)});
    fold(start + run.times * run.period, end, drawn);
  }

 private:
  // Returns the first place at which a layer begins by its name, or else run.begin.
  size_t start_of(const Run& run) const {
    for (size_t i = run.begin; i <= run.begin + run.slack; ++i) {
      const std::string layer = split_op_name(model_.ops[i].name).layer;
      const bool is_first = i == 0 || split_op_name(model_.ops[i - 1].name).layer != layer;
      if (is_first && !layer.empty()) return i;
    }
    return run.begin;
  }

  const ModelFacts& model_;
  std::vector<uint32_t> shapes_;  // for each op, an index of a distinct shape
};

// Returns all ops if there are at most `ops_max`.
DrawnOps ops_to_draw(const ModelFacts& model, size_t ops_max) {
  DrawnOps drawn;
  if (model.ops.size() <= ops_max) {
    add_all(0, model.ops.size(), drawn);
    return drawn;
  }
  Folder(model).fold(0, model.ops.size(), drawn);
  return drawn;
}

// Returns the drawn ops during which a slot is live; nullopt if only other ops need it.
std::optional<DrawnSpan> drawn_span(const DrawnOps& drawn, const format::SlotView& slot) {
  const auto first = std::ranges::lower_bound(drawn.ops, slot.first_op);
  const auto end = std::ranges::upper_bound(drawn.ops, slot.last_op);
  if (first >= end) return std::nullopt;
  return DrawnSpan{static_cast<size_t>(first - drawn.ops.begin()),
                   static_cast<size_t>(end - drawn.ops.begin()) - 1};
}

// --- The picture of --svg ---
//
// The arena's areas are bands from top to bottom, the ops are stripes from left to right. The
// height of a band grows with its bytes, but each is tall enough to be seen.

constexpr double kWidth = 960.0;
constexpr double kMargin = 20.0;
constexpr double kLeft = 190.0;  // of the stripes; the names of bands are left of it
constexpr double kRight = kWidth - kMargin;
constexpr double kBandsHeight = 300.0;  // of all bands together
constexpr double kBandMin = 26.0;
constexpr double kGap = 5.0;          // between bands
constexpr double kLetterWidth = 6.3;  // approximate, in the small font
constexpr double kNameHeight = 11.0;  // of a line in the small font
constexpr double kMaskSide = 110.0;
constexpr double kBarHeight = 16.0;
constexpr size_t kOpsMax = 24;
constexpr size_t kNameMax = 22;
constexpr size_t kNameCharacters = 60;  // of a name that has room
constexpr size_t kPartNameMax = 27;     // of a bar, which is right of its name
constexpr size_t kMasksMax = 3;
constexpr size_t kPartsMax = 6;

// Colours as in report.html. Plain rules, because not all SVG viewers know CSS variables.
constexpr const char* kStyle = R"css(
text { font: 11px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif;
  fill: #1d2126; }
.title { font-size: 17px; font-weight: 650; } .head { font-size: 13px; font-weight: 600; }
.soft { fill: #5b6470; } .paper { fill: #ffffff; } .band { fill: #eef0f3; }
.grid { stroke: #dfe3e8; fill: none; } .edge, .brace { stroke: #5b6470; fill: none; }
.slot { fill-opacity: .35; stroke-width: 1; }
.c1 { fill: #0072b2; stroke: #0072b2; } .c2 { fill: #d55e00; stroke: #d55e00; }
.c3 { fill: #009e73; stroke: #009e73; } .c4 { fill: #56b4e9; stroke: #56b4e9; }
.c5 { fill: #cc79a7; stroke: #cc79a7; } .c6 { fill: #e69f00; stroke: #e69f00; }
.c7 { fill: #8a7d00; stroke: #8a7d00; } .c8 { fill: #8b929c; stroke: #8b929c; }
.seen { fill: #0072b2; } .partly { fill: #0072b2; fill-opacity: .35; }
@media (prefers-color-scheme: dark) {
  text { fill: #e4e7eb; }
  .soft { fill: #9aa3ae; } .paper { fill: #16191d; } .band { fill: #22272d; }
  .grid { stroke: #343a42; } .edge, .brace { stroke: #9aa3ae; }
  .c1 { fill: #4ba3dc; stroke: #4ba3dc; } .c2 { fill: #f0803c; stroke: #f0803c; }
  .c3 { fill: #2fc39a; stroke: #2fc39a; } .c4 { fill: #8fd0f5; stroke: #8fd0f5; }
  .c5 { fill: #e09cc3; stroke: #e09cc3; } .c6 { fill: #f2b84b; stroke: #f2b84b; }
  .c7 { fill: #d8cb4a; stroke: #d8cb4a; } .c8 { fill: #7f8893; stroke: #7f8893; }
  .seen, .partly { fill: #4ba3dc; }
}
)css";

// --- Text and shapes ---

std::string escaped_character(std::string_view bytes, uint32_t value) {
  if (value == kInvalidCodePoint || value == 0xFFFE || value == 0xFFFF) return "\xEF\xBF\xBD";
  if (convert::is_unseen(value)) return "?";
  switch (value) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&quot;";
    case '\'':
      return "&#39;";
    default:
      return std::string(bytes);
  }
}

size_t count_characters(std::string_view text) {
  size_t count = 0;
  for (size_t i = 0; i < text.size(); i += decode_utf8(text.substr(i)).bytes) ++count;
  return count;
}

// Escapes text for content. Invalid UTF-8 becomes U+FFFD, invisible characters become '?', and the
// middle of text longer than `characters_max` is left out.
std::string escaped(std::string_view text, size_t characters_max) {
  const size_t count = count_characters(text);
  const size_t half = count > characters_max ? (characters_max - 1) / 2 : count;
  std::string html;
  size_t index = 0;
  for (size_t i = 0; i < text.size(); ++index) {
    const CodePoint c = decode_utf8(text.substr(i));
    if (index < half || index >= count - half) {
      html += escaped_character(text.substr(i, c.bytes), c.value);
    } else if (index == half) {
      html += "\xE2\x80\xA6";  // an ellipsis
    }
    i += c.bytes;
  }
  return html;
}

std::string escaped_name(std::string_view text) { return escaped(text, kNameCharacters); }

std::string titled(std::string_view text) { return fmt::format("<title>{}</title>", text); }

// "12.3 %", "0 %", "&lt;0.1 %"
std::string percent(double part, double whole) {
  if (whole <= 0.0 || part <= 0.0) return "0 %";
  const double share = 100.0 * part / whole;
  return share < 0.1 ? "&lt;0.1 %" : fmt::format("{:.1f} %", share);
}

std::string rectangle_path(double x, double y, double width, double height) {
  return fmt::format("M{:g} {:g}h{:g}v{:g}h{:g}z", x, y, width, height, -width);
}

std::string path(std::string_view shape, std::string_view attributes) {
  if (shape.empty()) return "";
  return fmt::format("<path {} d=\"{}\"/>", attributes, shape);
}

// Draws the cells of one shade and joins adjacent ones.
std::string cells(const std::vector<std::string>& rows, char shade, double cell) {
  std::string shape;
  for (size_t y = 0; y < rows.size(); ++y) {
    const std::string& row = rows[y];
    for (size_t x = 0; x < row.size();) {
      const size_t end = std::min(row.find_first_not_of(shade, x), row.size());
      if (end > x) {
        shape += rectangle_path(static_cast<double>(x) * cell, static_cast<double>(y) * cell,
                                static_cast<double>(end - x) * cell, cell);
      }
      x = std::max(end, x + 1);
    }
  }
  return shape;
}

// Draws queries from top to bottom and keys from left to right. Partly visible cells are paler.
std::string mask_drawing(const MaskPicture& picture, size_t index) {
  constexpr double kSide = 128.0;
  const double cell = kSide / static_cast<double>(std::max<size_t>(picture.rows.size(), 1));
  return fmt::format(
      "<svg role=\"img\" viewBox=\"0 0 {0:g} {0:g}\" class=\"mask\"><title>Mask {1}</title>"
      "<desc>queries down, keys across</desc>{2}{3}{4}</svg>",
      kSide, index, path(cells(picture.rows, '#', cell), "class=\"seen\""),
      path(cells(picture.rows, '+', cell), "class=\"partly\""),
      path(rectangle_path(0.0, 0.0, kSide, kSide), "class=\"edge\""));
}

// Returns the palette class of a slot, by the kind of op that writes it.
std::string slot_color(const ModelFacts& model, size_t slot) {
  constexpr const char* kColors[] = {"c1", "c2", "c3", "c4", "c5", "c6", "c8",
                                     "c7", "c3", "c1", "c5", "c7", "c2"};
  static_assert(std::size(kColors) == format::kOpKinds);
  const bool is_input = model.reader.vocab_size() == 0 && slot == model.reader.input_slot();
  if (is_input) return "c8";
  return kColors[static_cast<size_t>(model.ops[model.slots[slot].slot.first_op].op.kind)];
}

std::string text(double x, double y, std::string_view content, std::string_view kind = {},
                 std::string_view anchor = "start") {
  return fmt::format("<text{} x=\"{:.5g}\" y=\"{:.5g}\" text-anchor=\"{}\">{}</text>\n",
                     kind.empty() ? "" : fmt::format(" class=\"{}\"", kind), x, y, anchor, content);
}

std::string box(double x, double y, double width, double height, std::string_view kind,
                std::string_view title = {}) {
  return fmt::format(
      "<rect class=\"{}\" x=\"{:.5g}\" y=\"{:.5g}\" width=\"{:.5g}\" height=\"{:.5g}\">{}</rect>\n",
      kind, x, y, width, height, title.empty() ? "" : titled(title));
}

std::string line(double x, double y, double height, std::string_view kind) {
  return fmt::format("<path class=\"{}\" d=\"M{:.5g} {:.5g}v{:.5g}\"/>\n", kind, x, y, height);
}

double length_of(size_t characters) { return kLetterWidth * static_cast<double>(characters); }

struct Band {
  double top = 0.0;
  double height = 0.0;
};

// Draws from top to bottom; `y_` is the top of the next element.
class Picture {
 public:
  explicit Picture(const ReportFacts& facts)
      : facts_(facts),
        model_(facts.model),
        plan_(model_.shown_target().arena.plan),
        drawn_(ops_to_draw(model_, kOpsMax)) {}

  std::string svg() {
    add_title();
    add_arena();
    add_masks();
    add_bytes();
    const std::string name = escaped_name(model_.reader.name());
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:g}\" height=\"{1:g}\" "
        "viewBox=\"0 0 {0:g} {1:g}\" role=\"img\" aria-label=\"Memory of {2}\">\n"
        "<title>Memory of {2}</title>\n<style>{3}</style>\n"
        "<rect class=\"paper\" width=\"{0:g}\" height=\"{1:g}\"/>\n{4}</svg>\n",
        kWidth, std::ceil(y_ + kMargin), name, kStyle, content_);
  }

 private:
  void add_title() {
    const SizeOptions& sizes = model_.sizes;
    content_ += text(kMargin, 32.0,
                     fmt::format("{}: {} bytes, all the memory that it will ever use",
                                 escaped_name(model_.reader.name()), grouped(plan_.total_bytes)),
                     "title");
    content_ +=
        text(kMargin, 52.0,
             fmt::format("{}, {} a call, {}, {}; keys and values in {}; packed for {}",
                         counted(sizes.positions, "position"), counted(sizes.tokens, "token"),
                         counted(sizes.sequences, "sequence"), counted(sizes.threads, "thread"),
                         name(sizes.kv_type()), name(model_.shown_target().target)),
             "soft");
    y_ = 68.0;
  }

  double stripe() const { return (kRight - kLeft) / static_cast<double>(drawn_.ops.size()); }
  double x(size_t place) const { return kLeft + stripe() * static_cast<double>(place); }
  const OpFacts& op(size_t place) const { return model_.ops[drawn_.ops[place]]; }

  // Writes the ops' names vertically at the top of their stripes.
  void add_op_names() {
    size_t longest = 0;
    for (size_t i = 0; i < drawn_.ops.size(); ++i) {
      longest = std::max(longest, std::min(op(i).name.size(), kNameMax));
    }
    y_ += length_of(longest) + 6.0;
    const size_t step = static_cast<size_t>(std::ceil(kNameHeight / stripe()));  // ops per name
    for (size_t i = 0; i < drawn_.ops.size(); i += step) {
      content_ += fmt::format("<g transform=\"translate({:.5g} {:.5g}) rotate(-90)\">{}</g>\n",
                              x(i) + stripe() / 2.0 + 4.0, y_,
                              text(0.0, 0.0, escaped(op(i).name, kNameMax)));
    }
    content_ += text(kMargin, y_, "ops, as time goes", "soft");
    y_ += 8.0;
  }

  // Draws a brace over the layers that are drawn once.
  void add_repeats() {
    for (const DrawnOps::Repeat& repeat : drawn_.repeats) {
      const double left = x(repeat.begin) + 2.0;
      const double width = x(repeat.end) - left - 2.0;
      content_ += fmt::format("<path class=\"brace\" d=\"M{:.5g} {:.5g}v-5h{:.5g}v5\"/>\n", left,
                              y_ + 18.0, width);
      content_ += text(left + width / 2.0, y_ + 9.0, fmt::format("{} times the same", repeat.times),
                       "soft", "middle");
    }
    if (!drawn_.repeats.empty()) y_ += 22.0;
  }

  Band add_band(const char* title, uint64_t bytes) {
    const double share = static_cast<double>(bytes) / static_cast<double>(plan_.total_bytes);
    const Band band = {y_, kBandMin + share * kBandsHeight};
    content_ += box(kLeft, band.top, kRight - kLeft, band.height, "band");
    content_ += text(kLeft - 10.0, band.top + 12.0, title, "head", "end");
    content_ += text(
        kLeft - 10.0, band.top + 25.0,
        fmt::format("{} bytes, {}", grouped(bytes),
                    percent(static_cast<double>(bytes), static_cast<double>(plan_.total_bytes))),
        "soft", "end");
    y_ += band.height + kGap;
    return band;
  }

  // Draws a label in a box, horizontally or vertically, if it fits.
  std::string label(double left, double top, double width, double height,
                    const std::string& name) const {
    const std::string shown = escaped(name, kNameMax);
    const double length = length_of(std::min(name.size(), kNameMax)) + 4.0;
    const double middle = left + width / 2.0;
    if (length <= width && height >= 12.0) {
      return text(middle, top + height / 2.0 + 4.0, shown, {}, "middle");
    }
    if (length > height || width < 12.0) return "";
    return fmt::format("<g transform=\"translate({:.5g} {:.5g}) rotate(-90)\">{}</g>\n",
                       middle + 4.0, top + height / 2.0, text(0.0, 0.0, shown, {}, "middle"));
  }

  void add_slots(const Band& band) {
    const TargetFacts& target = model_.shown_target();
    double begins[kAxesMax] = {};  // of the areas, in bytes
    double end = 0.0;
    for (uint32_t i = 0; i < target.arena.axes; ++i) {
      begins[i] = end;
      end += static_cast<double>(target.formula.axes[i].activations) * target.arena.rows_max[i];
    }
    const double scale = band.height / std::max(1.0, end);
    for (size_t i = 0; i < model_.slots.size(); ++i) {
      const SlotFacts& facts = model_.slots[i];
      const auto span = drawn_span(drawn_, facts.slot);
      if (!span) continue;
      const double column = 4.0 * target.arena.rows_max[facts.area];
      const double top = band.top + scale * (begins[facts.area] + column * facts.slot.offset);
      const double height = scale * column * facts.slot.width;
      const double left = x(span->first);
      const double width = x(span->last + 1) - left;
      const std::string what =
          fmt::format("{}: {} floats a row, from op {} to op {}", escaped_name(facts.label),
                      grouped(facts.slot.width), facts.slot.first_op, facts.slot.last_op);
      front_ += box(left, top, width, height, "slot " + slot_color(model_, i), what) +
                label(left, top, width, height, split_op_name(facts.label).part);
    }
  }

  // Marks the ops that use a band.
  template <typename Uses>
  void add_uses(const Band& band, const Uses& uses) {
    for (size_t i = 0; i < drawn_.ops.size(); ++i) {
      if (!uses(op(i).op)) continue;
      front_ += box(x(i) + 1.0, band.top, std::max(stripe() - 2.0, 1.0), band.height, "slot c6",
                    escaped_name(op(i).name));
    }
  }

  uint64_t cache_bytes(const CacheFacts& cache) const {
    return cache.bytes[static_cast<size_t>(&model_.shown_target() - model_.targets.data())].value;
  }

  // Draws each cache's part of the band and the ops that write or read it.
  void add_caches(const Band& band) {
    double all = 0.0;
    for (const CacheFacts& cache : model_.caches) all += static_cast<double>(cache_bytes(cache));
    double top = band.top;
    for (size_t i = 0; i < model_.caches.size(); ++i) {
      const double height = band.height * static_cast<double>(cache_bytes(model_.caches[i])) / all;
      if (i > 0) {
        content_ += fmt::format("<path class=\"grid\" d=\"M{:.5g} {:.5g}h{:.5g}\"/>\n", kLeft, top,
                                kRight - kLeft);
      }
      for (size_t place = 0; place < drawn_.ops.size(); ++place) {
        const format::OpView& user = op(place).op;
        if (user.kind != format::OpKind::kAttention ||
            user.numbers[format::AttentionOp::kCache] != i) {
          continue;
        }
        front_ += box(x(place) + 1.0, top, std::max(stripe() - 2.0, 1.0), height, "slot c2",
                      fmt::format("cache {} of {}", i, escaped_name(op(place).name)));
      }
      top += height;
    }
  }

  void add_arena() {
    add_op_names();
    add_repeats();
    const double top = y_;
    add_band("session", plan_.session_bytes);
    if (plan_.kv_cache_bytes != 0) {
      add_caches(add_band("keys and values", plan_.kv_cache_bytes));
    }
    add_slots(add_band("activations", plan_.activation_bytes));
    if (plan_.scratch_bytes != 0) {
      const Band band = add_band("scratch", plan_.scratch_bytes);
      add_uses(band, [](const format::OpView& of) {
        return format::row_of(of.kind).scratch != format::Scratch::kNone;
      });
    }
    for (size_t i = 0; i <= drawn_.ops.size(); ++i) {
      content_ += line(x(i), top, y_ - top - kGap, "grid");
    }
    content_ += std::exchange(front_, {});
    y_ += 12.0;
  }

  void add_masks() {
    const size_t count = std::min(facts_.masks.size(), kMasksMax);
    if (count == 0) return;
    content_ += text(kMargin, y_ + 12.0, count == 1 ? "Mask" : "Masks", "head");
    for (size_t i = 0; i < count; ++i) {
      const MaskPicture& mask = facts_.masks[i];
      const double left = kLeft + static_cast<double>(i) * (kRight - kLeft) / kMasksMax;
      content_ +=
          fmt::format("<svg x=\"{:.5g}\" y=\"{:.5g}\" width=\"{:g}\" height=\"{:g}\">{}</svg>\n",
                      left, y_, kMaskSide, kMaskSide, mask_drawing(mask, i));
      double at = y_ + 14.0;
      for (const std::string& words :
           {model_.masks[i].description, counted(mask.positions, "position"),
            grouped(model_.masks[i].bytes) + " bytes,",
            "dense " + grouped(model_.masks[i].dense_bytes)}) {
        content_ += text(left + kMaskSide + 10.0, at, escaped(words, kNameMax), "soft");
        at += 15.0;
      }
    }
    y_ += kMaskSide + 18.0;
  }

  void add_bar(const std::string& title, double bytes, double whole, const char* color) {
    const double room = kRight - kLeft - 170.0;
    content_ += text(kLeft - 10.0, y_ + 12.0, title, {}, "end");
    content_ += box(kLeft, y_, std::max(1.0, room * bytes / whole), kBarHeight - 3.0, color);
    content_ +=
        text(kLeft + std::max(1.0, room * bytes / whole) + 8.0, y_ + 11.0,
             fmt::format("{}, {}", grouped(static_cast<uint64_t>(bytes)), percent(bytes, whole)),
             "soft");
    y_ += kBarHeight;
  }

  // Draws bars of the file's parts and of its largest groups of weights.
  void add_bytes() {
    double whole = 0.0;
    for (const FilePart& part : facts_.file_parts) whole += static_cast<double>(part.bytes);
    content_ +=
        text(kMargin, y_ + 12.0,
             fmt::format("Bytes of the file: {}", grouped(static_cast<uint64_t>(whole))), "head");
    y_ += 20.0;
    for (const FilePart& part : facts_.file_parts) {
      add_bar(escaped(part.name, kPartNameMax), static_cast<double>(part.bytes), whole, "c1");
    }
    std::vector<TensorGroup> parts = facts_.parts;
    if (parts.size() < 2) return;
    std::ranges::stable_sort(parts, std::greater(), &TensorGroup::bytes);
    parts.resize(std::min(parts.size(), kPartsMax));
    y_ += 6.0;
    content_ += text(kMargin, y_ + 12.0, "Weights that take most", "head");
    y_ += 20.0;
    double weights = 0.0;
    for (const TensorGroup& part : facts_.parts) weights += static_cast<double>(part.bytes());
    for (const TensorGroup& part : parts) {
      add_bar(escaped(part.name, kNameMax), static_cast<double>(part.bytes()), weights, "c3");
    }
  }

  const ReportFacts& facts_;
  const ModelFacts& model_;
  const ArenaPlan& plan_;
  DrawnOps drawn_;
  std::string content_;
  std::string front_;  // of the arena: elements above its grid
  double y_ = 0.0;
};

}  // namespace

std::string memory_as_svg(const ReportFacts& facts) { return Picture(facts).svg(); }

}  // namespace arenite::tool
