// SPDX-License-Identifier: Apache-2.0
// The files of tools/bundle with the names of a bundle in them. A line with @c@, @cc@ or @h@ is
// written once for each source of C, of C++, or header; one with @model@ or @MODEL@ for each model.
// Elsewhere @name@ stands for one text.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "arenite/version.h"
#include "cli/bundle.h"
#include "cli/bundle_sources.h"
#include "cli/embed_header.h"
#include "cli/text_table.h"

namespace arenite::tool {
namespace {

using Texts = std::map<std::string, std::string>;  // what stands for @name@

// The line with all names that `texts` has.
std::string filled(std::string line, const Texts& texts) {
  for (const auto& [name, text] : texts) {
    const std::string mark = "@" + name + "@";
    for (size_t at = line.find(mark); at != line.npos; at = line.find(mark, at + text.size())) {
      line.replace(at, mark.size(), text);
    }
  }
  return line;
}

bool has(const std::string& line, const char* name) {
  return line.find(fmt::format("@{}@", name)) != line.npos;
}

// What repeats a line: a name in it, and what the line is filled with each time.
struct List {
  std::vector<const char*> names;
  std::vector<Texts> items;
};

std::string filled_template(std::string_view text, const Texts& texts,
                            std::span<const List> lists) {
  std::string result;
  while (!text.empty()) {
    std::string line(text.substr(0, std::min(text.find('\n'), text.size() - 1) + 1));
    text.remove_prefix(line.size());
    line = filled(std::move(line), texts);
    const auto list = std::ranges::find_if(lists, [&line](const List& each) {
      return std::ranges::any_of(each.names, [&line](const char* name) { return has(line, name); });
    });
    if (list == lists.end()) {
      result += line;
    } else {
      for (const Texts& item : list->items) result += filled(line, item);
    }
  }
  return result;
}

List files_with(const char* name, std::string_view ending, std::span<const FolderFile> files) {
  List list = {{name}, {}};
  for (const FolderFile& file : files) {
    if (file.path.ends_with(ending)) list.items.push_back({{name, file.path}});
  }
  return list;
}

List list_of(std::span<const BundledModel> models) {
  List list = {{"model", "MODEL"}, {}};
  for (const BundledModel& model : models) {
    list.items.push_back({{"model", model.identifier},
                          {"MODEL", upper(model.identifier)},
                          {"model_bytes", grouped(model.file.bytes().size())},
                          {"model_arena_bytes", grouped(model.arena_bytes)}});
  }
  return list;
}

}  // namespace

std::vector<FolderFile> files_from_templates(std::span<const BundledModel> models,
                                             std::span<const FolderFile> files) {
  std::vector<std::string> names;
  for (const BundledModel& model : models) names.push_back(model.identifier);
  const Texts texts = {{"version", version()},
                       {"models", fmt::format("{}", fmt::join(names, ", "))},
                       {"float_flags", kFloatFlags},
                       {"kernel_flags", kKernelFlags}};
  const List lists[] = {files_with("c", ".c", files), files_with("cc", ".cc", files),
                        files_with("h", ".h", files), list_of(models)};
  constexpr std::string_view kFolder = "bundle/";
  std::vector<FolderFile> made;
  for (const EmbeddedSource& source : embedded_sources()) {
    if (!source.path.starts_with(kFolder)) continue;
    std::string path(source.path.substr(kFolder.size()));
    if (path.ends_with(".in")) path.resize(path.size() - 3);
    made.push_back({path, filled_template(source.text(), texts, lists)});
  }
  return made;
}

}  // namespace arenite::tool
