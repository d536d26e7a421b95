// SPDX-License-Identifier: Apache-2.0
// Compares traces node by node, and graphs with programs by their results.
#include "convert/exported/compare_traces.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

#include "convert/exported/aten/interpret.h"
#include "convert/graph/interpreter.h"
#include "convert/graph/node_traits.h"

namespace arenite::convert {
namespace {

// Whether the terms of fewer positions are the first ones of those of more, wherever `mask` shows.
bool begin_alike(const TermTable& a, const TermTable& b, uint32_t heads, const DenseMask& mask) {
  for (uint32_t head = 0; head < heads; ++head) {
    for (uint32_t q = 0; q < a.positions; ++q) {
      for (uint32_t k = 0; k < a.positions; ++k) {
        const double first = a.at(head, q, k);
        const bool is_near =
            std::fabs(first - b.at(head, q, k)) <= 1e-6 * std::max(1.0, std::fabs(first));
        if (mask.at(q, k) && !is_near) return false;
      }
    }
  }
  return a.by == b.by;
}

}  // namespace

std::optional<CompiledMask> mask_rule(const Mask& mask) {
  const DenseMask& dense = *std::get<BufferMask>(mask).dense;
  const int64_t n = dense.positions;
  int64_t lookback = 0, lookahead = 0;
  for (int64_t k = 0; k < n; ++k) {
    if (dense.at(0, static_cast<uint32_t>(k))) lookahead = k;
    if (dense.at(static_cast<uint32_t>(k), 0)) lookback = k;
  }
  const CompiledMask band =
      band_mask(lookback == n - 1 ? kUnlimited : static_cast<uint32_t>(lookback),
                lookahead == n - 1 && n > 1 ? kUnlimited : static_cast<uint32_t>(lookahead), 0);
  return expand_mask(Mask(band), dense.positions) == dense ? std::optional(band) : std::nullopt;
}

std::string difference(const Graph& a, const Graph& b) {
  if (a.order().size() != b.order().size()) return "another length gives other ops";
  for (size_t i = 0; i < a.order().size(); ++i) {
    const Node& first = a.node(a.order()[i]);
    const Node& second = b.node(b.order()[i]);
    if (first.inputs.size() != second.inputs.size() || first.width != second.width ||
        !computes_same(first.body, second.body)) {
      return fmt::format("'{}' computes something else at another length", first.name);
    }
    const auto* attention = std::get_if<AttentionNode>(&first.body);
    if (attention == nullptr) continue;
    const auto& longer = std::get<AttentionNode>(second.body);
    if (attention->terms && !begin_alike(*attention->terms, *longer.terms, attention->heads,
                                         *std::get<BufferMask>(a.masks[attention->mask]).dense)) {
      return fmt::format("what '{}' adds to scores is something else at another length",
                         first.name);
    }
    const auto rule = mask_rule(a.masks[attention->mask]);
    const auto other = mask_rule(b.masks[longer.mask]);
    if (rule && other && *rule == *other) continue;
    // A band may be a part of a longer one, as a window is that is longer than the example. What is
    // a rule at one length and none at another has some number of the program misread.
    const bool begins_alike =
        rule.has_value() == other.has_value() &&
        expand_mask(b.masks[longer.mask], positions_of(a.masks[attention->mask])) ==
            *std::get<BufferMask>(a.masks[attention->mask]).dense;
    if (!begins_alike) {
      return fmt::format("the mask of '{}' is another one at another length", first.name);
    }
  }
  return "";
}

namespace {

constexpr double kDifferenceMax = 1e-6;       // of the largest value
constexpr double kDifferencePerToken = 2e-7;  // of rotations whose angles the author has in float32
constexpr uint64_t kLargeWeights = uint64_t{1} << 24;  // of a model that one input is enough for
constexpr uint32_t kKeptTokensMin = 8;  // of an input that one evaluation is enough for
constexpr uint32_t kKeptTokensMax = 48;
constexpr uint64_t kSeed = 3;      // of inputs
constexpr int kRandomLengths = 3;  // of other lengths
constexpr int64_t kOtherLengthMax = 512;
constexpr int64_t kOtherWorkMax = int64_t{1} << 29;  // products that another length may take

uint64_t parameters_of(const ExportedProgram& program) {
  uint64_t count = 0;
  for (const ExportedInput& input : program.inputs) {
    if (input.kind == InputKind::kParameter) {
      count += elements_of(program.values[input.value].shape());
    }
  }
  return count;
}

// What a program takes in double precision grows with its weights and with its elements.
int64_t affordable_length(const ExportedProgram& program) {
  const auto weights = static_cast<int64_t>(parameters_of(program));
  const auto ops = static_cast<int64_t>(program.nodes.size());
  int64_t length = 1;
  while (length < kOtherLengthMax && 2 * length * (weights + 2 * length * ops) < kOtherWorkMax) {
    length *= 2;
  }
  return length;
}

class Comparison {
 public:
  Comparison(ExportedModel& model, const TraceShape& trace_shape)
      : model_(model), program_(model.program), trace_shape_(trace_shape) {}

