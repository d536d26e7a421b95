// SPDX-License-Identifier: Apache-2.0
// Reports a conversion: the model, accuracy, file, targets and arena. Checks the quantization loss
// and the sizes against the user's limits.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/report_facts.h"
#include "convert/check/converted_model.h"
#include "convert/convert.h"

namespace CLI {
class App;
}  // namespace CLI

namespace arenite::tool {

// An absent field means no limit.
struct ConversionLimits {
  std::optional<double> min_cosine{};               // for every hidden state and for the outputs
  std::optional<double> max_kl{};                   // mean, in nats
  std::optional<double> max_perplexity_increase{};  // in percent
  std::optional<uint64_t> max_bytes{};              // of the file
  std::optional<uint64_t> max_arena{};              // of any target, at the report's sizes
};

// Declares the options of these limits. `limits` must outlive the command.
void add_limit_options(CLI::App& command, ConversionLimits& limits);

// `source` and `weights` describe the request. Throws InputError for a limit on a value that this
// conversion does not measure.
ConversionFacts conversion_facts(const convert::Conversion& conversion, const std::string& source,
                                 const std::string& weights, const ConversionLimits& limits);

// Throws an InputError that names each broken limit and the worst offenders.
void require_limits(const ConversionFacts& facts);

struct WrittenFile {
  std::filesystem::path path;
  std::vector<convert::AuthorCheck> expect;  // the comparisons that were requested
  uint64_t checkpoint_bytes = 0;             // of the files with the weights
};

// One screen for a person, everything for a person, or one JSON object ('arenite help json convert'
// names its keys).
enum class ConversionOutput { kScreen, kVerbose, kJson };

// `facts` are those of the new file. REQUIRES: facts.conversion.
std::string describe_conversion(const convert::Conversion& conversion, const WrittenFile& written,
                                const ReportFacts& facts, ConversionOutput output);

// Returns the parameters as PyTorch counts them or, for a checkpoint, the trained weights.
uint64_t parameters_of(const convert::Conversion& conversion);

}  // namespace arenite::tool
