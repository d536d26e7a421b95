// SPDX-License-Identifier: Apache-2.0
// Checks the inputs of a call; after these checks a step cannot fail because of them.
#include "core/message.h"
#include "ops/attention_block.h"
#include "session/session_state.h"

namespace arenite {

Input::Input(const Batch& batch)
    : features(batch.features.data()),
      size(batch.features.size()),
      sequences(batch.sequences),
      tokens(batch.tokens),
      lengths(batch.lengths),
      visible(batch.visible),
      pairs(batch.pairs),
      outputs(batch.outputs),
      back_to_back(batch.back_to_back) {}

Input::Input(const TokenBatch& batch)
    : is_tokens(true),
      ids(batch.ids.data()),
      types(batch.types),
      size(batch.ids.size()),
      sequences(batch.sequences),
      tokens(batch.tokens),
      lengths(batch.lengths),
      visible(batch.visible),
      pairs(batch.pairs),
      outputs(batch.outputs),
      back_to_back(batch.back_to_back) {}

uint32_t Input::tokens_of(uint32_t sequence) const {
  if (!lengths.empty()) return lengths[sequence];
  if (visible.empty()) return tokens;
  uint32_t count = 0;
  for (uint32_t t = 0; t < tokens; ++t) count += visible[size_t{sequence} * tokens + t];
  return count;
}

uint32_t Input::positions_of(uint32_t sequence) const {
  if (visible.empty()) return tokens_of(sequence);
  const uint8_t* const mask = visible.data() + size_t{sequence} * tokens;
  uint32_t end = tokens;
  while (end > 0 && mask[end - 1] == 0) --end;
  return end;
}

uint32_t Input::outputs_of(uint32_t sequence) const {
  const uint8_t* flags = outputs.data() + (back_to_back ? 0 : size_t{sequence} * tokens);
  for (uint32_t before = 0; back_to_back && before < sequence; ++before) flags += lengths[before];
  uint32_t count = 0;
  for (uint32_t left = tokens_of(sequence); left != 0; --left) count += *flags++;
  return count;
}

namespace {

// Whether pairs [rows, stride] hide all keys of a row that the mask shows.
bool hides_a_row(const MaskView& mask, const uint8_t* pairs, size_t stride, uint32_t rows) {
  for (uint32_t row = 0; row < rows; ++row) {
    const KeyRange range = visible_keys(mask, row, rows);
    uint32_t seen = 0;
    for (uint32_t key = range.begin; key < range.end; ++key) seen |= pairs[row * stride + key];
    if (seen == 0) return true;
  }
  return false;
}

bool hides_a_row(const MaskView& mask, uint32_t rows) {
  if (mask.kind != MaskKind::kTiles) return false;
  for (uint32_t row = 0; row < rows; ++row) {
    if (mask.row_begin[row] >= rows) return true;
  }
  return false;
}

// Checks one input of a call, in the order of the calls in run().
class InputCheck {
 public:
  // `place` is the index of the input in the call, whose earlier inputs are already checked;
  // `number` is its index in the model.
  InputCheck(const SessionState& state, const Call& call, uint32_t place, uint32_t number,
             Diagnostic* why)
      : state_(state),
        model_(state.reader),
        call_(call),
        place_(place),
        number_(kFunctionsLinked ? number : 0),
        function_(kFunctionsLinked ? call.function : 0),
        read_(kFunctionsLinked ? model_.inputs_read(function_) : 0),
        input_(call.inputs[place]),
        sizes_(state.sizes_of(number)),
        why_(why) {}

  Status run() {
    Status status = kind();
    if (status == Status::kOk) status = form();
    if (status == Status::kOk) status = sizes();
    uint64_t total = 0;
    for (uint32_t i = 0; status == Status::kOk && i < input_.sequences; ++i) {
      status = sequence(i);
      total += input_.tokens_of(i);
    }
    if (status == Status::kOk && (total == 0 || total > sizes_.tokens_max)) {
      return refuse(why_, kInvalid, "more tokens than one call takes, or none", "batch.tokens", 0,
                    total, sizes_.tokens_max);
    }
    if (status == Status::kOk && input_.is_tokens) status = ids();
    if (status == Status::kOk && !input_.outputs.empty()) status = outputs();
    if (linked(Need::kPairMask) && status == Status::kOk) status = pairs();
    return status;
  }

