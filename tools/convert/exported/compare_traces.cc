// SPDX-License-Identifier: Apache-2.0
// Two graphs are the same model if their ops are equal, and if masks and biases of the shorter
// trace are leading parts of the longer one's. Outputs of graph and program may differ only by
// rounding.
#include "convert/exported/compare_traces.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <numeric>
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

// Whether `a` equals the leading [positions, positions] part of `b` wherever `mask` shows a pair.
bool begin_alike(const AttentionBias& a, const AttentionBias& b, uint32_t heads,
                 const DenseMask& mask) {
  for (uint32_t head = 0; head < heads; ++head) {
    for (uint32_t q = 0; q < a.positions; ++q) {
      for (uint32_t k = 0; k < a.positions; ++k) {
        const double first = a.at(head, q, k), second = b.at(head, q, k);
        const bool is_near = first == second ||  // both may hide the key
                             std::fabs(first - second) <= 1e-6 * std::max(1.0, std::fabs(first));
        if (mask.at(q, k) && !is_near) return false;
      }
    }
  }
  return a.by == b.by;
}

// Whether the biases are equal at all distances that `a` has.
bool begin_alike(const RelativeBias& a, const RelativeBias& b) {
  if (a.dim != b.dim) return false;
  for (size_t head = 0; head < std::max(a.heads, b.heads); ++head) {
    for (size_t place = 0; place < 2 * size_t{a.positions} - 1; ++place) {
      const auto first = a.at(head, place), second = b.at(head, place + b.positions - a.positions);
      const auto is_near = [](double x, double y) { return are_near(x, y, 1e-6); };
      if (!std::ranges::equal(first, second, is_near)) return false;
    }
  }
  return true;
}

}  // namespace

namespace {

// Returns "12", or "12 + 5" for several inputs.
std::string lengths_text(const Lengths& lengths) {
  return fmt::format("{}", fmt::join(lengths, " + "));
}

}  // namespace

std::string counted_tokens(const Lengths& lengths) {
  return lengths_text(lengths) + (lengths == Lengths{1} ? " token" : " tokens");
}

std::string InputLengths::text() const {
  if (is_fixed) return "exactly " + counted_tokens(Lengths{traced});
  std::string text = "any length";
  if (positions != 0 && positions == shortest) {
    text = counted_tokens(Lengths{positions});
    return text + (is_causal ? ", token by token too" : ", whole sequences");
  }
  if (shortest > 1) text += fmt::format(" from {}", shortest);
  if (positions != 0) text += fmt::format(" up to {}", positions);
  return text + (is_causal ? ", token by token too" : ", whole sequences");
}

std::string InputLengths::steps_text() const {
  if (traced % step == 0) return fmt::format("multiples of {} only", step);
  return fmt::format("only lengths in steps of {}, such as {}", step, traced);
}

std::string LengthClaim::text() const {
  const bool are_fixed = std::ranges::all_of(inputs, &InputLengths::is_fixed);
  if (!why_exact.empty() || are_fixed) {
    std::string text = fmt::format("{} {} a call: ", takes_lengths ? "at most" : "exactly",
                                   counted_tokens(traced()));
    if (!why_exact.empty()) return text + why_exact + export_lines;
    // Guards exist only if sizes were exported as dynamic.
    text += guards.empty()
                ? "it was exported with a fixed number of them"
                : "torch.export fixed the example's number, for its guard " + quote(guards[0]);
    if (guards.size() > 1) text += fmt::format(" and {} more", guards.size() - 1);
    return text + (export_lines.empty() ? "" : "; for any length, export it with" + export_lines);
  }
  std::string text;
  Lengths other;
  std::string since;
  bool is_end_chosen = false;
  for (const InputLengths& input : inputs) {
    if (!text.empty()) text += "; ";
    text += inputs.size() > 1 ? input.name + ": " + input.text() : input.text();
    other.push_back(input.other != 0 ? input.other : input.traced);
    is_end_chosen = is_end_chosen || input.is_end_chosen;
    if (!input.nonlinear_op.empty()) since = input.nonlinear_op;
  }
  if (is_claimed) {
    return fmt::format("{}: as claimed by --any-length; computed at {} only", text,
                       counted_tokens(traced()));
  }
  text += ": ops and masks agree at " + lengths_text(traced());
  if (other != traced()) text += " and " + lengths_text(other);
  text += " tokens";
  for (const InputLengths& input : inputs) {
    if (input.step > 1) text += "; it was exported for " + input.steps_text();
    if (input.parting_guard.empty()) continue;
    text += fmt::format(
        "; its guard {} splits the range of lengths: the part around the example's is kept",
        quote(input.parting_guard));
  }
  if (is_end_chosen) text += "; --context N makes it longer";
  if (ends_with_mask) text += "; its mask does not follow from distances";
  if (ends_with_terms) text += "; its attention bias is known up to that length";
  if (ends_with_angles) text += "; its rotation angles are known up to that length";
  if (is_proved) text += "; as --expect proves";
  if (!since.empty())
    text += fmt::format("; each length was computed, since {} is not linear in the length", since);
  if (!computed.empty()) {
    std::vector<std::string> lengths;
    for (const Lengths& each : computed) lengths.push_back(lengths_text(each));
    text += fmt::format("\nalso computed at {} tokens", fmt::join(lengths, ", "));
  }
  return text;
}

