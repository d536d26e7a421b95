// SPDX-License-Identifier: Apache-2.0
// Writes a bundle into a new folder or over an earlier bundle. Files that somebody added or changed
// stay as they are; a file list with checksums in the folder tells them from the bundle's own.
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <sstream>

#include "arenite/model.h"
#include "cli/bundle.h"
#include "convert/files/error.h"

namespace arenite::tool {
namespace {

namespace fs = std::filesystem;
using convert::InputError;
using convert::quote;

constexpr const char* kFileList = "arenite_files.txt";
constexpr std::string_view kFirstLine = "# Made by arenite bundle: the CRC-32C of each file.\n";

std::optional<std::string> text_in(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

std::string crc_of_text(const std::string& text) {
  return fmt::format("{:08x}", crc32c_of(text.data(), text.size()));
}

std::string file_list_text(std::span<const FolderFile> files) {
  std::string text(kFirstLine);
  for (const FolderFile& file : files) {
    text += fmt::format("{} {}\n", crc_of_text(file.text), file.path);
  }
  return text;
}

// Returns the paths and CRCs of the bundle in the folder; empty if it holds none.
std::map<std::string, std::string> files_before(const fs::path& folder) {
  std::map<std::string, std::string> files;
  std::istringstream lines(text_in(folder / kFileList).value_or(""));
  for (std::string crc, path; lines.peek() != EOF;) {
    if (lines.peek() == '#') {
      std::getline(lines, path);
      continue;
    }
    std::getline(lines >> crc, path);
    path.erase(0, 1);
    const fs::path inside = fs::path(path).lexically_normal();
    if (!path.empty() && inside.is_relative() && *inside.begin() != "..") files[path] = crc;
  }
  return files;
}

}  // namespace

void require_bundle_folder(const fs::path& folder) {
  if (!fs::exists(folder / kFileList)) convert::require_new_folder(folder);
}

std::vector<std::string> write_bundle(const fs::path& folder, std::vector<FolderFile> files) {
  const std::string list = file_list_text(files);
  const std::map<std::string, std::string> before = files_before(folder);
  if (!fs::exists(folder / kFileList)) {
    files.push_back({kFileList, list});
    convert::write_folder(folder, files);
    return {};
  }
  std::vector<std::string> kept;
  std::deque<convert::AtomicFile> written;
  const auto write = [&](const FolderFile& file) {
    const fs::path path = folder / file.path;
    convert::make_folders(path.parent_path());
    written.emplace_back(path).write(std::as_bytes(std::span(file.text)));
  };
  for (const FolderFile& file : files) {
    const std::optional<std::string> there = text_in(folder / file.path);
    if (there == file.text) continue;  // keep the file's time, so builds see no change
    const auto own = before.find(file.path);
    if (there && (own == before.end() || own->second != crc_of_text(*there))) {
      kept.push_back(file.path);
    } else {
      write(file);
    }
  }
  write({kFileList, list});
  std::vector<convert::AtomicFile*> all;
  for (convert::AtomicFile& file : written) all.push_back(&file);
  convert::commit_together(all);
  for (const auto& [path, crc] : before) {
    if (std::ranges::find(files, path, &FolderFile::path) != files.end()) continue;
    const std::optional<std::string> there = text_in(folder / path);
    if (!there) continue;
    if (crc_of_text(*there) != crc) {
      kept.push_back(path);
      continue;
    }
    std::error_code error;
    fs::remove(folder / path, error);
    if (error) throw InputError("cannot remove {}: {}", quote(path), error.message());
  }
  return kept;
}

}  // namespace arenite::tool
