// SPDX-License-Identifier: Apache-2.0
#include "cli/help.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/terminal.h"

namespace arenite::tool {
namespace {

// Where the texts of options begin.
constexpr size_t kTextColumn = 24;

bool is_brief(const std::string& group) {
  return group == kStateDictGroup || group == kWeightGroup || group == kLimitGroup;
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

std::string HelpFormatter::make_help(const CLI::App* app, std::string /*name*/,
                                     CLI::AppFormatMode mode) const {
  std::string help = wrapped(app->get_description(), columns_) + "\n\n";
  const std::string usage = wrapped("Usage: " + usage_of(*app), columns_, 4);
  help += heading("Usage:") + usage.substr(usage.find(' ')) + "\n\n";
  help += commands(*app);
  help += options(*app, mode == CLI::AppFormatMode::All);
  const std::string& more = app->get_footer();
  const size_t begin = more.find_first_not_of('\n');
  if (begin != std::string::npos) help += "\n" + wrapped(more.substr(begin), columns_) + "\n";
  return help;
}

std::string HelpFormatter::group(const CLI::App& command, const std::string& name) const {
  std::string rows;
  for (const OptionFacts& option : options_of(command)) {
    if (!option.is_positional && option.group == name) rows += row(option.title(), option.text);
  }
  return rows;
}

std::string HelpFormatter::commands(const CLI::App& app) const {
  std::string text;
  for (const CLI::App* command : commands_of(app)) {
    text += row(command->get_name(), command->get_description());
  }
  return text.empty() ? text : heading("Commands:") + "\n" + text + "\n";
}

std::string HelpFormatter::options(const CLI::App& app, bool are_all_shown) const {
  std::string text;
  std::string group;
  std::string names;  // of a group that is shown in brief
  const auto end_group = [&] {
    if (!names.empty()) text += "  " + wrapped(names, columns_, 2) + "\n";
    names.clear();
  };
  for (const OptionFacts& option : options_of(app)) {
    const bool has_names_only = !are_all_shown && is_brief(option.group);
    if (!option.is_positional && option.group != group) {
      end_group();
      group = option.group;
      const std::string title = has_names_only
                                    ? fmt::format("{} ('arenite help {}'):", group, topic_of(group))
                                    : group + ":";
      text += (text.empty() ? "" : "\n") + heading(title) + "\n";
    }
    if (has_names_only) {
      names += (names.empty() ? "" : ", ") + option.names.back();
    } else {
      text += row(option.title(), option.text);
    }
  }
  end_group();
  return text;
}

std::string HelpFormatter::row(const std::string& name, const std::string& text) const {
  std::string line = "  " + styled(name, kBold, is_coloured_);
  if (name.size() + 4 > kTextColumn) {
    line += '\n' + std::string(kTextColumn, ' ');
  } else {
    line.append(kTextColumn - name.size() - 2, ' ');
  }
  return line + wrapped(text, columns_, kTextColumn) + "\n";
}

std::string HelpFormatter::heading(const std::string& text) const {
  return styled(text, kBold, is_coloured_);
}

std::string topic_of(const std::string& group) {
  std::string topic = group.substr(0, group.find(" in "));
  std::ranges::transform(topic, topic.begin(), [](unsigned char c) {
    return static_cast<char>(c == ' ' ? '-' : std::tolower(c));
  });
  return topic;
}

}  // namespace arenite::tool