std::optional<CompiledMask> mask_rule(const Mask& mask) {
  if (const auto* compiled = std::get_if<CompiledMask>(&mask)) return *compiled;
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
  if (a.order().size() != b.order().size()) return "the ops differ at another length";
  for (size_t i = 0; i < a.order().size(); ++i) {
    const Node& first = a.node(a.order()[i]);
    const Node& second = b.node(b.order()[i]);
    if (first.inputs.size() != second.inputs.size() || first.width != second.width ||
        !computes_same(first.body, second.body)) {
      return fmt::format("'{}' computes something different at another length", first.name);
    }
    const auto* attention = std::get_if<AttentionNode>(&first.body);
    if (attention == nullptr) continue;
    const auto& longer = std::get<AttentionNode>(second.body);
    if (attention->terms &&
        !begin_alike(*attention->terms, *longer.terms, attention->heads,
                     expand_mask(a.masks[attention->mask], attention->terms->positions))) {
      return fmt::format("the attention bias of '{}' differs at another length", first.name);
    }
    for (const auto terms : {&AttentionNode::query_terms, &AttentionNode::key_terms}) {
      if (attention->*terms && !begin_alike(*(attention->*terms), *(longer.*terms))) {
        return fmt::format("the relative bias of '{}' differs at another length", first.name);
      }
    }
    const auto rule = mask_rule(a.masks[attention->mask]);
    const auto other = mask_rule(b.masks[longer.mask]);
    if (rule && other && *rule == *other) continue;
    // A band may be the leading part of a longer band, if a window exceeds the example's length. If
    // a mask is a band at one length only, some size was misread.
    const bool begins_alike =
        rule.has_value() == other.has_value() &&
        expand_mask(b.masks[longer.mask], positions_of(a.masks[attention->mask])) ==
            *std::get<BufferMask>(a.masks[attention->mask]).dense;
    if (!begins_alike) {
      return fmt::format("the mask of '{}' differs at another length", first.name);
    }
  }
  return "";
}

uint64_t parameters_of(const ExportedProgram& program) {
  uint64_t count = 0;
  std::set<uint32_t> counted;
  for (const ExportedInput& input : program.inputs) {
    if (input.kind == InputKind::kParameter && counted.insert(input.storage).second) {
      count += elements_of(program.values[input.value].shape());
    }
  }
  return count;
}

