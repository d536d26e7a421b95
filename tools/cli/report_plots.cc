// SPDX-License-Identifier: Apache-2.0
// Many small shapes of one kind are one path: a page with thousands of elements is slow.
#include "cli/report_plots.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "cli/html.h"

namespace arenite::tool {
namespace {

std::string rectangle_path(double x, double y, double width, double height) {
  return fmt::format("M{:g} {:g}h{:g}v{:g}h{:g}z", x, y, width, height, -width);
}

std::string path(std::string_view shape, std::string_view attributes) {
  if (shape.empty()) return "";
  return fmt::format("<path {} d=\"{}\"/>", attributes, shape);
}

// The cells of one shade, runs joined.
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

struct Frame {
  double left = 56.0, top = 10.0, width = 640.0, height = 190.0;
  double low = 0.0, high = 1.0;
  size_t places = 1;

  double x(size_t place) const {
    if (places < 2) return left + width / 2.0;
    return left + width * static_cast<double>(place) / static_cast<double>(places - 1);
  }
  double y(double value) const { return top + height * (high - value) / (high - low); }
};

Frame frame_of(const std::vector<Series>& series) {
  Frame frame;
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const Series& line : series) {
    frame.places = std::max(frame.places, line.values.size());
    for (const double value : line.values) {
      if (!std::isfinite(value)) continue;
      low = std::min(low, value);
      high = std::max(high, value);
    }
  }
  if (low > high) low = high = 1.0;
  if (high - low < 1e-9 * std::max(1.0, std::abs(high))) low = high - 1e-3;
  const std::vector<double> ticks = round_ticks(low, high, 5);
  frame.low = ticks.front();
  frame.high = ticks.back();
  return frame;
}

// Lines across at round values, with as many decimals as tell them apart.
std::string grid(const Frame& frame) {
  const std::vector<double> ticks = round_ticks(frame.low, frame.high, 5);
  const double step = ticks.size() > 1 ? ticks[1] - ticks[0] : 1.0;
  const int decimals = std::max(0, static_cast<int>(std::ceil(-std::log10(step) - 1e-9)));
  std::string content;
  for (const double tick : ticks) {
    const double y = frame.y(tick);
    content +=
        fmt::format("<path class=\"grid\" d=\"M{:g} {:.4g}h{:g}\"/>", frame.left, y, frame.width);
    content += plot_text(frame.left - 6.0, y + 4.0, fmt::format("{:.{}f}", tick, decimals), "end");
  }
  return content;
}

// Dots are for lines of few places; many would run into each other.
std::string line(const Frame& frame, const Series& series) {
  constexpr size_t kDotsMax = 64;
  std::string shape, dots;
  bool is_drawing = false;
  for (size_t i = 0; i < series.values.size(); ++i) {
    if (!std::isfinite(series.values[i])) {
      is_drawing = false;
      continue;
    }
    const double x = frame.x(i), y = frame.y(series.values[i]);
    shape += fmt::format("{}{:.5g} {:.5g}", is_drawing ? 'L' : 'M', x, y);
    is_drawing = true;
    dots += series.is_dashed
                ? rectangle_path(x - 2.5, y - 2.5, 5.0, 5.0)
                : fmt::format("M{:.5g} {:.5g}a3 3 0 1 0 6 0a3 3 0 1 0 -6 0", x - 3.0, y);
  }
  if (series.values.size() > kDotsMax) dots.clear();
  const char* const style = series.is_dashed ? "line dashed" : "line";
  return path(shape, fmt::format("class=\"{} {}\"", style, series.color)) +
         path(dots, fmt::format("class=\"{}\"", series.color));
}

}  // namespace

std::string drawing(double width, double height, const DrawingText& text, std::string_view content,
                    std::string_view attributes) {
  return element(
      "svg",
      element("title", text.title) + element("desc", text.description) + std::string(content),
      fmt::format("role=\"img\" viewBox=\"0 0 {:g} {:g}\"{}{}", width, height,
                  attributes.empty() ? "" : " ", attributes));
}

