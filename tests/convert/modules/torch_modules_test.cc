// SPDX-License-Identifier: Apache-2.0
// Compares checkpoints that PyTorch saved with PyTorch's results (data/make_torch_modules.py).
#include <gtest/gtest.h>

#include "convert/modules/attention_modules.h"
#include "convert/modules/conversion_case.h"
#include "support/test_data.h"

namespace arenite::test {
namespace {

using convert::Checkpoint;
using convert::Conversion;
using convert::MaskChoice;
using convert::ModelOptions;

struct TorchCase {
  const char* name;
  uint32_t heads;
  const char* module;  // null: all of the file
};

const TorchCase kAttentionCases[] = {{"mha", 3, nullptr},
                                     {"mha_split", 3, nullptr},
                                     {"mha_no_bias", 2, nullptr},
                                     {"mha_kdim_vdim", 4, nullptr},
                                     {"mha_vdim_no_bias", 3, nullptr},
                                     {"encoder_layer", 6, "self_attn"}};
const TorchCase kGptCase = {"gpt_conv1d", 3, "transformer.h.1.attn"};

#ifdef ARENITE_HAVE_LIBZIP
const std::vector<std::string> kFormats = {".safetensors", ".pt"};
#else
const std::vector<std::string> kFormats = {".safetensors"};
#endif

ModelOptions options_of(const TorchCase& torch, MaskChoice mask, uint32_t window = 0) {
  ModelOptions options;
  options.heads = torch.heads;
  if (torch.module != nullptr) options.module = torch.module;
  options.mask = mask;
  options.window = window;
  return options;
}

std::filesystem::path file_of(const TorchCase& torch, const std::string& suffix) {
  return testing::convert_fixture("torch") / (torch.name + suffix);
}

// Compares with the output of that name, [sequences, tokens, outputs].
::testing::AssertionResult runs_as_torch(const TorchCase& torch, const Conversion& conversion,
                                         const char* output) {
  const Checkpoint expected = Checkpoint::read(file_of(torch, ".expected.safetensors"));
  const convert::CheckpointTensor& input = *expected.find("input");
  return runs_as(conversion, input.to_f32(), static_cast<uint32_t>(input.shape[0]),
                 static_cast<uint32_t>(input.shape[1]), expected.find(output)->to_f64());
}

TEST(TorchModules, AgreeWithMultiheadAttention) {
  const struct {
    const char* output;
    MaskChoice mask;
    uint32_t window;
  } masks[] = {{"bidirectional", MaskChoice::kUnsaid, 0},
               {"bidirectional", MaskChoice::kBidirectional, 0},
               {"causal", MaskChoice::kCausal, 0},
               {"window3", MaskChoice::kWindow, 3}};
  for (const TorchCase& torch : kAttentionCases) {
    for (const std::string& format : kFormats) {
      for (const auto& mask : masks) {
        const Conversion conversion =
            convert_file(file_of(torch, format), options_of(torch, mask.mask, mask.window));
        EXPECT_EQ(conversion.module()->architecture, "torch.nn.MultiheadAttention");
        EXPECT_TRUE(runs_as_torch(torch, conversion, mask.output))
            << torch.name << format << " " << mask.output;
      }
    }
  }
}

TEST(TorchModules, AgreeWithAGptLayerOfConv1d) {
  for (const std::string& format : kFormats) {
    const Conversion conversion =
        convert_file(file_of(kGptCase, format), options_of(kGptCase, MaskChoice::kUnsaid));
    EXPECT_EQ(conversion.program.inputs[0].positions_max, 16u);
    EXPECT_TRUE(runs_as_torch(kGptCase, conversion, "causal")) << format;
  }
}

TEST(TorchModules, TakeOneInputUnlessWidthsDiffer) {
  const auto convert = [](const TorchCase& torch) {
    return convert_file(file_of(torch, ".safetensors"), options_of(torch, MaskChoice::kUnsaid));
  };
  const convert::AttentionModule one = *convert(kAttentionCases[1]).module();
  EXPECT_FALSE(one.separate_inputs);
  EXPECT_EQ(one.features, 12u);
  const convert::AttentionModule three = *convert(kAttentionCases[3]).module();
  EXPECT_TRUE(three.separate_inputs);
  EXPECT_EQ(three.features, 12u + 5u + 7u);
}

TEST(TorchModules, SeveralInACheckpointNeedAPrefix) {
  const std::filesystem::path file = file_of(kGptCase, ".safetensors");
  ModelOptions options;
  options.heads = 3;
  EXPECT_TRUE(
      testing::refuses([&] { read_attention_module(convert::open_model(file), options); },
                       {"2 modules", "'transformer.h.0.attn.'", "'transformer.h.1.attn.'"}));
}

}  // namespace
}  // namespace arenite::test
