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

// Converts paragraphs, verbatim lines, which begin with a space, and examples at the end.
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

namespace {

// Returns the first part of a text, short enough for a list of options.
std::string in_short(const std::string& text) {
  size_t end = text.size();
  for (const char* stop : {"; ", ". ", ": ", " ("}) end = std::min(end, text.find(stop));
  return text.substr(0, end);
}

std::string named_commands(const CLI::App& program) {
  std::string lines;
  for (const CLI::App* command : commands_of(program)) {
    lines += fmt::format("{}\t{}\n", command->get_name(), in_short(command->get_description()));
  }
  return lines;
}

}  // namespace

std::string completions(const CLI::App& program, std::span<const std::string> words) {
  if (words.size() < 2) return named_commands(program);
  const std::vector<const CLI::App*> commands = commands_of(program);
  const auto found = std::ranges::find(commands, words[0], &CLI::App::get_name);
  if (found == commands.end()) return "";
  const std::string& before = words[words.size() - 2];
  std::string names;
  for (const OptionFacts& option : options_of(**found)) {
    if (option.is_positional) continue;
    for (const std::string& name : option.names) {
      names += fmt::format("{}\t{}\n", name, in_short(option.text));
      if (name != before || option.value.empty()) continue;
      if (option.value == kFileType) return kFilesFollow;
      return option.choices.empty() ? "" : fmt::format("{}\n", fmt::join(option.choices, "\n"));
    }
  }
  if (words.back().starts_with('-')) return names;
  if (words[0] != "help") return kFilesFollow;
  std::string topics;
  for (const HelpTopic& topic : help_topics()) {
    topics += fmt::format("{}\t{}\n", topic.name, topic.what);
  }
  return topics + named_commands(program);
}

const char* completion_script(const std::string& shell) {
  if (shell == "bash") {
    return R"(# SPDX-License-Identifier: Apache-2.0
# Completes the words of arenite in bash: the program knows them.
_arenite() {
  local word=${COMP_WORDS[COMP_CWORD]} words
  words=$("${COMP_WORDS[0]}" help --complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null |
    cut -f 1)
  if [[ $words == :files ]]; then
    COMPREPLY=($(compgen -f -- "$word"))
  else
    COMPREPLY=($(compgen -W "$words" -- "$word"))
  fi
}
complete -o filenames -F _arenite arenite
)";
  }
  if (shell == "zsh") {
    return R"(#compdef arenite
# SPDX-License-Identifier: Apache-2.0
# Completes the words of arenite in zsh: the program knows them.
_arenite() {
  local line
  local -a found
  for line in "${(@f)$($words[1] help --complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    [[ -n $line ]] && found+=("${${line//:/\\:}/$'\t'/:}")
  done
  if [[ $found == '\:files' ]]; then
    _files
  else
    _describe word found
  fi
}
_arenite "$@"
)";
  }
  return R"(# SPDX-License-Identifier: Apache-2.0
# Completes the words of arenite in fish: the program knows them.
function __arenite_words
  set -l words (commandline -opc)
  set -l program $words[1]
  set -e words[1]
  set -l found ($program help --complete -- $words (commandline -ct) 2>/dev/null)
  if test "$found" = :files
    __fish_complete_path (commandline -ct)
  else
    printf '%s\n' $found
  end
end
complete -c arenite -f -a '(__arenite_words)'
)";
}

}  // namespace arenite::tool
