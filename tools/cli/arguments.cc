// SPDX-License-Identifier: Apache-2.0
// CLI11 expects a validator to return an error message, or an empty string.
#include "cli/arguments.h"

#include <charconv>
#include <fstream>
#include <numeric>
#include <string_view>

#include "convert/convert.h"
#include "format/file_layout.h"

namespace arenite::tool {
namespace {

template <typename Parse>
std::string problem_of(const Parse& parse) {
  try {
    parse();
    return {};
  } catch (const convert::InputError& error) {
    return error.what();
  }
}

// Returns the edit distance: insertions, deletions, substitutions and swaps of adjacent characters.
size_t edits_between(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), row(b.size() + 1), next(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    next[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const bool is_same = a[i - 1] == b[j - 1];
      next[j] = std::min({row[j] + 1, next[j - 1] + 1, row[j - 1] + (is_same ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        next[j] = std::min(next[j], before[j - 2] + 1);
      }
    }
    before = std::exchange(row, next);
  }
  return row[b.size()];
}

// Returns ": did you mean --output?" with the nearest name, or "" if none is near.
std::string suggestion(std::string_view word, const std::vector<std::string>& names) {
  if (word.size() < 2 + size_t{word.starts_with("-")}) return "";
  size_t fewest = std::max<size_t>(1, word.size() / 3) + 1;
  const std::string* best = nullptr;
  for (const std::string& name : names) {
    const size_t edits = edits_between(word, name);
    if (edits >= fewest) continue;
    fewest = edits;
    best = &name;
  }
  return best == nullptr ? "" : fmt::format(": did you mean {}?", *best);
}

// Returns the message about a word that is no command, option or argument of `app`.
std::string unexpected(const CLI::App& app, const std::string& word) {
  std::vector<std::string> names;
  if (word.starts_with("-")) {
    for (const OptionFacts& option : options_of(app)) {
      if (!option.is_positional)
        names.insert(names.end(), option.names.begin(), option.names.end());
    }
    return fmt::format("there is no option {}{}", convert::quote(word),
                       suggestion(word.substr(0, word.find('=')), names));
  }
  for (const CLI::App* command : commands_of(app)) names.push_back(command->get_name());
  if (names.empty()) return fmt::format("there is nothing to do with {}", convert::quote(word));
  return fmt::format("there is no command {}{}", convert::quote(word), suggestion(word, names));
}

bool is_model_file(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  char start[8] = {};  // root offset of a FlatBuffer, then its identifier
  in.read(start, sizeof(start));
  return in && std::string_view(start + 4, 4) == format::kFileIdentifier;
}

}  // namespace

CLI::Validator whole_number(uint64_t min, uint64_t max) {
  const auto problem = [min, max](const std::string& text) {
    uint64_t number = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    if (error == std::errc() && stop == end && number >= min && number <= max) return std::string();
    return fmt::format("found {}, expected a whole number from {} to {}", convert::quote(text), min,
                       max);
  };
  return CLI::Validator(problem, "");
}

CLI::Option* add_lengths(CLI::App& command, const std::string& name,
                         std::vector<std::string>& lengths, const std::string& help) {
  const auto problem = [number = whole_number(0, UINT32_MAX)](const std::string& text) {
    std::string found;
    size_t end = text.find('=');
    do {
      const size_t begin = end + 1;  // 0 if the text has no name
      end = text.find(',', begin);
      std::string part = text.substr(begin, end - begin);
      found = number(part);
    } while (found.empty() && end != std::string::npos);
    return found;
  };
  return command.add_option(name, lengths, help)
      ->type_name("N")
      ->allow_extra_args(false)
      ->check(CLI::Validator(problem, ""));
}

CLI::Validator real_number(double min, bool above_min, double max) {
  const auto problem = [min, above_min, max](const std::string& text) {
    double number = 0.0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    const bool high_enough = above_min ? number > min : number >= min;  // false for NaN
    if (error == std::errc() && stop == end && high_enough && number <= max) return std::string();
    return fmt::format("found {}, expected a number {} {} {} {}", convert::quote(text),
                       above_min ? "above" : "from", min, above_min ? "and up to" : "to", max);
  };
  return CLI::Validator(problem, "");
}

void add_model(CLI::App& command, std::filesystem::path& model, const std::string& what) {
  add_file(command, "model", model, what)->required();
}

CLI::Option* add_file(CLI::App& command, const std::string& names, std::filesystem::path& file,
                      const std::string& help) {
  return command.add_option(names, file, help)->type_name(kFileType);
}

CLI::Option* add_input_files(CLI::App& command, const std::string& name,
                             std::vector<std::string>& files, const std::string& help) {
  return command.add_option(name, files, help)->type_name(kFileType)->allow_extra_args(false);
}

void put_in_group(CLI::App& command, const char* group, std::initializer_list<const char*> names) {
  for (const char* name : names) command.get_option(name)->group(group);
}

void add_kv_option(CLI::App& command, KvType& kv_cache) {
  static constexpr Choice<KvType> kTypes[] = {{"f32", KvType::kF32}, {"int8", KvType::kInt8}};
  add_choice(command, "--kv", kv_cache, kTypes,
             "Type of the KV cache; the model file's by default");
}

CLI::Option* add_json_option(CLI::App& command, bool& json) {
  return command.add_flag("--json", json, "Print one JSON object");
}

void add_machine_options(CLI::App& command, std::string& kernels, uint32_t& threads) {
  command.add_option("--kernels", kernels, "Force a kernel set: scalar, sse41, avx2, avx512, neon")
      ->type_name(kKernelsType)
      ->check(kernel_set_or_target_name());
  command.add_option("--threads", threads, "Threads")
      ->check(whole_number(1, kThreadsMax))
      ->capture_default_str();
}

CLI::Validator target_names() {
  return CLI::Validator(
      [](const std::string& text) { return problem_of([&] { convert::parse_targets(text); }); },
      "");
}

CLI::Validator kernel_set_or_target_name() {
  return CLI::Validator(
      [](const std::string& text) { return problem_of([&] { target_named(text); }); }, "");
}

void add_size_options(CLI::App& command, SizeOptions& sizes) {
  add_number(command, "--positions", sizes.positions, "Longest sequence; the model's by default");
  add_number(command, "--tokens", sizes.tokens,
             "Most tokens in one call; by default positions * sequences, but at most 64 if the "
             "model reads tokens");
  add_number(command, "--sequences", sizes.sequences, "Sequences held at once")
      ->capture_default_str();
  add_number(command, "--threads", sizes.threads, "Threads that share the work of a call")
      ->capture_default_str();
  add_kv_option(command, sizes.kv_cache);
}

// The extension alone selects the form, because a page called .json would help nobody.
void add_report_option(CLI::App& command, std::filesystem::path& file) {
  const auto problem = [](const std::string& text) {
    const std::filesystem::path extension = std::filesystem::path(text).extension();
    if (extension == ".html" || extension == ".json") return std::string();
    return fmt::format(
        "found {}, expected a name that ends in .html for a page or in .json for programs",
        convert::quote(text));
  };
  add_file(command, "--report", file, "Write a report: a page (.html) or the same facts (.json)")
      ->check(CLI::Validator(problem, ""));
}

void require_no_part_of(const std::filesystem::path& model_folder,
                        const std::filesystem::path& output) {
  std::error_code none;  // a missing file is inside no folder
  const std::filesystem::path parent = output.has_parent_path() ? output.parent_path() : ".";
  if (!std::filesystem::is_directory(model_folder, none) ||
      !std::filesystem::equivalent(parent, model_folder, none) ||
      !std::filesystem::exists(output, none) || std::filesystem::file_size(output, none) == 0 ||
      is_model_file(output)) {
    return;
  }
  throw CLI::ValidationError(
      "--output",
      fmt::format(
          "{} is a file of the model's folder, and not a converted model: expected another file",
          convert::quote(output.string())));
}

std::string usage_message(const CLI::App* app, const CLI::Error& error) {
  std::string command = "arenite";
  for (const CLI::App* subcommand : app->get_subcommands()) command += " " + subcommand->get_name();
  std::string problem = error.what();
  const CLI::App& called = app->get_subcommands().empty() ? *app : *app->get_subcommands().front();
  if (!called.remaining().empty()) problem = unexpected(called, called.remaining().front());
  return fmt::format("{}: {}\nRun '{} --help' for the options and an example.\n", command, problem,
                     command);
}

}  // namespace arenite::tool
