// SPDX-License-Identifier: Apache-2.0
// Tells what a conversion made: what was recognised, the arena, the check, the file; what it cost,
// and the limits that a person sets to that.
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

// Each absent: no limit.
struct ConversionLimits {
  std::optional<double> min_cosine{};               // of every hidden state and of the outputs
  std::optional<double> max_kl{};                   // mean, in nats
  std::optional<double> max_perplexity_increase{};  // in percent
  std::optional<uint64_t> max_bytes{};              // of the file
  std::optional<uint64_t> max_arena{};              // of any target, at the sizes of the report
};

// Declares them. `limits` must outlive the command.
void add_limit_options(CLI::App& command, ConversionLimits& limits);

// `source` and `weights` say what was asked for. Throws InputError for a limit of what this
// conversion does not measure.
ConversionFacts conversion_facts(const convert::Conversion& conversion, const std::string& source,
                                 const std::string& weights, const ConversionLimits& limits);

// Throws InputError, which names each limit that is not met and what broke it.
void require_limits(const ConversionFacts& facts);

struct WrittenFile {
  std::filesystem::path path;
  std::vector<convert::AuthorCheck> expect;  // comparisons that were asked for
};

// Lines for a person, or one JSON object: 'arenite help json convert' names its keys. `facts` are
// those of the file that was made. REQUIRES: facts.conversion.
std::string describe_conversion(const convert::Conversion& conversion, const WrittenFile& written,
                                const ReportFacts& facts, bool as_json);

// As PyTorch counts them, or of a checkpoint the numbers that were trained.
uint64_t parameters_of(const convert::Conversion& conversion);

}  // namespace arenite::tool
