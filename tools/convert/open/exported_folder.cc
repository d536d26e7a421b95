// SPDX-License-Identifier: Apache-2.0
#include "convert/open/exported_folder.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "convert/files/error.h"
#include "convert/files/json_file.h"
#include "convert/files/memory.h"
#include "convert/spec/config_fields.h"

namespace arenite::convert {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kFacts = "facts.json";
constexpr uint32_t kFormat = 1;
constexpr size_t kSamplesMax = 16;
constexpr const char* kScript = "arenite_export.py";
// The folders of the script, from that of the program: installed, and in a build tree.
constexpr const char* kScriptFolders[] = {"../share/arenite", "../tools/python"};

// Returns the path of the script beside this program; its name alone if it is not there.
std::string script_path() {
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  for (const char* const folder : kScriptFolders) {
    const fs::path script = (program / folder / kScript).lexically_normal();
    if (!program.empty() && is_there(script)) return script.string();
  }
  return kScript;
}

// Quotes a path for a shell, if it needs that.
std::string shell_word(const std::string& path) {
  constexpr const char* kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-/+,:@";
  if (!path.empty() && path.find_first_not_of(kPlain) == std::string::npos) return path;
  std::string quoted = "'";
  for (const char c : visible(path)) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

// Returns the path of a file that facts.json names. Names with a folder in them are refused, since
// they could point anywhere.
fs::path file_beside(const fs::path& facts, const std::string& name) {
  refuse_if(name.empty() || name == "." || name == ".." || fs::path(name).filename() != name,
            "{} names the file {}: expected the name of a file beside it", quote(facts.string()),
            quote(name));
  const fs::path file = facts.parent_path() / name;
  if (is_there(file)) return file;
  throw InputError("{} is missing: {} names it: copy the whole folder, or run {} again",
                   quote(file.string()), quote(facts.string()), kScript);
}

// Reads a sample: {"inputs": {"input_ids": "x.npy"}, "outputs": "y.npy"}.
AuthorFiles read_sample(const json& sample, const fs::path& facts, const std::string& where) {
  if (!sample.is_object()) throw InputError("{} is {}: expected an object", where, show(sample));
  ConfigFields fields(sample, where);
  std::optional<ConfigFields> inputs = fields.object("inputs");
  refuse_if(!inputs || inputs->size() == 0,
            "{}: field 'inputs' is missing or empty: expected the "
            "file of each input by its name",
            where);
  AuthorFiles files;
  files.listed_in = where;
  files.outputs = file_beside(facts, fields.text("outputs"));
  const std::vector<std::string> names = inputs->names();
  for (const std::string& name : names) {
    const std::string file = file_beside(facts, inputs->text(name)).string();
    if (names.size() == 1)
      files.input = file;
    else
      files.more_inputs.push_back(fmt::format("{}={}", name, file));
  }
  if (names.size() > 1) {
    files.input = files.more_inputs.front();
    files.more_inputs.erase(files.more_inputs.begin());
  }
  fields.finish();
  return files;
}

void read_options(ConfigFields options, ExportedFolder& folder) {
  const std::string sound = options.text("sound", "");
  if (!sound.empty()) {  // a file beside, or words
    folder.sound = sound.ends_with(".json") ? file_beside(folder.facts, sound).string() : sound;
  }
  folder.lowers_case = options.flag("lower_case", false);
  folder.output_indices = options.ids("output_index");
  folder.functions = options.texts("functions");
  folder.encoded = options.text("encoded", "");
  options.pass_over("pooling");  // the program pools itself
  options.finish();
}

std::string origin_of(ConfigFields& fields) {
  std::string origin =
      fmt::format("{} of transformers {}", fields.text("class"), fields.text("transformers"));
  const std::string license = fields.text("license", "");
  if (!license.empty()) origin += ", license " + license;
  for (const char* const other : {"family", "torch"}) fields.text(other);
  return printable(origin);
}

}  // namespace

std::optional<ExportedFolder> read_exported_folder(const fs::path& path) {
  if (!is_there(path / kFacts)) return std::nullopt;
  ExportedFolder folder;
  folder.facts = path / kFacts;
  const std::string where = quote(folder.facts.string());
  const json object = read_json_object(folder.facts);
  ConfigFields fields(object, where);
  const uint32_t version = fields.count("format");
  refuse_if(version != kFormat,
            "{}: field 'format' is {}: this version of arenite reads {}: export the model again "
            "with the script of this version, {}",
            where, version, kFormat, script_path());
  const std::vector<std::string> programs = fields.texts("programs");
  refuse_if(programs.empty() || programs.size() > 2,
            "{}: field 'programs' has {} names: expected one .pt2 file, or an encoder and a "
            "decoder",
            where, programs.size());
  folder.program = file_beside(folder.facts, programs.front());
  if (programs.size() > 1) folder.decoder = file_beside(folder.facts, programs.back());
  folder.has_tokenizer = fields.flag("tokenizer", false);
  folder.vocab_size = fields.count("vocab_size", 0, 0);
  folder.origin = origin_of(fields);
  folder.notes = fields.texts("notes");
  if (std::optional<ConfigFields> options = fields.object("options")) {
    read_options(*std::move(options), folder);
  }
  fields.pass_over("samples");
  const json samples = object.value("samples", json::array());
  refuse_if(!samples.is_array() || samples.empty() || samples.size() > kSamplesMax,
            "{}: field 'samples' is not a list of 1 to {} inputs with outputs, which prove the "
            "conversion: run {} again",
            where, kSamplesMax, kScript);
  for (const json& sample : samples) {
    folder.samples.push_back(read_sample(
        sample, folder.facts, fmt::format("{}, sample {}", where, folder.samples.size())));
  }
  fields.finish();
  return folder;
}

std::string export_advice(const fs::path& folder) {
  const fs::path whole = fs::absolute(folder).lexically_normal();
  const std::string name = (whole.has_filename() ? whole : whole.parent_path()).filename().string();
  return fmt::format(
      "export it with PyTorch and transformers, and convert what comes out:\n\n"
      "python3 {} {} -o {}\n"
      "arenite convert {} -o {}",
      shell_word(script_path()), shell_word(folder.string()), shell_word(name + "-exported"),
      shell_word(name + "-exported"), shell_word(name + ".arn"));
}

}  // namespace arenite::convert
