// SPDX-License-Identifier: Apache-2.0
// Help as people read it: wrapped to the width of the terminal, options in their groups.
#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace arenite::tool {

// Groups of options that few need, of which --help shows the names alone; --help-all and the topic
// of that name show all of them.
inline constexpr const char* kStateDictGroup = "State dicts";
inline constexpr const char* kWeightGroup = "Weights in few bits";
inline constexpr const char* kLimitGroup = "Limits";

// "state-dicts", what `arenite help` calls a group of options.
std::string topic_of(const std::string& group);

// `text` in lines of at most `columns`, all but the first indented by `indent`. An empty line ends
// a paragraph; lines that begin with a space stay as they are: examples and tables. REQUIRES:
// indent < columns.
std::string wrapped(std::string_view text, size_t columns, size_t indent = 0);

// What `--help` of the program and of its commands prints.
class HelpFormatter : public CLI::FormatterBase {
 public:
  HelpFormatter(size_t columns, bool is_coloured) : columns_(columns), is_coloured_(is_coloured) {}

  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override;

  // All options of a group.
  std::string group(const CLI::App& command, const std::string& name) const;

  // A name, and what it is for beside it or, where the name is long, below.
  std::string row(const std::string& name, const std::string& text) const;

  std::string heading(const std::string& text) const;

 private:
  std::string commands(const CLI::App& app) const;
  std::string options(const CLI::App& app, bool are_all_shown) const;

  size_t columns_;
  bool is_coloured_;
};

// --- What help, man pages and completions of shells are made from ---

// What an option takes, where that is one of these: shells then complete it.
inline constexpr const char* kFileType = "FILE";
inline constexpr const char* kTargetType = "TARGETS";
inline constexpr const char* kKernelsType = "KERNELS";

struct OptionFacts {
  std::vector<std::string> names;    // "-o", "--output"; of a positional the one that messages use
  std::string value;                 // "FILE", "N", "f32|int8"; empty: it takes none
  std::vector<std::string> choices;  // empty: any
  std::string text;                  // what it is for
  std::string excludes;              // "--a, --b": options that it cannot be given with
  std::string group;
  bool is_positional = false;
  bool is_required = false;

  // "-o, --output FILE", or "MODEL".
  std::string title() const;
};

// Positionals first, then the options in their groups. Hidden ones are left out.
std::vector<OptionFacts> options_of(const CLI::App& command);

// "arenite convert CHECKPOINT --output FILE [OPTIONS]"
std::string usage_of(const CLI::App& command);

// The commands of the program, in the order of its help.
std::vector<const CLI::App*> commands_of(const CLI::App& program);

// What is too long for the help of a command: `arenite help TOPIC` shows it.
struct HelpTopic {
  const char* name;       // "formats"
  const char* what;       // in a line
  std::string (*text)();  // as wrapped() takes it
  const char* group;      // of options of `arenite convert` that come after it; empty: none
};

std::span<const HelpTopic> help_topics();

// --- Pages for man, in the macros of man(7) ---

// Of the program, whose page lists the commands and topics, or of one of its commands.
std::string man_page(const CLI::App& command);

// Of a topic; `convert` has the options of its group.
std::string man_page(const HelpTopic& topic, const CLI::App& convert);

// --- What a shell needs to complete the words of a command line ---

std::string bash_completion(const CLI::App& program);
std::string zsh_completion(const CLI::App& program);
std::string fish_completion(const CLI::App& program);

}  // namespace arenite::tool
