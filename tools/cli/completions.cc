// SPDX-License-Identifier: Apache-2.0
// Each shell has its own words for: these options, these values, a file, or nothing to propose.
#include "cli/completions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "cli/command_line.h"
#include "cli/help_topics.h"

namespace arenite::tool {
namespace {

constexpr const char* kHelp = "help";

// What `arenite help` takes.
std::vector<std::string> words_of_help(const CLI::App& program) {
  std::vector<std::string> words;
  for (const HelpTopic& topic : help_topics()) words.push_back(topic.name);
  for (const CLI::App* command : commands_of(program)) words.push_back(command->get_name());
  return words;
}

std::vector<std::string> names_of(const std::vector<OptionFacts>& options) {
  std::vector<std::string> names;
  for (const OptionFacts& option : options) {
    if (option.is_positional) continue;
    names.insert(names.end(), option.names.begin(), option.names.end());
  }
  return names;
}

// Of a text the part that fits beside an option in a list.
std::string in_short(const std::string& text) {
  size_t end = text.size();
  for (const char* stop : {"; ", ". ", ": ", " ("}) end = std::min(end, text.find(stop));
  return text.substr(0, end);
}

// Within single quotes.
std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

// zsh ends a description at a bracket, and a message at a colon.
std::string for_zsh(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

std::string zsh_value(const OptionFacts& option) {
  if (!option.choices.empty()) {
    return fmt::format(":{}:({})", for_zsh(option.value), fmt::join(option.choices, " "));
  }
  return fmt::format(":{}:{}", for_zsh(option.value), option.value == kFileType ? "_files" : " ");
}

std::string zsh_option(const OptionFacts& option) {
  if (option.is_positional) return quoted("*:" + option.title() + ":_files");
  const std::string text = fmt::format("[{}]{}", for_zsh(in_short(option.text)),
                                       option.value.empty() ? "" : zsh_value(option));
  if (option.names.size() == 1) return quoted(option.names[0] + text);
  return fmt::format("'({})'{{{}}}{}", fmt::join(option.names, " "), fmt::join(option.names, ","),
                     quoted(text));
}

}  // namespace

std::string bash_completion(const CLI::App& program) {
  std::string commands, values, names;
  for (const CLI::App* command : commands_of(program)) {
    const std::vector<OptionFacts> options = options_of(*command);
    commands += command->get_name() + " ";
    names += fmt::format("    {}) words='{}' ;;\n", command->get_name(),
                         fmt::join(names_of(options), " "));
    std::string others;  // whose values nobody can propose
    for (const OptionFacts& option : options) {
      if (option.is_positional || option.value.empty() || option.value == kFileType) continue;
      std::string pattern;
      for (const std::string& name : option.names) {
        pattern += fmt::format("{}'{} {}'", pattern.empty() ? "" : "|", command->get_name(), name);
      }
      if (option.choices.empty()) {
        others += (others.empty() ? "" : "|") + pattern;
      } else {
        values +=
            fmt::format("    {})\n      words='{}' ;;\n", pattern, fmt::join(option.choices, " "));
      }
    }
    if (!others.empty()) values += fmt::format("    {})\n      return ;;\n", others);
  }
  return fmt::format(
      "# SPDX-License-Identifier: Apache-2.0\n"
      "# Completes the words of arenite in bash; made by the build.\n"
      "_arenite() {{\n"
      "  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} words=\n"
      "  COMPREPLY=()\n"
      "  if ((COMP_CWORD == 1)); then\n"
      "    COMPREPLY=($(compgen -W '{} --help --version' -- \"$word\"))\n"
      "    return\n"
      "  fi\n"
      "  case \"${{COMP_WORDS[1]}} $before\" in\n"
      "{}"
      "  esac\n"
      "  if [[ -z $words && ${{COMP_WORDS[1]}} == help && $word != -* ]]; then\n"
      "    words='{}'\n"
      "  elif [[ -z $words && $word == -* ]]; then\n"
      "    case \"${{COMP_WORDS[1]}}\" in\n"
      "{}"
      "    esac\n"
      "  fi\n"
      "  if [[ -n $words ]]; then\n"
      "    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
      "  else\n"
      "    COMPREPLY=($(compgen -f -- \"$word\"))\n"
      "  fi\n"
      "}}\n"
      "complete -o filenames -F _arenite arenite\n",
      commands.substr(0, commands.size() - 1), values, fmt::join(words_of_help(program), " "),
      names);
}

std::string zsh_completion(const CLI::App& program) {
  std::string commands, cases;
  for (const CLI::App* command : commands_of(program)) {
    commands += fmt::format("    {}\n", quoted(command->get_name() + ":" +
                                               for_zsh(in_short(command->get_description()))));
    std::string specs;
    for (const OptionFacts& option : options_of(*command)) {
      if (option.is_positional && command->get_name() == kHelp) {
        specs += fmt::format(" \\\n        '*:topic:({})'", fmt::join(words_of_help(program), " "));
      } else {
        specs += " \\\n        " + zsh_option(option);
      }
    }
    cases += fmt::format("    {})\n      _arguments{} ;;\n", command->get_name(), specs);
  }
  return fmt::format(
      "#compdef arenite\n"
      "# SPDX-License-Identifier: Apache-2.0\n"
      "# Completes the words of arenite in zsh; made by the build.\n"
      "_arenite() {{\n"
      "  local -a commands\n"
      "  commands=(\n"
      "{}"
      "  )\n"
      "  if ((CURRENT == 2)); then\n"
      "    _describe command commands\n"
      "    return\n"
      "  fi\n"
      "  shift words\n"
      "  ((CURRENT -= 1))\n"
      "  case $words[1] in\n"
      "{}"
      "  esac\n"
      "}}\n"
      "_arenite \"$@\"\n",
      commands, cases);
}

std::string fish_completion(const CLI::App& program) {
  std::string text =
      "# SPDX-License-Identifier: Apache-2.0\n"
      "# Completes the words of arenite in fish; made by the build.\n";
  for (const CLI::App* command : commands_of(program)) {
    text += fmt::format("complete -c arenite -n __fish_use_subcommand -f -a {} -d {}\n",
                        command->get_name(), quoted(in_short(command->get_description())));
  }
  for (const CLI::App* command : commands_of(program)) {
    const std::string start =
        fmt::format("complete -c arenite -n '__fish_seen_subcommand_from {}'", command->get_name());
    for (const OptionFacts& option : options_of(*command)) {
      if (option.is_positional) {
        if (command->get_name() != kHelp) continue;
        text += fmt::format("{} -f -a '{}'\n", start, fmt::join(words_of_help(program), " "));
        continue;
      }
      std::string words;
      for (const std::string& name : option.names) {
        words += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      }
      if (option.value == kFileType) {
        words += " -r -F";
      } else if (!option.choices.empty()) {
        words += fmt::format(" -x -a '{}'", fmt::join(option.choices, " "));
      } else if (!option.value.empty()) {
        words += " -x";
      }
      text += fmt::format("{}{} -d {}\n", start, words, quoted(in_short(option.text)));
    }
  }
  return text;
}

}  // namespace arenite::tool
