// SPDX-License-Identifier: Apache-2.0
// The mistakes of people who write attention from scratch: each is refused with the line of the
// author's file, and with what helps.
#include <gtest/gtest.h>

#include <string>

#include "convert/exported/exported_model.h"
#include "support/refusal.h"
#include "support/test_data.h"

namespace arenite::convert {
namespace {

using arenite::testing::convert_fixture;
using arenite::testing::refuses;

struct Mistake {
  const char* name;
  const char* code;  // of the author's line
  const char* why;
};

class AuthorMistakes : public ::testing::TestWithParam<Mistake> {};

TEST_P(AuthorMistakes, AreRefusedWithTheirLine) {
  const Mistake& mistake = GetParam();
  const auto path = convert_fixture("mistakes") / (std::string(mistake.name) + ".pt2");
  EXPECT_TRUE(refuses([&] { read_exported_model(path, {}); },
                      {mistake.name, "make_mistakes.py', line ", mistake.code, mistake.why}));
}

INSTANTIATE_TEST_SUITE_P(
    Exported, AuthorMistakes,
    ::testing::Values(
        Mistake{"active_dropout", "F.dropout(x, 0.1, True)", "model.eval()"},
        Mistake{"training_batch_norm", "self.norm(x.transpose(1, 2))", "model.eval()"},
        Mistake{"nonzero", "x * x.nonzero().sum()", "torch.where"},
        Mistake{"masked_select", "x.masked_select(x > 0)", "torch.where"},
        Mistake{"unknown_function", "torch.special.bessel_j0(x)", "no such op"},
        Mistake{"odd_function", "x * torch.cos(x)", "no op for this function"},
        Mistake{"wrong_mask", "masked_fill(self.mask == 0, 0.0)", "-infinity"},
        Mistake{"convolution", "self.convolution(x.transpose(1, 2))", "convolutions"},
        Mistake{"sort", "x.sort(-1)", "orders numbers"},
        Mistake{"topk", "x.topk(WIDTH, -1)", "orders numbers"},
        Mistake{"cumsum", "x.cumsum(1)", "one after the other"},
        Mistake{"random", "torch.randn_like(x)", "random numbers"},
        Mistake{"lstm", "self.lstm(x)[0]", "recurrent layers"},
        Mistake{"mixer", "self.mix(x.transpose(1, 2))", "one column of all tokens"},
        Mistake{"fft", "torch.fft.fft(x, dim=1)", "Fourier"},
        Mistake{"wrong_axis", "scores.softmax(1)", "not over keys"},
        Mistake{"linear_attention", "scores @ self.value(x)", "without a softmax over the keys"},
        Mistake{"quadratic_scores", "scores.square()", "softmax"},
        Mistake{"batch_axis", "scores.softmax(-1) @ self.value(x)", "batch_first=True"},
        Mistake{"shift", "x + x.roll(1, 1)", "elements of different tokens"},
        Mistake{"maximum_of_tokens", "x - x.amax(1, keepdim=True)", "pooled values"},
        Mistake{"forgotten", "self.attention(x, x, x, need_weights=False)", "batch_first=True"},
        Mistake{"windows", "scores.softmax(-1) @ self.value(x)", "a mask that hides"},
        Mistake{"difference", "(one - other / 2) @ self.value(x)", "a @ v - b @ v"},
        Mistake{"off_by_one", "1 + weights.sum(-1, keepdim=True)", "scores.softmax(-1)"},
        Mistake{"mask_of_ids", "hidden = ids == 0", "(ids, ids == 0)"},
        Mistake{"padded_shift", "F.pad(x, (0, 0, 1, -1))", "tokens cannot be shifted"},
        Mistake{"two_ends", "torch.cat([x[:, 0], x[:, -1]], -1)", "2 tokens of a sequence"},
        Mistake{"two_rows", "torch.stack([x, 2 * x.tanh()], 2)", "2 rows of each token"},
        Mistake{"viewed_output", "unflatten(-1, (2, 2))", "leave this last view"},
        Mistake{"patch_sine", "torch.sin(x)", "no op for this function"},
        Mistake{"scalar_output", "super().forward(ids).mean()", "one number of all tokens"},
        Mistake{"argmax_output", "super().forward(ids).argmax(-1)", "orders numbers"},
        Mistake{"complex_output", "torch.view_as_complex(", "complex numbers"}),
    [](const ::testing::TestParamInfo<Mistake>& info) { return std::string(info.param.name); });

TEST(AuthorMistake, InTheTypeOfIdsNameTheInput) {
  const auto path = convert_fixture("mistakes") / "float_ids.pt2";
  EXPECT_TRUE(refuses([&] { read_exported_model(path, {}); }, {"'ids'", "float32", "torch.int64"}));
}

TEST(AuthorMistake, InSecondInputsNameTheInputs) {
  const auto refusal_of = [](const char* name) {
    read_exported_model(convert_fixture("mistakes") / (std::string(name) + ".pt2"), {});
  };
  EXPECT_TRUE(refuses([&] { refusal_of("two_texts"); }, {"2 inputs (question, answer)"}));
  EXPECT_TRUE(refuses([&] { refusal_of("cross_attention"); }, {"2 inputs (ids, memory)"}));
  EXPECT_TRUE(refuses([&] { refusal_of("pair_mask"); },
                      {"2 inputs (ids, mask)", "generate_square_subsequent_mask(ids.size(1))"}));
  EXPECT_TRUE(refuses([&] { refusal_of("translation"); },
                      {"2 inputs (source, target)", "torch.export.export(model.encoder.eval()"}));
}

}  // namespace
}  // namespace arenite::convert
