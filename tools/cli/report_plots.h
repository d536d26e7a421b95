// SPDX-License-Identifier: Apache-2.0
// Drawings of a report as inline SVG. Each has a title and says in words what it shows; colours are
// classes of the page's style, so that they follow light, dark and paper.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/report_facts.h"

namespace arenite::tool {

// What a drawing is called, and what it says to those who do not see it: HTML.
struct DrawingText {
  std::string title;
  std::string description;
};

// A drawing of that many units; `attributes` go to the svg element.
std::string drawing(double width, double height, const DrawingText& text, std::string_view content,
                    std::string_view attributes = {});

// Text of the plot's small font at a point; `anchor` is "start", "middle" or "end".
std::string plot_text(double x, double y, std::string_view text, std::string_view anchor);

// A share of a bar; `color` is a class of the palette.
struct Segment {
  std::string color;
  double amount = 0.0;
};

// Segments side by side; `whole` is what the full width stands for.
std::string bar(const DrawingText& text, const std::vector<Segment>& segments, double whole,
                std::string_view attributes);

// Queries from top to bottom, keys from left to right; cells of which a part is visible are paler.
std::string mask_drawing(const MaskPicture& picture, const DrawingText& text);

std::string histogram(const Distribution& distribution, const DrawingText& text);

struct Series {
  std::string color;
  std::vector<double> values;  // those that are not finite are left out
  bool is_dashed = false;
};

// Lines over numbered places; `names` are the first and the last place's.
std::string line_plot(const DrawingText& text, const std::vector<Series>& series,
                      const std::vector<std::string>& names);

// Numbers at even, round distances that cover [low, high]. REQUIRES: low < high, both finite.
std::vector<double> round_ticks(double low, double high, int count_max);

}  // namespace arenite::tool
