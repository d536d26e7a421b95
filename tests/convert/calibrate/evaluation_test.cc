// SPDX-License-Identifier: Apache-2.0
// Perplexities agree with public reference programs, and comparisons with plain loops.
#include "convert/calibrate/evaluation.h"
#include "convert/calibrate/own_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "convert/calibrate/sequence_runner.h"
#include "convert/check/check_session.h"
#include "convert/convert.h"
#include "convert/program/writer.h"
#include "convert/quantize/gptq.h"
#include "support/decoder_factory.h"
#include "support/encoder_factory.h"
#include "support/random.h"
#include "support/temp_folder.h"
#include "support/test_data.h"

namespace arenite::convert {
namespace {

using Change = std::function<std::vector<float>(uint32_t tensor, std::vector<float> weights)>;

// The program with other weights in its matrices.
AlignedBytes changed(Program program, const Change& change) {
  for (uint32_t i = 0; i < program.tensors.size(); ++i) {
    ProgramTensor& tensor = program.tensors[i];
    if (tensor.layout != format::Layout::kGemm) continue;
    if (tensor.weights.empty()) tensor.weights = tensor.load().copy();
    tensor.weights = change(i, std::move(tensor.weights));
  }
  return write_model(program, parse_targets("native"));
}

AlignedBytes shaken(const Program& program, float limit) {
  test::Random random(3);
  return changed(program, [&](uint32_t, std::vector<float> weights) {
    for (float& weight : weights) weight += random.symmetric(limit);
    return weights;
  });
}

CalibrationSet text_of(std::initializer_list<uint32_t> lengths, uint32_t vocab_size) {
  CalibrationSet set;
  for (const uint32_t length : lengths) {
    set.held_out.push_back({test::random_ids(length, vocab_size, length), {}, length});
  }
  return set;
}

std::vector<float> run_whole(const AlignedBytes& file, const ModelInput& sequence) {
  CheckSession session(file, load_best(file).target(), sequence.tokens, Outputs::kAll);
  return session.run(sequence);
}

std::vector<double> probabilities(std::span<const float> logits) {
  double total = 0.0;
  std::vector<double> result;
  for (const float logit : logits) total += result.emplace_back(std::exp(double{logit}));
  for (double& value : result) value /= total;
  return result;
}

double cosine_of(std::span<const float> a, std::span<const float> b) {
  double ab = 0.0, aa = 0.0, bb = 0.0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += double{a[i]} * b[i];
    aa += double{a[i]} * a[i];
    bb += double{b[i]} * b[i];
  }
  return ab / std::sqrt(aa) / std::sqrt(bb);
}

TEST(ModelComparison, AModelDoesNotDifferFromItself) {
  const AlignedBytes file = test::make_decoder_model(test::all_decoders().front());
  const ModelComparison same = compare_models(file, file, text_of({70, 12, 2}, 37));
  EXPECT_EQ(same.sequences, 3u);
  EXPECT_EQ(same.rows, 84u);
  EXPECT_TRUE(same.has_perplexity);
  EXPECT_EQ(same.reference.tokens, 81u);
  EXPECT_EQ(same.reference.mean_nll, same.other.mean_nll);
  EXPECT_EQ(same.perplexity_increase(), 0.0);
  EXPECT_EQ(same.mean_kl, 0.0);
  EXPECT_EQ(same.top1_agreement, 1.0);
  EXPECT_NEAR(same.output_cosine, 1.0, 1e-12);
  ASSERT_EQ(same.hidden_cosines.size(), 3u);  // the embedding and two layers
  for (const double cosine : same.hidden_cosines) EXPECT_NEAR(cosine, 1.0, 1e-12);
}

// The sequences are long enough to run in several chunks.
TEST(ModelComparison, ComparesDecodersAsPlainLoopsDo) {
  const Program program = test::decoder_program(test::ring_decoder());
  const AlignedBytes reference = write_model(program, parse_targets("native"));
  const AlignedBytes other = shaken(program, 0.2f);
  const CalibrationSet set = text_of({300, 40}, program.inputs[0].vocab_size);
  double kl = 0.0, cosines = 0.0, nll_before = 0.0, nll_after = 0.0;
  size_t same = 0, rows = 0, scored = 0;
  for (const ModelInput& sequence : set.held_out) {
    const std::vector<float> before = run_whole(reference, sequence);
    const std::vector<float> after = run_whole(other, sequence);
    for (uint32_t t = 0; t < sequence.tokens; ++t, ++rows) {
      const size_t width = program.inputs[0].vocab_size;
      const auto a = std::span(before).subspan(t * width, width);
      const auto b = std::span(after).subspan(t * width, width);
      const std::vector<double> p = probabilities(a);
      const std::vector<double> q = probabilities(b);
      for (size_t i = 0; i < width; ++i) kl += p[i] * std::log(p[i] / q[i]);
      cosines += cosine_of(a, b);
      if (std::max_element(p.begin(), p.end()) - p.begin() ==
          std::max_element(q.begin(), q.end()) - q.begin()) {
        ++same;
      }
      if (t + 1 == sequence.tokens) continue;
      nll_before -= std::log(p[sequence.ids[t + 1]]);
      nll_after -= std::log(q[sequence.ids[t + 1]]);
      ++scored;
    }
  }
  const ModelComparison found = compare_models(reference, other, set);
  const double count = static_cast<double>(rows);
  EXPECT_EQ(found.rows, rows);
  EXPECT_EQ(found.reference.tokens, scored);
  EXPECT_NEAR(found.mean_kl, kl / count, 1e-9);
  EXPECT_GT(found.mean_kl, 1e-3);
  EXPECT_NEAR(found.top1_agreement, static_cast<double>(same) / count, 1e-12);
  EXPECT_LT(found.top1_agreement, 1.0);
  EXPECT_NEAR(found.output_cosine, cosines / count, 1e-9);
  EXPECT_NEAR(found.reference.mean_nll, nll_before / static_cast<double>(scored), 1e-9);
  EXPECT_NEAR(found.other.mean_nll, nll_after / static_cast<double>(scored), 1e-9);
  EXPECT_NEAR(found.perplexity_increase(), found.other.value() / found.reference.value() - 1.0,
              1e-12);
  EXPECT_EQ(perplexity_of(other, set.held_out).mean_nll, found.other.mean_nll);
}

// An error in one layer is seen in the hidden states from there on.
TEST(ModelComparison, HiddenStatesTellWhereTheErrorBegins) {
  const Program program = test::decoder_program(test::all_decoders().front());
  const AlignedBytes reference = write_model(program, parse_targets("native"));
  test::Random random(3);
  const AlignedBytes other = changed(program, [&](uint32_t tensor, std::vector<float> weights) {
    const std::string& name = program.tensors[tensor].name;
    if (name.find('1') == std::string::npos) return weights;  // of the second layer
    for (float& weight : weights) weight += random.symmetric(0.2f);
    return weights;
  });
  const ModelComparison found = compare_models(reference, other, text_of({60, 40}, 37));
  ASSERT_EQ(found.hidden_cosines.size(), 3u);
  EXPECT_NEAR(found.hidden_cosines[0], 1.0, 1e-12);
  EXPECT_NEAR(found.hidden_cosines[1], 1.0, 1e-12);
  EXPECT_LT(found.hidden_cosines[2], 0.999);
}

TEST(ModelComparison, ClassifiersHaveProbabilitiesAndVectorsAlone) {
  size_t classifiers = 0, others = 0;
  for (const test::EncoderShape& shape : test::all_encoders()) {
    const Program program = test::encoder_program(shape);
    const AlignedBytes reference = write_model(program, parse_targets("native"));
    const Model model = load_best(reference);
    const CalibrationSet set = random_inputs(model);
    const ModelComparison found = compare_models(reference, shaken(program, 0.1f), set);
    EXPECT_FALSE(found.has_perplexity) << shape.name;
    EXPECT_EQ(found.has_probabilities, model.labels() > 1) << shape.name;
    (found.has_probabilities ? classifiers : others) += 1;
    EXPECT_EQ(found.rows,
              model.pooled() ? set.held_out.size() : CalibrationSet::tokens_of(set.held_out));
    EXPECT_GT(found.output_cosine, 0.3) << shape.name;
    EXPECT_LE(found.output_cosine, 1.0) << shape.name;
    if (found.has_probabilities) {
      EXPECT_GT(found.mean_kl, 0.0) << shape.name;
    }
  }
  EXPECT_GT(classifiers, 0u);
  EXPECT_GT(others, 0u);
}

TEST(ModelComparison, ReportsNonFiniteResults) {
  const Program program = test::decoder_program(test::all_decoders().front());
  const AlignedBytes reference = write_model(program, parse_targets("native"));
  const AlignedBytes other = changed(program, [&](uint32_t, std::vector<float> weights) {
    weights[0] = std::numeric_limits<float>::quiet_NaN();
    return weights;
  });
  const ModelComparison found = compare_models(reference, other, text_of({60}, 37));
  EXPECT_TRUE(std::isnan(found.mean_kl));
  EXPECT_TRUE(std::isnan(found.output_cosine));
  EXPECT_TRUE(std::isnan(found.perplexity_increase()));
  EXPECT_TRUE(std::isnan(found.hidden_cosines.back()));
  EXPECT_FALSE(std::isnan(found.reference.mean_nll));
}

class RealText : public ::testing::Test {
 protected:
  static std::filesystem::path real() { return testing::collection_folder() / "real"; }

