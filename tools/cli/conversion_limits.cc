// SPDX-License-Identifier: Apache-2.0
// What a conversion may cost at most: the options that say so, and what was measured against them.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "arenite/arena_formula.h"
#include "cli/arguments.h"
#include "cli/convert_report.h"
#include "cli/help.h"
#include "cli/session_sizes.h"
#include "convert/files/error.h"
#include "format/reader.h"

namespace arenite::tool {
namespace {

constexpr size_t kOffendersShown = 5;
constexpr uint64_t kBytesMax = uint64_t{1} << 48;

// The matrices that lost most, the worst first.
std::vector<std::string> noisiest(const ConversionFacts& facts) {
  std::vector<const QuantizedTensor*> tensors;
  for (const QuantizedTensor& tensor : facts.tensors) tensors.push_back(&tensor);
  std::ranges::stable_sort(tensors, {}, &QuantizedTensor::signal_to_noise_db);
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(tensors.size(), kOffendersShown); ++i) {
    names.push_back(fmt::format("{} ({}, {:.1f} dB)", tensors[i]->name, tensors[i]->type,
                                tensors[i]->signal_to_noise_db));
  }
  return names;
}

[[noreturn]] void refuse_unmeasured(const char* option, const char* what) {
  throw convert::InputError("{}: {}: drop the option", option, what);
}

// Where all weights are float32 nothing is compared: nothing was lost.
void add_quality_limits(const convert::Conversion& conversion, const ConversionLimits& limits,
                        ConversionFacts& facts) {
  const convert::ModelComparison* const found =
      conversion.quantization ? &*conversion.quantization->evaluation : nullptr;
  if (limits.min_cosine) {
    LimitCheck check{"--min-cosine", *limits.min_cosine, 1.0, "", true, {}};
    if (found != nullptr) {
      check.found = found->output_cosine;
      for (const HiddenStateError& state : facts.hidden_states) {
        check.found = std::min(check.found, state.mean_cosine);
        if (!(state.mean_cosine >= check.asked)) check.offenders.push_back(state.name);
      }
      if (!(found->output_cosine >= check.asked)) check.offenders.emplace_back("the outputs");
      check.is_met = check.offenders.empty();
      check.offenders.resize(std::min(check.offenders.size(), kOffendersShown));
    }
    facts.limits.push_back(check);
  }
  if (limits.max_kl) {
    if (found != nullptr && !found->has_probabilities) {
      refuse_unmeasured("--max-kl", "the model gives no probabilities");
    }
    const double kl = found != nullptr ? found->mean_kl : 0.0;
    const bool is_met = kl <= *limits.max_kl;
    facts.limits.push_back({"--max-kl", *limits.max_kl, kl, "nats", is_met,
                            is_met ? std::vector<std::string>() : noisiest(facts)});
  }
  if (limits.max_perplexity_increase) {
    const bool has_text = found != nullptr && conversion.quantization->calibration;
    if (found != nullptr && (!found->has_perplexity || !has_text)) {
      refuse_unmeasured("--max-perplexity-increase", "there is no text to measure it on");
    }
    const double increase = found != nullptr ? 100.0 * found->perplexity_increase() : 0.0;
    const bool is_met = increase <= *limits.max_perplexity_increase;
    facts.limits.push_back({"--max-perplexity-increase", *limits.max_perplexity_increase, increase,
                            "percent", is_met,
                            is_met ? std::vector<std::string>() : noisiest(facts)});
  }
}

void add_size_limits(const convert::Conversion& conversion, const ConversionLimits& limits,
                     ConversionFacts& facts) {
  const format::ModelReader reader(conversion.file.span());
  if (limits.max_bytes) {
    const uint64_t bytes = conversion.file.size();
    LimitCheck check{"--max-bytes",
                     static_cast<double>(*limits.max_bytes),
                     static_cast<double>(bytes),
                     "bytes",
                     bytes <= *limits.max_bytes,
                     {}};
    for (uint32_t i = 0; i < reader.packed_count() && !check.is_met; ++i) {
      check.offenders.push_back(fmt::format("{} ({} bytes)",
                                            name(static_cast<Target>(reader.packed(i).target)),
                                            reader.packed(i).segment.bytes()));
    }
    facts.limits.push_back(check);
  }
  if (limits.max_arena) {
    LimitCheck check{"--max-arena", static_cast<double>(*limits.max_arena), 0.0, "bytes", true, {}};
    for (uint32_t i = 0; i < reader.packed_count(); ++i) {
      const uint64_t bytes =
          evaluate(reader.formula(i), default_sizes(reader), reader.prefix_rows())
              .total_bytes.value();
      check.found = std::max(check.found, static_cast<double>(bytes));
      if (bytes <= *limits.max_arena) continue;
      check.is_met = false;
      check.offenders.emplace_back(name(static_cast<Target>(reader.packed(i).target)));
    }
    facts.limits.push_back(check);
  }
}

// One note for each reason that a type did not fit: layers are alike.
std::vector<ConversionNote> fallback_notes(const std::vector<convert::TypeFallback>& fallbacks) {
  struct Reason {
    TensorType wanted = TensorType::kF32;
    TensorType type = TensorType::kF32;
    std::set<uint32_t> inputs{};
    std::vector<std::string> names{};
  };
  std::vector<Reason> reasons;
  for (const convert::TypeFallback& fallback : fallbacks) {
    auto reason = std::ranges::find_if(reasons, [&](const Reason& known) {
      return known.wanted == fallback.wanted && known.type == fallback.type;
    });
    if (reason == reasons.end()) {
      reasons.push_back({fallback.wanted, fallback.type});
      reason = reasons.end() - 1;
    }
    reason->inputs.insert(fallback.inputs);
    reason->names.push_back(fallback.name);
  }
  std::vector<ConversionNote> notes;
  for (const Reason& reason : reasons) {
    const bool is_one = reason.names.size() == 1;
    const std::string why = reason.wanted == TensorType::kQ4 && reason.type == TensorType::kQ8
                                ? fmt::format("no multiple of {}, as q4 needs", kQ4Block)
                                : fmt::format("longer than {}, the most of q8", kQ8InputsMax);
    notes.push_back(
        {"fell back", is_one ? reason.names[0] : fmt::format("{} matrices", reason.names.size()),
         fmt::format("{} {}: {} rows of {} are {}", is_one ? "is" : "are", name(reason.type),
                     is_one ? "its" : "their", fmt::join(reason.inputs, ", "), why),
         reason.names});
  }
  return notes;
}

void add_quantization(const convert::Conversion& conversion, ConversionFacts& facts) {
  facts.notes = fallback_notes(conversion.fallbacks);
  for (const convert::TypeChoice& choice : conversion.choices) {
    facts.notes.push_back(
        {"chosen", choice.name, fmt::format("{}: {}", name(choice.type), choice.reason)});
  }
  if (!conversion.quantization) return;
  const convert::Quantization& quantization = *conversion.quantization;
  for (const convert::QuantizedTensor& tensor : quantization.tensors) {
    facts.tensors.push_back({tensor.name, name(tensor.type), tensor.method, tensor.decibels,
                             tensor.float_bytes, tensor.bytes});
  }
  for (const std::string& note : quantization.notes) facts.notes.push_back({"note", "", note});
  if (quantization.calibration) facts.calibration = quantization.calibration->source;
  const convert::ModelComparison& found = *quantization.evaluation;
  for (size_t i = 0; i < found.hidden_cosines.size(); ++i) {
    facts.hidden_states.push_back({i == 0 ? "embedding" : fmt::format("layer {}", i - 1),
                                   found.hidden_cosines[i], found.least_hidden_cosines[i]});
  }
  OutputComparison outputs;
  outputs.text = quantization.calibration ? "sequences that were held out" : "made-up input";
  outputs.tokens = found.rows;
  if (found.has_probabilities) {
    outputs.mean_kl = found.mean_kl;
    outputs.top1_agreement = found.top1_agreement;
  }
  if (found.has_perplexity && quantization.calibration) {
    outputs.float_perplexity = found.reference.value();
    outputs.quantized_perplexity = found.other.value();
  }
  facts.outputs = outputs;
}

CLI::Option* add_real(CLI::App& command, const char* option, std::optional<double>& value,
                      const char* help, double max) {
  return command.add_option(option, value, help)->check(real_number(0, false, max));
}

}  // namespace

