// SPDX-License-Identifier: Apache-2.0
// The sections of a report's page, each as HTML; empty where there is nothing to show.
#pragma once

#include <string>

#include "cli/report_facts.h"

namespace arenite::tool {

// Limits, outputs, error by layer, tensors and notes of a conversion.
std::string conversion_sections(const ConversionFacts& facts);

// The parts of the arena, and a map of its slots over the ops.
std::string arena_section(const ReportFacts& facts);

std::string masks_section(const ReportFacts& facts);

// Where the bytes are: in the file, by type, layer and part.
std::string bytes_section(const ReportFacts& facts);

// Every tensor and the kernels that they get.
std::string tensors_section(const ReportFacts& facts);

std::string distributions_section(const ReportFacts& facts);

// Colours of the page's palette: "c1" to "c8".
std::string type_color(TensorType type);

// The page's CSS.
extern const char* const kReportStyle;

}  // namespace arenite::tool