  static Conversion story(const std::string& name) {
    if (name == "story-656k")
      return convert_model(real() / name, name, {}, parse_targets("native"));
    ConvertOptions options;
    options.tokenizer = real() / "stories260k/tok512.bin";
    return convert_model(real() / "stories260k/stories260K.bin", name, options,
                         parse_targets("native"));
  }
};

TEST_F(RealText, PerplexitiesEqualThoseOfTheReferencePrograms) {
  ARENITE_NEEDS_DATA(real() / "perplexity.json");
  const nlohmann::json all = nlohmann::json::parse(testing::read_bytes(real() / "perplexity.json"));
  for (const std::string name : {"story-656k", "stories260k"}) {
    const Conversion conversion = story(name);
    CalibrationSet set =
        read_calibration({real() / "eval_stories.txt"}, load_best(conversion.file));
    ASSERT_EQ(set.held_out.size(), 1u);
    std::vector<ModelInput> lines = set.fitted;
    lines.push_back(set.held_out[0]);
    EXPECT_EQ(lines[0].ids, all[name]["first_line_ids"].get<std::vector<TokenId>>());
    const Perplexity found = perplexity_of(conversion.file, lines);
    EXPECT_EQ(found.tokens, all[name]["tokens_scored"].get<uint64_t>());
    EXPECT_NEAR(found.mean_nll, all[name]["mean_nll"].get<double>(), 2e-6);
    EXPECT_NEAR(found.value(), all[name]["perplexity"].get<double>(), 5e-5);
  }
}

// Rounds weights to q4 for text that the model wrote.
TEST_F(RealText, CompensatedRoundingLosesMuchLessThanRounding) {
  ARENITE_NEEDS_DATA(real() / "eval_stories.txt");
  const Conversion conversion = story("stories260k");
  const CalibrationSet own = write_own_text(conversion.file);
  const format::ModelReader reader(conversion.file.span());
  std::map<uint32_t, std::vector<float>> rounded, compensated;
  std::vector<uint32_t> tensors;
  for (uint32_t op = 0; op + 1 < reader.ops(); ++op) {  // but the output matrix
    if (reader.op(op).kind != format::OpKind::kLinear) continue;
    const uint32_t tensor = reader.op(op).numbers[format::LinearOp::kTensor];
    if (fits(TensorType::kQ4, reader.tensor(tensor).inputs)) tensors.push_back(tensor);
  }
  EXPECT_EQ(tensors.size(), 15u);  // of 20; `down` is 172 wide
  Program program = conversion.program;
  for_each_hessian(
      conversion.file, own.fitted, tensors, [&](uint32_t tensor, const Hessian& hessian) {
        const ProgramTensor& from = program.tensors[tensor];
        const Floats weights = from.weights.empty() ? from.load() : Floats(from.weights);
        GptqReport report;
        compensated[tensor] = dequantize(
            quantize_gptq(weights, from.outputs, from.inputs, TensorType::kQ4, hessian, &report));
        EXPECT_TRUE(report.compensated);
        rounded[tensor] = dequantize(quantize(weights, from.outputs, from.inputs, TensorType::kQ4));
      });
  const auto with = [&](const std::map<uint32_t, std::vector<float>>& matrices) {
    return changed(program, [&](uint32_t tensor, std::vector<float> weights) {
      const auto found = matrices.find(tensor);
      return found == matrices.end() ? weights : found->second;
    });
  };
  CalibrationSet stories =
      read_calibration({real() / "eval_stories.txt"}, load_best(conversion.file));
  stories.held_out.insert(stories.held_out.end(), stories.fitted.begin(), stories.fitted.end());
  const ModelComparison plain = compare_models(conversion.file, with(rounded), stories);
  const ModelComparison better = compare_models(conversion.file, with(compensated), stories);
  RecordProperty("rounding_kl", std::to_string(plain.mean_kl));
  RecordProperty("gptq_kl", std::to_string(better.mean_kl));
  EXPECT_LE(better.mean_kl, 0.8 * plain.mean_kl);
  EXPECT_LE(better.perplexity_increase(), 0.07);
  EXPECT_GT(plain.mean_kl, 0.01);
}

}  // namespace
}  // namespace arenite::convert
