// SPDX-License-Identifier: Apache-2.0
// arenite help: of a command or a topic; and, for the build, the same as files for man and shells.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include <filesystem>

#include "cli/arguments.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/completions.h"
#include "cli/help.h"
#include "cli/help_topics.h"
#include "cli/man_page.h"
#include "cli/schemas.h"
#include "cli/terminal.h"
#include "convert/files/error.h"
#include "convert/files/output_files.h"
#include "convert/files/output_folder.h"

namespace arenite::tool {
namespace {

struct HelpArguments {
  const CLI::App* program = nullptr;
  std::vector<std::string> words;
  bool man = false;
  std::string schema;
  std::string completion;
  std::filesystem::path folder;  // where all files go; empty: none are asked for
};

const CLI::App* command_named(const CLI::App& program, const std::string& name) {
  for (const CLI::App* command : commands_of(program)) {
    if (command->get_name() == name) return command;
  }
  return nullptr;
}

[[noreturn]] void refuse(const HelpArguments& arguments, const std::string& word) {
  std::vector<std::string> known;
  for (const HelpTopic& topic : help_topics()) known.push_back(topic.name);
  for (const CLI::App* command : commands_of(*arguments.program)) {
    known.push_back(command->get_name());
  }
  throw CLI::ValidationError("help",
                             fmt::format("there is neither a command nor a topic {}: there are {}",
                                         convert::quote(word), fmt::join(known, ", ")));
}

const Schema& schema_named(const std::string& name) {
  const Schema* const schema = find_schema(name);
  if (schema != nullptr) return *schema;
  throw CLI::ValidationError("help", fmt::format("{} has no --json: there are {}",
                                                 convert::quote(name), names_of_schemas()));
}

std::string text_of(const HelpTopic& topic, const HelpArguments& arguments) {
  const size_t columns = terminal_columns();
  const HelpFormatter formatter(columns, shows_colours(STDOUT_FILENO));
  std::string text = formatter.heading(topic.what) + "\n\n" + wrapped(topic.text(), columns) + "\n";
  if (std::string_view(topic.group).empty()) return text;
  return text + "\n" + formatter.heading("Options of arenite convert:") + "\n" +
         formatter.group(*command_named(*arguments.program, "convert"), topic.group);
}

std::string help_of(const HelpArguments& arguments) {
  if (arguments.words.empty()) {
    if (arguments.man) return man_page(*arguments.program);
    // The program's own help() would be that of the command that was given: this one.
    return arguments.program->get_formatter()->make_help(arguments.program, "",
                                                         CLI::AppFormatMode::Normal);
  }
  const std::string& word = arguments.words[0];
  if (arguments.words.size() > 1 && word != "json") refuse(arguments, arguments.words[1]);
  if (const CLI::App* command = command_named(*arguments.program, word)) {
    return arguments.man ? man_page(*command) : command->help();
  }
  for (const HelpTopic& topic : help_topics()) {
    if (topic.name != word) continue;
    if (arguments.words.size() > 1) {
      return outline_of(schema_named(arguments.words[1]), terminal_columns());
    }
    return arguments.man ? man_page(topic, *command_named(*arguments.program, "convert"))
                         : text_of(topic, arguments);
  }
  refuse(arguments, word);
}

void write(const std::filesystem::path& file, std::string_view text) {
  convert::make_folders(file.parent_path());
  convert::AtomicFile output(file);
  output.write(std::as_bytes(std::span(text)));
  output.commit();
}

// As they lie in the folder `share` of an installation.
void write_files(const CLI::App& program, const std::filesystem::path& share) {
  const std::filesystem::path man = share / "man";
  write(man / "man1" / "arenite.1", man_page(program));
  for (const CLI::App* command : commands_of(program)) {
    write(man / "man1" / fmt::format("arenite-{}.1", command->get_name()), man_page(*command));
  }
  for (const HelpTopic& topic : help_topics()) {
    write(man / "man7" / fmt::format("arenite-{}.7", topic.name),
          man_page(topic, *command_named(program, "convert")));
  }
  write(share / "bash-completion" / "completions" / "arenite", bash_completion(program));
  write(share / "zsh" / "site-functions" / "_arenite", zsh_completion(program));
  write(share / "fish" / "vendor_completions.d" / "arenite.fish", fish_completion(program));
  for (const Schema& schema : schemas()) {
    write(share / "arenite" / "schemas" / fmt::format("{}.schema.json", schema.name),
          text_of(schema));
  }
}

std::string topic_names() {
  std::string names;
  for (const HelpTopic& topic : help_topics()) {
    if (!names.empty()) names += ", ";
    names += topic.name;
  }
  return names;
}

void run_help(const HelpArguments& arguments) {
  const convert::OutputGuard guard({});
  if (!arguments.folder.empty()) return write_files(*arguments.program, arguments.folder);
  if (!arguments.schema.empty()) {
    fmt::print("{}", text_of(schema_named(arguments.schema)));
  } else if (!arguments.completion.empty()) {
    const auto completion = arguments.completion == "bash"  ? bash_completion
                            : arguments.completion == "zsh" ? zsh_completion
                                                            : fish_completion;
    fmt::print("{}", completion(*arguments.program));
  } else {
    fmt::print("{}", help_of(arguments));
  }
}

}  // namespace

void add_help(CLI::App& app) {
  const auto [command, arguments] =
      add_command(app, run_help, "help", "Tell of a command, or of formats, targets, JSON and more",
                  "\nTopics: " + topic_names() +
                      ".\n"
                      "\nExamples:\n"
                      "  arenite help convert\n"
                      "  arenite help targets\n"
                      "  arenite help json inspect\n"
                      "  arenite help --man convert | man -l -\n"
                      "  source <(arenite help --completion bash)\n");
  arguments.program = &app;
  command.add_option("topic", arguments.words, "A command or a topic; after json a command");
  command.add_flag("--man", arguments.man, "Print it as a page for man");
  command.add_option("--schema", arguments.schema, "Print the JSON Schema of what --json prints")
      ->type_name("COMMAND");
  command.add_option("--completion", arguments.completion, "Print the completions for a shell")
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command
      .add_option(
          "--write-files", arguments.folder,
          "Write all pages, completions and schemas below this folder, as they lie in share")
      ->type_name("FOLDER");
}

}  // namespace arenite::tool