  std::optional<ProgramDifference> run() {
    const auto start = std::chrono::steady_clock::now();
    if (!agree_on_all()) return ProgramDifference{difference_, value_};
    model_.largest_difference = std::max(model_.largest_difference, difference_);
    model_.largest_value = std::max(model_.largest_value, value_);
    model_.compared_seconds +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return std::nullopt;
  }

 private:
  // What the program is given once.
  struct Fed {
    Array rows;                     // of all sequences
    std::vector<uint32_t> lengths;  // of each of them
    std::vector<uint8_t> types{};   // of all tokens, or none: all 0
  };

  bool agree_on_all() {
    const bool has_sample =
        !program_->sample_inputs.empty() && trace_shape_.tokens() == trace_shape_.traced_tokens();
    const uint32_t sequences = trace_shape_.sizes().sequences;
    const std::vector<uint32_t> whole(sequences, tokens());
    if (has_sample && !agree({program_->sample_inputs[0], whole, {}})) return false;
    std::mt19937_64 random(kSeed + tokens());
    const auto agree_on_random = [&](const std::vector<uint32_t>& lengths) {
      Fed fed{random_rows(random), lengths};
      for (uint32_t i = 0; i < sequences * tokens() && model_.graph.token_types != 0; ++i) {
        fed.types.push_back(static_cast<uint8_t>(random() % model_.graph.token_types));
      }
      return agree(fed);
    };
    const bool needs_random = !is_large() || !has_sample || model_.graph.token_types != 0;
    if (needs_random && !agree_on_random(whole)) return false;
    if (has_lengths()) {
      for (const uint32_t rest : {tokens() - 1, tokens() / 2}) {
        if (rest == 0) break;
        std::vector<uint32_t> lengths;
        for (uint32_t b = 0; b < sequences; ++b) {
          lengths.push_back(1 + (rest + tokens() - 1 - b % tokens()) % tokens());
        }
        lengths[0] = std::max(1u, rest);
        if (!agree_on_random(lengths)) return false;
      }
    }
    return true;
  }

  // Of a sequence, without the rows that the program puts before them.
  uint32_t tokens() const { return static_cast<uint32_t>(trace_shape_.tokens()); }

  bool has_lengths() const { return std::ranges::any_of(trace_shape_.sides(), tells_length); }

  // Rows of padding are as random as all others.
  Array random_rows(std::mt19937_64& random) const {
    const Shape shape = trace_shape_.input_shape();
    const size_t count = elements_of(shape);
    if (trace_shape_.reads_tokens()) {
      Array::Integers ids(count);
      for (int64_t& id : ids) id = static_cast<int64_t>(random() % model_.graph.vocab_size);
      return Array::integer(shape, std::move(ids));
    }
    Array::Reals values(count);
    for (double& value : values) {
      value = static_cast<float>(4.0 * static_cast<double>(random() >> 11) * 0x1p-53 - 2.0);
    }
    return Array::real(shape, std::move(values));
  }

  // Double precision takes its time.
  bool is_large() const { return parameters_of(*program_) > kLargeWeights; }

  // What the author's code makes of it.
  Array program_output(const Fed& fed) const {
    std::vector<Array> inputs;
    for (const ExportedInput* input : program_->user_inputs()) {
      const SideInput* side = trace_shape_.side(input->value);
      inputs.push_back(side == nullptr ? fed.rows
                                       : trace_shape_.side_array(*side, fed.lengths, fed.types));
    }
    const std::vector<Array> outputs =
        interpret(*program_, inputs, interpreting_budget(*program_, fed.rows.elements()));
    size_t place = 0;
    for (size_t i = 0; i < model_.output_index; ++i) {
      const ValueRef* ref = program_->outputs[i].as<ValueRef>();
      if (ref && program_->values[ref->value].kind == ValueKind::kTensor) ++place;
    }
    return outputs.at(place).to(ElementType::kF64);
  }

