// SPDX-License-Identifier: Apache-2.0
#include "cli/help.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

namespace arenite::tool {
namespace {

constexpr size_t kColumnsMin = 40;
constexpr size_t kColumnsMax = 100;
constexpr size_t kColumnsUnknown = 80;
// Where the texts of options begin.
constexpr size_t kTextColumn = 24;

// "TEXT:{a,b}" is what CLI11 calls an option of two values.
struct TypeName {
  std::string placeholder;
  std::string choices;  // "a, b"; empty: any
};

TypeName type_of(const CLI::Option& option) {
  const std::string full = option.get_type_name();
  const size_t colon = full.find(':');
  TypeName type = {full.substr(0, colon), ""};
  const size_t open = full.find('{');
  const size_t close = full.find('}');
  if (open != std::string::npos && close != std::string::npos) {
    for (const char c : full.substr(open + 1, close - open - 1)) {
      type.choices += c;
      if (c == ',') type.choices += ' ';
    }
  }
  if (type.placeholder == "UINT") type.placeholder = "N";
  if (type.placeholder == "FLOAT") type.placeholder = "X";
  return type;
}

// "-o, --output FILE"
std::string name_of(const CLI::Option& option) {
  if (option.get_positional()) return option.get_name(true);
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  std::string text = fmt::format("{}", fmt::join(names, ", "));
  if (option.get_expected_max() > 0) text += " " + type_of(option).placeholder;
  return text;
}

// What it is for, and all that CLI11 knows besides.
std::string text_of(const CLI::Option& option) {
  std::string text = option.get_description();
  std::vector<std::string> facts;
  const std::string choices = type_of(option).choices;
  const bool are_choices_said =
      choices.empty() || text.find(choices.substr(0, choices.find(','))) != std::string::npos;
  if (!are_choices_said) facts.push_back(choices);
  if (option.get_required() && !option.get_positional()) facts.emplace_back("required");
  if (!option.get_default_str().empty()) facts.push_back("default " + option.get_default_str());
  std::vector<std::string> excluded;
  for (const CLI::Option* other : option.get_excludes()) {
    excluded.push_back(other->get_name(false, false));
  }
  std::ranges::sort(excluded);
  if (!excluded.empty()) facts.push_back(fmt::format("not with {}", fmt::join(excluded, ", ")));
  if (!facts.empty()) text += fmt::format(" ({})", fmt::join(facts, "; "));
  return text;
}

// Text that grows word by word.
class Paragraphs {
 public:
  Paragraphs(size_t columns, size_t indent) : columns_(columns), indent_(indent), used_(indent) {}

  void add_words(std::string_view line) {
    while (!line.empty()) {
      const std::string_view word = line.substr(0, line.find(' '));
      line.remove_prefix(std::min(word.size() + 1, line.size()));
      if (!word.empty()) add_word(word);
    }
  }

  // A line as it is.
  void add_line(std::string_view line) {
    end_paragraph();
    text_ += line;
    is_open_ = true;
  }

  void add_blank() {
    end_paragraph();
    text_ += '\n';
  }

  const std::string& text() const { return text_; }

  void end_paragraph() {
    if (is_open_) text_ += '\n';
    is_open_ = false;
    used_ = indent_;
  }

 private:
  void add_word(std::string_view word) {
    if (!is_open_) {
      if (!text_.empty()) text_.append(indent_, ' ');
    } else if (used_ + 1 + word.size() > columns_) {
      text_ += '\n' + std::string(indent_, ' ');
      used_ = indent_;
    } else {
      text_ += ' ';
      ++used_;
    }
    text_ += word;
    used_ += word.size();
    is_open_ = true;
  }

  size_t columns_;
  size_t indent_;
  size_t used_;           // columns of the last line
  bool is_open_ = false;  // whether that line goes on
  std::string text_;
};

}  // namespace

size_t terminal_columns() {
  winsize size = {};
  if (isatty(STDOUT_FILENO) == 0 || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 ||
      size.ws_col == 0) {
    return kColumnsUnknown;
  }
  return std::clamp<size_t>(size.ws_col, kColumnsMin, kColumnsMax);
}

std::string wrapped(std::string_view text, size_t columns, size_t indent) {
  Paragraphs paragraphs(columns, indent);
  bool is_plain = false;  // the line before
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.empty()) {
      paragraphs.add_blank();
    } else if (line.starts_with(' ')) {
      paragraphs.add_line(line);
    } else {
      if (!is_plain) paragraphs.end_paragraph();
      paragraphs.add_words(line);
    }
    is_plain = !line.empty() && !line.starts_with(' ');
  }
  return paragraphs.text();
}

std::string HelpFormatter::make_help(const CLI::App* app, std::string name,
                                     CLI::AppFormatMode /*mode*/) const {
  std::string help = wrapped(app->get_description(), columns_) + "\n\n";
  help += usage(*app, name) + "\n";
  help += commands(*app);
  help += options(*app);
  const std::string& more = app->get_footer();
  const size_t begin = more.find_first_not_of('\n');
  if (begin != std::string::npos) help += "\n" + wrapped(more.substr(begin), columns_) + "\n";
  return help;
}

std::string HelpFormatter::usage(const CLI::App& app, const std::string& name) const {
  std::string words = "Usage:";
  // A command's own name comes after that of the program.
  if (app.get_parent() != nullptr && !name.starts_with(app.get_parent()->get_name())) {
    words += " " + app.get_parent()->get_name();
  }
  words += " " + name;
  if (!app.get_subcommands({}).empty()) words += " COMMAND";
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional()) {
      words += " " + option->get_name(true);
    } else if (option->get_required()) {
      words += fmt::format(" {} {}",
                           option->get_lnames().empty() ? "-" + option->get_snames()[0]
                                                        : "--" + option->get_lnames()[0],
                           type_of(*option).placeholder);
    }
  }
  return wrapped(words + " [OPTIONS]", columns_, 4) + "\n";
}

std::string HelpFormatter::commands(const CLI::App& app) const {
  std::string text;
  for (const CLI::App* command : app.get_subcommands({})) {
    if (text.empty()) text = "Commands:\n";
    text += row(command->get_name(), command->get_description());
  }
  return text.empty() ? text : text + "\n";
}

std::string HelpFormatter::options(const CLI::App& app) const {
  std::string text;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional()) text += row(name_of(*option), text_of(*option));
  }
  for (const std::string& group : app.get_groups()) {
    std::string rows;
    for (const CLI::Option* option : app.get_options()) {
      if (option->get_positional() || option->get_group() != group) continue;
      rows += row(name_of(*option), text_of(*option));
    }
    if (rows.empty() || group.empty()) continue;
    if (!text.empty()) text += "\n";
    text += group + ":\n" + rows;
  }
  return text;
}

std::string HelpFormatter::row(const std::string& name, const std::string& text) const {
  std::string line = "  " + name;
  if (line.size() + 2 > kTextColumn) {
    line += '\n' + std::string(kTextColumn, ' ');
  } else {
    line.resize(kTextColumn, ' ');
  }
  return line + wrapped(text, columns_, kTextColumn) + "\n";
}

}  // namespace arenite::tool
