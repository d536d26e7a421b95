// SPDX-License-Identifier: Apache-2.0
// There is no option for the form: a page that is called .json would help nobody.
#include "cli/report.h"

#include <fmt/format.h>

#include "cli/command_line.h"
#include "convert/files/error.h"

namespace arenite::tool {

extern const char* const kReportPage;  // the text of report.html; the build makes it

namespace {

std::string text_as_html(std::string_view text) {
  std::string html;
  for (const char c : text) {
    html += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  }
  return html;
}

}  // namespace

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

std::string report_as_html(const ReportFacts& facts) {
  std::string page = kReportPage;
  const auto put = [&](const std::string_view place, const std::string& content) {
    page.replace(page.find(place), place.size(), content);
  };
  put("{{facts}}", page_as_json(facts));
  put("{{brief}}", text_as_html(facts_in_brief(facts.model)));
  return page;
}

std::string render_report(const ReportFacts& facts, const std::filesystem::path& file) {
  return file.extension() == ".json" ? report_as_json(facts) : report_as_html(facts);
}

}  // namespace arenite::tool
