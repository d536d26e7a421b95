// SPDX-License-Identifier: Apache-2.0
// The report about a model file in its two forms, and the option of commands that write one:
// --report FILE, whose name says the form.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>

#include "cli/report_facts.h"

namespace arenite::tool {

// One self-contained page, report.html with the facts in it: for screens of any width and for
// paper, with nothing that is loaded from elsewhere.
std::string report_as_html(const ReportFacts& facts);

// One JSON object: all keys of facts_as_json, and `report` with what the page shows beside them.
std::string report_as_json(const ReportFacts& facts);
// The same for a page, which shows a little more.
std::string page_as_json(const ReportFacts& facts);

// Of `report` what a conversion says, too: where bytes are, kernels, and what few bits cost.
template <>
struct FactValue<WeightsReport> {
  static FactType type();
  static void write(JsonWriter& json, const WeightsReport& report);
};

// Declares the option. Names that end in neither .html nor .json are bad usage. `file` must outlive
// the command; it stays empty where the option is not given.
void add_report_option(CLI::App& command, std::filesystem::path& file);

// The bytes of the report for a file of that name. REQUIRES: one that the option takes.
std::string render_report(const ReportFacts& facts, const std::filesystem::path& file);

}  // namespace arenite::tool