  bool agree(const Fed& fed) {
    const Array output = program_output(fed);
    const TraceSizes sizes = trace_shape_.sizes();
    const Array::Reals given = fed.rows.to_reals();
    const size_t each = given.size() / sizes.sequences;
    for (uint32_t b = 0; b < sizes.sequences; ++b) {
      EvaluatedInput one;
      GraphInput input;
      const std::span row(given.data() + b * each, each * fed.lengths[b] / tokens());
      if (trace_shape_.reads_tokens()) {
        for (const double id : row) one.tokens.push_back(static_cast<uint32_t>(id));
        input.tokens = one.tokens;
      } else {
        for (const double value : row) one.features.push_back(static_cast<float>(value));
        input.features = one.features;
      }
      if (!fed.types.empty()) {
        input.types = std::span(fed.types).subspan(size_t{b} * tokens(), fed.lengths[b]);
      }
      one.result = evaluate(model_.graph, input);
      if (!compare_sequence(one.result.values, output.reals(), b, fed.lengths[b])) return false;
      if (fed.types.empty()) keep(std::move(one));
    }
    ++model_.compared_inputs;
    const bool turns = std::ranges::any_of(model_.graph.order(), [&](ValueId value) {
      return model_.graph.as<RotateNode>(value) != nullptr;
    });
    const double share_max = kDifferenceMax + (turns ? kDifferencePerToken * sizes.tokens : 0.0);
    return difference_ <= share_max * value_;
  }

  // Compares the rows of one sequence: all that are no padding, or the last ones, as a decoder's
  // graph has all rows also where the program gives out the last one. False: there are fewer rows.
  bool compare_sequence(const std::vector<double>& found, const Array::Reals& all,
                        uint32_t sequence, uint32_t length) {
    const TraceSizes sizes = trace_shape_.sizes();
    const size_t width = model_.graph.width(model_.graph.output);
    const size_t count = all.size() / sizes.sequences;
    const bool has_padding = count == size_t{sizes.tokens} * width && length < tokens();
    const size_t compared = has_padding ? (size_t{length} + sizes.prefix) * width : count;
    if (compared > found.size()) return false;
    const double* const expected = all.data() + sequence * count;
    const double* const last = found.data() + (found.size() - compared);
    for (size_t i = 0; i < compared; ++i) {
      const double difference = std::fabs(last[i] - expected[i]);
      value_ = std::max(value_, std::fabs(expected[i]));
      if (!(difference <= difference_)) difference_ = difference;
    }
    return true;
  }

  // What says enough of a large model for the check of what it is packed into, too.
  void keep(EvaluatedInput one) {
    const std::set<uint32_t> different(one.tokens.begin(), one.tokens.end());
    const bool says_enough = one.tokens.empty() || 2 * different.size() >= tokens();
    if (!model_.evaluated && is_large() && says_enough && tokens() >= kKeptTokensMin &&
        tokens() <= kKeptTokensMax) {
      model_.evaluated = std::move(one);
    }
  }

  ExportedModel& model_;
  const std::shared_ptr<const ExportedProgram> program_;
  const TraceShape& trace_shape_;
  double difference_ = 0.0;  // the largest so far
  double value_ = 0.0;
};

}  // namespace

std::string ProgramDifference::text() const {
  return fmt::format(
      "what is computed here and what the program computes differ by {:.1e}, and reach {:.1e}",
      difference, value);
}

std::optional<ProgramDifference> compare_with_program(ExportedModel& model,
                                                      const TraceShape& trace_shape) {
  return Comparison(model, trace_shape).run();
}

OtherLengths compare_at_other_lengths(ExportedModel& model, const TraceShape& trace_shape,
                                      int64_t shortest, int64_t longest, uint32_t seed) {
  longest = std::min(longest, affordable_length(*model.program));
  std::set<int64_t> chosen = {shortest, shortest + 1, longest};
  std::mt19937 random(seed);
  for (int i = 0; i < kRandomLengths && longest > shortest; ++i) {
    chosen.insert(shortest + static_cast<int64_t>(random()) % (longest - shortest));
  }
  OtherLengths found;
  for (const int64_t length : chosen) {
    if (length == trace_shape.traced_tokens() || length > longest) continue;
    try {
      if (const auto difference = compare_with_program(model, trace_shape.at(length))) {
        found.wrong.emplace(length, difference->text());
      } else {
        found.right.push_back(length);
      }
    } catch (const std::runtime_error& error) {
      found.wrong.emplace(length, error.what());
    }
  }
  return found;
}

}  // namespace arenite::convert
