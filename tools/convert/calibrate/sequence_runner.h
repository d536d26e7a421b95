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
  // Sets hooks, which are called on this thread. REQUIRES: before begin.
  void set_profile(const ProfileHook& hook) { state().profile = hook; }
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

// Runs the model over `sequences` and passes the inputs of each linear op to `use`, chunk by chunk,
// as [tokens, inputs] with the index `tensor` of the op's matrix in the file. The rows are valid
// until `use` returns. `done` gets the share of the sequences that were run.
using UseInputs = std::function<void(uint32_t tensor, const ConstMatrix& inputs)>;
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

// Name of the conversion stage (progress.h) that computes Hessians.
inline constexpr const char* kRounding = "rounding the weights";

// Limits the memory of the Hessians that are accumulated in one run.
inline constexpr uint64_t kHessianBytesMax = uint64_t{384} << 20;

// Passes the Hessian of each of `tensors`, in their order, to `use`, accumulated over all
// sequences. A Hessian has no rows if no linear op multiplies by its tensor. Each run over the
// sequences accumulates as many Hessians as fit in `bytes_max`, at least one. Passes all inputs of
// the first run to `also`. Reports progress of kRounding: half of a run is the sequences, half is
// `use`.
void for_each_hessian(const AlignedBytes& file, const std::vector<ModelInput>& sequences,
                      const std::vector<uint32_t>& tensors,
                      const std::function<void(uint32_t tensor, const Hessian& hessian)>& use,
                      const UseInputs& also = {}, uint64_t bytes_max = kHessianBytesMax);

}  // namespace arenite::convert
