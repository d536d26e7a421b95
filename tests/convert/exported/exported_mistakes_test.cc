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

TEST_P(AuthorMistakes, AreRefusedWithTheLineOfTheSource) {
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
        Mistake{"wrong_mask", "masked_fill(self.mask == 0, 0.0)", "-infinity"},
        Mistake{"sort", "x.sort(-1)", "order elements by size"},
        Mistake{"topk", "x.topk(WIDTH, -1)", "order elements by size"},
        Mistake{"cumsum", "x.cumsum(1)", "one after the other"},
        Mistake{"random", "torch.randn_like(x)", "random numbers"},
        Mistake{"lstm", "self.lstm(x)[0]", "recurrent layers"},
        Mistake{"fft", "torch.fft.rfft(x, dim=2)", "Fourier"},
        Mistake{"wrong_axis", "scores.softmax(1)", "not over keys"},
        Mistake{"linear_attention", "scores @ self.value(x)", "without a softmax over the keys"},
        Mistake{"quadratic_scores", "scores.square()", "softmax"},
        Mistake{"batch_axis", "scores.softmax(-1) @ self.value(x)", "batch_first=True"},
        Mistake{"forgotten", "self.attention(x, x, x, need_weights=False)", "batch_first=True"},
        Mistake{"off_by_one", "1 + weights.sum(-1, keepdim=True)", "exp(-m)"},
        Mistake{"two_rows", "torch.stack([x, 2 * x.tanh()], 2)", "each token has 2 rows"},
        Mistake{"scalar_output", "super().forward(ids).mean()",
                "all tokens and columns are reduced to one number"},
        Mistake{"argmax_output", "super().forward(ids).argmax(-1)", "order elements by size"},
        Mistake{"complex_output", "torch.view_as_complex(", "complex values"}),
    [](const ::testing::TestParamInfo<Mistake>& info) { return std::string(info.param.name); });

TEST(AuthorMistake, FloatIdsNameTheInput) {
  const auto path = convert_fixture("mistakes") / "float_ids.pt2";
  EXPECT_TRUE(refuses([&] { read_exported_model(path, {}); }, {"'ids'", "float32", "torch.int64"}));
}

TEST(AuthorMistake, SingleColumnInputIsReported) {
  const ExportedModel model =
      read_exported_model(convert_fixture("mistakes") / "two_texts.pt2", {});
  ASSERT_EQ(model.account.given.size(), 1u);
  EXPECT_NE(model.account.given[0].find("question is columns 0 to 0"), std::string::npos);
}

}  // namespace
}  // namespace arenite::convert
