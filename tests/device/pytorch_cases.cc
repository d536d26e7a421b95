// SPDX-License-Identifier: Apache-2.0
// PyTorch's results in double precision are stored with the weights.
#include "device/pytorch_cases.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "convert/check/pack_model.h"
#include "convert/convert.h"
#include "convert/files/checkpoint.h"
#include "golden/pinned_cases.h"

namespace arenite::device {
namespace {

using Path = std::filesystem::path;
using Targets = std::vector<Target>;
using convert::MaskChoice;

constexpr double kPinnedError = 5e-7;    // as the ordinary tests have it
constexpr double kRelativeError = 2e-5;  // as a share of the largest output

struct TorchModule {
  const char* name;
  uint32_t heads;
  const char* module;    // prefix of its parameters
  const char* expected;  // tensor with the output
  MaskChoice mask;
  uint32_t window;
};

constexpr TorchModule kModules[] = {
    {"mha", 3, "", "causal", MaskChoice::kCausal, 0},
    {"mha_split", 3, "", "window3", MaskChoice::kWindow, 3},
    {"mha_kdim_vdim", 4, "", "bidirectional", MaskChoice::kBidirectional, 0},
    {"encoder_layer", 6, "self_attn", "bidirectional", MaskChoice::kUnsaid, 0},
    {"gpt_conv1d", 3, "transformer.h.1.attn", "causal", MaskChoice::kCausal, 0},
};

// Those that read no types of tokens, which these tests have none of.
constexpr const char* kEncoders[] = {"distilbert_sequence", "roberta_sequence", "torch_features",
                                     "torch_tokens"};

double tolerance_of(std::span<const double> expected) {
  double largest = 1.0;
  for (const double value : expected) largest = std::max(largest, std::abs(value));
  return kRelativeError * largest;
}

void add_pinned(VectorWriter& writer, const Targets& targets) {
  const std::pair<const char*, test::PinnedCase> cases[] = {
      {"pinned causal attention", test::causal_attention()},
      {"pinned two heads", test::two_heads()},
      {"pinned output projection", test::output_projection()},
      {"pinned causal mean", test::causal_mean()},
      {"pinned gpt", test::gpt_tiny()}};
  for (const auto& [name, pinned] : cases) {
    const convert::AlignedBytes file = convert::pack_model(
        convert::compile(convert::build_graph(pinned.module), name), targets, name);
    NewModelCase one = {name, writer.file(file.span()), file.span()};
    one.tokens = static_cast<uint32_t>(pinned.input.size() / pinned.module.features);
    one.features = pinned.input;
    one.expected.assign(pinned.output.begin(), pinned.output.end());
    one.tolerance = kPinnedError;
    writer.model_case(one);
  }
}

// The first two dimensions of the input.
void set_input(NewModelCase& batch, const convert::CheckpointTensor& input) {
  batch.sequences = static_cast<uint32_t>(input.shape.at(0));
  batch.tokens = static_cast<uint32_t>(input.shape.at(1));
  if (input.dtype == convert::DType::kF32) {
    batch.features = input.to_f32();
  } else {
    for (const int64_t id : input.to_i64()) batch.ids.push_back(static_cast<TokenId>(id));
  }
}

void add_module(VectorWriter& writer, const Path& folder, const TorchModule& torch,
                const Targets& targets) {
  const std::string name = torch.name;
  convert::ModelOptions options;
  options.heads = torch.heads;
  options.module = torch.module;
  options.mask = torch.mask;
  options.window = torch.window;
  const convert::Conversion model =
      convert::convert_model(folder / (name + ".safetensors"), name, {.source = options}, targets);
  const auto expected = convert::Checkpoint::read(folder / (name + ".expected.safetensors"));
  NewModelCase batch = {name, writer.file(model.file.span()), model.file.span()};
  set_input(batch, *expected.find("input"));
  batch.expected = expected.find(torch.expected)->to_f64();
  batch.tolerance = tolerance_of(batch.expected);
  writer.model_case(batch);
}

void add_encoder(VectorWriter& writer, const Path& folder, const std::string& name,
                 const Targets& targets) {
  const convert::Conversion model = convert::convert_model(folder, name, {}, targets);
  const auto expected = convert::Checkpoint::read(folder / "expected.safetensors");
  NewModelCase batch = {name, writer.file(model.file.span()), model.file.span()};
  set_input(batch, *expected.find("input"));
  for (const int64_t length : expected.find("lengths")->to_i64()) {
    batch.lengths.push_back(static_cast<uint32_t>(length));
  }
  batch.expected = expected.find("values")->to_f64();
  batch.tolerance = tolerance_of(batch.expected);
  writer.model_case(batch);
}

}  // namespace

void add_pytorch_cases(VectorWriter& writer, const Path& fixtures, const Targets& targets) {
  add_pinned(writer, targets);
  for (const TorchModule& torch : kModules) add_module(writer, fixtures / "torch", torch, targets);
  for (const char* const name : kEncoders) {
    add_encoder(writer, fixtures / "encoders" / name, name, targets);
  }
}

}  // namespace arenite::device
