// SPDX-License-Identifier: Apache-2.0
// One table of the promise of the same bits: every kind of model, fed in every way. With the same
// kernels, a sequence gives the bits of one call on one thread, whatever the threads and the order
// of their tasks, the chunks, the other sequences, the form of the batch and the slices.
#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "convert/program/program.h"
#include "convert/program/writer.h"
#include "runtime/session/encoder_fixture.h"
#include "runtime/session/rows_fixture.h"
#include "support/few_bits_models.h"
#include "support/pool.h"
#include "support/slow_builds.h"
#include "support/smallest_slice.h"

namespace arenite::test {
namespace {

constexpr uint32_t kWhole = UINT32_MAX;
constexpr uint32_t kWholeStep = UINT32_MAX;
constexpr size_t kWays = kSampled ? 11 : 22;     // 11: with each pool once
constexpr size_t kEveryWay = kEmulated ? 5 : 1;  // the first and the last of 11 or 6 among them

// A row of the table. The test feeds three sequences: a long one, a single token, and one in
// between.
struct Kind {
  std::string name;
  std::function<convert::AlignedBytes(Target)> file;
  std::vector<uint32_t> lengths = {37, 1, 18};
  std::vector<uint32_t> chunks = {1, 3, 8, kWhole};  // for models that are fed in steps
  bool takes_masks = false;                          // as a form of batch
  size_t ways = kWays;                               // that are tried
};

enum class Placement { kPadded, kBackToBack, kMasked };

// How the sequences are fed.
struct Way {
  Pool* pool = nullptr;  // null: one thread
  uint32_t chunk = kWhole;
  Placement placement = Placement::kPadded;
  uint32_t slices = kWholeStep;  // the smallest ones, between two looks
  bool is_alone = false;         // one after the other, in a session with room for all
  bool is_reversed = false;      // the last sequence first

  std::string text() const {
    return "chunk " + std::to_string(chunk) + ", placement " +
           std::to_string(static_cast<int>(placement)) + ", slices " + std::to_string(slices) +
           (is_alone ? ", alone" : "") + (is_reversed ? ", reversed" : "");
  }
};

// Pools of one to eight threads, each with tasks in every op, in schedules that are rare on a
// machine.
std::deque<Pool>& pools_of_all_orders() {
  static std::deque<Pool> all;
  if (all.empty()) {
    for (uint32_t threads = 1; threads <= 8; ++threads) all.emplace_back(threads, Order::kAssigned);
    all.emplace_back(3, Order::kConcurrent);
    all.emplace_back(2, Order::kReversed);
    all.emplace_back(3, Order::kShuffled);
  }
  return all;
}

// Combines each pool with all other choices, as their counts share no divisor with the number of
// pools.
Way way_of(const Kind& kind, size_t index) {
  constexpr uint32_t kOps[] = {kWholeStep, 1, 5};
  const size_t placements = kind.takes_masks ? 3 : 2;
  Way way;
  way.pool = &pools_of_all_orders()[index % pools_of_all_orders().size()];
  way.chunk = kind.chunks[index % kind.chunks.size()];
  way.placement = static_cast<Placement>((index + index / 11) % placements);
  way.slices = kOps[index / 2 % 3];
  way.is_reversed = index / 3 % 2 == 1;
  way.is_alone = index % 5 == 4 && way.placement != Placement::kMasked;  // which hides no whole one
  return way;
}

// The values of a sequence: ids with types, or features.
struct Fed {
  EncoderInput input;
  uint32_t tokens = 0;
};

using Results = std::vector<std::vector<float>>;  // of each sequence

class SameBits : public testing::TestWithParam<Target> {
 protected:
  void TearDown() override { RecordProperty("ways", static_cast<int>(ways_)); }
  void expect_same_bits(const std::vector<Kind>& kinds) {
    for (const Kind& kind : kinds) {
      const TestModel model(kind.file(GetParam()).span(), GetParam());
      const std::vector<Fed> fed = sequences_for(kind, *model);
      Results expected;
      for (const Fed& one : fed) expected.push_back(alone(*model, one));
      for (size_t i = 0; i < kind.ways; i += kEveryWay) {
        const Way way = way_of(kind, i);
        const Results found = feed(*model, fed, way);
        for (size_t s = 0; s < fed.size(); ++s) {
          ASSERT_TRUE(same_bits(found[s], expected[s]))
              << kind.name << ", sequence " << s << ", pool " << i % pools_of_all_orders().size()
              << ", " << way.text();
        }
        ++ways_;
      }
    }
  }

