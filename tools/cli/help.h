// SPDX-License-Identifier: Apache-2.0
// Help for people: wrapped to the width of the terminal, with options in groups.
#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace arenite::tool {

// Groups of rarely used options. --help shows only the names of their options; --help-all and the
// help topic of the group show all of each option.
inline constexpr const char* kStateDictGroup = "State dicts";
inline constexpr const char* kWeightGroup = "Weights";
inline constexpr const char* kLimitGroup = "Limits";

// Returns the topic of a group of options for `arenite help`: "state-dicts".
std::string topic_of(const std::string& group);

// Formats the --help output of the program and of its commands.
class HelpFormatter : public CLI::FormatterBase {
 public:
  explicit HelpFormatter(size_t columns) : columns_(columns) {}

  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override;

  // Formats all options of a group.
  std::string group(const CLI::App& command, const std::string& name) const;

  // Formats a name with its description beside it or, if the name is long, below it.
  std::string row(const std::string& name, const std::string& text) const;

 private:
  std::string commands(const CLI::App& app) const;
  std::string options(const CLI::App& app, bool are_all_shown) const;

  size_t columns_;
};

// --- Sources of the help, the man pages and the shell completions ---

// The value types of options for which shells complete values.
inline constexpr const char* kFileType = "FILE";
inline constexpr const char* kTargetType = "TARGETS";
inline constexpr const char* kKernelsType = "KERNELS";

struct OptionFacts {
  std::vector<std::string> names;    // "-o", "--output"; of a positional the one in messages
  std::string value;                 // "FILE", "N", "f32|int8"; empty: it takes no value
  std::vector<std::string> choices;  // empty: any value
  std::string text;                  // description
  std::string excludes;              // "--a, --b": the options that exclude it
  std::string group;
  bool is_positional = false;
  bool is_required = false;

  // Returns "-o, --output FILE", or "MODEL".
  std::string title() const;
};

// Returns the positionals, then the options in their groups, without hidden ones.
std::vector<OptionFacts> options_of(const CLI::App& command);

// Returns "arenite convert CHECKPOINT --output FILE [OPTIONS]".
std::string usage_of(const CLI::App& command);

// Returns the commands of the program in the order of its help.
std::vector<const CLI::App*> commands_of(const CLI::App& program);

// A text that is too long for a command's help; `arenite help TOPIC` shows it.
struct HelpTopic {
  const char* name;       // "formats"
  const char* what;       // one line
  std::string (*text)();  // paragraphs of one line; verbatim lines begin with a space
  const char* group;      // of `arenite convert` options to list after the text; empty: none
};

std::span<const HelpTopic> help_topics();

// --- Man pages, in the macros of man(7) ---

// The page of the program, which lists commands and topics, or of one of its commands.
std::string man_page(const CLI::App& command);

// The page of a topic. `convert` is the command that has the options of the topic's group.
std::string man_page(const HelpTopic& topic, const CLI::App& convert);

// --- Completions ---

inline constexpr const char* kFilesFollow = ":files\n";

// Returns the words that may stand in place of the last of `words`, a line each: the word, a tab
// and its meaning. kFilesFollow: names of files. `words` are those after the program's name.
std::string completions(const CLI::App& program, std::span<const std::string> words);

// The script for bash, zsh or fish that asks `arenite help --complete`.
const char* completion_script(const std::string& shell);

}  // namespace arenite::tool
