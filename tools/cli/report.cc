// SPDX-License-Identifier: Apache-2.0
// There is no option for the form: a page that is called .json would help nobody.
#include "cli/report.h"

#include <fmt/format.h>

#include "cli/command_line.h"
#include "convert/files/error.h"

namespace arenite::tool {

void add_report_option(CLI::App& command, std::filesystem::path& file) {
  const auto problem = [](const std::string& text) {
    const std::filesystem::path extension = std::filesystem::path(text).extension();
    if (extension == ".html" || extension == ".json") return std::string();
    return fmt::format(
        "found {}, expected a name that ends in .html for a page or in .json for programs",
        convert::quote(text));
  };
  command.add_option("--report", file, "Write a report: a page (.html) or the same facts (.json)")
      ->type_name(kFileType)
      ->check(CLI::Validator(problem, ""));
}

std::string render_report(const ReportFacts& facts, const std::filesystem::path& file) {
  return file.extension() == ".json" ? report_as_json(facts) : report_as_html(facts);
}

}  // namespace arenite::tool
