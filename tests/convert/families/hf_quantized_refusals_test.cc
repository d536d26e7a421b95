// SPDX-License-Identifier: Apache-2.0
// Unsupported quantized checkpoints are refused by name, and damaged ones with the found and the
// expected value.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "convert/families/quantized_model.h"
#include "convert/files/error.h"
#include "support/byte_string.h"
#include "support/refusal.h"

namespace arenite::convert {
namespace {

using namespace testing;
using nlohmann::json;

constexpr const char* kOriginal = "convert the original weights, with --weights q4 or q8";

TEST(HfQuantizedRefusals, OtherMethodsAreNamedWithTheReason) {
  const std::pair<const char*, const char*> methods[] = {
      {"fp8", "8-bit floats"},      {"hqq", "their own zero points"},
      {"mxfp4", "4-bit floats"},    {"torchao", "not supported"},
      {"aqlm", "codebooks"},        {"eetq", "one kernel"},
      {"never-heard", "not known"},
  };
  for (const auto& [method, reason] : methods) {
    QuantizedModel model("gptq");
    model.quantization()["quant_method"] = method;
    EXPECT_TRUE(model.refuses({"config.json", "'quant_method'", method, reason,
                               "gptq, awq, compressed-tensors, bitsandbytes", kOriginal}))
        << method;
  }
}

TEST(HfQuantizedRefusals, AwqInOtherLayouts) {
  QuantizedModel model("gptq");
  to_awq(model);
  EXPECT_NO_THROW(model.open());
  EXPECT_TRUE(model.refuses_field("bits", 8, "expected 4"));
  EXPECT_TRUE(model.refuses_field("version", "gemv", "other kernels"));
  EXPECT_TRUE(model.refuses_field("zero_point", false, "without zero points"));
  model.quantization()["group_size"] = 96;
  EXPECT_TRUE(model.refuses({"qweight' has", "groups of 96 do not divide", kOriginal}));
  model.quantization()["group_size"] = 32;
  EXPECT_TRUE(model.refuses({"scales' has shape", "expected"}));
  model.quantization()["group_size"] = 64;
  model.of_layer("qzeros").shape = {2, 4};
  EXPECT_TRUE(model.refuses({"qzeros' has shape [2, 4]", "expected [1, 8]"}));
  model.drop("qzeros");
  EXPECT_TRUE(model.refuses({"o_proj.qzeros' is missing"}));
}

TEST(HfQuantizedRefusals, GptqInFormsThatNoTypeHolds) {
  QuantizedModel model("gptq");
  EXPECT_TRUE(model.refuses_field("bits", 3, "expected 4 or 8"));
  EXPECT_TRUE(model.refuses_field("bits", 2, kOriginal));
  EXPECT_TRUE(model.refuses_field("group_size", 48, "multiple of 32"));
  EXPECT_TRUE(QuantizedModel("gptq-8-rows").refuses_field("sym", false, "expected true for 8"));
  EXPECT_TRUE(model.refuses_field("checkpoint_format", "marlin", "gptq or gptq_v2"));
  EXPECT_TRUE(model.refuses_field("is_marlin_format", true, "marlin"));
  EXPECT_TRUE(
      model.refuses_field("dynamic", {{"+:.*o_proj", {{"bits", 8}}}}, "per-layer settings"));
  EXPECT_TRUE(model.refuses_field("never_heard_of", 1, "fields are unknown"));
  model.quantization()["dynamic"] = {{"-:.*lm_head", json::object()}};
  EXPECT_NO_THROW(model.open());
  model.quantization()["group_size"] = 32;
  EXPECT_TRUE(model.refuses({"scales' has shape", "expected"}));
  model.quantization()["group_size"] = 96;
  EXPECT_TRUE(model.refuses({"qweight' has", "groups of 96 do not divide", kOriginal}));
}

TEST(HfQuantizedRefusals, ZerosOfTheOtherConventionOrOfTheirOwn) {
  QuantizedModel first("gptq");
  first.quantization()["checkpoint_format"] = "gptq_v2";
  EXPECT_TRUE(first.refuses({"qzeros", "has 7 for group 0 of output 0: expected 8", "gptq_v2"}));
  QuantizedModel second("gptq-v2-rows");
  second.quantization().erase("checkpoint_format");
  EXPECT_TRUE(second.refuses({"qzeros", "has 8 for group 0 of output 0: expected 7"}));
  QuantizedModel own("gptq");
  own.set("qzeros", 1, uint32_t{0x77767777});
  EXPECT_TRUE(own.refuses({"o_proj.qzeros", "has 6 for group 0 of output 12: expected 7"}));
  own.quantization()["sym"] = false;
  EXPECT_NO_THROW(own.open());
  own.set("qzeros", 1, uint32_t{0x777f7777});  // 0 less 1
  EXPECT_TRUE(own.refuses({"o_proj.qzeros", "has 15 for group 0 of output 12"}));
}

TEST(HfQuantizedRefusals, GroupsInTheOrderOfActivations) {
  QuantizedModel model("gptq");
  model.quantization()["desc_act"] = true;
  EXPECT_NO_THROW(model.open());  // g_idx says that it changed nothing
  model.drop("g_idx");
  EXPECT_TRUE(model.refuses({"o_proj.g_idx' is missing"}));
  model.quantization()["desc_act"] = false;
  EXPECT_NO_THROW(model.open());
  QuantizedModel ordered("gptq");
  ordered.set("g_idx", 5, int32_t{1});
  EXPECT_TRUE(ordered.refuses({"g_idx", "puts input 5 into group 1: expected 0 to 0"}));
}

TEST(HfQuantizedRefusals, TensorsThatAreMissingOrOfAnotherShapeOrType) {
  for (const char* part : {"scales", "qzeros"}) {
    QuantizedModel model("gptq");
    model.drop(part);
    EXPECT_TRUE(model.refuses({"model.safetensors", fmt::format("o_proj.{}' is missing", part)}));
  }
  QuantizedModel lacks_words("gptq");
  lacks_words.drop("qweight");
  EXPECT_TRUE(lacks_words.refuses(
      {"'model.layers.0.self_attn.o_proj.weight' [64, 64]", "no place", "o_proj.scales"}));
  QuantizedModel cut("gptq");
  cut.of_layer("qzeros").shape = {1, 7};
  cut.of_layer("qzeros").bytes.resize(4 * 7);
  EXPECT_TRUE(cut.refuses({"o_proj.qzeros' has shape [1, 7]: expected [1, 8]"}));
  QuantizedModel narrow("gptq");
  narrow.of_layer("qweight").shape = {4, 128};
  EXPECT_TRUE(narrow.refuses({"o_proj.qweight' has 32 inputs: groups of 64"}));
  QuantizedModel real("gptq");
  real.of_layer("qweight").dtype = "F32";
  EXPECT_TRUE(real.refuses({"o_proj.qweight' is of type F32: expected I32"}));
  QuantizedModel whole("gptq-8-rows");
  whole.quantization()["group_size"] = 32;
  EXPECT_TRUE(whole.refuses({"qweight' has 8 bits and a scale for every 32 of", kOriginal}));
  QuantizedModel twice("gptq");
  twice.tensors[QuantizedModel::kLayer + "weight"] = {
      "F16", {64, 64}, std::string(64 * 64 * 2, '\0')};
  EXPECT_TRUE(twice.refuses({"o_proj.weight' occurs twice"}));
}

TEST(HfQuantizedRefusals, ScalesThatAreNoScales) {
  const std::pair<uint16_t, const char*> halves[] = {
      {0x7e01, "nan"}, {0x7c00, "inf"}, {0xb800, "-0.5"}};
  for (const auto& [half, text] : halves) {
    QuantizedModel model("gptq");
    model.set("scales", 3, half);
    EXPECT_TRUE(model.refuses({"o_proj.scales", text, "index 3", "finite scales"}));
  }
  QuantizedModel zero("gptq");
  zero.set("scales", 3, uint16_t{0});
  EXPECT_TRUE(zero.refuses({"o_proj.scales", "output 3, inputs 0 to 63, is 0", "lost"}));
  for (const float wrong : {std::numeric_limits<float>::quiet_NaN(), -1.0f, 0.0f}) {
    QuantizedModel model("bitsandbytes");
    model.set("SCB", 2, wrong);
    EXPECT_TRUE(model.refuses({"o_proj.SCB"}));
  }
  // float32 holds this scale, but no kernel multiplies with it.
  QuantizedModel large("bitsandbytes");
  large.set("SCB", 2, 1e34f);
  EXPECT_NO_THROW(layers_of(large.open())[3].weight.load());
  EXPECT_TRUE(refuses([&] { layers_of(large.open())[3].weight.load_quantized(); },
                      {"o_proj.weight", "the scale of row 2, columns 0 to 63"}));
}

// A row of zeros is exact in any scheme.
TEST(HfQuantizedRefusals, DoNotConcernRowsOfZeros) {
  QuantizedModel model("bitsandbytes");
  model.set("SCB", 2, 0.0f);
  std::memset(model.of_layer("weight").bytes.data() + 2 * 64, 0, 64);
  const WeightRef weight = layers_of(model.open())[3].weight;
  EXPECT_EQ(weight.load()[2 * 64 + 7], 0.0f);
  EXPECT_EQ(weight.load_quantized().scales[2], 1.0f);
}

TEST(HfQuantizedRefusals, CompressedTensorsInFormsThatNoTypeHolds) {
  QuantizedModel model("pack-quantized");
  EXPECT_TRUE(model.refuses_field("format", "marlin-24", "int-quantized or pack-quantized"));
  EXPECT_TRUE(model.refuses_field("format", "float-quantized", kOriginal));
  EXPECT_TRUE(model.refuses_field("kv_cache_scheme", {{"num_bits", 8}}, "cache"));
  EXPECT_TRUE(model.refuses_field("transform_config", {{"groups", 1}}, "rotated"));
  EXPECT_TRUE(model.refuses_field("sparsity_config", {{"format", "sparse-bitmask"}}, "dense"));
  const std::tuple<const char*, json, const char*> settings[] = {
      {"num_bits", 3, "4 or 8"},
      {"type", "float", "integers"},
      {"symmetric", false, "zero points are not supported"},
      {"dynamic", true, "dynamic scales"},
      {"strategy", "block", "channel, or group"},
      {"group_size", 16, "multiple of 32"},
      {"never_heard_of", 1, "fields are unknown"},
  };
  for (const auto& [field, value, why] : settings) {
    QuantizedModel edited("pack-quantized");
    edited.quantization()["config_groups"]["group_0"]["weights"][field] = value;
    EXPECT_TRUE(edited.refuses({"config.json", "'group_0', 'weights'", field, why})) << field;
  }
  QuantizedModel groups("pack-quantized");
  groups.quantization()["config_groups"]["group_0"]["weights"]["num_bits"] = 8;
  EXPECT_TRUE(groups.refuses({"'weights'", "'strategy' is \"group\"", "channel with 8 bits"}));
  QuantizedModel fixed("int-quantized");
  fixed.quantization()["config_groups"]["group_0"]["input_activations"]["dynamic"] = false;
  EXPECT_TRUE(fixed.refuses({"'input_activations'", "'dynamic'", "fixed scales"}));
}

TEST(HfQuantizedRefusals, CompressedTensorsWhoseShapesDisagree) {
  QuantizedModel shape("pack-quantized");
  shape.set("weight_shape", 1, int64_t{72});
  EXPECT_TRUE(shape.refuses({"o_proj.weight_shape' is [64, 72]", "has shape [64, 8]"}));
  QuantizedModel rows("int-quantized");
  rows.of_layer("weight_scale").shape = {32, 2};
  EXPECT_TRUE(rows.refuses({"o_proj.weight_scale' has shape [32, 2]", "expected [64, 1]"}));
  QuantizedModel groups("pack-quantized");
  groups.quantization()["config_groups"]["group_0"]["weights"]["group_size"] = 64;
  EXPECT_TRUE(groups.refuses({"weight_scale' has shape", "as the config says"}));
  QuantizedModel lacks("int-quantized");
  lacks.drop("weight_scale");
  EXPECT_TRUE(lacks.refuses({"o_proj.weight_scale' is missing"}));
  QuantizedModel zeros("int-quantized");
  zeros.tensors[QuantizedModel::kLayer + "weight_zero_point"] = {
      "I8", {64, 1}, std::string(64, '\0')};
  EXPECT_NO_THROW(zeros.open());
  zeros.of_layer("weight_zero_point").bytes[5] = 1;
  EXPECT_TRUE(zeros.refuses({"o_proj.weight_zero_point", "zero points are not supported"}));
  QuantizedModel order("pack-quantized");
  std::string numbers;
  for (int32_t i = 0; i < 64; ++i) numbers += bytes_of(i / 32);
  order.tensors[QuantizedModel::kLayer + "weight_g_idx"] = {"I32", {64}, numbers};
  EXPECT_NO_THROW(order.open());
  order.set("weight_g_idx", 40, int32_t{0});
  EXPECT_TRUE(order.refuses({"weight_g_idx", "puts 33 inputs into group 0: expected 32"}));
}

TEST(HfQuantizedRefusals, BitsandbytesInFourBitsOrAnotherLayout) {
  QuantizedModel model("bitsandbytes");
  EXPECT_TRUE(model.refuses_field("load_in_4bit", true, "non-uniform levels of fp4"));
  QuantizedModel lacks("bitsandbytes");
  lacks.drop("SCB");
  EXPECT_TRUE(lacks.refuses({"o_proj.SCB' is missing"}));
  QuantizedModel short_row("bitsandbytes");
  short_row.of_layer("SCB").shape = {63};
  short_row.of_layer("SCB").bytes.resize(4 * 63);
  EXPECT_TRUE(short_row.refuses({"o_proj.SCB' has shape [63]: expected [64]"}));
  QuantizedModel turing("bitsandbytes");
  turing.set("weight_format", 0, uint8_t{2});
  EXPECT_TRUE(turing.refuses({"o_proj.weight_format' is 2: expected 0", "by rows"}));
  turing.drop("weight_format");
  EXPECT_NO_THROW(turing.open());
  turing.quantization().erase("quant_method");  // as its first versions
  EXPECT_NO_THROW(turing.open());
}

// Opens a model and, if that succeeds, loads the weights of its layers.
void open_all(const QuantizedModel& model) {
  try {
    for (const LinearSpec& linear : layers_of(decoder_at(model.folder.path()))) {
      EXPECT_EQ(linear.weight.load().size(), size_t{linear.weight.rows} * linear.weight.columns);
      if (linear.weight.load_quantized) linear.weight.load_quantized();
    }
  } catch (const InputError& error) {
    EXPECT_FALSE(std::string(error.what()).empty());
  }
}

// The sanitizers report any harm.
TEST(HfQuantizedRefusals, FlippedConfigsAndHeadersDoNoHarm) {
  for (const char* name : {"gptq", "pack-quantized", "bitsandbytes"}) {
    QuantizedModel model(name);
    model.open();
    for (const char* file : {"config.json", "model.safetensors"}) {
      const std::string bytes = read_bytes(model.folder.path() / file);
      for (size_t i = 0; i < std::min<size_t>(bytes.size(), 6000); i += 17) {
        std::string damaged = bytes;
        damaged[i] = static_cast<char>(damaged[i] ^ (1 << i % 7));
        model.folder.write(file, damaged);
        open_all(model);
      }
      model.folder.write(file, bytes);
    }
  }
}

}  // namespace
}  // namespace arenite::convert
