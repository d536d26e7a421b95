// SPDX-License-Identifier: Apache-2.0
// Random Hugging Face models with the results of transformers: small ones in this repository, made
// by tests/golden/data/make_cases.py, and larger ones in the collection.
#pragma once

#include <algorithm>
#include <filesystem>
#include <ostream>
#include <string>

#include "support/test_data.h"

namespace arenite::testing {

struct TransformersCase {
  const char* name;
  bool is_own;  // of this repository, so never missing

  // `kind` is "decoders" or "encoders".
  std::filesystem::path folder(const char* kind) const {
    const std::filesystem::path own = project_folder() / "tests" / "golden" / "data" / kind;
    return is_own ? own / name : collection_folder() / "goldens" / name;
  }
};

inline constexpr TransformersCase kDecoderCases[] = {
    {"gemma", true},
    {"gpt2", true},
    {"gpt_neox", true},
    {"gpt_neox_serial", true},
    {"llama", true},
    {"mistral", true},
    {"phi", true},
    {"qwen2", true},
    {"qwen3", true},
    {"hf-gpt2-tiny", false},
    {"hf-llama-tiny", false},
    {"hf-qwen2-tiny", false},
};

inline constexpr TransformersCase kEncoderCases[] = {
    {"bert", true},         {"distilbert", true},  {"electra", true},       {"roberta", true},
    {"roberta_left", true}, {"xlm_roberta", true}, {"hf-bert-tiny", false},
};

// How GoogleTest prints a case, in messages and as part of a test's name.
inline void PrintTo(const TransformersCase& model, std::ostream* out) { *out << model.name; }

inline std::string test_name(const TransformersCase& model) {
  std::string name = model.name;
  std::ranges::replace(name, '-', '_');
  return name;
}

}  // namespace arenite::testing
