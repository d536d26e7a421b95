// SPDX-License-Identifier: Apache-2.0
// Both models run in lockstep, chunk by chunk, so that only the rows of one chunk are kept. All
// sums are in double precision.
#include "convert/calibrate/evaluation.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <span>

#include "convert/calibrate/sequence_runner.h"
#include "convert/files/progress.h"
#include "convert/files/thread_pool.h"

namespace arenite::convert {
namespace {

// Computes log-probabilities from logits.
void log_softmax(std::span<const float> logits, std::vector<double>& logs) {
  logs.assign(logits.begin(), logits.end());
  const double largest = *std::max_element(logs.begin(), logs.end());
  double total = 0.0;
  for (const double log : logs) total += std::exp(log - largest);
  const double shift = largest + std::log(total);
  for (double& log : logs) log -= shift;
}

double divergence(std::span<const double> p_logs, std::span<const double> q_logs) {
  double sum = 0.0;
  for (size_t i = 0; i < p_logs.size(); ++i) {
    const double p = std::exp(p_logs[i]);
    if (p != 0.0) sum += p * (p_logs[i] - q_logs[i]);
  }
  return sum;
}

size_t most_probable(std::span<const double> logs) {
  return static_cast<size_t>(std::max_element(logs.begin(), logs.end()) - logs.begin());
}

double cosine(std::span<const float> a, std::span<const float> b) {
  double products = 0.0;
  double squares_a = 0.0;
  double squares_b = 0.0;
  for (size_t i = 0; i < a.size(); ++i) {
    products += double{a[i]} * b[i];
    squares_a += double{a[i]} * a[i];
    squares_b += double{b[i]} * b[i];
  }
  if (squares_a == 0.0 && squares_b == 0.0) return 1.0;  // both zero: the same
  if (squares_a == 0.0 || squares_b == 0.0) return 0.0;
  return products / std::sqrt(squares_a * squares_b);
}

bool gives_probabilities(const Model& model) {
  return predicts_tokens(model) || model.labels() > 1;
}

// Accumulates the negative log-likelihood of tokens.
struct Score {
  uint64_t tokens = 0;
  double nll = 0.0;

  void add(const Score& more) {
    tokens += more.tokens;
    nll += more.nll;
  }
  Perplexity perplexity() const {
    return {tokens, tokens == 0 ? 0.0 : nll / static_cast<double>(tokens)};
  }
};

// `logs` are the log-probabilities of the token after token `index` of the sequence.
void add_score(const ModelInput& sequence, uint32_t index, std::span<const double> logs,
               Score& score) {
  if (index + 1 >= sequence.tokens) return;
  score.nll -= logs[sequence.ids[index + 1]];
  ++score.tokens;
}

// Collects the hidden states of a chunk through the session's hook, as [hidden states][rows,
// features].
class HiddenStates {
 public:
  explicit HiddenStates(SequenceRunner& runner) : states_(runner.model().hidden_states()) {
    runner.set_hidden_states({.state = &store, .context = this});
  }
  HiddenStates(const HiddenStates&) = delete;

  size_t count() const { return states_.size(); }
  uint32_t rows(size_t index) const { return states_[index].rows; }
  std::span<const float> row(size_t index, uint32_t row) const {
    const State& state = states_[index];
    return std::span(state.values).subspan(size_t{row} * state.features, state.features);
  }

 private:
  struct State {
    uint32_t rows = 0;
    uint32_t features = 0;
    std::vector<float> values;
  };

  static void store(void* context, uint32_t index, const float* data, uint32_t rows,
                    uint32_t features) {
    State& state = static_cast<HiddenStates*>(context)->states_[index];
    state.rows = rows;
    state.features = features;
    state.values.assign(data, data + size_t{rows} * features);
  }

  std::vector<State> states_;
};

class Comparison {
  // Outputs of both models for one row.
  struct Row {
    double cosine = 0.0;
    double divergence = 0.0;
    bool agrees = false;
    Score reference{}, other{};
  };

 public:
  Comparison(const AlignedBytes& reference, const AlignedBytes& other, const InputTokens& positions,
             KvType other_kv)
      : reference_(reference, positions),
        other_(other, positions, other_kv),
        reference_states_(reference_),
        other_states_(other_),
        hidden_rows_(reference_states_.count()) {
    assert(reference_states_.count() == other_states_.count());
    result_.hidden_cosines.resize(hidden_rows_.size());
    result_.least_hidden_cosines.resize(hidden_rows_.size(), 1.0);
    result_.has_perplexity = predicts_tokens(reference_.model());
    result_.has_probabilities = gives_probabilities(reference_.model());
  }

  void add(const ModelInput& sequence) {
    ++result_.sequences;
    reference_.begin(sequence);
    other_.begin(sequence);
    while (reference_.advance() && other_.advance()) {
      add_outputs(sequence);
      add_hidden_states();
    }
  }

  ModelComparison result() {
    const double rows = static_cast<double>(result_.rows);
    result_.reference = reference_score_.perplexity();
    result_.other = other_score_.perplexity();
    result_.mean_kl /= rows;
    result_.top1_agreement /= rows;
    result_.output_cosine /= rows;
    for (size_t i = 0; i < hidden_rows_.size(); ++i) {
      result_.hidden_cosines[i] /= static_cast<double>(hidden_rows_[i]);
    }
    return result_;
  }

 private:
  void add_outputs(const ModelInput& sequence) {
    std::vector<Row> rows(reference_.rows());
    on_all_cores(static_cast<uint32_t>(rows.size()),
                 [&](uint32_t row) { rows[row] = compare_row(sequence, row); });
    for (const Row& row : rows) {
      ++result_.rows;
      result_.output_cosine += row.cosine;
      result_.mean_kl += row.divergence;
      result_.top1_agreement += row.agrees ? 1.0 : 0.0;
      reference_score_.add(row.reference);
      other_score_.add(row.other);
    }
  }

