// SPDX-License-Identifier: Apache-2.0
#include "cli/help.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "arenite/target.h"
#include "cli/process.h"

namespace arenite::tool {
namespace {

// The column of option descriptions.
constexpr size_t kTextColumn = 24;

bool is_brief(const std::string& group) {
  return group == kStateDictGroup || group == kWeightGroup || group == kLimitGroup;
}

}  // namespace

std::string HelpFormatter::make_help(const CLI::App* app, std::string /*name*/,
                                     CLI::AppFormatMode mode) const {
  std::string help = app->get_description() + "\n\n" + "Usage: " + usage_of(*app) + "\n\n" +
                     commands(*app) + options(*app, mode == CLI::AppFormatMode::All);
  const std::string& more = app->get_footer();
  const size_t begin = more.find_first_not_of('\n');
  if (begin != std::string::npos) help += "\n" + more.substr(begin);
  return in_columns(help, columns_);
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
  return text.empty() ? text : "Commands:\n" + text + "\n";
}

std::string HelpFormatter::options(const CLI::App& app, bool are_all_shown) const {
  std::string text;
  std::string group;
  std::string names;  // of a group whose options are listed by name only
  const auto end_group = [&] {
    if (!names.empty()) text += "  " + names + "\n";
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
      text += (text.empty() ? "" : "\n") + title + "\n";
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
  std::string line = "  " + name;
  if (name.size() + 4 > kTextColumn) {
    line += '\n' + std::string(kTextColumn, ' ');
  } else {
    line.append(kTextColumn - name.size() - 2, ' ');
  }
  return line + text + "\n";
}

std::string topic_of(const std::string& group) {
  std::string topic = group.substr(0, group.find(" in "));
  std::ranges::transform(topic, topic.begin(), [](unsigned char c) {
    return static_cast<char>(c == ' ' ? '-' : std::tolower(c));
  });
  return topic;
}

// --- Facts about options, from CLI11's ---

namespace {

constexpr size_t kChoicesMax = 12;  // characters of choices that replace the value's name

std::string in_capitals(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) {
    return static_cast<char>(c == '_' ? '-' : std::toupper(c));
  });
  return text;
}

// CLI11 names the type of an option with two choices "TEXT:{a,b}".
std::vector<std::string> choices_of(const std::string& type) {
  std::vector<std::string> choices;
  const size_t open = type.find('{');
  const size_t close = type.find('}');
  if (open == std::string::npos || close == std::string::npos) return choices;
  std::string choice;
  for (const char c : type.substr(open + 1, close - open - 1) + ",") {
    if (c != ',') {
      choice += c;
    } else {
      choices.push_back(choice);
      choice.clear();
    }
  }
  return choices;
}

std::vector<std::string> names_of_targets() {
  std::vector<std::string> names = {"native", "all"};
  for (uint32_t i = 0; i < kTargets; ++i) names.emplace_back(name(static_cast<Target>(i)));
  return names;
}

// Sets the placeholder of the value and its choices.
void add_value(const CLI::Option& option, OptionFacts& facts) {
  if (option.get_expected_max() == 0) return;
  const std::string type = option.get_type_name();
  facts.value = type.substr(0, type.find(':'));
  facts.choices = choices_of(type);
  const std::string all = fmt::format("{}", fmt::join(facts.choices, "|"));
  if (!all.empty() && all.size() <= kChoicesMax) facts.value = all;
  if (facts.value == "UINT") facts.value = "N";
  if (facts.value == "FLOAT") facts.value = "X";
  if (facts.value == kTargetType) facts.choices = names_of_targets();
  if (facts.value == kKernelsType) facts.choices = {"scalar", "sse41", "avx2", "avx512", "neon"};
}

// Returns the description with choices, "required" and the default.
std::string text_of(const CLI::Option& option, const OptionFacts& facts) {
  std::string text = option.get_description();
  std::vector<std::string> notes;
  const bool are_choices_said =
      facts.choices.empty() || facts.value.find('|') != std::string::npos ||
      text.find(facts.choices[0]) != std::string::npos || facts.value == kTargetType;
  if (!are_choices_said) notes.push_back(fmt::format("{}", fmt::join(facts.choices, ", ")));
  if (facts.is_required && !facts.is_positional) notes.emplace_back("required");
  if (!option.get_default_str().empty()) notes.push_back("default " + option.get_default_str());
  return notes.empty() ? text : fmt::format("{} ({})", text, fmt::join(notes, "; "));
}

std::string excluded_by(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const CLI::Option* other : option.get_excludes()) {
    names.push_back(other->get_name(false, false));
  }
  std::ranges::sort(names);
  return fmt::format("{}", fmt::join(names, ", "));
}

OptionFacts facts_of(const CLI::Option& option) {
  OptionFacts facts;
  facts.is_positional = option.get_positional();
  facts.is_required = option.get_required();
  facts.group = option.get_group();
  if (facts.is_positional) {
    facts.names = {option.get_name(true)};
  } else {
    for (const std::string& name : option.get_snames()) facts.names.push_back("-" + name);
    for (const std::string& name : option.get_lnames()) facts.names.push_back("--" + name);
  }
  add_value(option, facts);
  facts.text = text_of(option, facts);
  facts.excludes = excluded_by(option);
  return facts;
}

}  // namespace

std::string OptionFacts::title() const {
  if (is_positional) return in_capitals(names[0]);
  std::string text = fmt::format("{}", fmt::join(names, ", "));
  return value.empty() ? text : text + " " + value;
}

std::vector<OptionFacts> options_of(const CLI::App& command) {
  std::vector<OptionFacts> options;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_positional()) options.push_back(facts_of(*option));
  }
  for (const std::string& group : command.get_groups()) {
    if (group.empty()) continue;
    for (const CLI::Option* option : command.get_options()) {
      if (option->get_positional() || option->get_group() != group) continue;
      options.push_back(facts_of(*option));
    }
  }
  return options;
}

std::string usage_of(const CLI::App& command) {
  std::string words = command.get_name();
  if (command.get_parent() != nullptr) words = command.get_parent()->get_name() + " " + words;
  if (!command.get_subcommands({}).empty()) words += " COMMAND";
  for (const OptionFacts& option : options_of(command)) {
    if (!option.is_required && !option.is_positional) continue;
    const std::string word = option.is_positional
                                 ? option.title()
                                 : fmt::format("{} {}", option.names.back(), option.value);
    words += option.is_required ? " " + word : fmt::format(" [{}]", word);
  }
  return words + " [OPTIONS]";
}

std::vector<const CLI::App*> commands_of(const CLI::App& program) {
  return program.get_subcommands(std::function<bool(const CLI::App*)>());
}

}  // namespace arenite::tool
