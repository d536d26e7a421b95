// SPDX-License-Identifier: Apache-2.0
// From a checkpoint to a verified model file.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "arenite/session.h"
#include "arenite/target.h"
#include "convert/check/target_check.h"
#include "convert/files/memory.h"
#include "convert/program/program.h"
#include "convert/spec/attention_module.h"
#include "convert/spec/model_options.h"

namespace arenite::convert {

struct ConvertedModel {
  Program program;
  AlignedBytes file;
  uint32_t checked_tokens = 0;
  double largest_output = 0.0;  // of the reference, to put the errors into proportion
  std::vector<TargetCheck> checks;
  Account account;  // what it rests on besides the file
};

struct Conversion : ConvertedModel {
  AttentionModule module;
};

// "native" (the best target of this CPU), "all", or names separated by commas. Throws InputError
// for an unknown name.
std::vector<Target> parse_targets(const std::string& text);

// Reads, recognises, builds, packs, and runs the result in this process against the reference: on
// every target that this CPU has, and token by token where the module is causal. Throws InputError
// for bad input.
Conversion convert_module(const std::filesystem::path& checkpoint, AttentionModule module,
                          const std::string& name, const std::vector<Target>& targets);
Conversion convert_checkpoint(const std::filesystem::path& checkpoint, const std::string& name,
                              const ModelOptions& options, const std::vector<Target>& targets);

}  // namespace arenite::convert
