// SPDX-License-Identifier: Apache-2.0
// Tiny encoder-decoders, saved by transformers 5 (tests/convert/data/make_encoder_decoders.py),
// give the results of transformers: in double precision, in a padded batch, token by token, and as
// the tokens of greedy generation. Fields that a family does not know are refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "convert/check/check_session.h"
#include "convert/convert.h"
#include "convert/families/tiny_models.h"
#include "convert/files/json_file.h"
#include "support/recognised.h"
#include "support/reference_models.h"
#include "support/refusal.h"
#include "support/temp_folder.h"
#include "support/test_data.h"
#include "support/test_session.h"

namespace arenite::convert {
namespace {

using namespace testing;
namespace fs = std::filesystem;
using nlohmann::json;

// The expected values are rounded, and T5's relatives compute softmax in float32 in any model.
constexpr double kReferenceError = 2e-6;
constexpr double kReferenceErrorOfT5 = 1e-5;
constexpr double kRuntimeError = 2e-5;

// Returns the sounds [sequences, bands, frames] of a JSON list as [sequences, frames, bands].
std::vector<std::vector<float>> frames_of(const json& sounds) {
  std::vector<std::vector<float>> all;
  for (const json& sound : sounds) {
    std::vector<float>& frames = all.emplace_back();
    for (size_t frame = 0; frame < sound[0].size(); ++frame) {
      for (const json& band : sound) frames.push_back(band[frame]);
    }
  }
  return all;
}

class EncoderDecoder : public ::testing::TestWithParam<const char*> {
 protected:
  const fs::path folder_ = convert_fixture("encoder_decoders") / GetParam();
  const json expected_ = read_json_value(folder_ / "expected.json");
  const std::vector<uint32_t> lengths_ = expected_["lengths"];
  const std::vector<std::vector<uint32_t>> decoder_ = expected_["decoder"];
  const bool hears_ = expected_["encoder"][0][0].is_array();
  const std::vector<std::vector<float>> sounds_ =
      hears_ ? frames_of(expected_["encoder"]) : std::vector<std::vector<float>>();
  const std::vector<std::vector<uint32_t>> texts_ =
      hears_ ? std::vector<std::vector<uint32_t>>()
             : expected_["encoder"].get<std::vector<std::vector<uint32_t>>>();
  const std::vector<double> results_ = expected_["results"];

  std::vector<double> results_of(size_t row) const {
    const size_t each = results_.size() / 2;
    const auto begin = results_.begin() + static_cast<ptrdiff_t>(row * each);
    return {begin, begin + static_cast<ptrdiff_t>(each)};
  }
  SequenceInput encoder_input(size_t row) const {
    if (hears_) return {.features = sounds_[row]};
    return {.tokens = std::span(texts_[row]).first(lengths_[row])};
  }
};

TEST_P(EncoderDecoder, GivesTheResultsOfTransformers) {
  const Recognised model = model_at(folder_);
  for (size_t row = 0; row < 2; ++row) {
    const SequenceInput inputs[] = {encoder_input(row), {.tokens = decoder_[row]}};
    EXPECT_TRUE(near(evaluate(model.graph, inputs).values, results_of(row),
                     folder_.filename().string().find("t5") != std::string::npos
                         ? kReferenceErrorOfT5
                         : kReferenceError));
  }
}

// A session of two sequences that have been encoded in one padded batch.
class Translation {
 public:
  Translation(const AlignedBytes& file, uint32_t chunk)
      : model_(file.span(), Target::kPortable), session_(*model_, options(*model_, chunk)) {}

  static SessionOptions options(const Model& model, uint32_t chunk) {
    InputTokens tokens;
    tokens.of[0] = model.input(0).positions_max;
    tokens.of[1] = model.input(1).positions_max;
    SessionOptions options = options_for_functions(model, tokens, chunk);
    options.tokens_max *= 2;
    options.others[0].tokens_max *= 2;
    options.sequences_max = 2;
    options.outputs = Outputs::kAll;
    return options;
  }
  void encode(const Input& input) {
    Diagnostic why;
    const Result<Output> output = session_->run(0, {&input, 1}, &why);
    ASSERT_TRUE(output.ok()) << test::describe(output.status(), why);
  }
  std::vector<float> step(std::span<const TokenId> ids, uint32_t tokens) {
    const Input input = TokenBatch{.ids = ids, .sequences = 2, .tokens = tokens};
    Diagnostic why;
    return test::values_of(session_->step(1, {&input, 1}, &why), why);
  }
  const Model& model() const { return *model_; }