 private:
  static constexpr Status kInvalid = Status::kInvalidArgument;

  Status kind() {
    const bool wants_ids = model_.vocab_size(number_) != 0;
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

  // Checks which optional spans are given, and whether they may be combined.
  Status form() {
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
      return refuse(why_, kInvalid, "a batch has lengths or a mask, not both", "batch.visible", 0,
                    0, 0);
    }
    const Checked cells = Checked(input_.sequences) * input_.tokens;
    if (input_.visible.size() != cells.value()) {
      return refuse(why_, kInvalid, "the mask is not [sequences, tokens]", "batch.visible", 0,
                    input_.visible.size(), cells.value());
    }
    for (size_t i = 0; i < input_.visible.size(); ++i) {
      if (input_.visible[i] <= 1) continue;
      return refuse(why_, kInvalid, "a mask has a value other than 0 and 1", "batch.visible",
                    static_cast<uint32_t>(i % input_.tokens), input_.visible[i], 1);
    }
    if (!model_.sees_everything(function_)) {
      return refuse(why_, Status::kUnsupported, "the model has its own mask: give lengths instead",
                    "batch.visible", 0, 0, 0);
    }
    return Status::kOk;
  }

  Status sizes() {
    const uint32_t features = input_.is_tokens ? 1 : model_.slot(model_.input_slot(number_)).width;
    Checked size = Checked(input_.sequences) * input_.tokens * features;
    if (input_.back_to_back) {
      Checked total = 0;
      for (const uint32_t length : input_.lengths) total = total + length;
      size = total * features;
    }
    const bool is_null = input_.is_tokens ? input_.ids == nullptr : input_.features == nullptr;
    if (input_.size == size.value() && !(is_null && input_.size != 0)) return Status::kOk;
    Message reason = "the features are not [sequences, tokens, input_features]";
    if (input_.is_tokens) reason = "the ids are not [sequences, tokens]";
    if (input_.back_to_back) {
      reason = "the lengths do not add up to the tokens";
    }
    if (is_null) reason = "the tokens are null";
    return refuse(why_, kInvalid, reason,
                  input_.is_tokens ? Message("batch.ids") : Message("batch.features"), 0,
                  input_.size, size.value());
  }

  Status sequence(uint32_t index) {
    const uint32_t tokens = input_.tokens_of(index);
    if (!input_.back_to_back && tokens > input_.tokens) {
      return refuse(why_, kInvalid, "a length exceeds the given tokens", "batch.lengths", index,
                    tokens, input_.tokens);
    }
    if (!input_.visible.empty() && tokens == 0) {
      return refuse(why_, kInvalid, "the mask hides a whole sequence", "batch.visible", index, 0,
                    1);
    }
    const uint32_t held = call_.from_start ? 0 : state_.tokens_held(index, number_);
    const uint32_t positions = input_.positions_of(index);
    if (positions > sizes_.positions_max - held) {
      return refuse(why_, Status::kContextFull,
                    "the tokens do not fit the positions of the session",
                    input_.visible.empty() ? Message("batch.lengths") : Message("batch.visible"),
                    index, uint64_t{held} + positions, sizes_.positions_max);
    }
    const uint32_t allowed = format::allowed_length(model_.lengths(number_), tokens);
    if (tokens != 0 && tokens != allowed) {
      return refuse(why_, kInvalid, "the model takes no sequence of this length: see InputInfo",
                    "batch.lengths", index, tokens, allowed);
    }
    if (kFunctionsLinked && (place_ != 0 || tokens != 0)) {
      const Status status = other_inputs(index, tokens);
      if (status != Status::kOk) return status;
    }
    if (state_.causal(function_)) return Status::kOk;
    if (held != 0 && tokens != 0) {
      return refuse(why_, Status::kUnsupported, "the model takes whole sequences: run each at once",
                    "batch", index, held, 0);
    }
    const bool is_last = !kFunctionsLinked || place_ + 1 == call_.inputs.size();
    return tokens == 0 || !is_last ? Status::kOk : hidden_rows(index, tokens);
  }

