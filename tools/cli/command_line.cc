// SPDX-License-Identifier: Apache-2.0
// CLI11 knows all of it, if not in the words of people.
#include "cli/command_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "arenite/target.h"

namespace arenite::tool {
namespace {

constexpr size_t kChoicesMax = 12;  // characters of choices that stand for the value

std::string in_capitals(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) {
    return static_cast<char>(c == '_' ? '-' : std::toupper(c));
  });
  return text;
}

// "TEXT:{a,b}" is what CLI11 calls an option of two values.
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

// What stands for the value, and the values that there are.
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

// What it is for, and all that CLI11 knows besides.
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
