// SPDX-License-Identifier: Apache-2.0
// Reads the sizes from GGUF metadata and takes the tensors by GGUF's names.
#include "convert/gguf/gguf_file.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "convert/files/error.h"
#include "convert/files/input_limits.h"
#include "convert/spec/model_tensors.h"
#include "convert/spec/rope_scaling.h"

namespace arenite::convert {
namespace {

using nlohmann::json;

constexpr uint64_t kMetadataElementsMax = 4096;  // one for each layer, mostly

// Whole numbers from 0 on become unsigned ones, as a JSON parser makes them.
template <typename Number>
json element(const GgufValue& value, uint64_t index) {
  Number number;
  std::memcpy(&number, value.data.data() + index * sizeof number, sizeof number);
  if constexpr (std::is_floating_point_v<Number>) {
    return double{number};
  } else if constexpr (std::is_signed_v<Number>) {
    if (number < 0) return int64_t{number};
  }
  return static_cast<uint64_t>(number);
}

json flag(const GgufValue& value, uint64_t index) { return value.data[index] != std::byte{0}; }

// By type; strings and arrays are read in another way.
constexpr json (*kElements[])(const GgufValue& value, uint64_t index) = {
    element<uint8_t>,  element<int8_t>,  element<uint16_t>, element<int16_t>,
    element<uint32_t>, element<int32_t>, element<float>,    flag,
    nullptr,           nullptr,          element<uint64_t>, element<int64_t>,
    element<double>};
static_assert(std::size(kElements) == static_cast<size_t>(GgufType::kF64) + 1);

json json_value(const GgufValue& value) {
  const auto read = kElements[static_cast<size_t>(value.type)];
  if (!value.is_array && read != nullptr) return read(value, 0);
  json array = json::array();
  if (value.type == GgufType::kString) {
    for_each_string(value, [&](std::string_view text) { array.push_back(text); });
  } else {
    for (uint64_t i = 0; i < value.count; ++i) array.push_back(read(value, i));
  }
  return value.is_array ? array : array[0];
}

constexpr LayerNames kLlama = {.attention_norm = "attn_norm",
                               .mlp_norm = "ffn_norm",
                               .query = "attn_q",
                               .key = "attn_k",
                               .value = "attn_v",
                               .query_norm = "attn_q_norm",
                               .key_norm = "attn_k_norm",
                               .output = "attn_output",
                               .gate = "ffn_gate",
                               .up = "ffn_up",
                               .down = "ffn_down",
                               .norm = NormKind::kRms};
constexpr LayerNames kGpt2 = {.attention_norm = "attn_norm",
                              .mlp_norm = "ffn_norm",
                              .fused = "attn_qkv",
                              .output = "attn_output",
                              .up = "ffn_up",
                              .down = "ffn_down"};

struct Family {
  const char* architecture;
  const LayerNames& names;
  Activation activation;
  bool has_position_table = false;  // instead of rotations
  bool turns_neighbours = false;    // the others are stored for rotation of halves
  bool has_head_norms = false;
};
constexpr Family kFamilies[] = {
    {.architecture = "llama",
     .names = kLlama,
     .activation = Activation::kSilu,
     .turns_neighbours = true},
    {.architecture = "gpt2",
     .names = kGpt2,
     .activation = Activation::kGeluTanh,
     .has_position_table = true},
    {.architecture = "qwen2", .names = kLlama, .activation = Activation::kSilu},
    {.architecture = "qwen3",
     .names = kLlama,
     .activation = Activation::kSilu,
     .has_head_norms = true},
};

class GgufDecoder {
 public:
  GgufDecoder(ConfigFields& fields, ModelTensors& tensors, const Family& family)
      : fields_(fields),
        tensors_(tensors),
        family_(family),
        prefix_(fmt::format("{}.", family.architecture)) {
    spec_.architecture = family.architecture;
    spec_.activation = family.activation;
  }

  TransformerSpec run() {
    const uint32_t layers = read_sizes();
    check_sizes(spec_, layers, fields_.where());
    refuse_variants();
    const bool is_rms = family_.names.norm == NormKind::kRms;
    const LayerSettings settings = {
        .epsilon = fields_.positive(prefix_ + (is_rms ? "attention.layer_norm_rms_epsilon"
                                                      : "attention.layer_norm_epsilon")),
        .qkv_bias = Presence::kIfStored,
        .output_bias = Presence::kIfStored,
        .mlp_bias = Presence::kIfStored,
        .has_head_norms = family_.has_head_norms};
    if (family_.has_position_table) {
      spec_.position_embedding =
          tensors_.matrix("position_embd.weight", spec_.positions_max, spec_.model_dim);
    } else {
      read_rope();
    }
    spec_.token_embedding = tensors_.matrix("token_embd.weight", spec_.vocab_size, spec_.model_dim);
    read_layers(tensors_, spec_, family_.names, settings, "blk.", layers);
    spec_.final_norm = read_norm(tensors_, family_.names, settings, "output_norm", spec_.model_dim);
    if (tensors_.has("output.weight")) {
      spec_.output =
          tensors_.linear("output", spec_.vocab_size, spec_.model_dim, Presence::kIfStored);
    }
    return std::move(spec_);
  }

 private:
  uint32_t count(const char* name, std::optional<uint32_t> fallback = {}) {
    return fields_.count(prefix_ + name, fallback);
  }