void add_limit_options(CLI::App& command, ConversionLimits& limits) {
  add_real(command, "--min-cosine", limits.min_cosine,
           "Write nothing unless hidden states and outputs in few bits point where those in "
           "float32 do: least mean cosine",
           1);
  add_real(command, "--max-kl", limits.max_kl,
           "Write nothing if the mean KL divergence of the outputs is larger, in nats", 1e3);
  add_real(command, "--max-perplexity-increase", limits.max_perplexity_increase,
           "Write nothing if the perplexity rises by more, in percent", 1e6);
  add_number(command, "--max-bytes", limits.max_bytes,
             "Write nothing if the file is larger, in bytes", 1, kBytesMax);
  add_number(command, "--max-arena", limits.max_arena,
             "Write nothing if the arena of a target is larger, in bytes, at the sizes that are "
             "printed",
             1, kBytesMax);
  for (const char* name :
       {"--min-cosine", "--max-kl", "--max-perplexity-increase", "--max-bytes", "--max-arena"}) {
    command.get_option(name)->group(kLimitGroup);
  }
}

ConversionFacts conversion_facts(const convert::Conversion& conversion, const std::string& source,
                                 const std::string& weights, const ConversionLimits& limits) {
  ConversionFacts facts;
  facts.source = source;
  facts.weights = weights;
  add_quantization(conversion, facts);
  add_quality_limits(conversion, limits, facts);
  add_size_limits(conversion, limits, facts);
  return facts;
}

void require_limits(const ConversionFacts& facts) {
  std::string problems;
  for (const LimitCheck& limit : facts.limits) {
    if (limit.is_met) continue;
    problems +=
        fmt::format("{}{}: found {:.10g}, asked for {:.10g}{}{}; because of {}",
                    problems.empty() ? "" : "; ", limit.option, limit.found, limit.asked,
                    limit.unit.empty() ? "" : " ", limit.unit, fmt::join(limit.offenders, ", "));
  }
  if (problems.empty()) return;
  throw convert::InputError("{}: nothing is written: {}", facts.source, problems);
}

}  // namespace arenite::tool
