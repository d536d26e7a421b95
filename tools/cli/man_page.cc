// SPDX-License-Identifier: Apache-2.0
// The pages carry no date, so that two builds give the same bytes.
#include "cli/man_page.h"

#include <fmt/format.h>

#include <string_view>

#include "arenite/version.h"
#include "cli/command_line.h"

namespace arenite::tool {
namespace {

// A backslash begins a request within a line, and a hyphen that is typed must stay one.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\') {
      result += "\\e";
    } else if (c == '-') {
      result += "\\-";
    } else {
      result += c;
    }
  }
  return result;
}

// A line of text; a point or an apostrophe at its begin would make it a request.
std::string line_of(std::string_view text) {
  const std::string line = escaped(text);
  return (line.starts_with('.') || line.starts_with('\'') ? "\\&" : "") + line + "\n";
}

// Text as wrapped() takes it: paragraphs, lines as they are, and examples at the end.
std::string body(std::string_view text) {
  std::string result;
  bool is_verbatim = false;
  const auto end_verbatim = [&] {
    if (is_verbatim) result += ".EE\n.RE\n";
    is_verbatim = false;
  };
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.empty()) {
      end_verbatim();
      if (!result.empty() && !result.ends_with(".PP\n")) result += ".PP\n";
    } else if (line.starts_with("  ")) {
      if (!is_verbatim) result += ".RS 2\n.EX\n";
      is_verbatim = true;
      result += line_of(line.substr(2));
    } else if (line == "Examples:" || line == "Example:") {
      end_verbatim();
      if (result.ends_with(".PP\n")) result.resize(result.size() - 4);
      result += ".SH EXAMPLES\n";
    } else {
      end_verbatim();
      result += line_of(line);
    }
  }
  end_verbatim();
  if (result.ends_with(".PP\n")) result.resize(result.size() - 4);
  return result;
}

std::string head(const std::string& name, int section, const std::string& what) {
  return fmt::format(".TH {} {} \"\" \"arenite {}\" \"Arenite\"\n.SH NAME\n{} \\- {}",
                     escaped(name), section, escaped(version()), escaped(name), line_of(what));
}

std::string entry(const std::string& title, const std::string& text) {
  return fmt::format(".TP\n.B {}\n{}", escaped(title), line_of(text));
}

// With the titles of the groups; of one group alone without.
std::string options(const CLI::App& command, const std::string& only_group = "") {
  std::string result;
  std::string group;
  for (const OptionFacts& option : options_of(command)) {
    if (!only_group.empty() && (option.is_positional || option.group != only_group)) continue;
    if (only_group.empty() && !option.is_positional && option.group != group) {
      group = option.group;
      if (group != "Options") result += fmt::format(".SS {}\n", escaped(group));
    }
    result +=
        entry(option.title(), option.excludes.empty()
                                  ? option.text
                                  : fmt::format("{}. Not with {}.", option.text, option.excludes));
  }
  return result;
}

std::string see_also(const CLI::App& command) {
  std::string pages;
  const auto add = [&](const std::string& name, int section) {
    pages += fmt::format("{}.BR {} ({})", pages.empty() ? "" : ",\n", escaped(name), section);
  };
  if (command.get_parent() != nullptr) {
    add("arenite", 1);
  } else {
    for (const CLI::App* other : commands_of(command)) add("arenite-" + other->get_name(), 1);
    for (const HelpTopic& topic : help_topics()) add(fmt::format("arenite-{}", topic.name), 7);
  }
  return ".SH \"SEE ALSO\"\n" + pages + "\n";
}

}  // namespace

std::string man_page(const CLI::App& command) {
  const bool is_program = command.get_parent() == nullptr;
  const std::string what = command.get_description();
  std::string page = head(is_program ? "arenite" : "arenite-" + command.get_name(), 1,
                          is_program ? "attention models in a fixed block of memory" : what);
  page += ".SH SYNOPSIS\n.B " + escaped(usage_of(command)) + "\n";
  const std::string footer = command.get_footer();
  const std::string text = is_program ? what + footer : footer;
  const size_t examples = text.find("\nExample");
  page += ".SH DESCRIPTION\n" + (is_program ? "" : line_of(what + ".")) +
          (is_program ? "" : ".PP\n") + body(std::string_view(text).substr(0, examples));
  if (is_program) {
    page += ".SH COMMANDS\n";
    for (const CLI::App* other : commands_of(command)) {
      page += entry(other->get_name(), other->get_description());
    }
  }
  page += ".SH OPTIONS\n" + options(command);
  if (examples != std::string::npos) page += body(std::string_view(text).substr(examples + 1));
  return page + see_also(command);
}

std::string man_page(const HelpTopic& topic, const CLI::App& convert) {
  const std::string text = topic.text();
  const std::string group = topic.group;
  const size_t examples = text.find("\nExample");
  std::string page = head(fmt::format("arenite-{}", topic.name), 7, topic.what) +
                     ".SH DESCRIPTION\n" + body(std::string_view(text).substr(0, examples));
  if (!group.empty()) page += ".SH OPTIONS\n" + options(convert, group);
  if (examples != std::string::npos) page += body(std::string_view(text).substr(examples + 1));
  return page + ".SH \"SEE ALSO\"\n.BR arenite (1),\n.BR arenite\\-convert (1)\n";
}

}  // namespace arenite::tool
