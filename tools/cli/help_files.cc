// SPDX-License-Identifier: Apache-2.0
// Generates man pages and shell completions from the facts about options. The pages carry no date,
// so that builds are reproducible.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>
#include <vector>

#include "arenite/version.h"
#include "cli/help.h"

namespace arenite::tool {
namespace {

// Escapes backslashes, which begin requests, and hyphens, which would turn into dashes.
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

// Escapes a line of text. A leading point or apostrophe would make it a request.
std::string line_of(std::string_view text) {
  const std::string line = escaped(text);
  return (line.starts_with('.') || line.starts_with('\'') ? "\\&" : "") + line + "\n";
}

// Converts text in the form of wrapped(): paragraphs, verbatim lines, and examples at the end.
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

// Formats all options with the titles of their groups, or those of one group without a title.
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

// --- Completions ---
//
// Each shell has its own syntax to propose options, values, files or nothing.

namespace {

constexpr const char* kHelp = "help";

// Returns the words that `arenite help` accepts.
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

// Returns the first part of a text, short enough for a list of options.
std::string in_short(const std::string& text) {
  size_t end = text.size();
  for (const char* stop : {"; ", ". ", ": ", " ("}) end = std::min(end, text.find(stop));
  return text.substr(0, end);
}

// Quotes `text` in single quotes for a shell.
std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

// Escapes characters that end a description (brackets) or a message (colons) in zsh.
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
    std::string others;  // options whose values cannot be proposed
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
