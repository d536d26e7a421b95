// SPDX-License-Identifier: Apache-2.0
// The limits of a conversion's cost: their options, and the checks against measured values.

#include <map>
#include <set>

#include "arenite/arena_formula.h"
#include "cli/arguments.h"
#include "cli/convert_report.h"
#include "format/reader.h"

namespace arenite::tool {
namespace {

constexpr size_t kOffendersShown = 5;
constexpr uint64_t kBytesMax = uint64_t{1} << 48;

// Returns the matrices with the most quantization noise, the worst first.
std::vector<std::string> noisiest(const ConversionFacts& facts) {
  std::vector<convert::QuantizedTensor> tensors = facts.tensors;
  std::ranges::stable_sort(tensors, {}, &convert::QuantizedTensor::decibels);
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(tensors.size(), kOffendersShown); ++i) {
    names.push_back(fmt::format("{} ({}, {:.1f} dB)", tensors[i].name, name(tensors[i].type),
                                tensors[i].decibels));
  }
  return names;
}

[[noreturn]] void refuse_unmeasured(const char* option, const char* what) {
  throw convert::InputError("{}: {}: drop the option", option, what);
}

void add_limit(ConversionFacts& facts, LimitCheck check) {
  if (check.is_met) check.offenders.clear();
  facts.limits.push_back(std::move(check));
}

// A float32 conversion is not compared and has no loss.
void add_quality_limits(const convert::Conversion& conversion, const ConversionLimits& limits,
                        ConversionFacts& facts) {
  const convert::ModelComparison* const found =
      conversion.quantization ? &*conversion.quantization->evaluation : nullptr;
  if (limits.min_cosine) {
    const double outputs = found != nullptr ? found->output_cosine : 1.0;
    LimitCheck check{"--min-cosine", *limits.min_cosine, outputs, "", true, {}};
    const auto judge = [&check](const std::string& name, double cosine) {
      check.found = std::min(check.found, cosine);
      if (cosine >= check.asked) return;
      check.is_met = false;
      if (check.offenders.size() < kOffendersShown) check.offenders.push_back(name);
    };
    for (const HiddenStateError& state : facts.hidden_states) judge(state.name, state.mean_cosine);
    if (found != nullptr) judge("the outputs", outputs);
    add_limit(facts, check);
  }
  if (limits.max_kl) {
    if (found != nullptr && !found->has_probabilities) {
      refuse_unmeasured("--max-kl", "the model gives no probabilities");
    }
    const double kl = found != nullptr ? found->mean_kl : 0.0;
    add_limit(facts,
              {"--max-kl", *limits.max_kl, kl, "nats", kl <= *limits.max_kl, noisiest(facts)});
  }
  if (limits.max_perplexity_increase) {
    const bool has_text = found != nullptr && conversion.quantization->calibration;
    if (found != nullptr && (!found->has_perplexity || !has_text)) {
      refuse_unmeasured("--max-perplexity-increase", "there is no text to measure it on");
    }
    const double increase = found != nullptr ? 100.0 * found->perplexity_increase() : 0.0;
    add_limit(facts, {"--max-perplexity-increase", *limits.max_perplexity_increase, increase,
                      "percent", increase <= *limits.max_perplexity_increase, noisiest(facts)});
  }
}

void add_size_limits(const convert::Conversion& conversion, const ConversionLimits& limits,
                     ConversionFacts& facts) {
  const format::ModelReader reader(conversion.file.span());
  std::vector<std::string> parts, arenas;  // parts of the file; arenas that are too large
  uint64_t largest = 0;
  for (uint32_t i = 0; i < reader.packed_count(); ++i) {
    const std::string target = name(static_cast<Target>(reader.packed(i).target));
    parts.push_back(fmt::format("{} ({} bytes)", target, reader.packed(i).segment.bytes()));
    const uint64_t arena =
        evaluate(reader.formula(i), reader.axes(), default_sizes(reader)).total_bytes.value();
    largest = std::max(largest, arena);
    if (limits.max_arena && arena > *limits.max_arena) arenas.push_back(target);
  }
  const auto add = [&facts](const char* option, std::optional<uint64_t> most, uint64_t bytes,
                            const std::vector<std::string>& offenders) {
    if (!most) return;
    add_limit(facts, {option, static_cast<double>(*most), static_cast<double>(bytes), "bytes",
                      bytes <= *most, offenders});
  };
  add("--max-bytes", limits.max_bytes, conversion.file.size(), parts);
  add("--max-arena", limits.max_arena, largest, arenas);
}

// Returns one note per reason for a fallback to another type, because layers are alike.
std::vector<ConversionNote> fallback_notes(const std::vector<convert::TypeFallback>& fallbacks) {
  struct Reason {
    std::set<uint32_t> inputs;
    std::vector<std::string> names;
  };
  std::map<TensorType, Reason> reasons;  // by the type, whose next smaller one does not fit
  for (const convert::TypeFallback& fallback : fallbacks) {
    Reason& reason = reasons[fallback.type];
    reason.inputs.insert(fallback.inputs);
    reason.names.push_back(fallback.name);
  }
  std::vector<ConversionNote> notes;
  for (const auto& [type, reason] : reasons) {
    const bool is_one = reason.names.size() == 1;
    const WeightType& next = kWeightTypeRows[static_cast<uint32_t>(type) + 1];
    const std::string why =
        next.block != 0
            ? fmt::format("not multiples of {}, which {} needs", next.block, name(next.type))
            : fmt::format("longer than {}, the maximum of {}", next.inputs_max, name(next.type));
    notes.push_back({"fell back",
                     is_one ? reason.names[0] : fmt::format("{} matrices", reason.names.size()),
                     fmt::format("{} {}: {} rows of {} are {}", is_one ? "is" : "are", name(type),
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
  facts.tensors = quantization.tensors;
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

}  // namespace

void add_limit_options(CLI::App& command, ConversionLimits& limits) {
  add_real(command, "--min-cosine", limits.min_cosine,
           "Write nothing unless the mean cosine of quantized and float32 hidden states and "
           "outputs is at least this",
           0, false, 1);
  add_real(command, "--max-kl", limits.max_kl,
           "Write nothing if the mean KL divergence of the outputs is larger, in nats", 0, false,
           1e3);
  add_real(command, "--max-perplexity-increase", limits.max_perplexity_increase,
           "Write nothing if the perplexity rises by more, in percent", 0, false, 1e6);
  add_number(command, "--max-bytes", limits.max_bytes,
             "Write nothing if the file is larger, in bytes", 1, kBytesMax);
  add_number(command, "--max-arena", limits.max_arena,
             "Write nothing if the arena of a target is larger, in bytes, at the sizes that are "
             "printed",
             1, kBytesMax);
  put_in_group(
      command, kLimitGroup,
      {"--min-cosine", "--max-kl", "--max-perplexity-increase", "--max-bytes", "--max-arena"});
}

ConversionFacts conversion_facts(const convert::Conversion& conversion, const std::string& source,
                                 const std::string& weights, const ConversionLimits& limits) {
  ConversionFacts facts;
  facts.parameters = parameters_of(conversion);
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
