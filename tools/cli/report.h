// SPDX-License-Identifier: Apache-2.0
// The report about a model file, as an HTML page or JSON, and the picture of its memory.
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

// Returns a self-contained page: report.html with the facts inserted. The page fits screens of any
// width and paper, and loads nothing.
std::string report_as_html(const ReportFacts& facts);

// Returns one JSON object: the keys of a model's facts, and `report` with the page's other values.
Json facts_of(const ReportFacts& facts);

// The part of `report` that a conversion prints too: bytes, kernels and quantization losses.
extern template struct FactValue<WeightsReport>;

// Renders the report in the format of `file`'s extension. REQUIRES: --report accepts the name.
std::string render_report(const ReportFacts& facts, const std::filesystem::path& file);

// Returns a self-contained SVG picture of a model's memory: the arena over the ops, the masks, and
// the bytes of the file by kind. It follows the reader's light or dark scheme.
std::string memory_as_svg(const ReportFacts& facts);

}  // namespace arenite::tool
