// SPDX-License-Identifier: Apache-2.0
// A failure of a model that was just converted is a bug; a failure caused by a sequence is an input
// error.
#include "convert/calibrate/sequence_runner.h"

#include <algorithm>
#include <map>
#include <span>

#include "convert/files/error.h"
#include "convert/files/progress.h"
#include "convert/files/thread_pool.h"

namespace arenite::convert {
namespace {

// Tokens of a causal model that are run at once: enough to use the kernels well, few enough that
// logits over a large vocabulary take little memory.
constexpr uint32_t kChunkTokens = 128;

constexpr const char* kMeasuring = "measuring inputs of matrices";

uint32_t chunk_of(const Model& model, const InputTokens& positions) {
  const uint32_t all = positions[last_input(model)];
  return is_stepped(model) ? std::min(kChunkTokens, all) : all;
}

SessionOptions options_of(const Model& model, const InputTokens& positions, uint32_t chunk,
                          KvType kv_cache) {
  SessionOptions options = options_for_functions(model, positions, chunk);
  options.outputs = Outputs::kAll;
  options.kv_cache = kv_cache;
  options.parallel = all_cores();
  return options;
}

}  // namespace

InputTokens longest_of(const std::vector<ModelInput>& sequences) {
  InputTokens longest;
  for (const ModelInput& sequence : sequences) {
    const InputTokens tokens = sequence.tokens_of_inputs();
    for (uint32_t i = 0; i < kInputsMax; ++i) longest.of[i] = std::max(longest[i], tokens[i]);
  }
  return longest;
}

SequenceRunner::SequenceRunner(const AlignedBytes& file, const InputTokens& positions,
                               KvType kv_cache)
    : model_(load_best(file)),
      chunk_(chunk_of(model_, positions)),
      session_(model_, options_of(model_, positions, chunk_, kv_cache)) {}

void SequenceRunner::begin(const ModelInput& sequence) {
  session_->reset();
  sequence_ = &sequence;
  first_ = next_ = 0;
}

bool SequenceRunner::advance() {
  first_ = next_;
  const uint32_t count = std::min(chunk_, sequence_->of(last_input(model_)).tokens - first_);
  if (count == 0) return false;
  const uint32_t last = model_.functions() - 1;
  for (uint32_t f = 0; first_ == 0 && f < last; ++f) call(f, UINT32_MAX);
  const Output output = call(last, is_stepped(model_) ? count : UINT32_MAX);
  const bool has_one_input = model_.inputs() == 1;
  const uint64_t given =
      has_one_input ? rows_given(model_, Outputs::kAll, count, first_ == 0) : output.rows;
  rows_ = CallRows(output, model_, last, given);
  // Rows joined from several inputs are all rows of tokens, none of them a prefix.
  const bool has_prefix = has_one_input ? !model_.pooled() : is_stepped(model_);
  prefix_ = has_prefix && given > count ? given - count : 0;
  next_ += count;
  return true;
}

Output SequenceRunner::call(uint32_t function, uint32_t count) {
  Diagnostic why;
  const Result<Output> output = session_->step(
      function, inputs_of_call(model_.function(function).inputs, *sequence_, first_, count), &why);
  if (output.ok()) return *output;
  char text[256];
  describe(output.status(), why, text);
  throw InputError("the model cannot be calibrated with a sequence of {} tokens: {}",
                   sequence_->tokens, text);
}

// ---- inputs of linear layers: when an op begins, a profile hook reads its input from the arena
// ----

InputWatch::InputWatch(SessionState& state, UseInputs use) : state_(state), use_(std::move(use)) {
  state_.profile = {.op_begins =
                        [](void* context, uint32_t index) {
                          static_cast<const InputWatch*>(context)->op_begins(index);
                        },
                    .context = this};
}

void InputWatch::op_begins(uint32_t index) const {
  const format::OpView& op = state_.reader.op(index);
  if (op.kind != format::OpKind::kLinear && op.kind != format::OpKind::kExperts) return;
  const Matrix inputs = state_.activation(op.views[format::kInput]);
  const uint32_t tensor = op.numbers[format::LinearOp::kTensor];
  const uint32_t columns = state_.reader.tensor(tensor).inputs;
  // The experts of a row may have their own inputs, side by side.
  for (uint32_t begin = 0; begin < inputs.columns; begin += columns) {
    use_(tensor, {inputs.data + begin, inputs.rows, columns, inputs.stride});
  }
}

void for_each_input(const AlignedBytes& file, const std::vector<ModelInput>& sequences,
                    const UseInputs& use, const std::function<void(double share)>& done) {
  if (sequences.empty()) return;
  SequenceRunner runner(file, longest_of(sequences));
  const InputWatch watch(runner.state(), use);
  for (size_t i = 0; i < sequences.size(); ++i) {
    if (done) done(static_cast<double>(i) / static_cast<double>(sequences.size()));
    runner.begin(sequences[i]);
    while (runner.advance()) continue;
  }
}

MeanSquares::MeanSquares(const AlignedBytes& file)
    : squares_(format::ModelReader(file.span()).tensors()), rows_(squares_.size()) {}

void MeanSquares::add(uint32_t tensor, const ConstMatrix& inputs) {
  squares_[tensor].resize(inputs.columns);
  rows_[tensor] += inputs.rows;
  for (uint32_t row = 0; row < inputs.rows; ++row) {
    for (uint32_t i = 0; i < inputs.columns; ++i) {
      const double value = inputs.row(row)[i];
      squares_[tensor][i] += value * value;
    }
  }
}

std::vector<std::vector<double>> MeanSquares::values() const {
  std::vector<std::vector<double>> means = squares_;
  for (size_t tensor = 0; tensor < means.size(); ++tensor) {
    for (double& square : means[tensor]) square /= static_cast<double>(rows_[tensor]);
  }
  return means;
}

InputStatistics::InputStatistics(const AlignedBytes& file, std::span<const uint32_t> tensors,
                                 uint64_t bytes_max)
    : squares_(file) {
  const format::ModelReader reader(file.span());
  for (const uint32_t tensor : tensors) {
    const uint32_t inputs = reader.tensor(tensor).inputs;
    if (!hessians_.empty() && bytes_ + Hessian::bytes(inputs) > bytes_max) break;
    bytes_ += Hessian::bytes(inputs);
    hessians_.try_emplace(tensor, inputs);
  }
}

void InputStatistics::add(uint32_t tensor, const ConstMatrix& inputs) {
  const auto found = hessians_.find(tensor);
  if (found != hessians_.end()) {
    found->second.add(inputs);
  } else {
    squares_.add(tensor, inputs);
  }
}

Hessian InputStatistics::take_hessian(uint32_t tensor) {
  return std::move(hessians_.extract(tensor).mapped());
}

std::vector<std::vector<double>> for_each_hessian(
    const AlignedBytes& file, const std::vector<ModelInput>& sequences,
    std::span<const uint32_t> tensors,
    const std::function<void(uint32_t tensor, const Hessian& hessian)>& use,
    std::optional<InputStatistics> known, uint64_t bytes_max) {
  const format::ModelReader reader(file.span());
  const auto half_of = [&](uint32_t tensor) {
    return 0.5 * static_cast<double>(Hessian::bytes(reader.tensor(tensor).inputs));
  };
  double all = 0.0, done = 0.0;
  for (const uint32_t tensor : tensors) all += 2.0 * half_of(tensor);
  const bool has_none = tensors.empty();
  std::vector<std::vector<double>> squares;
  do {
    std::optional<InputStatistics> inputs = std::exchange(known, std::nullopt);
    if (!inputs) {
      inputs.emplace(file, tensors, bytes_max);
      for_each_input(
          file, sequences,
          [&](uint32_t tensor, const ConstMatrix& rows) { inputs->add(tensor, rows); },
          [&](double share) {
            const double half = 0.5 * static_cast<double>(inputs->bytes());
            report_progress(has_none ? kMeasuring : kRounding,
                            has_none ? share : (done + share * half) / all);
          });
    }
    done += 0.5 * static_cast<double>(inputs->bytes());
    if (squares.empty()) squares = inputs->mean_squares();
    for (; inputs->hessians() != 0; tensors = tensors.subspan(1)) {
      report_progress(kRounding, done / all);
      use(tensors[0], inputs->take_hessian(tensors[0]));
      done += half_of(tensors[0]);
    }
  } while (!tensors.empty());
  return squares;
}

}  // namespace arenite::convert
