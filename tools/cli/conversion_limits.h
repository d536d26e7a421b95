// SPDX-License-Identifier: Apache-2.0
// What a conversion cost, as a report shows it, and the limits that a person sets to that.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "cli/conversion_facts.h"
#include "convert/convert.h"

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

}  // namespace arenite::tool