std::string plot_text(double x, double y, std::string_view text, std::string_view anchor) {
  return element("text", text,
                 fmt::format("x=\"{:.5g}\" y=\"{:.5g}\" text-anchor=\"{}\"", x, y, anchor));
}

std::string bar(const DrawingText& text, const std::vector<Segment>& segments, double whole,
                std::string_view attributes) {
  constexpr double kWidth = 1000.0;
  std::string content;
  double begin = 0.0;
  for (const Segment& segment : segments) {
    if (!(segment.amount > 0.0) || !(whole > 0.0)) continue;
    const double width = kWidth * segment.amount / whole;
    content += path(rectangle_path(std::round(begin * 10.0) / 10.0, 0.0,
                                   std::max(1.0, std::round(width * 10.0) / 10.0), 10.0),
                    fmt::format("class=\"{}\"", segment.color));
    begin += width;
  }
  return drawing(kWidth, 10.0, text, content,
                 fmt::format("preserveAspectRatio=\"none\" {}", attributes));
}

std::string mask_drawing(const MaskPicture& picture, const DrawingText& text) {
  const double side = 128.0;
  const double cell = side / static_cast<double>(std::max<size_t>(picture.rows.size(), 1));
  return drawing(side, side, text,
                 path(cells(picture.rows, '#', cell), "class=\"seen\"") +
                     path(cells(picture.rows, '+', cell), "class=\"partly\"") +
                     path(rectangle_path(0.0, 0.0, side, side), "class=\"edge\""),
                 "class=\"mask\"");
}

std::string histogram(const Distribution& distribution, const DrawingText& text) {
  constexpr double kWidth = 205.0, kHeight = 60.0;
  const uint64_t most = std::ranges::max(distribution.counts);
  const double step = kWidth / static_cast<double>(distribution.counts.size());
  std::string shape;
  for (size_t i = 0; i < distribution.counts.size(); ++i) {
    if (distribution.counts[i] == 0) continue;
    const double share = static_cast<double>(distribution.counts[i]) / static_cast<double>(most);
    const double height = std::max(0.5, std::round(share * kHeight * 10.0) / 10.0);
    shape +=
        rectangle_path(static_cast<double>(i) * step + 0.5, kHeight - height, step - 1.0, height);
  }
  const std::string limit = fmt::format("{:.2g}", distribution.limit);
  return drawing(kWidth, kHeight + 16.0, text,
                 path(shape, "class=\"c1\"") +
                     fmt::format("<path class=\"axis\" d=\"M0 {:g}h{:g}\"/>", kHeight, kWidth) +
                     plot_text(0.0, kHeight + 13.0, "&#8722;" + limit, "start") +
                     plot_text(kWidth / 2.0, kHeight + 13.0, "0", "middle") +
                     plot_text(kWidth, kHeight + 13.0, limit, "end"));
}

std::string line_plot(const DrawingText& text, const std::vector<Series>& series,
                      const std::vector<std::string>& names) {
  const Frame frame = frame_of(series);
  std::string content = grid(frame);
  for (const Series& one : series) content += line(frame, one);
  const double below = frame.top + frame.height + 18.0;
  content += plot_text(frame.x(0), below, escaped(names.front(), 24),
                       frame.places < 2 ? "middle" : "start");
  if (frame.places > 1) {
    content += plot_text(frame.x(frame.places - 1), below, escaped(names.back(), 24), "end");
  }
  const double width = frame.left + frame.width + 12.0;
  return drawing(width, below + 6.0, text, content,
                 fmt::format("class=\"plot\" style=\"width:{:g}px\"", width));
}

std::vector<double> round_ticks(double low, double high, int count_max) {
  const double rough = (high - low) / count_max;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  double step = 10.0 * power;
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough * (1.0 - 1e-9)) {
      step = factor * power;
      break;
    }
  }
  std::vector<double> ticks;
  const double first = std::floor(low / step + 1e-9);
  for (double i = first;; ++i) {
    ticks.push_back(i * step);
    if (ticks.back() >= high - step * 1e-9) return ticks;
  }
}

}  // namespace arenite::tool
