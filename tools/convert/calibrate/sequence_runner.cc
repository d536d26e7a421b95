// SPDX-License-Identifier: Apache-2.0
// Errors of a model that was just made are bugs; of a sequence they are the input's.
#include "convert/calibrate/sequence_runner.h"

#include <algorithm>
#include <span>

#include "arenite/image.h"
#include "convert/files/error.h"

namespace arenite::convert {
namespace {

// Tokens of a causal model that are run at once: enough for the kernels' speed, and few enough for
// logits over a large vocabulary.
constexpr uint32_t kPieceTokens = 128;

uint32_t piece_of(const Model& model, uint32_t positions) {
  return model.causal() ? std::min(kPieceTokens, positions) : positions;
}

SessionOptions options_of(uint32_t positions, uint32_t piece, KvType kv_cache) {
  SessionOptions options;
  options.positions_max = positions;
  options.tokens_max = piece;
  options.outputs = Outputs::kAll;
  options.kv_cache = kv_cache;
  return options;
}

}  // namespace

uint32_t longest_of(const std::vector<CalibrationSequence>& sequences) {
  uint32_t longest = 0;
  for (const CalibrationSequence& sequence : sequences) {
    longest = std::max(longest, sequence.tokens);
  }
  return longest;
}

SequenceRunner::SequenceRunner(const AlignedBytes& file, uint32_t positions, KvType kv_cache)
    : model_(load_best(file)),
      piece_(piece_of(model_, positions)),
      session_(model_, options_of(positions, piece_, kv_cache)) {}

void SequenceRunner::begin(const CalibrationSequence& sequence) {
  session_->reset();
  sequence_ = &sequence;
  first_ = next_ = 0;
}

bool SequenceRunner::advance() {
  first_ = next_;
  const uint32_t count = std::min(piece_, sequence_->tokens - first_);
  if (count == 0) return false;
  Diagnostic why;
  const auto step = [&] {
    if (!sequence_->ids.empty()) {
      const auto ids = std::span(sequence_->ids).subspan(first_, count);
      return session_->step(TokenBatch{ids, 1, count}, &why);
    }
    if (image_shape(model_).channels != 0) return session_->step(sequence_->features, &why);
    const size_t width = model_.input_features();
    const auto rows = std::span(sequence_->features).subspan(first_ * width, count * width);
    return session_->step(Batch{rows, 1, count}, &why);
  };
  const Result<Output> output = step();
  if (!output.ok()) {
    char text[256];
    describe(output.status(), why, text);
    throw InputError("the model cannot be calibrated with a sequence of {} tokens: {}",
                     sequence_->tokens, text);
  }
  const uint64_t given = rows_given(model_, Outputs::kAll, count, first_ == 0);
  rows_ = CallRows(*output, model_, given);
  prefix_ = model_.pooled() ? 0 : given - count;
  next_ += count;
  return true;
}

}  // namespace arenite::convert
