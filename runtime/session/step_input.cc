// SPDX-License-Identifier: Apache-2.0
// All checks of what a call brings: after them nothing fails.
#include "session/session_state.h"

#include "core/message.h"

namespace arenite {

StepInput::StepInput(const Batch& batch)
    : features(batch.features.data()),
      size(batch.features.size()),
      sequences(batch.sequences),
      tokens(batch.tokens),
      lengths(batch.lengths),
      visible(batch.visible),
      back_to_back(batch.back_to_back) {}

StepInput::StepInput(const TokenBatch& batch)
    : is_tokens(true),
      ids(batch.ids.data()),
      types(batch.types),
      size(batch.ids.size()),
      sequences(batch.sequences),
      tokens(batch.tokens),
      lengths(batch.lengths),
      visible(batch.visible),
      back_to_back(batch.back_to_back) {}

uint32_t StepInput::tokens_of(uint32_t sequence) const {
  if (!lengths.empty()) return lengths[sequence];
  if (visible.empty()) return tokens;
  uint32_t count = 0;
  for (uint32_t t = 0; t < tokens; ++t) count += visible[size_t{sequence} * tokens + t];
  return count;
}

uint32_t StepInput::positions_of(uint32_t sequence) const {
  if (visible.empty()) return tokens_of(sequence);
  const uint8_t* const mask = visible.data() + size_t{sequence} * tokens;
  uint32_t end = tokens;
  while (end > 0 && mask[end - 1] == 0) --end;
  return end;
}

namespace {

// A tile mask may show a query nothing but keys that a short sequence does not have.
bool hides_a_row(const MaskView& mask, uint32_t rows) {
  if (mask.kind != MaskKind::kTiles) return false;
  for (uint32_t row = 0; row < rows; ++row) {
    if (mask.row_begin[row] >= rows) return true;
  }
  return false;
}

// The checks of one call, in the order that `run` gives.
class InputCheck {
 public:
  InputCheck(const SessionState& state, const StepInput& input, Diagnostic* why)
      : state_(state), model_(state.reader), input_(input), why_(why) {}

  Status run(bool from_start) {
    Status status = kind();
    if (status == Status::kOk) status = form();
    if (status == Status::kOk) status = sizes();
    uint64_t total = 0;
    for (uint32_t i = 0; status == Status::kOk && i < input_.sequences; ++i) {
      status = sequence(i, from_start);
      total += input_.tokens_of(i);
    }
    if (status == Status::kOk && (total == 0 || total > state_.layout.tokens_max)) {
      return refuse(why_, kInvalid, "more tokens than one call takes, or none", "batch.tokens", 0,
                    total, state_.layout.tokens_max);
    }
    if (status == Status::kOk && input_.is_tokens) status = ids();
    return status;
  }

 private:
  static constexpr Status kInvalid = Status::kInvalidArgument;

  Status kind() {
    const bool wants_ids = model_.vocab_size() != 0;
    if (wants_ids != input_.is_tokens) {
      return refuse(why_, kInvalid,
                    wants_ids ? Message("the model reads tokens, not features")
                              : Message("the model reads features, not tokens"),
                    "batch", 0, 0, 0);
    }
    if (input_.sequences == 0 || input_.sequences > state_.layout.sequences_max) {
      return refuse(why_, kInvalid, "more sequences than the session holds, or none",
                    "batch.sequences", 0, input_.sequences, state_.layout.sequences_max);
    }
    return Status::kOk;
  }

  // Which of the optional spans are there, and whether they go together.
  Status form() {
    if constexpr (format::linked(format::OpKind::kPatches)) {
      const bool is_whole =
          input_.lengths.empty() && input_.visible.empty() && !input_.back_to_back;
      if (model_.reads_images() && !is_whole) {
        return refuse(why_, kInvalid, "images have no lengths and no mask: each is a sequence",
                      "batch.lengths", 0, 0, 0);
      }
    }
    if (!input_.lengths.empty() && input_.lengths.size() != input_.sequences) {
      return refuse(why_, kInvalid, "each sequence needs a length", "batch.lengths", 0,
                    input_.lengths.size(), input_.sequences);
    }
    if (input_.back_to_back && input_.lengths.empty()) {
      return refuse(why_, kInvalid, "sequences back to back need their lengths", "batch.lengths", 0,
                    0, input_.sequences);
    }
    if (!input_.types.empty() && input_.types.size() != input_.size) {
      return refuse(why_, kInvalid, "each id needs a type", "batch.types", 0, input_.types.size(),
                    input_.size);
    }
    if (input_.visible.empty()) return Status::kOk;
    if (!input_.lengths.empty()) {
      return refuse(why_, kInvalid, "a mask stands instead of lengths", "batch.visible", 0, 0, 0);
    }
    const Checked cells = Checked(input_.sequences) * input_.tokens;
    if (input_.visible.size() != cells.value()) {
      return refuse(why_, kInvalid, "the mask is not [sequences, tokens]", "batch.visible", 0,
                    input_.visible.size(), cells.value());
    }
    for (size_t i = 0; i < input_.visible.size(); ++i) {
      if (input_.visible[i] <= 1) continue;
      return refuse(why_, kInvalid, "a mask holds ones and zeros", "batch.visible",
                    static_cast<uint32_t>(i % input_.tokens), input_.visible[i], 1);
    }
    if (!model_.sees_everything()) {
      return refuse(why_, Status::kUnsupported, "the model has its own mask: give lengths instead",
                    "batch.visible", 0, 0, 0);
    }
    return Status::kOk;
  }

