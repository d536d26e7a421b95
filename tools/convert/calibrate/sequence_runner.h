// SPDX-License-Identifier: Apache-2.0
// Runs a model file over sequences, in chunks where the model allows it, which bounds the memory of
// per-token outputs. Also observes the inputs of a float32 model's linear layers.
//
//   SequenceRunner runner(file, longest_of(sequences));
//   runner.begin(sequences[0]);
//   while (runner.advance()) use(runner.row(0));
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "arenite/session.h"
#include "convert/calibrate/calibration_set.h"
#include "convert/check/check_session.h"
#include "convert/files/memory.h"
#include "convert/quantize/gptq.h"
#include "core/views.h"
#include "session/session_state.h"

namespace arenite::convert {

// Returns the maximum number of tokens of any sequence, for each input.
InputTokens longest_of(const std::vector<ModelInput>& sequences);

class SequenceRunner {
 public:
  // Takes sequences of at most `positions` tokens, and runs them on all cores. `file` must outlive
  // the runner.
  SequenceRunner(const AlignedBytes& file, const InputTokens& positions,
                 KvType kv_cache = KvType::kOfModel);

  const Model& model() const { return model_; }
  SessionState& state() { return SessionState::of(&*session_); }
  // Sets a hook, which is called on this thread. REQUIRES: before begin.
  void set_hidden_states(const HiddenStateHook& hook) { state().hidden_states = hook; }

  // Starts a sequence. REQUIRES: `sequence` outlives the calls of advance.
  void begin(const ModelInput& sequence);
  // Runs the next chunk; the first call also runs all functions but the last. Returns false if no
  // chunk is left. Throws InputError if the model cannot take the sequence.
  bool advance();
  // Output of the last chunk: one row per token of the last function's input, or a single row if
  // the model pools.
  size_t rows() const { return rows_.size() - prefix_; }
  std::span<const float> row(size_t index) { return rows_[prefix_ + index]; }
  uint32_t first_token() const { return first_; }  // of the last chunk
  uint32_t tokens() const { return next_ - first_; }

 private:
  // Runs a function on tokens [first_, first_ + count) of its inputs, or on all that remain.
  Output call(uint32_t function, uint32_t count);

  Model model_;
  uint32_t chunk_ = 0;  // tokens per call
  ConvertedSession session_;
  const ModelInput* sequence_ = nullptr;
  uint32_t first_ = 0;
  uint32_t next_ = 0;
  CallRows rows_;
  size_t prefix_ = 0;  // constant rows of the model before those of its first tokens
};

// Gets the inputs of a linear op, [rows, inputs], and the index `tensor` of its matrix in the file.
// The rows are valid until it returns.
using UseInputs = std::function<void(uint32_t tensor, const ConstMatrix& inputs)>;

// Passes the inputs of the linear ops of a session to `use`, as long as it lives.
class InputWatch {
 public:
  InputWatch(SessionState& state, UseInputs use);
  ~InputWatch() { state_.profile = {}; }
  InputWatch(const InputWatch&) = delete;

 private:
  void op_begins(uint32_t index) const;

  SessionState& state_;
  UseInputs use_;
};

// Runs the model over `sequences` and passes the inputs of each linear op to `use`, chunk by chunk.
// `done` gets the share of the sequences that were run.
void for_each_input(const AlignedBytes& file, const std::vector<ModelInput>& sequences,
                    const UseInputs& use, const std::function<void(double share)>& done = {});

// Mean squares of the inputs of each tensor of a file.
class MeanSquares {
 public:
  explicit MeanSquares(const AlignedBytes& file);

  void add(uint32_t tensor, const ConstMatrix& inputs);
  // Returns [tensors][inputs]; empty for tensors that no linear op multiplies by.
  std::vector<std::vector<double>> values() const;

 private:
  std::vector<std::vector<double>> squares_;
  std::vector<uint64_t> rows_;
};

// Limits the memory of the Hessians that are accumulated in one run.
inline constexpr uint64_t kHessianBytesMax = uint64_t{384} << 20;

// Hessians of some tensors, and mean squares of the inputs of the others.
class InputStatistics {
 public:
  // Has the Hessians of the first of `tensors`: as many as fit in `bytes_max`, at least one.
  InputStatistics(const AlignedBytes& file, std::span<const uint32_t> tensors,
                  uint64_t bytes_max = kHessianBytesMax);

  void add(uint32_t tensor, const ConstMatrix& inputs);
  size_t hessians() const { return hessians_.size(); }  // that were not taken
  uint64_t bytes() const { return bytes_; }             // of all Hessians
  Hessian take_hessian(uint32_t tensor);
  // Returns [tensors][inputs]; empty for tensors with a Hessian and for those that no linear op
  // multiplies by.
  std::vector<std::vector<double>> mean_squares() const { return squares_.values(); }

 private:
  std::map<uint32_t, Hessian> hessians_;
  uint64_t bytes_ = 0;
  MeanSquares squares_;
};

// Name of the conversion stage (progress.h) that computes Hessians.
inline constexpr const char* kRounding = "rounding the weights";

// Passes the Hessian of each of `tensors`, in their order, to `use`, accumulated over all
// sequences. A Hessian has no rows if no linear op multiplies by its tensor. Each run over the
// sequences accumulates as many Hessians as fit in `bytes_max`; `known` takes the place of the
// first run. Returns the mean squares of the first run, also if there are no tensors. Reports
// progress of kRounding: half of a run is the sequences, half is `use`.
std::vector<std::vector<double>> for_each_hessian(
    const AlignedBytes& file, const std::vector<ModelInput>& sequences,
    std::span<const uint32_t> tensors,
    const std::function<void(uint32_t tensor, const Hessian& hessian)>& use,
    std::optional<InputStatistics> known = {}, uint64_t bytes_max = kHessianBytesMax);

}  // namespace arenite::convert
