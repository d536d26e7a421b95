// SPDX-License-Identifier: Apache-2.0
// A tokenizer's file, and the limits that keep the work on a hostile one small.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include "convert/files/file_map.h"

namespace arenite::convert {

class TokenizerFile {
 public:
  // Throws InputError for a file that cannot be mapped, or has more than kVocabularyBytesMax bytes.
  explicit TokenizerFile(const std::filesystem::path& file);

  std::string_view text() const { return map_.text(); }  // all of its bytes
  const std::string& name() const { return name_; }      // in quotes, for messages

 private:
  FileMap map_;
  std::string name_;
};

// Throw InputError for what no model file holds: one more token than these, a token so long, or
// more merges. Readers ask before they keep anything. `name` is the file's, in quotes.
void check_token(const std::string& name, size_t index, std::string_view token);
void check_merge_count(const std::string& name, size_t count);

}  // namespace arenite::convert
