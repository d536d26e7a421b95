// SPDX-License-Identifier: Apache-2.0
// The fixtures of quantized decoders, whose tensors a test may edit one by one.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "convert/files/checkpoint.h"
#include "convert/files/json_file.h"
#include "convert/spec/model_spec.h"
#include "support/recognised.h"
#include "support/refusal.h"
#include "support/safetensors_builder.h"
#include "support/temp_folder.h"
#include "support/test_data.h"

namespace arenite::testing {

inline std::filesystem::path quantized_fixture(const std::string& name) {
  return convert_fixture("quantized") / name;
}

// The linear layers that are quantized.
inline std::vector<convert::LinearSpec> layers_of(const convert::TransformerSpec& spec) {
  std::vector<convert::LinearSpec> linears;
  for (const convert::LayerSpec& layer : spec.layers) {
    linears.insert(linears.end(),
                   {layer.query, layer.key, layer.value, layer.output, layer.up, layer.down});
    if (layer.gate) linears.push_back(*layer.gate);
  }
  return linears;
}

// A fixture whose config and tensors are edited before it is read.
class QuantizedModel {
 public:
  struct Tensor {
    std::string dtype;
    std::vector<uint64_t> shape;
    std::string bytes;
  };

  // A fixture of those quantized.
  explicit QuantizedModel(const char* name) : QuantizedModel(quantized_fixture(name)) {}
  // Any folder, whose tensors a test may quantize itself.
  explicit QuantizedModel(const std::filesystem::path& source)
      : config(convert::read_json_object(source / "config.json")) {
    const auto checkpoint = convert::Checkpoint::read(source / "model.safetensors");
    for (const convert::CheckpointTensor& tensor : checkpoint.tensors()) {
      tensors[tensor.name] = {convert::name(tensor.dtype), tensor.shape,
                              std::string(reinterpret_cast<const char*>(tensor.data.data()),
                                          tensor.elements() * convert::bytes(tensor.dtype))};
    }
  }

  nlohmann::json& quantization() { return config["quantization_config"]; }
  Tensor& of_layer(const std::string& part) { return tensors.at(kLayer + part); }
  void drop(const std::string& part) { ASSERT_EQ(tensors.erase(kLayer + part), 1u); }
  template <typename Number>
  void set(const std::string& part, size_t index, Number number) {
    std::memcpy(of_layer(part).bytes.data() + index * sizeof number, &number, sizeof number);
  }

  // Writes the folder, which lives as long as this.
  std::filesystem::path write() const {
    nlohmann::json header = nlohmann::json::object();
    std::string data;
    for (const auto& [name, tensor] : tensors) {
      const size_t end = data.size() + tensor.bytes.size();
      header[name] = {
          {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {data.size(), end}}};
      data += tensor.bytes;
    }
    folder.write("config.json", config.dump());
    folder.write("model.safetensors", safetensors_file(header.dump(), data));
    return folder.path();
  }
  convert::TransformerSpec open() const { return decoder_at(write()); }
  // Reads the layer's elements, too, before it checks the refusal.
  ::testing::AssertionResult refuses(std::initializer_list<std::string_view> parts) const {
    return testing::refuses([&] { layers_of(open())[3].weight.load(); }, parts);
  }
  ::testing::AssertionResult refuses_field(const char* field, const nlohmann::json& value,
                                           std::string_view why) {
    const nlohmann::json before = quantization();
    quantization()[field] = value;
    const auto result = refuses({"config.json", fmt::format("'{}'", field), why});
    quantization() = before;
    return result;
  }

  inline static const std::string kLayer = "model.layers.0.self_attn.o_proj.";
  nlohmann::json config;
  std::map<std::string, Tensor> tensors;
  TempFolder folder;
};

// Writes the layers of the fixture "gptq", in groups of 64, as AutoAWQ does: words of eight outputs
// in the order 0, 2, 4, 6, 1, 3, 5, 7. The zero of group g and output o is 7, 8 or 9 by g + o;
// integers at an end of their range move by up to 1 with the zero.
inline void to_awq(QuantizedModel& model) {
  constexpr uint32_t kOrder[] = {0, 2, 4, 6, 1, 3, 5, 7};
  const auto word_at = [](const QuantizedModel::Tensor& tensor, size_t index) {
    uint32_t word = 0;
    std::memcpy(&word, tensor.bytes.data() + index * sizeof word, sizeof word);
    return word;
  };
  const auto packed = [&](uint64_t rows, uint64_t outputs, const auto& integer) {
    QuantizedModel::Tensor made = {"I32", {rows, outputs / 8}, ""};
    for (uint64_t row = 0; row < rows; ++row) {
      for (uint64_t first = 0; first < outputs; first += 8) {
        uint32_t word = 0;
        for (uint32_t i = 0; i < 8; ++i) word |= integer(row, first + kOrder[i]) << 4 * i;
        made.bytes.append(reinterpret_cast<const char*>(&word), sizeof word);
      }
    }
    return made;
  };
  const auto zero = [](uint64_t group, uint64_t output) {
    return static_cast<uint32_t>(7 + (group + output) % 3);
  };
  for (auto& [name, words] : model.tensors) {
    if (!name.ends_with(".qweight")) continue;
    const uint64_t inputs = words.shape[0] * 8, outputs = words.shape[1];
    const QuantizedModel::Tensor before = words;
    const std::string layer = name.substr(0, name.size() - std::string("qweight").size());
    words = packed(inputs, outputs, [&](uint64_t input, uint64_t output) {
      const uint32_t word = word_at(before, input / 8 * outputs + output);
      const uint32_t integer = word >> input % 8 * 4 & 15u;
      return std::clamp(integer + zero(input / 64, output), 8u, 23u) - 8;
    });
    model.tensors.at(layer + "qzeros") = packed(inputs / 64, outputs, zero);
  }
  for (auto tensor = model.tensors.begin(); tensor != model.tensors.end();) {
    tensor = tensor->first.ends_with(".g_idx") ? model.tensors.erase(tensor) : std::next(tensor);
  }
  model.quantization() = {{"quant_method", "awq"},
                          {"bits", 4},
                          {"group_size", 64},
                          {"zero_point", true},
                          {"version", "gemm"}};
}

}  // namespace arenite::testing
