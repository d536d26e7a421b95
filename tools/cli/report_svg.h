// SPDX-License-Identifier: Apache-2.0
// A model's memory as one picture: what of the arena each op uses, the masks, and where the bytes
// of the file are.
#pragma once

#include <string>

#include "cli/report_facts.h"

namespace arenite::tool {

// An SVG file that needs nothing from elsewhere, light or dark as its reader prefers.
std::string memory_as_svg(const ReportFacts& facts);

}  // namespace arenite::tool