 private:
  test::TestModel model_;
  test::TestSession session_;
};

// The conversion itself compares the runtime with the reference, sequence by sequence.
TEST_P(EncoderDecoder, PaddedBatch_TokenByToken_GivesTheResultsOfTransformers) {
  const Conversion conversion = convert_model(folder_, "tiny", {}, {Target::kPortable});
  ASSERT_TRUE(conversion.checks[0].ran);
  std::vector<TokenId> ids;
  std::vector<float> features;
  for (const auto& text : texts_) ids.insert(ids.end(), text.begin(), text.end());
  for (const auto& sound : sounds_) features.insert(features.end(), sound.begin(), sound.end());
  const Input padded =
      hears_ ? Input(Batch{.features = features, .sequences = 2, .tokens = lengths_[0]})
             : Input(TokenBatch{
                   .ids = ids, .sequences = 2, .tokens = lengths_[0], .lengths = lengths_});
  Translation whole(conversion.file, 7), stepped(conversion.file, 1);
  whole.encode(padded);
  stepped.encode(padded);
  const auto tokens = static_cast<uint32_t>(decoder_[0].size());
  std::vector<TokenId> both = decoder_[0];
  both.insert(both.end(), decoder_[1].begin(), decoder_[1].end());
  const std::vector<float> at_once = whole.step(both, tokens);
  EXPECT_TRUE(near(std::vector<double>(at_once.begin(), at_once.end()), results_, kRuntimeError));
  const size_t width = whole.model().function(1).output_features;
  for (uint32_t t = 0; t < tokens; ++t) {
    const TokenId next[] = {decoder_[0][t], decoder_[1][t]};
    const std::vector<float> rows = stepped.step(next, 1);
    for (size_t i = 0; i < rows.size(); ++i) {
      EXPECT_EQ(rows[i], at_once[(i / width * tokens + t) * width + i % width]);
    }
  }
}

TEST_P(EncoderDecoder, GreedyTokens_AreThoseOfTransformers) {
  if (!expected_.contains("greedy")) return;  // it has no logits
  const Graph graph = model_at(folder_).graph;
  const size_t vocabulary = graph.width(graph.output);
  for (size_t row = 0; row < 2; ++row) {
    const std::vector<uint32_t> ids = expected_["greedy"][row];
    const SequenceInput inputs[] = {encoder_input(row), {.tokens = ids}};
    const std::vector<double> logits = evaluate(graph, inputs).values;
    for (size_t t = 0; t + 1 < ids.size(); ++t) {
      const auto begin = logits.begin() + static_cast<ptrdiff_t>(t * vocabulary);
      EXPECT_EQ(std::max_element(begin, begin + static_cast<ptrdiff_t>(vocabulary)) - begin,
                ids[t + 1])
          << t;
    }
  }
}

TEST_P(EncoderDecoder, UnknownField_IsRefusedByName) {
  const TempFolder folder;
  json config = read_json_object(folder_ / "config.json");
  config["new_kind_of_attention"] = 7;
  folder.write("config.json", config.dump());
  fs::copy_file(folder_ / "model.safetensors", folder.path() / "model.safetensors");
  EXPECT_TRUE(refuses([&] { model_at(folder.path()); }, {"new_kind_of_attention", "unknown"}));
}

INSTANTIATE_TEST_SUITE_P(Families, EncoderDecoder,
                         ::testing::Values("t5", "t5-gated", "mt5", "mt5-bare", "umt5", "umt5-relu",
                                           "bart", "bart-scaled-bare", "mbart", "mbart-scaled",
                                           "marian", "marian-apart", "pegasus", "pegasus-scaled",
                                           "m2m_100", "m2m_100-scaled", "blenderbot",
                                           "blenderbot-scaled", "blenderbot-small",
                                           "blenderbot-small-scaled", "whisper", "whisper-relu"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

// The embedding of both stacks and of the logits is stored once.
TEST(EncoderDecoders, SharedEmbedding_IsStoredOnce) {
  for (const char* name : {"t5", "bart", "m2m_100"}) {
    const fs::path folder = convert_fixture("encoder_decoders") / name;
    const Conversion conversion = convert_model(folder, "tiny", {}, {Target::kPortable});
    EXPECT_EQ(std::ranges::count_if(conversion.program.tensors,
                                    [](const ProgramTensor& tensor) {
                                      return tensor.outputs == 23 && tensor.inputs == 12;
                                    }),
              1)
        << name;
  }
}

TEST(EncoderDecoders, OtherValuesOfFields_AreRefused) {
  const struct {
    const char* fixture;
    json fields;
    const char* why;
  } cases[] = {
      {"t5", {{"relative_attention_num_buckets", 7}}, "multiple of 4"},
      {"t5", {{"feed_forward_proj", "gated-tanhh"}}, "expected one of"},
      {"t5", {{"is_gated_act", true}}, "follows from feed_forward_proj"},
      {"bart", {{"is_encoder_decoder", false}}, "only encoder-decoders"},
      {"bart", {{"architectures", {"BartForSequenceClassification"}}}, "class with logits"},
      {"m2m_100", {{"pad_token_id", 41}}, "expected an id below"},
      {"whisper", {{"scale_embedding", true}}, "scales no embedding"},
  };
  for (const auto& each : cases) {
    const fs::path source = convert_fixture("encoder_decoders") / each.fixture;
    const TempFolder folder;
    json config = read_json_object(source / "config.json");
    config.merge_patch(each.fields);
    folder.write("config.json", config.dump());
    fs::copy_file(source / "model.safetensors", folder.path() / "model.safetensors");
    EXPECT_TRUE(refuses([&] { model_at(folder.path()); }, {each.fields.begin().key(), each.why}));
  }
}

}  // namespace
}  // namespace arenite::convert
