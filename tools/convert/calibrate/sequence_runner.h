// SPDX-License-Identifier: Apache-2.0
// Runs a model file over sequences, in pieces where it can be, so that what it gives for each token
// takes little memory; and watches what a float32 model feeds to its linear layers.
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

// The longest of all sequences, in tokens of each input.
InputTokens longest_of(const std::vector<ModelInput>& sequences);

class SequenceRunner {
 public:
  // For sequences of up to so many tokens. `file` must outlive it.
  SequenceRunner(const AlignedBytes& file, const InputTokens& positions,
                 KvType kv_cache = KvType::kOfModel);

  const Model& model() const { return model_; }
  SessionState& state() { return SessionState::of(&*session_); }
  // Hooks, which are called on this thread. Before begin.
  void set_profile(const ProfileHook& hook) { state().profile = hook; }
  void set_hidden_states(const HiddenStateHook& hook) { state().hidden_states = hook; }

  // Starts a sequence anew. REQUIRES: it outlives what follows.
  void begin(const ModelInput& sequence);
  // Runs the next piece; before the first one all functions but the last. False when there was none
  // left. Throws InputError where the model cannot take the sequence.
  bool advance();
  // What the last piece gave: a row for each of its tokens, of the last function's input, or, where
  // the model pools, one.
  size_t rows() const { return rows_.size() - prefix_; }
  std::span<const float> row(size_t index) { return rows_[prefix_ + index]; }
  uint32_t first_token() const { return first_; }  // of that piece
  uint32_t tokens() const { return next_ - first_; }

 private:
  // Tokens [first_, first_ + count) of its inputs, or all that are left.
  Output call(uint32_t function, uint32_t count);

  Model model_;
  uint32_t piece_ = 0;  // tokens at once
  ConvertedSession session_;
  const ModelInput* sequence_ = nullptr;
  uint32_t first_ = 0;
  uint32_t next_ = 0;
  CallRows rows_;
  size_t prefix_ = 0;  // rows of the model's own before those of its first tokens
};

// Runs the model of `file` over `sequences`, and shows the inputs of each linear op, piece by
// piece: [tokens, inputs] for the matrix `tensor` of the file. The rows are gone when the function
// returns. `done` gets the share of the sequences that were run.
void for_each_input(const AlignedBytes& file, const std::vector<ModelInput>& sequences,
                    const std::function<void(uint32_t tensor, const ConstMatrix& inputs)>& use,
                    const std::function<void(double share)>& done = {});

// Mean squares of the inputs of each tensor of the file, column by column; none where a tensor is
// not a matrix that a linear op multiplies with.
std::vector<std::vector<double>> mean_squares_of_inputs(const AlignedBytes& file,
                                                        const std::vector<ModelInput>& sequences);

// The stage of a conversion (progress.h) that Hessians are for.
inline constexpr const char* kRounding = "rounding the weights";

// Memory of Hessians that are summed in one pass.
inline constexpr uint64_t kHessianBytesMax = uint64_t{256} << 20;

// The Hessian of each of `tensors`, in their order, over all sequences; one of a tensor that no
// linear op multiplies with has no rows. As many at a time as fit in `bytes_max`, at least one:
// the text is run as often as it takes. Tells how far kRounding is: half of a run is the text, half
// what `use` does with the Hessians.
void for_each_hessian(const AlignedBytes& file, const std::vector<ModelInput>& sequences,
                      const std::vector<uint32_t>& tensors,
                      const std::function<void(uint32_t tensor, const Hessian& hessian)>& use,
                      uint64_t bytes_max = kHessianBytesMax);

}  // namespace arenite::convert