namespace {

constexpr double kDifferenceMax = 1e-6;                // relative to the largest output
constexpr double kDifferencePerToken = 2e-7;           // of float32 angles
constexpr uint64_t kLargeWeights = uint64_t{1} << 24;  // larger ones get one input
constexpr uint32_t kKeptTokensMin = 8;  // of an input that is kept to check the packed file
constexpr uint32_t kKeptTokensMax = 48;
constexpr uint32_t kComparedSequences = 8;  // first sequences that are compared, besides the last
constexpr uint64_t kSeed = 3;               // of random inputs
constexpr int kRandomLengths = 3;           // random lengths that are not traced
constexpr int64_t kOtherLengthMax = 512;
constexpr int64_t kTriedMax = 128;                   // longest length if every length is tried
constexpr int64_t kOtherWorkMax = int64_t{1} << 29;  // multiplications per length

// Returns the longest length within kOtherWorkMax: work grows as length * (weights + length * ops).
int64_t affordable_length(const ExportedProgram& program) {
  const auto weights = static_cast<int64_t>(parameters_of(program));
  const auto ops = static_cast<int64_t>(program.nodes.size());
  int64_t length = 1;
  while (length < kOtherLengthMax && 2 * length * (weights + 2 * length * ops) < kOtherWorkMax) {
    length *= 2;
  }
  return std::min(length, kOtherLengthMax);
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
  // The data of one input in one evaluation.
  struct Fed {
    Array rows;                     // all sequences
    std::vector<uint32_t> lengths;  // of each sequence
    std::vector<uint8_t> types{};   // of each token; empty: all 0
    std::vector<uint8_t> pairs{};   // [sequences, tokens, tokens], or empty
  };

  bool agree_on_all() {
    const bool has_sample =
        !program_->sample_inputs.empty() && std::ranges::all_of(inputs(), [&](size_t i) {
          return sample_of(of(i).input()).shape() == of(i).input_shape() &&
                 shows_some(sample_pairs(i), tokens(i));
        });
    if (has_sample) {
      std::vector<Fed> sample;
      for (const size_t i : inputs()) {
        sample.push_back({sample_of(of(i).input()), whole(i), sample_marks(i), sample_pairs(i)});
        if (!ends_by_ids(i)) continue;
        const Array::Integers ids = sample.back().rows.to_integers();
        for (uint32_t b = 0; b < sequences(); ++b) {
          sample.back().lengths[b] = static_cast<uint32_t>(model_.graph.inputs[i].end.tokens(
              std::span(ids).subspan(size_t{b} * tokens(i), tokens(i))));
        }
      }
      if (!agree(sample)) return false;
    }
    std::mt19937_64 random(kSeed + tokens(0));
    std::vector<std::vector<uint32_t>> all_whole;
    for (const size_t i : inputs()) all_whole.push_back(whole(i));
    const auto agree_on_random = [&](const std::vector<std::vector<uint32_t>>& lengths) {
      std::vector<Fed> fed;
      for (const size_t i : inputs()) {
        fed.push_back({random_rows(i, random), lengths[i]});
        if (ends_by_ids(i)) fed.back().rows = ended(i, fed.back().rows, lengths[i]);
        const uint32_t types = model_.graph.inputs[i].token_types;
        for (uint32_t t = 0; t < sequences() * tokens(i) && types != 0; ++t) {
          const auto type = static_cast<uint8_t>(random() % types);
          // The first token is never padding.
          const bool is_kept = t % tokens(i) == 0 && side_of(i, is_marks) != nullptr;
          fed.back().types.push_back(is_kept ? 0 : type);
        }
        if (model_.graph.takes_pairs(static_cast<uint32_t>(i))) {
          fed.back().pairs = random_pairs(i, random);
        }
      }
      return agree(fed);
    };
    const bool has_types = std::ranges::any_of(
        model_.graph.inputs, [](const GraphInput& input) { return input.token_types != 0; });
    const bool needs_random = !is_large() || !has_sample || has_types;
    if (needs_random && !agree_on_random(all_whole)) return false;
    for (const size_t i : inputs()) {
      if (!has_lengths(i)) continue;
      for (const uint32_t rest : {tokens(i) - 1, tokens(i) / 2}) {
        if (rest == 0) break;
        std::vector<std::vector<uint32_t>> lengths = all_whole;
        for (uint32_t b = 0; b < sequences(); ++b) {
          lengths[i][b] = 1 + (rest + tokens(i) - 1 - b % tokens(i)) % tokens(i);
        }
        lengths[i][0] = std::max(1u, rest);
        if (!agree_on_random(lengths)) return false;
      }
    }
    return true;
  }

  const TraceShape& of(size_t input) const { return trace_shape_.of(input); }
  std::vector<size_t> inputs() const {
    std::vector<size_t> all(trace_shape_.inputs());
    std::iota(all.begin(), all.end(), size_t{0});
    return all;
  }
  uint32_t sequences() const { return trace_shape_.sizes().sequences; }
  uint32_t tokens(size_t input) const { return static_cast<uint32_t>(of(input).tokens()); }
  std::vector<uint32_t> whole(size_t input) const {
    return std::vector<uint32_t>(sequences(), tokens(input));
  }

  const Array& sample_of(const ExportedInput& input) const {
    const std::vector<const ExportedInput*> all = program_->user_inputs();
    const auto place = std::ranges::find(all, input.value, &ExportedInput::value) - all.begin();
    return program_->sample_inputs.at(static_cast<size_t>(place));
  }

  // Returns random visible pairs, where each query sees at least one key at or before its own
  // position.
  std::vector<uint8_t> random_pairs(size_t input, std::mt19937_64& random) const {
    const SideInput& side = *side_of(input, gives_pairs);
    const size_t n = tokens(input);
    const Shape traced = program_->values[side.input->value].shape();
    const bool have_own = traced.size() > 2 && traced[0] > 1;
    std::vector<uint8_t> pairs(sequences() * n * n);
    for (size_t i = 0; i < pairs.size(); ++i) {
      const size_t query = i / n % n;
      pairs[i] = i % n == query / 2 || random() % 3 == 0 ? 1 : 0;
      if (!have_own) pairs[i] = pairs[i % (n * n)];
    }
    return pairs;
  }

  template <typename Wanted>
  const SideInput* side_of(size_t input, Wanted is_wanted) const {
    for (const SideInput& side : trace_shape_.sides()) {
      if (side.of == input && is_wanted(side)) return &side;
    }
    return nullptr;
  }

  // Whether each query sees a key. Programs differ for queries that see none, and may return NaN.
  static bool shows_some(std::span<const uint8_t> pairs, size_t side) {
    for (; !pairs.empty(); pairs = pairs.subspan(side)) {
      if (std::ranges::count(pairs.first(side), 0) == static_cast<ptrdiff_t>(side)) return false;
    }
    return true;
  }

  std::vector<uint8_t> sample_marks(size_t input) const {
    const SideInput* const side = side_of(input, is_marks);
    return side == nullptr ? std::vector<uint8_t>{} : sample_of(*side->input).to_bools();
  }

  std::vector<uint8_t> sample_pairs(size_t input) const {
    const SideInput* const side = side_of(input, gives_pairs);
    if (side == nullptr) return {};
    std::vector<uint8_t> pairs = sample_of(*side->input).to_bools();
    if (side->role != SideRole::kPairs) {
      std::ranges::transform(pairs, pairs.begin(), [](uint8_t hidden) { return hidden == 0; });
    }
    const size_t count = size_t{sequences()} * tokens(input) * tokens(input);
    for (size_t i = 0; pairs.size() < count; ++i) pairs.push_back(pairs[i]);
    return pairs;
  }

  bool ends_by_ids(size_t input) const {
    return model_.graph.inputs[input].end.rule != SequenceEnd::Rule::kNone;
  }

  // Ends each sequence after its number of ids in `lengths`.
  Array ended(size_t input, const Array& rows, const std::vector<uint32_t>& lengths) const {
    const GraphInput& own = model_.graph.inputs[input];
    Array::Integers ids = rows.to_integers();
    for (uint32_t b = 0; b < sequences(); ++b) {
      const auto sequence = std::span(ids).subspan(size_t{b} * tokens(input), tokens(input));
      own.end.put(sequence, lengths[b], own.vocab_size);
    }
    return Array::integer(rows.shape(), std::move(ids));
  }

  bool has_lengths(size_t input) const {
    return ends_by_ids(input) ||
           std::ranges::any_of(trace_shape_.sides(), [&](const SideInput& side) {
             return side.of == input && tells_length(side);
           });
  }

  // Returns random ids or features, in padding, too.
  Array random_rows(size_t input, std::mt19937_64& random) const {
    const Shape shape = of(input).input_shape();
    const size_t count = elements_of(shape);
    if (of(input).reads_tokens()) {
      Array::Integers ids(count);
      const GraphInput& of_graph = model_.graph.inputs[input];
      for (size_t i = 0; i < count; ++i) {
        const std::vector<uint32_t>& own = of_graph.ids_of_places;
        const uint32_t ids_end =
            own.empty() ? of_graph.vocab_size : std::min(of_graph.vocab_size, own[i % own.size()]);
        ids[i] = static_cast<int64_t>(random() % ids_end);
        // The first token is never padding, so that each row sees a key.
        for (uint32_t n = 0; n < ids_end && i % tokens(input) == 0; ++n) {
          if (!of_graph.padding_ids.contains(static_cast<uint32_t>(ids[i]))) break;
          ids[i] = (ids[i] + 1) % ids_end;
        }
      }
      return Array::integer(shape, std::move(ids));
    }
    Array::Reals values(count);
    const auto& ids_of_columns = model_.graph.inputs[input].ids_of_columns;
    for (size_t i = 0; i < count; ++i) {
      const auto ids =
          ids_of_columns.find(static_cast<uint32_t>(i % static_cast<size_t>(shape.back())));
      values[i] =
          ids != ids_of_columns.end()
              ? static_cast<double>(random() % ids->second)
              : static_cast<float>(4.0 * static_cast<double>(random() >> 11) * 0x1p-53 - 2.0);
    }
    // The first token is never padding, as in the example.
    for (const uint32_t column : of(input).input().mark_columns) {
      const double kept = sample_of(of(input).input()).to_reals().at(column);
      for (size_t i = column; i < count; i += count / sequences()) values[i] = kept;
    }
    return Array::real(shape, std::move(values));
  }

  // Large models are evaluated at fewer lengths, as double precision is slow.
  bool is_large() const { return parameters_of(*program_) > kLargeWeights; }

  // Returns the output of the author's program, in float64.
  Array program_output(const std::vector<Fed>& fed) const {
    std::vector<Array> given;
    uint64_t elements = 0;
    for (const Fed& each : fed) elements += each.rows.elements();
    for (const ExportedInput* input : program_->user_inputs()) {
      const SideInput* side = trace_shape_.side(input->value);
      if (side == nullptr) {
        given.push_back(fed[trace_shape_.number_of(input->value).value()].rows);
      } else {
        given.push_back(of(side->of).side_array(*side, fed[side->of].lengths, fed[side->of].types,
                                                fed[side->of].pairs));
      }
    }
    const std::vector<Array> outputs =
        interpret(*program_, given, interpreting_budget(*program_, elements));
    size_t place = 0;
    for (size_t i = 0; i < model_.output_index; ++i) {
      const ValueRef* ref = program_->outputs[i].as<ValueRef>();
      if (ref && program_->values[ref->value].kind == ValueKind::kTensor) ++place;
    }
    return outputs.at(place).to(ElementType::kF64);
  }

  // Returns the tokens or features of one sequence in the graph's layout.
  EvaluatedInput sequence_of(size_t input, const Fed& fed, const Array::Reals& given,
                             uint32_t sequence) const {
    EvaluatedInput one;
    const size_t each = given.size() / sequences();
    const std::span row(given.data() + sequence * each,
                        each * fed.lengths[sequence] / tokens(input));
    if (of(input).reads_tokens()) {
      for (const double id : row) one.tokens.push_back(static_cast<uint32_t>(id));
      return one;
    }
    for (const double value : row) one.features.push_back(static_cast<float>(value));
    if (const auto& image = of(input).image()) {
      for (size_t i = 0; i < each; ++i) one.features[image->place(i)] = static_cast<float>(row[i]);
    }
    if (!of(input).columns_first()) return one;
    const size_t width = each / tokens(input);
    for (size_t i = 0; i < one.features.size(); ++i) {
      one.features[i] =
          static_cast<float>(given[sequence * each + i % width * tokens(input) + i / width]);
    }
    return one;
  }

  // Copies the leading [length, length] pairs of one sequence to `kept`.
  static std::span<const uint8_t> cut_pairs(const std::vector<uint8_t>& all, size_t side,
                                            uint32_t sequence, uint32_t length,
                                            std::vector<uint8_t>& kept) {
    for (size_t row = 0; row < length; ++row) {
      const auto from = all.begin() + static_cast<ptrdiff_t>((sequence * side + row) * side);
      kept.insert(kept.end(), from, from + length);
    }
    return kept;
  }

  bool agree(const std::vector<Fed>& fed) {
    const Array output = program_output(fed);
    std::vector<Array::Reals> given;
    for (const Fed& each : fed) given.push_back(each.rows.to_reals());
    for (uint32_t b = 0; b < sequences(); ++b) {
      if (b >= kComparedSequences && b + 1 < sequences()) continue;
      std::vector<EvaluatedInput> all;
      std::vector<SequenceInput> read;
      std::vector<uint32_t> lengths;
      std::vector<std::vector<uint8_t>> all_pairs(fed.size());
      for (const size_t i : inputs()) {
        all.push_back(sequence_of(i, fed[i], given[i], b));
        lengths.push_back(fed[i].lengths[b]);
      }
      for (const size_t i : inputs()) {
        read.push_back({.tokens = all[i].tokens, .features = all[i].features});
        if (!fed[i].pairs.empty()) {
          read[i].pairs = cut_pairs(fed[i].pairs, tokens(i), b, lengths[i], all_pairs[i]);
        }
        if (fed[i].types.empty()) continue;
        read[i].types = std::span(fed[i].types).subspan(size_t{b} * tokens(i), lengths[i]);
      }
      all[0].result = evaluate(model_.graph, read);
      if (!compare_sequence(all[0].result.values, output.reals(), b, lengths, rows_before(all))) {
        return false;
      }
      if (fed.size() == 1 && fed[0].types.empty() && fed[0].pairs.empty()) keep(std::move(all[0]));
    }
    ++model_.compared_inputs;
    const bool turns = std::ranges::any_of(model_.graph.order(), [&](ValueId value) {
      return model_.graph.as<RotateNode>(value) != nullptr;
    });
    uint32_t longest = 0;
    for (const size_t i : inputs()) longest = std::max(longest, of(i).sizes().tokens);
    const double share_max = kDifferenceMax + (turns ? kDifferencePerToken * longest : 0.0);
    return difference_ <= share_max * value_;
  }

  // Counts leading padding rows that see no key. There, the program returns NaN or averages hidden
  // values.
  size_t rows_before(const std::vector<EvaluatedInput>& fed) const {
    const Graph& graph = model_.graph;
    const uint32_t of = graph.inputs_of(graph.axis(graph.output));
    if (!model_.may_see_nothing || std::popcount(of) != 1) return 0;
    const auto input = static_cast<size_t>(std::countr_zero(of));
    const auto& ids = fed[input].tokens;
    const auto first = std::ranges::find_if(
        ids, [&](uint32_t id) { return !graph.inputs[input].padding_ids.contains(id); });
    return static_cast<size_t>(first - ids.begin());
  }

  // Compares the rows of one sequence. If the program returns fewer rows than the graph, as
  // decoders do, compares the last ones. Returns false if the graph has fewer rows.
  bool compare_sequence(const std::vector<double>& found, const Array::Reals& all,
                        uint32_t sequence, const std::vector<uint32_t>& lengths,
                        size_t rows_before) {
    const size_t width = model_.graph.width(model_.graph.output);
    const size_t count = all.size() / sequences();
    const auto rows_of = [&](const std::vector<uint32_t>& of_inputs) {
      return size_t{model_.graph.all_rows(of_inputs)[model_.graph.axis(model_.graph.output)]};
    };
    std::vector<uint32_t> all_tokens;
    for (const size_t i : inputs()) all_tokens.push_back(tokens(i));
    const bool has_padding = count == rows_of(all_tokens) * width && lengths != all_tokens;
    const size_t compared = has_padding ? rows_of(lengths) * width : count;
    if (compared > found.size()) return false;
    const double* const expected = all.data() + sequence * count;
    const double* const last = found.data() + (found.size() - compared);
    const size_t rows = count / width;
    for (size_t i = 0; i < compared; ++i) {
      const double wanted = expected[model_.columns_first ? i % width * rows + i / width : i];
      if (rows_before != 0 && (std::isnan(wanted) || i / width < rows_before)) continue;
      const double difference = std::fabs(last[i] - wanted);
      value_ = std::max(value_, std::fabs(wanted));
      if (!(difference <= difference_)) difference_ = difference;
    }
    return true;
  }

  // Keeps one input and its outputs of a large model, to check the packed file against.
  void keep(EvaluatedInput one) {
    const std::set<uint32_t> different(one.tokens.begin(), one.tokens.end());
    const bool says_enough = one.tokens.empty() || 2 * different.size() >= tokens(0);
    if (!model_.evaluated && is_large() && says_enough && tokens(0) >= kKeptTokensMin &&
        tokens(0) <= kKeptTokensMax) {
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
  return fmt::format("graph and program differ by {:.1e}, at magnitudes up to {:.1e}", difference,
                     value);
}

Lengths traced_lengths(const TraceShape& trace_shape) {
  Lengths lengths;
  for (size_t i = 0; i < trace_shape.inputs(); ++i) {
    lengths.push_back(trace_shape.of(i).traced_tokens());
  }
  return lengths;
}

std::string why_it_differs(const ExportedModel& model, const TraceShape& trace_shape) {
  for (const GraphInput& input : model.graph.inputs) {
    if (input.end == SequenceEnd{}) continue;
    return fmt::format(
        "It ends sequences of {} {}, but later tokens change its output: mask them, or give the "
        "model a causal mask",
        quote(input.name), input.end.text());
  }
  for (const SideInput& side : trace_shape.sides()) {
    if (!tells_length(side)) continue;
    return fmt::format(
        "Input {} is read as a padding mask, but some op reads rows that it hides, or uses it "
        "otherwise: give it to all attention, memory_key_padding_mask too, and to pooling alone; "
        "or make it bool [sequences, tokens], and True at padding",
        quote(side.input->name));
  }
  return "Part of the program is misread: export its parts, such as "
         "torch.export.export(model.encoder.eval(), (x,)), to find which, and rewrite that part";
}

void note_ids(ExportedModel& model) {
  for (const GraphInput& input : model.graph.inputs) {
    if (input.end.rule != SequenceEnd::Rule::kNone) {
      model.account.assumed.push_back(
          fmt::format("the program ends sequences of {} {}, as arenite run does: pass a session "
                      "only the tokens up to that one",
                      quote(input.name), input.end.text()));
    }
    for (const auto& [column, ids] : input.ids_of_columns) {
      model.account.assumed.push_back(
          fmt::format("feature {} of input {} holds integers from 0 to {}", column,
                      quote(input.name), ids - 1));
    }
  }
}

void note_rows_of_padding(ExportedModel& model) {
  const uint32_t of = model.graph.inputs_of(model.graph.axis(model.graph.output));
  for (size_t i = 0; i < model.graph.inputs.size(); ++i) {
    const GraphInput& input = model.graph.inputs[i];
    if (!model.may_see_nothing || (of & 1u << i) == 0 || input.padding_ids.empty()) continue;
    model.account.assumed.push_back(fmt::format(
        "sequences of {} must begin with a token that counts: leading rows of padding {} see no "
        "key and differ from the program's, which are NaN or means of hidden values",
        quote(input.name), fmt::join(input.padding_ids, ", ")));
  }
}

std::optional<ProgramDifference> compare_with_program(ExportedModel& model,
                                                      const TraceShape& trace_shape) {
  return Comparison(model, trace_shape).run();
}

OtherLengths compare_at_other_lengths(ExportedModel& model, const TraceShape& trace_shape,
                                      const Lengths& shortest, const Lengths& longest,
                                      uint32_t seed, bool tries_all) {
  const int64_t affordable = affordable_length(*model.program);
  std::mt19937 random(seed);
  std::vector<Lengths> chosen(trace_shape.inputs());  // per input
  size_t count = 0;
  for (size_t i = 0; i < chosen.size(); ++i) {
    // The example's length is always affordable.
    const int64_t traced = trace_shape.of(i).traced_tokens();
    const int64_t first = shortest[i];
    const int64_t last = std::min(longest[i], std::max(affordable, traced));
    // Attention is quadratic in the length, so one length is long and the others are short, odd and
    // even.
    const int64_t part = (last - first) / 4;
    std::set<int64_t> of_input;
    const auto add = [&](int64_t n) { of_input.insert(trace_shape.of(i).rounded(n)); };
    for (const int64_t n : {first, first + 1, first + part, first + part + 1, last}) add(n);
    for (int r = 0; r < kRandomLengths; ++r) {
      add(first + static_cast<int64_t>(random()) % (part + 1));
    }
    if (tries_all) {
      for (int64_t length = first; length <= std::min(last, kTriedMax); ++length) {
        add(length);
      }
    }
    if (chosen.size() == 1) of_input.erase(traced);
    std::erase_if(of_input, [&](int64_t length) { return length < first || length > last; });
    if (of_input.empty()) of_input = {traced};
    chosen[i].assign(of_input.begin(), of_input.end());
    count = std::max(count, chosen[i].size());
  }
  // Combine short lengths of one input with long lengths of another.
  std::set<Lengths> together;
  for (size_t n = 0; n < count; ++n) {
    Lengths lengths;
    for (size_t i = 0; i < chosen.size(); ++i) {
      lengths.push_back(chosen[i][(n + 2 * i) % chosen[i].size()]);
    }
    if (lengths != traced_lengths(trace_shape)) together.insert(lengths);
  }
  OtherLengths found;
  for (const Lengths& lengths : together) {
    try {
      if (const auto difference = compare_with_program(model, trace_shape.at(lengths))) {
        found.wrong.emplace(lengths, difference->text());
      } else {
        found.right.push_back(lengths);
      }
    } catch (const std::runtime_error& error) {
      found.wrong.emplace(lengths, error.what());
    }
  }
  return found;
}

}  // namespace arenite::convert
