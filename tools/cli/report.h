// SPDX-License-Identifier: Apache-2.0
// The report about a model file, a page or JSON, and the picture of its memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/inspect_facts.h"
#include "cli/report_facts.h"

namespace arenite::tool {

// One self-contained page, report.html with the facts in it: for screens of any width and for
// paper, with nothing that is loaded from elsewhere.
std::string report_as_html(const ReportFacts& facts);

// One JSON object: all keys that a model's facts have, and `report` with what the page shows beside
// them.
Json facts_of(const ReportFacts& facts);

// Of `report` what a conversion says, too: where bytes are, kernels, and what few bits cost.
extern template struct FactValue<WeightsReport>;

// The bytes of the report for a file of that name. REQUIRES: one that the option takes.
std::string render_report(const ReportFacts& facts, const std::filesystem::path& file);

// A model's memory as one picture: what of the arena each op uses, the masks, and where the bytes
// of the file are. An SVG file that needs nothing from elsewhere, light or dark as its reader
// prefers.
std::string memory_as_svg(const ReportFacts& facts);

// Which ops of a program a picture of its arena shows: of layers that are alike the first alone.
struct DrawnOps {
  // Of what is drawn, [begin, end) stands for `times` as many ops: itself and those that follow it
  // in the program and have the same kinds and widths.
  struct Repeat {
    size_t begin = 0;
    size_t end = 0;
    uint32_t times = 1;
  };

  std::vector<uint32_t> ops;  // indices, ascending
  std::vector<Repeat> repeats{};
};

// All ops where there are at most `ops_max` of them.
DrawnOps ops_to_draw(const ModelFacts& model, size_t ops_max);

// Places of DrawnOps::ops, both ends included.
struct DrawnSpan {
  size_t first = 0;
  size_t last = 0;
};

// While which of the drawn ops a slot is needed; none where it is needed by others alone.
std::optional<DrawnSpan> drawn_span(const DrawnOps& drawn, const format::SlotView& slot);

// "ops 1 to 12 are drawn once: ops 13 to 144 repeat them 11 times"
std::string describe(const DrawnOps& drawn, const DrawnOps::Repeat& repeat);

}  // namespace arenite::tool
