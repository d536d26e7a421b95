// SPDX-License-Identifier: Apache-2.0
// Chooses the reader of a quantization scheme by quant_method, or says why there is none.
#include "convert/families/hf_models.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "convert/families/quantized_layers.h"
#include "convert/files/error.h"
#include "convert/files/json_file.h"
#include "convert/files/paths.h"

namespace arenite::convert {
namespace {

constexpr const char* kOwnFile = "quantize_config.json";  // of AutoGPTQ's first versions

struct Scheme {
  const char* method;
  SchemeReader* read;
};
constexpr Scheme kSchemes[] = {
    {"gptq", read_gptq},
    {"compressed-tensors", read_compressed_tensors},
    {"bitsandbytes", read_bitsandbytes},
};

// Others that people meet, and what keeps them from being taken over.
struct OtherScheme {
  const char* method;
  const char* reason;
};
constexpr OtherScheme kOthers[] = {
    {"aqlm", "its weights are sums of rows of codebooks"},
    {"auto-round", "its layouts are not read"},
    {"awq", "its groups have zeros of their own"},
    {"bitnet", "its weights of two bits are not read"},
    {"eetq", "its layout is made for one kernel"},
    {"fbgemm_fp8", "8-bit floats are not read"},
    {"fp8", "8-bit floats are not read"},
    {"higgs", "its weights are points of a grid"},
    {"hqq", "its groups have zeros of their own"},
    {"marlin", "its layout is made for one kernel"},
    {"modelopt", "its layouts are not read"},
    {"mxfp4", "4-bit floats are not read"},
    {"quanto", "its layouts are not read"},
    {"quark", "its layouts are not read"},
    {"quip", "its weights are rotated points of a grid"},
    {"spqr", "its scales are quantized, too"},
    {"torchao", "its layouts are not read"},
    {"vptq", "its weights are rows of codebooks"},
};

// What says how the weights are quantized; none: nothing does, or it is empty.
std::optional<ConfigFields> quantization_of(ConfigFields& config, const Opened& model) {
  std::optional<ConfigFields> fields = config.object("quantization_config");
  if (fields) return fields->size() > 0 ? fields : std::nullopt;
  const std::filesystem::path own = model.folder / kOwnFile;
  if (!is_there(own)) return std::nullopt;
  nlohmann::json object = read_json_object(own);
  object.emplace("quant_method", "gptq");
  return ConfigFields(std::move(object), quote(own.string()));
}

std::string method_of(ConfigFields& fields) {
  const bool is_early_bitsandbytes = fields.has("load_in_8bit") || fields.has("load_in_4bit");
  if (!fields.has("quant_method") && is_early_bitsandbytes) return "bitsandbytes";
  return fields.text("quant_method", "");
}

[[noreturn]] void refuse_method(const ConfigFields& config, const ConfigFields& fields,
                                const std::string& method) {
  std::string expected = "expected ";
  for (const Scheme& scheme : kSchemes) expected += fmt::format("{}, ", scheme.method);
  expected += fmt::format("or another checkpoint: {}", kConvertOriginal);
  if (method.empty()) {
    config.refuse("quantization_config",
                  "it does not say by quant_method how the weights are quantized; " + expected);
  }
  const auto other = std::ranges::find_if(
      kOthers, [&](const OtherScheme& scheme) { return method == scheme.method; });
  const char* reason = other == std::end(kOthers) ? "it is not known" : other->reason;
  fields.refuse("quant_method",
                fmt::format("weights quantized so are not read, as {}; {}", reason, expected));
}

}  // namespace

TensorStore with_whole_weights(const Opened& model) {
  ConfigFields config = model.config_fields();
  std::optional<ConfigFields> fields = quantization_of(config, model);
  if (!fields) return model.tensors;
  const std::string method = method_of(*fields);
  for (const Scheme& scheme : kSchemes) {
    if (method != scheme.method) continue;
    QuantizedLayers layers(model.tensors);
    scheme.read(*fields, layers);
    fields->finish();
    return layers.result();
  }
  refuse_method(config, *fields, method);
}

void pass_over_zero_biases(ModelTensors& tensors) {
  constexpr std::string_view kBias = ".bias";
  std::map<std::string_view, const StoredTensor*> biases;
  std::set<std::string_view> quantized;  // weights
  for (const StoredTensor& tensor : tensors.stored()) {
    if (tensor.is_by_outputs) quantized.insert(tensor.name);
    if (tensor.name.ends_with(kBias)) biases.emplace(tensor.name, &tensor);
  }
  if (quantized.empty()) return;
  for (const std::string& name : tensors.rest()) {
    const auto bias = biases.find(name);
    if (bias == biases.end()) continue;
    const std::string layer = name.substr(0, name.size() - kBias.size());
    if (!quantized.contains(layer + ".weight")) continue;
    const std::vector<float> values = bias->second->load();
    if (std::ranges::all_of(values, [](float value) { return value == 0.0f; })) {
      tensors.pass_over(name);
    }
  }
}

}  // namespace arenite::convert