  // A sequence has tokens of all inputs of the call or of none, and holds all inputs that the
  // function reads.
  Status other_inputs(uint32_t index, uint32_t tokens) {
    if (place_ != 0 && (tokens != 0) != (call_.inputs[0].tokens_of(index) != 0)) {
      return refuse(why_, kInvalid, "a sequence has tokens of one input and none of another",
                    "inputs", index, tokens, call_.inputs[0].tokens_of(index));
    }
    for (uint32_t i = 0; i < model_.inputs() && tokens != 0; ++i) {
      if ((read_ >> i & 1) == 0 || state_.tokens_held(index, i) != 0) continue;
      return refuse(why_, kInvalid,
                    "the function reads an input of which the sequence has no tokens", "inputs",
                    index, 0, 1);
    }
    return Status::kOk;
  }

  // In a short sequence, a tile mask may hide every key of a query.
  Status hidden_rows(uint32_t index, uint32_t tokens) {
    if constexpr (!linked(Need::kTileMask)) return Status::kOk;
    InputTokens all = tokens;
    uint32_t place = 0;
    for (uint32_t i = 0; kFunctionsLinked && i < model_.inputs(); ++i) {
      if (model_.takes(function_, i)) all.of[i] = call_.inputs[place++].tokens_of(index);
    }
    const AxisRows rows = model_.rows_of_axes(all, 1, true);
    for (uint32_t i = model_.first_op(function_); i < model_.end_of_ops(function_); ++i) {
      const format::OpView& op = model_.op(i);
      if (op.kind != format::OpKind::kAttention) continue;
      const MaskView mask = model_.mask(op.numbers[format::AttentionOp::kMask]);
      if (hides_a_row(mask, rows[model_.whole_axis(model_.axis_of_op(i))])) {
        return refuse(why_, kInvalid, "at this length the mask hides every key of a token",
                      "batch.lengths", index, tokens, sizes_.positions_max);
      }
    }
    return Status::kOk;
  }

  // Checks the selection of output rows, which the model must leave open.
  Status outputs() {
    constexpr Message kField = "batch.outputs";
    const uint32_t axis = model_.axis_of({model_.output_slot(function_), 0, 0});
    if (format::kLinkedAxesMax == 1 || model_.kind_of_axis(axis) != AxisKind::kAsked ||
        model_.source_of_axis(axis) != model_.axis_of_input(number_)) {
      return refuse(why_, Status::kUnsupported, "the model's output rows are fixed", kField);
    }
    const uint32_t width = input_.is_tokens ? 1 : model_.slot(model_.input_slot(number_)).width;
    if (!input_.visible.empty() || input_.outputs.size() * width != input_.size) {
      return refuse(why_, kInvalid, "expected an outputs value for each token", kField, 0,
                    input_.outputs.size(), input_.size / width);
    }
    uint64_t rows = 0;
    for (uint32_t i = 0; i < input_.sequences; ++i) rows += input_.outputs_of(i);
    for (const uint8_t& output : input_.outputs) {
      if (output > 1)
        return refuse(why_, kInvalid, "outputs have a value other than 0 and 1", kField, 0, output,
                      1);
    }
    if (rows <= state_.layout.rows_max[axis]) return Status::kOk;
    return refuse(why_, kInvalid, "more rows than options.outputs allows", kField, 0, rows,
                  state_.layout.rows_max[axis]);
  }

  // Checks the pairs of all sequences, if the model takes pairs: each token must see at least one.
  Status pairs() {
    if (!model_.takes_pairs(number_)) {
      return input_.pairs.empty() ? Status::kOk
                                  : refuse(why_, Status::kUnsupported,
                                           "the model takes no pair mask", "batch.pairs");
    }
    if (input_.pairs.data() == kAllPairs) return Status::kOk;
    Checked cells = 0;
    for (uint32_t i = 0; i < input_.sequences; ++i) cells = cells + Checked(side(i)) * side(i);
    if (input_.pairs.size() != cells.value()) {
      return refuse(why_, kInvalid, "the pairs are not [sequences, tokens, tokens]", "batch.pairs",
                    0, input_.pairs.size(), cells.value());
    }
    for (const uint8_t& pair : input_.pairs) {
      if (pair <= 1) continue;
      return refuse(why_, kInvalid, "pairs have a value other than 0 and 1", "batch.pairs", 0, pair,
                    1);
    }
    const uint8_t* own = input_.pairs.data();
    for (uint32_t i = 0; i < input_.sequences; ++i) {
      for (uint32_t k = 0; k < model_.masks(); ++k) {
        const MaskView mask = model_.mask(k);
        if (!format::is_pairs(mask) || !hides_a_row(mask, own, side(i), input_.tokens_of(i))) {
          continue;
        }
        return refuse(why_, kInvalid, "the pairs hide every key of a token", "batch.pairs", i);
      }
      own += size_t{side(i)} * side(i);
    }
    return Status::kOk;
  }
  // Returns the rows and columns of the pair mask of a sequence.
  uint32_t side(uint32_t index) const {
    return input_.back_to_back ? input_.tokens_of(index) : input_.tokens;
  }

