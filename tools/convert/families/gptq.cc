// SPDX-License-Identifier: Apache-2.0
// Layers as AutoGPTQ, GPTQModel and optimum save them: qweight [inputs / 8, outputs] has 8 integers
// of 4 bits of neighbouring inputs in a word (4 of 8 bits), scales [groups, outputs], qzeros
// [groups, outputs / 8] the integers that stand for zero, less 1 in the first version of the
// format, and g_idx [inputs] the group of each input.
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "convert/families/quantized_layers.h"
#include "convert/files/error.h"

namespace arenite::convert {
namespace {

// How the model was quantized, in which order, from what, and with which program it is to be run:
// the tensors say the same, or it does not matter.
constexpr const char* kHarmlessOfGptq[] = {
    "act_group_aware",
    "autogptq_version",
    "auto_mixed_precision",
    "backend",
    "batch_size",
    "block_name_to_quantize",
    "cache_block_outputs",
    "damp_auto_increment",
    "damp_percent",
    "dataset",
    "disable_exllama",
    "exllama_config",
    "lm_head",
    "max_input_length",
    "meta",
    "model_file_base_name",
    "model_name_or_path",
    "model_seqlen",
    "module_name_preceding_first_block",
    "modules_in_block_to_quantize",
    "mse",
    "pad_token_id",
    "quantizer",
    "static_groups",
    "tokenizer",
    "true_sequential",
    "use_cuda_fp16",
    "use_exllama",
    "version",
};

struct GptqFormat {
  uint32_t bits = 4;
  uint32_t group_size = 0;  // 0: all inputs
  uint32_t stored_zero = 0;
  bool is_in_order = true;  // unless g_idx says so, too
};

void expect_layout(ConfigFields& config, const char* field, bool& is_second_version) {
  const std::string layout = config.text(field, "gptq");
  is_second_version = is_second_version || layout == "gptq_v2";
  if (layout == "gptq" || layout == "gptq_v2") return;
  config.refuse(field, fmt::format("expected gptq or gptq_v2; the layout of other kernels, such as "
                                   "marlin, is not read: {}",
                                   kConvertOriginal));
}

GptqFormat read_format(ConfigFields& config) {
  for (const char* field : kHarmlessOfGptq) config.pass_over(field);
  GptqFormat format;
  format.bits = config.count("bits");
  if (format.bits != 4 && format.bits != 8) {
    config.refuse("bits", fmt::format("expected 4 or 8; {}", kConvertOriginal));
  }
  if (config.equals("group_size", -1)) {
    config.pass_over("group_size");
  } else {
    format.group_size = config.count("group_size", 128);
    if (format.bits == 4 && format.group_size % kQ4Block != 0) {
      config.refuse("group_size", fmt::format("expected a multiple of {}, or -1 for all inputs; {}",
                                              kQ4Block, kConvertOriginal));
    }
  }
  if (!config.flag("sym", true)) {
    config.refuse("sym", fmt::format("groups with a zero of their own are not supported: {}",
                                     kConvertOriginal));
  }
  bool is_second_version = false;
  expect_layout(config, "checkpoint_format", is_second_version);
  expect_layout(config, "format", is_second_version);
  config.expect("is_marlin_format", false, "the layout of marlin is not read");
  config.expect("method", "gptq", "another method is another format");
  config.expect("pack_dtype", "int32", "other words are not read");
  if (const std::optional<ConfigFields> dynamic = config.object("dynamic")) {
    for (const std::string& pattern : dynamic->names()) {
      if (pattern.starts_with('-')) continue;  // layers that are not quantized
      config.refuse("dynamic", "layers with settings of their own are not supported");
    }
  }
  config.expect("adapter", nullptr, "adapters are not applied: merge them before quantizing");
  config.expect("rotation", nullptr, "rotated weights are not supported");
  format.is_in_order = !config.flag("desc_act", false);
  format.stored_zero = (1u << (format.bits - 1)) - (is_second_version ? 0 : 1);
  return format;
}

// Symmetric: all stand for the middle.
void check_zeros(const StoredTensor& zeros, uint32_t groups, uint32_t outputs,
                 const GptqFormat& format) {
  const uint32_t words = (outputs * format.bits + 31) / 32;
  expect_shape(zeros, {groups, words});
  const std::vector<uint8_t> found = unpack_words(zeros, format.bits);
  const size_t stored_outputs = size_t{words} * (32 / format.bits);
  for (size_t i = 0; i < found.size(); ++i) {
    if (i % stored_outputs >= outputs || found[i] == format.stored_zero) continue;
    const bool is_first = format.stored_zero % 2 != 0;
    throw InputError(
        "{} has {} for group {} of output {}: expected {}, the middle as {} stores it; groups with "
        "a zero of their own are not supported, and neither is another checkpoint_format than the "
        "config's: {}",
        place_of(zeros), found[i], i / stored_outputs, i % stored_outputs, format.stored_zero,
        is_first ? "checkpoint_format gptq" : "checkpoint_format gptq_v2", kConvertOriginal);
  }
}

// From [inputs, outputs] to [outputs, inputs], around zero.
std::vector<int8_t> turned(const std::vector<uint8_t>& stored, size_t outputs, uint32_t bits) {
  std::vector<int8_t> values(stored.size());
  const size_t inputs = stored.size() / outputs;
  const int middle = 1 << (bits - 1);
  for (size_t input = 0; input < inputs; ++input) {
    const size_t word = input - input % (32 / bits);
    for (size_t output = 0; output < outputs; ++output) {
      const size_t place = word * outputs + output * (32 / bits) + input % (32 / bits);
      values[output * inputs + input] = static_cast<int8_t>(int{stored[place]} - middle);
    }
  }
  return values;
}

ScaledIntegers read_layer(const StoredTensor& words, const StoredTensor& scales,
                          const IntegerWeight& weight) {
  ScaledIntegers integers{.rows = weight.rows, .columns = weight.columns, .group = weight.group};
  integers.values = turned(unpack_words(words, weight.bits), weight.rows, weight.bits);
  const std::vector<float> stored = load_scales(scales);
  const size_t groups = weight.columns / weight.group;
  integers.scales.resize(stored.size());
  for (size_t i = 0; i < stored.size(); ++i) {
    integers.scales[i % weight.rows * groups + i / weight.rows] = stored[i];
  }
  check_zero_scales(integers, scales);
  return integers;
}

void add_layer(const std::string& layer, const GptqFormat& format, QuantizedLayers& layers) {
  const StoredTensor& words = layers.require(layer, "qweight", kInt32);
  const Sides sides = sides_of(words);
  IntegerWeight weight{.scheme = {},
                       .rows = sides.columns,
                       .columns = sides.rows * (32 / format.bits),
                       .bits = format.bits,
                       .group = 0,
                       .read = {}};
  weight.group = format.group_size == 0 ? weight.columns : format.group_size;
  weight.scheme = format.group_size == 0 ? "GPTQ, a scale for each row"
                                         : fmt::format("GPTQ, groups of {}", weight.group);
  if (weight.columns % weight.group != 0) {
    throw InputError("{} has {} inputs: groups of {} do not divide them: {}", place_of(words),
                     weight.columns, weight.group, kConvertOriginal);
  }
  if (format.bits == 8 && weight.group != weight.columns) {
    throw InputError(
        "{} has 8 bits and a scale for every {} of {} inputs: expected one for each output "
        "(group_size -1); {}",
        place_of(words), weight.group, weight.columns, kConvertOriginal);
  }
  const uint32_t groups = weight.columns / weight.group;
  const StoredTensor& scales = layers.require(layer, "scales", kReals);
  expect_shape(scales, {groups, weight.rows});
  check_zeros(layers.require(layer, "qzeros", kInt32), groups, weight.rows, format);
  if (!format.is_in_order || layers.find(layer, "g_idx") != nullptr) {
    check_group_order(layers.require(layer, "g_idx", kInt32), weight.columns, weight.group);
  }
  weight.read = [words, scales, weight] { return read_layer(words, scales, weight); };
  layers.replace(layer, {"qweight", "scales", "qzeros", "g_idx"}, weight);
}

}  // namespace

void read_gptq(ConfigFields& config, QuantizedLayers& layers) {
  const GptqFormat format = read_format(config);
  for (const std::string& layer : layers.layers_with("qweight")) {
    add_layer(layer, format, layers);
  }
}

}  // namespace arenite::convert
