// SPDX-License-Identifier: Apache-2.0
// Errors of a model that was just made are bugs; of a sequence they are the input's.
#include "convert/calibrate/sequence_runner.h"

#include <algorithm>
#include <span>
#include <stdexcept>

#include "arenite/image.h"
#include "convert/check/check_session.h"
#include "convert/files/error.h"

namespace arenite::convert {
namespace {

// Tokens of a causal model that are run at once: enough for the kernels' speed, and few enough for
// logits over a large vocabulary.
constexpr uint32_t kPieceTokens = 128;

[[noreturn]] void fail(const char* what, Status status, const Diagnostic& why) {
  char text[256];
  describe(status, why, text);
  throw std::logic_error(fmt::format("the model does not {}: {}; this is a bug", what, text));
}

}  // namespace

uint32_t longest_of(const std::vector<CalibrationSequence>& sequences) {
  uint32_t longest = 0;
  for (const CalibrationSequence& sequence : sequences) {
    longest = std::max(longest, sequence.tokens);
  }
  return longest;
}

Model load_best(const AlignedBytes& file) {
  Diagnostic why;
  const Result<Model> model = Model::load(file.span(), &why);
  if (!model.ok()) fail("load", model.status(), why);
  return *model;
}

SequenceRunner::SequenceRunner(const AlignedBytes& file, uint32_t positions, KvType kv_cache)
    : model_(load_best(file)) {
  const bool in_pieces = model_.causal() && !model_.pooled();
  piece_ = in_pieces ? std::min(kPieceTokens, positions) : positions;
  SessionOptions options;
  options.positions_max = positions;
  options.tokens_max = piece_;
  options.outputs = Outputs::kAll;
  options.kv_cache = kv_cache;
  Diagnostic why;
  const Result<ArenaPlan> plan = plan_arena(model_, options, &why);
  if (!plan.ok()) fail("plan", plan.status(), why);
  arena_ = AlignedBytes(plan->total_bytes);
  const Result<Session*> session = Session::create(model_, options, arena_.span(), &why);
  if (!session.ok()) fail("start", session.status(), why);
  session_ = *session;
}

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
  output_ = *output;
  next_ += count;
  return true;
}

}  // namespace arenite::convert