  Status sizes() {
    if constexpr (format::linked(format::OpKind::kPatches)) {
      if (model_.reads_images()) return images();
    }
    const uint32_t features = input_.is_tokens ? 1 : model_.slot(model_.input_slot()).width;
    Checked size = Checked(input_.sequences) * input_.tokens * features;
    if (input_.back_to_back) {
      Checked total = 0;
      for (const uint32_t length : input_.lengths) total = total + length;
      size = total * features;
    }
    if (input_.size == size.value()) return Status::kOk;
    Message reason = "the features are not [sequences, tokens, input_features]";
    if (input_.is_tokens) reason = "the ids are not [sequences, tokens]";
    if (input_.back_to_back) {
      reason = "the lengths do not add up to the tokens";
    }
    return refuse(why_, kInvalid, reason,
                  input_.is_tokens ? Message("batch.ids") : Message("batch.features"), 0,
                  input_.size, size.value());
  }

  Status images() {
    const ImagePatches patches = model_.image_patches();
    if (input_.tokens != patches.patches().value()) {
      return refuse(why_, kInvalid, "a sequence has as many tokens as an image has patches",
                    "batch.tokens", 0, input_.tokens, patches.patches().value());
    }
    const Checked size = Checked(input_.sequences) * patches.pixels();
    if (input_.size == size.value()) return Status::kOk;
    return refuse(why_, kInvalid, "the images are not [sequences, channels, height, width]",
                  "batch.features", 0, input_.size, size.value());
  }

  Status sequence(uint32_t index, bool from_start) {
    const uint32_t tokens = input_.tokens_of(index);
    if (!input_.back_to_back && tokens > input_.tokens) {
      return refuse(why_, kInvalid, "a length is beyond the tokens given", "batch.lengths", index,
                    tokens, input_.tokens);
    }
    if (!input_.visible.empty() && tokens == 0) {
      return refuse(why_, kInvalid, "the mask hides a whole sequence", "batch.visible", index, 0,
                    1);
    }
    const uint32_t held = from_start ? 0 : state_.tokens_held(index);
    const uint32_t positions = input_.positions_of(index);
    if (positions > state_.layout.positions_max - held) {
      return refuse(why_, Status::kContextFull,
                    "the tokens do not fit the positions of the session",
                    input_.visible.empty() ? Message("batch.lengths") : Message("batch.visible"),
                    index, uint64_t{held} + positions, state_.layout.positions_max);
    }
    if (tokens != 0 && tokens < model_.tokens_min()) {
      return refuse(why_, kInvalid, "the model is of longer sequences alone", "batch.lengths",
                    index, tokens, model_.tokens_min());
    }
    if (state_.causal) return Status::kOk;
    if (held != 0 && tokens != 0) {
      return refuse(why_, Status::kUnsupported, "the model takes whole sequences: run each at once",
                    "batch", index, held, 0);
    }
    for (uint32_t m = 0; m < model_.masks(); ++m) {
      const uint32_t rows = tokens == 0 ? 0 : tokens + state_.layout.prefix_rows;
      if (hides_a_row(model_.mask(m), rows)) {
        return refuse(why_, kInvalid, "at this length the mask hides every key of a token",
                      "batch.lengths", index, tokens, state_.layout.positions_max);
      }
    }
    return Status::kOk;
  }

  // Ids and types of the tokens that count. Padding may be anything.
  Status ids() {
    const uint32_t vocabulary = model_.vocab_size();
    const uint32_t types = model_.token_types();
    if (!input_.types.empty() && types == 0) {
      return refuse(why_, Status::kUnsupported, "the model knows no token types", "batch.types", 0,
                    input_.types.size(), 0);
    }
    size_t begin = 0;
    for (uint32_t i = 0; i < input_.sequences; ++i) {
      const uint32_t span = input_.positions_of(i);
      for (uint32_t t = 0; t < span; ++t) {
        const size_t at = begin + t;
        if (!input_.visible.empty() && input_.visible[at] == 0) continue;
        if (input_.ids[at] >= vocabulary) {
          return refuse(why_, kInvalid, "a token is not in the vocabulary", "batch.ids", t,
                        input_.ids[at], uint64_t{vocabulary} - 1);
        }
        if (!input_.types.empty() && input_.types[at] >= types) {
          return refuse(why_, kInvalid, "the model does not know this token type", "batch.types", t,
                        input_.types[at], uint64_t{types} - 1);
        }
      }
      begin += input_.back_to_back ? span : input_.tokens;
    }
    return Status::kOk;
  }

  const SessionState& state_;
  const format::ModelReader& model_;
  const StepInput& input_;
  Diagnostic* why_;
};

}  // namespace

Status check_input(const SessionState& state, const StepInput& input, bool from_start,
                   Diagnostic* why) {
  return InputCheck(state, input, why).run(from_start);
}

}  // namespace arenite
