// SPDX-License-Identifier: Apache-2.0
// Compares the results of this machine's kernels for the stored tokens with the stored results.
#include "session/self_test.h"

#include <cmath>
#include <type_traits>

#include "core/message.h"
#include "format/reader.h"
#include "ops/integer_rows.h"

namespace arenite {
namespace {

// Views of a stored self-test in the model file.
class StoredTest {
 public:
  StoredTest(const format::ModelReader& reader, std::span<const std::byte> file, TensorType kv_type)
      : reader_(reader),
        layout_(format::self_test_layout(reader, reader.self_test().tokens)),
        begin_(file.data() + reader.self_test().segment.begin()),
        tolerance_(kv_type == reader.kv_cache() ? 0 : sizeof(float)) {}

  // Returns the data of one input for a test of `tokens` tokens.
  SelfTestInput input(const format::ModelReader& reader, uint32_t index, uint32_t tokens) const {
    const uint32_t own = format::self_test_tokens(reader, index, tokens);
    const uint64_t begin = layout_.inputs[index];
    if (reader.vocab_size(index) == 0) return {own, at<float>(begin), nullptr, nullptr};
    const bool has_types = reader.token_types(index) != 0;
    return {own, nullptr, at<TokenId>(begin),
            has_types ? at<uint8_t>(layout_.types[index]) : nullptr};
  }
  float tolerance(uint32_t op) const { return *at<float>(begin_of(op) + tolerance_); }
  float digest(uint32_t op, uint32_t row) const {
    return at<float>(begin_of(op))[format::kSelfTestTolerances + row];
  }
  float output_tolerance(uint32_t function) const {
    return *at<float>(layout_.outputs[function] + tolerance_);
  }
  const float* output(uint32_t function) const {
    return at<float>(layout_.outputs[function]) + format::kSelfTestTolerances;
  }

 private:
  template <typename T>
  const T* at(uint64_t offset) const {
    return reinterpret_cast<const T*>(begin_ + offset);
  }
  uint64_t begin_of(uint32_t op) const { return layout_.tolerances_of_op(reader_, op); }

  const format::ModelReader& reader_;
  format::SelfTestLayout layout_;
  const std::byte* begin_;
  uint64_t tolerance_;  // bytes: selects one of the tolerances of an op
};

// Keeps the difference closest to its tolerance, or the first one beyond it.
class Comparison {
 public:
  explicit Comparison(const format::ModelReader& reader) : reader_(reader) {
    result_.passed = true;
  }

  // Returns false once the test has failed. NaN fails.
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

namespace {

// Returns the tokens [begin, begin + count) of an input.
Input part_of(const format::ModelReader& reader, const SelfTestInput& input, uint32_t index,
              uint32_t begin, uint32_t count) {
  if (input.ids == nullptr) {
    const size_t width = reader.slot(reader.input_slot(index)).width;
    return Batch{{input.features + begin * width, count * width}, 1, count};
  }
  TokenBatch batch{{input.ids + begin, count}, 1, count};
  if (input.types != nullptr) batch.types = {input.types + begin, count};
  return batch;
}

}  // namespace

[[gnu::noinline]] Status begin_self_test_call(SessionState& state, uint32_t function,
                                              const SelfTestInputs& inputs, uint32_t begin,
                                              uint32_t count, Diagnostic* why) {
  Input parts[std::extent_v<decltype(inputs.of)>];
  uint32_t place = 0;
  for (uint32_t i = 0; i < state.reader.inputs(); ++i) {
    if (!state.reader.takes(function, i)) continue;
    // With several inputs, each input gets all of its tokens in one call.
    const uint32_t own = place == 0 ? count : inputs.of[i].tokens;
    parts[place] = part_of(state.reader, inputs.of[i], i, begin, own);
    if constexpr (linked(Need::kPairMask)) parts[place].pairs = {kAllPairs, size_t{0}};
    ++place;
  }
  return state.begin({function, {parts, place}, function == 0 && begin == 0, true}, why);
}

Result<SelfTest> Session::self_test(Diagnostic* why) {
  clear(why);
  SessionState& state = SessionState::of(this);
  const uint32_t tokens = state.reader.self_test().tokens;
  if (tokens == 0) {
    return refuse(why, Status::kUnsupported, "the file has no self-test: convert it with one",
                  "self_test");
  }
  if constexpr (kRowsAreIntegers) {
    return refuse(why, Status::kUnsupported, "self-tests need a build with float rows",
                  "self_test");
  }
  const StoredTest stored(state.reader, state.model.file(), state.layout.kv_type);
  SelfTestInputs inputs;
  for (uint32_t i = 0; i < state.reader.inputs(); ++i) {
    inputs.of[i] = stored.input(state.reader, i, tokens);
    const uint32_t positions_max = state.sizes_of(i).positions_max;
    if (positions_max >= inputs.of[i].tokens) continue;
    return refuse(why, Status::kInvalidArgument, "the session is too small for the self-test",
                  "options.positions_max", i, positions_max, inputs.of[i].tokens);
  }
  Comparison comparison(state.reader);
  const auto compare_row = [&](uint32_t op, uint32_t token, std::span<const float> row) {
    return comparison.compare(op, token, format::digest_of_row(row), stored.digest(op, token),
                              stored.tolerance(op));
  };
  const auto compare_output = [&](uint32_t of, const Output& output) {
    for (uint32_t i = 0; i < output.features && comparison.result().passed; ++i) {
      (void)comparison.compare(state.reader.ops(), tokens - 1, output.row(output.rows - 1)[i],
                               stored.output(of)[i], stored.output_tolerance(of));
    }
    return comparison.result().passed;
  };
  const Status status = run_self_test(state, inputs, why, compare_row, compare_output);
  if (status != Status::kOk) return status;
  reset();
  return comparison.result();
}

}  // namespace arenite