  uint32_t read_sizes() {
    spec_.model_dim = count("embedding_length");
    spec_.ffn_dim = count("feed_forward_length");
    spec_.positions_max = count("context_length");
    spec_.heads = count("attention.head_count");
    spec_.kv_heads = count("attention.head_count_kv", spec_.heads);
    if (fields_.has(prefix_ + "attention.key_length")) {
      spec_.head_dim = count("attention.key_length");
    } else {
      spec_.head_dim = even_head_dim(spec_.model_dim, spec_.heads, fields_.where());
    }
    if (count("attention.value_length", spec_.head_dim) != spec_.head_dim) {
      fields_.refuse(prefix_ + "attention.value_length",
                     fmt::format("expected {}, the length of keys", spec_.head_dim));
    }
    spec_.vocab_size = tensors_.shape_of("token_embd.weight").rows;
    if (count("vocab_size", spec_.vocab_size) != spec_.vocab_size) {
      fields_.refuse(prefix_ + "vocab_size",
                     fmt::format("expected {}, the rows of 'token_embd.weight'", spec_.vocab_size));
    }
    return count("block_count");
  }

  void refuse_variants() {
    const auto expect = [&](const char* name, const nlohmann::json& value, const char* why) {
      fields_.expect(prefix_ + name, value, why);
    };
    expect("expert_count", 0u, "mixtures of experts are not supported");
    expect("expert_used_count", 0u, "mixtures of experts are not supported");
    expect("attention.causal", true, "only causal decoders are read");
    expect("use_parallel_residual", false, "this architecture does not have it");
    fields_.expect("split.count", 1u, "give the model as one file; gguf-split --merge makes it");
    fields_.pass_over("split.no");
    fields_.pass_over("split.tensors.count");
    for (const char* origin : {"quantize.imatrix.file", "quantize.imatrix.dataset",
                               "quantize.imatrix.entries_count", "quantize.imatrix.chunks_count"}) {
      fields_.pass_over(origin);
    }
    fields_.pass_over(prefix_ + "tensor_data_layout");  // of files of 2023; says nothing new
  }

  void read_rope() {
    const uint32_t rotary_dim = count("rope.dimension_count", spec_.head_dim);
    if (rotary_dim > spec_.head_dim || rotary_dim % 2 != 0 ||
        (family_.turns_neighbours && rotary_dim != spec_.head_dim)) {
      fields_.refuse(prefix_ + "rope.dimension_count",
                     fmt::format("expected an even number, {} {}",
                                 family_.turns_neighbours ? "namely" : "at most", spec_.head_dim));
    }
    RopeSpec rope = plain_rope(rotary_dim, fields_.positive(prefix_ + "rope.freq_base", 10000.0),
                               fields_.where());
    const std::string scaling = fields_.text(prefix_ + "rope.scaling.type", "none");
    const double factor = fields_.positive(prefix_ + "rope.scaling.factor", 1.0);
    fields_.pass_over(prefix_ + "rope.scaling.finetuned");
    if (scaling == "linear") {
      scale_linear(rope, factor);
    } else if (scaling != "none") {
      fields_.refuse(prefix_ + "rope.scaling.type", "expected none or linear");
    }
    // Llama 3 comes with the quotient of each frequency.
    const std::vector<double> factors =
        tensors_.vector("rope_freqs.weight", rotary_dim / 2, Presence::kIfStored);
    for (size_t i = 0; i < factors.size(); ++i) {
      if (!(factors[i] > 0.0)) {
        throw InputError(
            "{}: 'rope_freqs.weight' has the value {} at index {}: expected more than "
            "0",
            quote(tensors_.source()), factors[i], i);
      }
      rope.inverse_frequencies[i] /= factors[i];
    }
    rope.turns_neighbours = family_.turns_neighbours;
    spec_.rope = std::move(rope);
  }

  ConfigFields& fields_;
  ModelTensors& tensors_;
  const Family& family_;
  const std::string prefix_;  // of the architecture's fields: "llama."
  TransformerSpec spec_ = decoder_spec();
};

}  // namespace

ConfigFields gguf_fields(const GgufFile& file) {
  json object = json::object();
  uint64_t elements = 0;
  for (const auto& [key, value] : file.metadata()) {
    if (key.starts_with("tokenizer.")) continue;
    if (key.starts_with("general.") && key != "general.architecture") continue;
    if (value.count > kMetadataElementsMax) {
      throw InputError("{}: metadata {} has {} elements: at most {} are expected",
                       quote(file.file_name()), quote(key), value.count, kMetadataElementsMax);
    }
    elements += value.count;
    if (elements > kGgufElementsMax) {
      throw InputError("{}: its metadata have more than {} elements together",
                       quote(file.file_name()), kGgufElementsMax);
    }
    object[key] = json_value(value);
  }
  return ConfigFields(std::move(object), fmt::format("{}, metadata", quote(file.file_name())));
}

TransformerSpec read_gguf_decoder(const GgufFile& file, const TensorStore& store) {
  ConfigFields fields = gguf_fields(file);
  const std::string architecture = fields.text("general.architecture");
  const auto* const family = std::ranges::find_if(
      kFamilies, [&](const Family& known) { return architecture == known.architecture; });
  if (family == std::end(kFamilies)) {
    fields.refuse("general.architecture", "expected llama, gpt2, qwen2 or qwen3");
  }
  ModelTensors tensors(store);
  TransformerSpec spec = GgufDecoder(fields, tensors, *family).run();
  note_passed_over(fields.finish(), spec);
  tensors.finish();

  const GgufTokenizer tokenizer = read_gguf_tokenizer(file);
  if (tokenizer.bos_id && *tokenizer.bos_id < spec.vocab_size) spec.bos_id = tokenizer.bos_id;
  if (tokenizer.eos_id && *tokenizer.eos_id < spec.vocab_size) {
    spec.eos_ids.push_back(*tokenizer.eos_id);
  }
  return spec;
}

}  // namespace arenite::convert