  // Checks ids and types of visible tokens. Padding may hold any values.
  Status ids() {
    const uint32_t vocabulary = model_.vocab_size(number_);
    const uint32_t types = input_.types.empty() ? 0 : model_.token_types(number_);
    if (!input_.types.empty() && types == 0) {
      return refuse(why_, Status::kUnsupported, "the model has no token types", "batch.types", 0,
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
          return refuse(why_, kInvalid, "this token type is out of range", "batch.types", t,
                        input_.types[at], uint64_t{types} - 1);
        }
      }
      begin += input_.back_to_back ? span : input_.tokens;
    }
    return Status::kOk;
  }

  const SessionState& state_;
  const format::ModelReader& model_;
  const Call& call_;
  uint32_t place_;
  uint32_t number_;
  uint32_t function_;
  uint32_t read_;  // inputs whose keys and values the function sees
  const Input& input_;
  const InputSizes& sizes_;
  Diagnostic* why_;
};

// Checks the number of inputs of a function, and whether they may be combined.
Status check_inputs_of(const SessionState& state, const Call& call, Diagnostic* why) {
  constexpr Status kInvalid = Status::kInvalidArgument;
  const format::ModelReader& model = state.reader;
  const size_t count = call.inputs.size();
  size_t taken = 0;
  for (uint32_t i = 0; i < model.inputs(); ++i) taken += model.takes(call.function, i) ? 1 : 0;
  if (count != taken) {
    return refuse(why, kInvalid, "the function takes a different number of inputs", "inputs", 0,
                  count, taken);
  }
  if (call.from_start && model.inputs_read(call.function) != 0) {
    return refuse(why, kInvalid, "the function reads inputs that a run would discard: step it",
                  "function", call.function);
  }
  for (uint32_t i = 0; i < count && count > 1; ++i) {
    const Input& input = call.inputs[i];
    if (input.sequences != call.inputs[0].sequences) {
      return refuse(why, kInvalid, "the inputs have different numbers of sequences",
                    "batch.sequences", i, input.sequences, call.inputs[0].sequences);
    }
    if (!input.visible.empty()) {
      return refuse(why, Status::kUnsupported,
                    "a mask is not supported with several inputs: give lengths", "batch.visible",
                    i);
    }
    const auto features = reinterpret_cast<uintptr_t>(input.features);
    const auto arena = reinterpret_cast<uintptr_t>(&state);
    const bool is_apart = features >= arena + state.layout.plan.total_bytes ||
                          features + input.size * sizeof(float) <= arena;
    if (input.features != nullptr && !is_apart) {
      return refuse(why, kInvalid, "features of one of several inputs lie in the arena",
                    "batch.features", i);
    }
  }
  return Status::kOk;
}

}  // namespace

// REQUIRES: the function exists and, in builds with a single function, there is one input.
Status check_call(const SessionState& state, const Call& call, Diagnostic* why) {
  if constexpr (!kFunctionsLinked) return InputCheck(state, call, 0, 0, why).run();
  Status status = check_inputs_of(state, call, why);
  uint32_t place = 0;
  for (uint32_t i = 0; i < state.reader.inputs() && status == Status::kOk; ++i) {
    if (!state.reader.takes(call.function, i)) continue;
    status = InputCheck(state, call, place++, i, why).run();
  }
  return status;
}

}  // namespace arenite
