// SPDX-License-Identifier: Apache-2.0
// Small attention modules with an input and the output that PyTorch computed in double precision,
// rounded to float32. They need no data folder.
#ifndef ARENITE_TESTS_GOLDEN_PINNED_CASES_H_
#define ARENITE_TESTS_GOLDEN_PINNED_CASES_H_

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "convert/spec/model_spec.h"
#include "convert/spec/model_tensors.h"
#include "support/model_factory.h"

namespace arenite::test {

using convert::AttentionModule;

struct PinnedCase {
  AttentionModule module;
  std::vector<float> input;   // [tokens, features]
  std::vector<float> output;  // [tokens, output features]
};

inline AttentionModule causal_module(uint32_t features, uint32_t heads, uint32_t head_dim,
                                     uint32_t value_dim, uint32_t context) {
  AttentionModule module;
  module.features = features;
  module.heads = heads;
  module.head_dim = head_dim;
  module.value_dim = value_dim;
  if (head_dim != 0) module.score_scale = 1.0 / std::sqrt(static_cast<double>(head_dim));
  module.positions_max = context;
  module.masks = {convert::band_mask(kUnlimited, 0, context)};
  module.head_masks.assign(heads, 0);
  return module;
}

inline convert::LinearSpec linear(const char* name, uint32_t outputs, uint32_t inputs,
                                  std::vector<float> weights, std::vector<double> bias) {
  return {held_weight(name, outputs, inputs, std::move(weights)), std::move(bias)};
}

// One head, no bias, no projection.
inline PinnedCase causal_attention() {
  PinnedCase pinned;
  AttentionModule& module = pinned.module;
  module = causal_module(3, 1, 2, 2, 6);
  module.query = linear(
      "query", 2, 3,
      {-0.235429645f, 0.0191244762f, -0.286745936f, 0.217726618f, -0.49193421f, 0.423223078f}, {});
  module.key = linear(
      "key", 2, 3,
      {-0.419641405f, -0.459017664f, -0.364820182f, 0.261478186f, -0.213326395f, 0.216052175f}, {});
  module.value = linear(
      "value", 2, 3,
      {-0.490014136f, -0.350292057f, -0.211989194f, -0.11346072f, -0.440439373f, 0.378043622f}, {});
  pinned.input = {0.430000007f,  0.150000006f, 0.889999986f, 0.550000012f, 0.870000005f,
                  0.660000026f,  0.569999993f, 0.850000024f, 0.639999986f, 0.219999999f,
                  0.579999983f,  0.330000013f, 0.769999981f, 0.25f,        0.100000001f,
                  0.0500000007f, 0.800000012f, 0.550000012f};
  pinned.output = {-0.451920271f, 0.221604794f,   -0.587435067f, 0.00577610871f,
                   -0.630023062f, -0.0631826073f, -0.567456722f, -0.0842531472f,
                   -0.55256182f,  -0.0980682001f, -0.529900908f, -0.108067632f};
  return pinned;
}

// Two such heads, side by side.
inline PinnedCase two_heads() {
  PinnedCase pinned;
  AttentionModule& module = pinned.module;
  module = causal_module(3, 2, 2, 2, 6);
  module.query =
      linear("query", 4, 3,
             {-0.235429645f, 0.0191244762f, -0.286745936f, 0.217726618f, -0.49193421f, 0.423223078f,
              -0.13615717f, 0.185322329f, 0.408269495f, 0.107563816f, 0.157876849f, 0.557292342f},
             {});
  module.key = linear(
      "key", 4, 3,
      {-0.419641405f, -0.459017664f, -0.364820182f, 0.261478186f, -0.213326395f, 0.216052175f,
       -0.260390401f, 0.182876408f, -0.256872445f, 0.41260317f, 0.461104512f, -0.532300949f},
      {});
  module.value = linear(
      "value", 4, 3,
      {-0.490014136f, -0.350292057f, -0.211989194f, -0.11346072f, -0.440439373f, 0.378043622f,
       0.492852628f, 0.275693059f, 0.251590222f, 0.237680584f, 0.479950726f, -0.0762330666f},
      {});
  pinned.input = {0.430000007f,  0.150000006f, 0.889999986f, 0.550000012f, 0.870000005f,
                  0.660000026f,  0.569999993f, 0.850000024f, 0.639999986f, 0.219999999f,
                  0.579999983f,  0.330000013f, 0.769999981f, 0.25f,        0.100000001f,
                  0.0500000007f, 0.800000012f, 0.550000012f};
  pinned.output = {-0.451920271f,  0.221604794f,  0.477195889f,   0.106347837f,   -0.587435067f,
                   0.00577610871f, 0.589073062f,  0.325660527f,   -0.630023062f,  -0.0631826073f,
                   0.620195925f,   0.385963023f,  -0.567456722f,  -0.0842531472f, 0.547769368f,
                   0.358924627f,   -0.55256182f,  -0.0980682001f, 0.532089472f,   0.342797369f,
                   -0.529900908f,  -0.108067632f, 0.507653475f,   0.349348515f};
  return pinned;
}

// Two heads of one dimension, and an output projection with a bias.
inline PinnedCase output_projection() {
  PinnedCase pinned;
  AttentionModule& module = pinned.module;
  module = causal_module(3, 2, 1, 1, 6);
  module.query = linear(
      "query", 2, 3,
      {-0.235429645f, 0.0191244762f, -0.286745936f, 0.217726618f, -0.49193421f, 0.423223078f}, {});
  module.key = linear(
      "key", 2, 3,
      {-0.419641405f, -0.459017664f, -0.364820182f, 0.261478186f, -0.213326395f, 0.216052175f}, {});
  module.value = linear(
      "value", 2, 3,
      {-0.490014136f, -0.350292057f, -0.211989194f, -0.11346072f, -0.440439373f, 0.378043622f}, {});
  module.output = linear("output", 2, 2, {-0.166757792f, 0.22697258f, 0.500025988f, 0.131738231f},
                         {0.193358868f, 0.682540953f});
  pinned.input = {0.430000007f,  0.150000006f, 0.889999986f, 0.550000012f, 0.870000005f,
                  0.660000026f,  0.569999993f, 0.850000024f, 0.639999986f, 0.219999999f,
                  0.579999983f,  0.330000013f, 0.769999981f, 0.25f,        0.100000001f,
                  0.0500000007f, 0.800000012f, 0.550000012f};
  pinned.output = {0.319018304f, 0.485762894f, 0.294346005f, 0.389676273f,
                   0.285574675f, 0.359277695f, 0.269263655f, 0.387326658f,
                   0.263870537f, 0.392795682f, 0.257473558f, 0.402782619f};
  return pinned;
}

// No query and key: each row is the mean of the rows so far.
inline PinnedCase causal_mean() {
  PinnedCase pinned;
  AttentionModule& module = pinned.module;
  module = causal_module(2, 1, 0, 2, 8);
  pinned.input = {1.25489998f, -0.3037f,      -0.419800013f, 1.55280006f,
                  1.06400001f, -0.352899998f, -1.76139998f,  0.265399992f,
                  1.29359996f, -1.06019998f,  -1.37489998f,  -0.00889999978f,
                  1.33630002f, -0.903199971f, 0.353899986f,  -1.31990004f};
  pinned.output = {1.25489998f,  -0.3037f,      0.417549968f,   0.624550045f,
                   0.633033335f, 0.298733354f,  0.0344249979f,  0.290400028f,
                   0.286259979f, 0.0202800147f, 0.00939999521f, 0.0154166799f,
                   0.198957145f, -0.115814269f, 0.218324989f,   -0.266324997f};
  return pinned;
}

// Biases everywhere.
inline PinnedCase gpt_tiny() {
  PinnedCase pinned;
  AttentionModule& module = pinned.module;
  module = causal_module(4, 2, 2, 2, 8);
  module.query = linear(
      "query", 4, 4,
      {-0.49573648f, -0.394430637f, -0.214157522f, -0.47304517f, -0.0283856392f, -0.439883709f,
       0.271865845f, 0.243699372f, 0.0944212079f, 0.387856662f, -0.0489686728f, 0.299490631f,
       -0.350159109f, -0.0985311866f, -0.445823073f, -0.0405947566f},
      {-0.0698527694f, 0.462302864f, 0.26057905f, -0.201893806f});
  module.key =
      linear("key", 4, 4,
             {-0.324394763f, 0.449182868f, 0.347318649f, 0.374856234f, 0.148310423f, -0.28524226f,
              0.449304998f, -0.487891316f, -0.319122791f, -0.312284827f, -0.207255304f,
              0.0996986628f, -0.378744721f, -0.385204196f, -0.239120364f, 0.305171907f},
             {-0.070935905f, 0.441834688f, 0.321218371f, 0.124667227f});
  module.value = linear(
      "value", 4, 4,
      {-0.360637903f, -0.448448122f, -0.433354199f, -0.246042609f, -0.131374061f, -0.495675564f,
       -0.234093785f, 0.00961881876f, 0.0824220777f, -0.0716794729f, -0.0566926003f, -0.325287163f,
       0.256152987f, -0.120452464f, -0.341858387f, -0.120412171f},
      {-0.179358184f, 0.416038454f, 0.214215159f, -0.222687483f});
  module.output =
      linear("output", 4, 4,
             {0.35482955f, 0.0356363654f, -0.369778275f, -0.221618652f, -0.374469757f,
              -0.414124906f, 0.0122233629f, -0.358315229f, 0.266475618f, 0.22361213f, 0.107554913f,
              0.411983013f, -0.226810038f, 0.00745612383f, 0.307235539f, 0.172831416f},
             {0.0605793595f, 0.418097556f, 0.113952696f, 0.336415589f});
  pinned.input = {0.0690987706f, 0.0691446662f, 0.048702836f,  0.528303802f, 0.924308538f,
                  0.063657999f,  0.698949993f,  0.0587593913f, 0.167717934f, 0.329498231f,
                  0.296681404f,  0.647684097f,  0.080742836f,  0.994444966f, 0.572892308f,
                  0.674305618f,  0.162242353f,  0.775930405f,  0.383253038f, 0.251229107f,
                  0.585047066f,  0.708093524f,  0.552950859f,  0.325069249f, 0.592973769f,
                  0.306536913f,  0.3307181f,    0.314239264f,  0.797896504f, 0.150512815f,
                  0.717111349f,  0.759157419f};
  pinned.output = {-0.0133174323f, 0.516749024f,  -0.0236937869f, 0.388436168f,  -0.165013105f,
                   0.679050922f,   -0.110830173f, 0.488992125f,   -0.130950153f, 0.698099792f,
                   -0.138483226f,  0.4610084f,    -0.123064302f,  0.773398399f,  -0.203725085f,
                   0.448576629f,   -0.131175533f, 0.803238153f,   -0.222874671f, 0.452501833f,
                   -0.150061503f,  0.831995487f,  -0.240214646f,  0.464123696f,  -0.156769961f,
                   0.822305799f,   -0.22956796f,  0.469841272f,   -0.164067134f, 0.830311239f,
                   -0.236803934f,  0.474142134f};
  return pinned;
}

}  // namespace arenite::test

#endif  // ARENITE_TESTS_GOLDEN_PINNED_CASES_H_