  Row compare_row(const ModelInput& sequence, uint32_t index) {
    Row row;
    const std::span<const float> before = reference_.row(index);
    const std::span<const float> after = other_.row(index);
    row.cosine = cosine(before, after);
    if (!result_.has_probabilities) return row;
    std::vector<double> logs_before, logs_after;
    log_softmax(before, logs_before);
    log_softmax(after, logs_after);
    row.divergence = divergence(logs_before, logs_after);
    row.agrees = most_probable(logs_before) == most_probable(logs_after);
    if (!result_.has_perplexity) return row;
    const ModelInput& read = sequence.of(last_input(reference_.model()));
    add_score(read, reference_.first_token() + index, logs_before, row.reference);
    add_score(read, reference_.first_token() + index, logs_after, row.other);
    return row;
  }

  void add_hidden_states() {
    for (size_t i = 0; i < reference_states_.count(); ++i) {
      hidden_rows_[i] += reference_states_.rows(i);
      for (uint32_t row = 0; row < reference_states_.rows(i); ++row) {
        const double found = cosine(reference_states_.row(i, row), other_states_.row(i, row));
        result_.hidden_cosines[i] += found;
        result_.least_hidden_cosines[i] = std::min(result_.least_hidden_cosines[i], found);
      }
    }
  }

  SequenceRunner reference_;
  SequenceRunner other_;
  HiddenStates reference_states_;
  HiddenStates other_states_;
  ModelComparison result_;  // sums, until all sequences were compared
  Score reference_score_, other_score_;
  std::vector<uint64_t> hidden_rows_;
};

// Maximum number of output rows to keep: enough that choices do not depend on a few tokens, in
// little memory.
constexpr uint64_t kKeptTokensMax = 1024;
constexpr uint64_t kKeptBytesMax = uint64_t{64} << 20;

// Returns the first sequence and as many others, evenly spread, as the token limit allows.
std::vector<ModelInput> some_of(const std::vector<ModelInput>& sequences, uint64_t tokens_max) {
  const uint64_t tokens = CalibrationSet::tokens_of(sequences);
  const size_t every = static_cast<size_t>((tokens + tokens_max - 1) / tokens_max);
  std::vector<ModelInput> some;
  uint64_t taken = 0;
  for (size_t i = 0; i < sequences.size(); i += std::max<size_t>(every, 1)) {
    taken += CalibrationSet::tokens_of({sequences[i]});
    if (!some.empty() && taken > tokens_max) break;
    some.push_back(sequences[i]);
  }
  return some;
}

// Calls take(row) for each output row.
template <typename Take>
void for_each_row(const AlignedBytes& file, const std::vector<ModelInput>& sequences,
                  const Take& take) {
  SequenceRunner runner(file, longest_of(sequences));
  for (const ModelInput& sequence : sequences) {
    runner.begin(sequence);
    while (runner.advance()) {
      for (size_t row = 0; row < runner.rows(); ++row) take(runner.row(row));
    }
  }
}

}  // namespace

OutputDistance::OutputDistance(const AlignedBytes& reference,
                               const std::vector<ModelInput>& sequences) {
  const Model model = load_best(reference);
  has_probabilities_ = gives_probabilities(model);
  const uint32_t width = model.function(model.functions() - 1).output_features;
  const uint64_t fitting = kKeptBytesMax / (sizeof(float) * width);
  sequences_ = some_of(sequences, std::clamp<uint64_t>(fitting, 1, kKeptTokensMax));
  for_each_row(reference, sequences_, [&](std::span<const float> row) {
    rows_.insert(rows_.end(), row.begin(), row.end());
  });
}

double OutputDistance::of(const AlignedBytes& file) const {
  double sum = 0.0;
  size_t rows = 0;
  std::vector<double> before;
  std::vector<double> after;
  for_each_row(file, sequences_, [&](std::span<const float> row) {
    const auto reference = std::span(rows_).subspan(rows++ * row.size(), row.size());
    if (has_probabilities_) {
      log_softmax(reference, before);
      log_softmax(row, after);
      sum += divergence(before, after);
    } else {
      sum += 1.0 - cosine(reference, row);
    }
  });
  return sum / static_cast<double>(rows);
}

double Perplexity::value() const { return std::exp(mean_nll); }

double ModelComparison::perplexity_increase() const {
  return std::expm1(other.mean_nll - reference.mean_nll);
}

ModelComparison compare_models(const AlignedBytes& reference, const AlignedBytes& other,
                               const CalibrationSet& set, KvType other_kv) {
  if (set.held_out.empty()) return {};
  Comparison comparison(reference, other, longest_of(set.held_out), other_kv);
  for (size_t i = 0; i < set.held_out.size(); ++i) {
    report_progress("measuring the quantization loss",
                    static_cast<double>(i) / static_cast<double>(set.held_out.size()));
    comparison.add(set.held_out[i]);
  }
  return comparison.result();
}

Perplexity perplexity_of(const AlignedBytes& file, const std::vector<ModelInput>& sequences) {
  if (sequences.empty()) return {};
  SequenceRunner runner(file, longest_of(sequences));
  Score score;
  std::vector<double> logs;
  for (const ModelInput& sequence : sequences) {
    runner.begin(sequence);
    while (runner.advance()) {
      for (uint32_t row = 0; row < runner.rows(); ++row) {
        log_softmax(runner.row(row), logs);
        add_score(sequence.of(last_input(runner.model())), runner.first_token() + row, logs, score);
      }
    }
  }
  return score.perplexity();
}

}  // namespace arenite::convert
