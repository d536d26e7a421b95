// SPDX-License-Identifier: Apache-2.0
// The limits are those of the model file.
#include "convert/tokenizers/tokenizer_file.h"

#include "convert/files/error.h"
#include "convert/files/input_limits.h"
#include "format/tokenizer_reader.h"

namespace arenite::convert {

TokenizerFile::TokenizerFile(const std::filesystem::path& file)
    : map_(file, kVocabularyBytesMax), name_(quote(file.string())) {}

void check_token(const std::string& name, size_t index, std::string_view token) {
  if (index >= format::kVocabularyMax) {
    throw InputError("{} has more than {} tokens: a model file holds at most as many", name,
                     format::kVocabularyMax);
  }
  if (token.size() > format::kTokenBytesMax) {
    throw InputError("{}: token {} ({}) has {} bytes: a model file holds at most {}", name, index,
                     quote(token), token.size(), format::kTokenBytesMax);
  }
}

void check_merge_count(const std::string& name, size_t count) {
  if (count > format::kMergesMax) {
    throw InputError("{}: more than {} merges: a model file holds at most as many", name,
                     format::kMergesMax);
  }
}

}  // namespace arenite::convert
