// SPDX-License-Identifier: Apache-2.0
// Compares what this machine's kernels make of the stored tokens with what is stored beside them.
#include "session/self_test.h"

#include <cmath>

#include "core/message.h"
#include "format/reader.h"

namespace arenite {
namespace {

// What the file holds, where it lies there.
class StoredTest {
 public:
  StoredTest(const format::ModelReader& reader, std::span<const std::byte> file, TensorType kv_type)
      : layout_(format::self_test_layout(reader, reader.self_test().tokens)),
        begin_(file.data() + reader.self_test().segment.begin()),
        tolerance_(kv_type == reader.kv_cache() ? 0 : sizeof(float)),
        reads_tokens_(reader.vocab_size() != 0) {}

  // Of so many tokens.
  SelfTestInput input(uint32_t tokens) const {
    if (!reads_tokens_) return {tokens, at<float>(0), nullptr, nullptr};
    const bool has_types = layout_.types != layout_.ops;
    return {tokens, nullptr, at<TokenId>(0), has_types ? at<uint8_t>(layout_.types) : nullptr};
  }
  float tolerance(uint32_t op) const {
    return *at<float>(layout_.tolerances_of_op(op) + tolerance_);
  }
  float digest(uint32_t op, uint32_t token) const {
    return *at<float>(layout_.digest_of(op, token));
  }
  float output_tolerance() const { return *at<float>(layout_.output + tolerance_); }
  const float* output() const { return at<float>(layout_.output) + format::kSelfTestTolerances; }

 private:
  template <typename T>
  const T* at(uint64_t offset) const {
    return reinterpret_cast<const T*>(begin_ + offset);
  }

  format::SelfTestLayout layout_;
  const std::byte* begin_;
  uint64_t tolerance_;  // in bytes: which of those of an op
  bool reads_tokens_;
};

// Keeps the difference that takes up most of its tolerance, or the first that is beyond it.
class Comparison {
 public:
  explicit Comparison(const format::ModelReader& reader) : reader_(reader) {
    result_.passed = true;
  }

  // False once the test has failed; NaN fails.
  bool compare(uint32_t op, uint32_t token, float found, float expected, float tolerance) {
    const float difference = std::fabs(found - expected);
    const bool passes = difference <= tolerance;
    if (!passes || is_closer(difference, tolerance)) {
      result_.passed = passes;
      result_.op_index = op;
      result_.op_name = op < reader_.ops() ? reader_.op_name(op) : "output";
      result_.token = token;
      result_.difference = difference;
      result_.tolerance = tolerance;
    }
    return passes;
  }

  const SelfTest& result() const { return result_; }

 private:
  bool is_closer(float difference, float tolerance) const {
    return result_.op_name == nullptr ||
           difference * result_.tolerance > result_.difference * tolerance;
  }

  const format::ModelReader& reader_;
  SelfTest result_;
};

}  // namespace

[[gnu::noinline]] Status begin_self_test_call(SessionState& state, const SelfTestInput& input,
                                              uint32_t begin, uint32_t count, Diagnostic* why) {
  const bool from_start = begin == 0;
  if (input.ids == nullptr) {
    if constexpr (format::linked(format::OpKind::kPatches)) {
      if (state.reader.reads_images()) {
        const size_t pixels = static_cast<size_t>(state.reader.image_patches().pixels().value());
        return state.begin(StepInput(Batch{{input.features, pixels}, 1, 0}), from_start, why);
      }
    }
    const size_t width = state.reader.slot(state.reader.input_slot()).width;
    const Batch batch{{input.features + begin * width, count * width}, 1, count};
    return state.begin(StepInput(batch), from_start, why);
  }
  TokenBatch batch{{input.ids + begin, count}, 1, count};
  if (input.types != nullptr) batch.types = {input.types + begin, count};
  return state.begin(StepInput(batch), from_start, why);
}

Result<SelfTest> Session::self_test(Diagnostic* why) {
  clear(why);
  SessionState& state = SessionState::of(this);
  const uint32_t tokens = state.reader.self_test().tokens;
  if (tokens == 0) {
    return refuse(why, Status::kUnsupported, "the file has no self-test: convert it with one",
                  "self_test");
  }
  if (state.layout.positions_max < tokens) {
    return refuse(why, Status::kInvalidArgument, "the session is too small for the self-test",
                  "options.positions_max", 0, state.layout.positions_max, tokens);
  }
  const StoredTest stored(state.reader, state.model.file(), state.layout.kv_type);
  Comparison comparison(state.reader);
  const Status status =
      run_self_test(state, stored.input(tokens), why,
                    [&](uint32_t op, uint32_t token, std::span<const float> row) {
                      return comparison.compare(op, token, format::digest_of_row(row),
                                                stored.digest(op, token), stored.tolerance(op));
                    });
  if (status != Status::kOk) return status;
  const Output output = state.results();
  for (uint32_t i = 0; i < output.features && comparison.result().passed; ++i) {
    (void)comparison.compare(state.reader.ops(), tokens - 1, output.row(output.rows - 1)[i],
                             stored.output()[i], stored.output_tolerance());
  }
  reset();
  return comparison.result();
}

}  // namespace arenite