 private:
  static std::vector<Fed> sequences_for(const Kind& kind, const Model& model);
  static std::vector<float> alone(const Model& model, const Fed& fed);
  static Results feed(const Model& model, const std::vector<Fed>& fed, const Way& way);

  size_t ways_ = 0;  // in which models were fed, with the same bits
};
ARENITE_FOR_EACH_FLOAT_SET(SameBits);

std::vector<Fed> SameBits::sequences_for(const Kind& kind, const Model& model) {
  const ImageShape image = image_shape(model);
  std::vector<Fed> all;
  for (const uint32_t length : kind.lengths) {
    Fed fed;
    const uint64_t seed = 5 + all.size();
    fed.tokens = image.channels != 0 ? image.tokens() : length;
    if (model.vocab_size() == 0) {
      fed.input.features_per_token = model.input_features();
      fed.input.features = random_floats(size_t{fed.tokens} * model.input_features(), seed);
    } else {
      fed.input.ids = random_ids(length, model.vocab_size(), seed);
      for (uint32_t i = 0; i < length && model.token_types() != 0; ++i) {
        fed.input.types.push_back(static_cast<uint8_t>((i + seed) % model.token_types()));
      }
    }
    all.push_back(std::move(fed));
  }
  return all;
}

SessionOptions options_of(uint32_t positions, uint32_t sequences) {
  SessionOptions options = options_for(positions, sequences);
  options.outputs = Outputs::kAll;
  return options;
}

// The batch as the model reads it.
template <typename Call>
auto with_batch(const EncoderInput& input, const BatchForm& form, Call call) {
  if (input.features_per_token != 0) {
    return call(Batch{input.features, form.sequences, form.tokens, form.lengths, form.visible,
                      form.back_to_back});
  }
  return call(TokenBatch{input.ids, form.sequences, form.tokens, form.lengths, form.visible,
                         form.back_to_back, input.types});
}

std::vector<float> SameBits::alone(const Model& model, const Fed& fed) {
  const TestSession session(model, options_of(fed.tokens, 1));
  return values_of(run_batch(*session, fed.input, {1, fed.tokens}));
}

// A call: tokens [begin, begin + length) of each sequence, in the form of the way.
struct CallInput {
  EncoderInput input;
  BatchForm form;
};

CallInput call_of(const std::vector<Fed>& fed, const std::vector<uint32_t>& begins,
                  const std::vector<uint32_t>& lengths, Placement placement) {
  CallInput call;
  call.form.sequences = static_cast<uint32_t>(fed.size());
  call.form.tokens = *std::ranges::max_element(lengths);
  call.input.features_per_token = fed[0].input.features_per_token;
  const bool is_dense = placement == Placement::kBackToBack;
  for (size_t s = 0; s < fed.size(); ++s) {
    EncoderInput part = fed[s].input.part(begins[s], lengths[s]);
    if (!is_dense) {
      // Fills the padding with values that must not be read.
      const size_t width = part.features_per_token;
      if (width != 0) part.features.resize(call.form.tokens * width, NAN);
      if (width == 0) part.ids.resize(call.form.tokens, kNoToken);
      if (!fed[s].input.types.empty()) part.types.resize(call.form.tokens, 255);
    }
    call.input.append(part);
    for (uint32_t t = 0; placement == Placement::kMasked && t < call.form.tokens; ++t) {
      call.form.visible.push_back(t < lengths[s] ? 1 : 0);
    }
  }
  call.form.back_to_back = is_dense;
  if (is_dense) call.form.tokens = 0;
  if (placement != Placement::kMasked) call.form.lengths = lengths;
  return call;
}

// Returns the results of a call, made in slices if the way has them.
std::vector<float> give(Session& session, const CallInput& call, const Way& way, bool is_step) {
  Diagnostic why;
  if (way.slices == kWholeStep) {
    return with_batch(call.input, call.form, [&](const auto& batch) {
      return values_of(is_step ? session.step(batch, &why) : session.run(batch, &why), why);
    });
  }
  const Status status = with_batch(call.input, call.form, [&](const auto& batch) {
    return is_step ? session.begin_step(batch, &why) : session.begin_run(batch, &why);
  });
  EXPECT_EQ(status, Status::kOk) << describe(status, why);
  for (uint32_t left = 1; left != 0;) left = *advance_least(session, way.slices);
  return values_of(session.output());
}

Results SameBits::feed(const Model& model, const std::vector<Fed>& fed, const Way& way) {
  const size_t count = fed.size();
  const bool has_steps = model.causal() && way.chunk != kWhole;
  uint32_t longest = 0;
  for (const Fed& one : fed) longest = std::max(longest, one.tokens);
  const uint32_t chunk = has_steps ? way.chunk : longest;
  SessionOptions options = options_of(longest, static_cast<uint32_t>(count));
  options.tokens_max = chunk * static_cast<uint32_t>(count);
  if (way.pool != nullptr) options.parallel = way.pool->parallel_for();
  const TestSession session(model, options);
  // The sequences in the order of the batch.
  std::vector<Fed> placed = fed;
  if (way.is_reversed) std::ranges::reverse(placed);
  std::vector<uint32_t> begins(count, 0);
  Results found(count);
  const auto is_done = [&] {
    for (size_t s = 0; s < count; ++s) {
      if (begins[s] < placed[s].tokens) return false;
    }
    return true;
  };
  while (!is_done()) {
    std::vector<uint32_t> lengths(count, 0);
    for (size_t s = 0; s < count; ++s) {
      lengths[s] = std::min(chunk, placed[s].tokens - begins[s]);
      if (way.is_alone && lengths[s] != 0) break;
    }
    const std::vector<float> values =
        give(*session, call_of(placed, begins, lengths, way.placement), way, has_steps);
    // Each sequence that got tokens has a row of its own, or one for each token and each constant.
    size_t at = 0;
    for (size_t s = 0; s < count; ++s) {
      if (lengths[s] == 0) continue;
      const size_t rows = model.pooled() ? 1 : lengths[s];
      const size_t width = rows * model.output_features();
      EXPECT_LE(at + width, values.size());
      if (at + width > values.size()) return found;
      found[s].insert(found[s].end(), values.begin() + static_cast<ptrdiff_t>(at),
                      values.begin() + static_cast<ptrdiff_t>(at + width));
      at += width;
      begins[s] += lengths[s];
    }
    EXPECT_EQ(at, values.size());
  }
  if (way.is_reversed) std::ranges::reverse(found);
  return found;
}

TEST_P(SameBits, ForAttentionModules) {
  std::vector<Kind> kinds;
  for (const ModuleSpec& spec : all_specs()) {
    kinds.push_back({spec.name, [spec](Target target) { return make_model(spec, {target}); }});
  }
  for (const FewBitsModel& of_type : few_bits_modules()) {
    kinds.push_back({of_type.name, [of_type](Target target) {
                       return convert::write_model(of_type.program(), {target});
                     }});
  }
  expect_same_bits(kinds);
}

TEST_P(SameBits, ForDecoders) {
  std::vector<Kind> kinds;
  for (const DecoderShape& shape : all_decoders()) {
    kinds.push_back(
        {shape.name, [shape](Target target) { return make_decoder_model(shape, {target}); }});
  }
  expect_same_bits(kinds);
}

// Compares sequences longer than a ring buffer of two pages with a cache that holds everything.
TEST_P(SameBits, ForRings) {
  std::vector<Kind> kinds;
  for (const char* const name : {"ring", "int8_ring"}) {
    for (const DecoderShape& shape : all_decoders()) {
      if (shape.name != name) continue;
      kinds.push_back({shape.name,
                       [shape](Target target) { return make_decoder_model(shape, {target}); },
                       {2 * kPagePositions + 130, 1, kPagePositions + 9},
                       {60, 97, 131},
                       false,
                       6});
    }
  }
  ASSERT_EQ(kinds.size(), 2u);
  expect_same_bits(kinds);
}

TEST_P(SameBits, ForEncodersAndClassifiers) {
  std::vector<Kind> kinds;
  for (const EncoderShape& shape : all_encoders()) {
    kinds.push_back(
        {shape.name, [shape](Target target) { return make_encoder_model(shape, {target}); }});
  }
  for (const FewBitsModel& of_type : few_bits_encoder_models()) {
    kinds.push_back({of_type.name, [of_type](Target target) {
                       return convert::write_model(of_type.program(), {target});
                     }});
  }
  for (Kind& kind : kinds) kind.takes_masks = true;
  expect_same_bits(kinds);
}

TEST_P(SameBits, ForImages) {
  const auto file = [](Target target) {
    const Form form = {false, true, SelectKind::kMean, 1};
    return convert::write_model(convert::compile(graph_of(form), "images"), {target});
  };
  expect_same_bits({{"images", file}});
}

}  // namespace
}  // namespace arenite::test
