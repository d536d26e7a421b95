// SPDX-License-Identifier: Apache-2.0
// Renames and reorders the tiny models' tensors like converters to GGUF.
#include "convert/gguf/gguf_builder.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace arenite::testing {
namespace {

uint16_t f16_of_power(int exponent) {  // 2^exponent, which must be normal
  return static_cast<uint16_t>((exponent + 15) << 10);
}

// Blocks of 32 with a scale of 2^exponent each, rounded to whole multiples of it within `limit`.
template <typename Append>
std::string encode_blocks(std::vector<float>& values, int exponent, int limit,
                          const Append& append) {
  std::string bytes;
  const float scale = std::ldexp(1.0f, exponent);
  for (size_t start = 0; start < values.size(); start += 32) {
    std::vector<int> quants;
    for (size_t i = start; i < start + 32; ++i) {
      const int quant =
          std::clamp(static_cast<int>(std::lround(values[i] / scale)), -limit, limit - 1);
      quants.push_back(quant);
      values[i] = static_cast<float>(quant) * scale;
    }
    bytes += bytes_of(f16_of_power(exponent));
    append(bytes, quants);
  }
  return bytes;
}

std::string encode_q8_0(std::vector<float>& values) {
  return encode_blocks(values, -8, 128, [](std::string& bytes, const std::vector<int>& quants) {
    for (const int quant : quants) bytes += static_cast<char>(quant);
  });
}

std::string encode_q4_0(std::vector<float>& values) {
  return encode_blocks(values, -4, 8, [](std::string& bytes, const std::vector<int>& quants) {
    for (size_t i = 0; i < 16; ++i) {
      bytes += static_cast<char>((quants[i] + 8) | (quants[i + 16] + 8) << 4);
    }
  });
}

std::string encode_bf16(std::vector<float>& values) {
  std::string bytes;
  for (float& value : values) {
    const uint32_t bits = std::bit_cast<uint32_t>(value) & 0xffff0000u;
    value = std::bit_cast<float>(bits);
    bytes += bytes_of(static_cast<uint16_t>(bits >> 16));
  }
  return bytes;
}

// Multiples of 2^-9, which half precision holds exactly here.
std::string encode_f16(std::vector<float>& values) {
  std::string bytes;
  for (float& value : values) {
    value = std::round(value * 512.0f) / 512.0f;
    if (value == 0.0f) value = 0.0f;  // no negative zero
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    const uint32_t half =
        value == 0.0f ? 0 : (((bits >> 23 & 0xff) - 112) << 10 | (bits >> 13 & 0x3ff));
    bytes += bytes_of(static_cast<uint16_t>(half | (bits >> 31 << 15)));
  }
  return bytes;
}

std::string encode_f32(std::vector<float>& values) { return bytes_of(values); }

using Renames = std::vector<std::pair<const char*, const char*>>;

const Renames kLlamaNames = {{"model.embed_tokens.", "token_embd."},
                             {"model.norm.", "output_norm."},
                             {"lm_head.", "output."},
                             {"model.layers.", "blk."},
                             {"input_layernorm", "attn_norm"},
                             {"post_attention_layernorm", "ffn_norm"},
                             {"self_attn.q_proj", "attn_q"},
                             {"self_attn.k_proj", "attn_k"},
                             {"self_attn.v_proj", "attn_v"},
                             {"self_attn.o_proj", "attn_output"},
                             {"self_attn.q_norm", "attn_q_norm"},
                             {"self_attn.k_norm", "attn_k_norm"},
                             {"mlp.gate_proj", "ffn_gate"},
                             {"mlp.up_proj", "ffn_up"},
                             {"mlp.down_proj", "ffn_down"}};

const Renames kGpt2Names = {{"transformer.wte.", "token_embd."},
                            {"transformer.wpe.", "position_embd."},
                            {"transformer.ln_f.", "output_norm."},
                            {"transformer.h.", "blk."},
                            {"ln_1", "attn_norm"},
                            {"ln_2", "ffn_norm"},
                            {"attn.c_attn", "attn_qkv"},
                            {"attn.c_proj", "attn_output"},
                            {"mlp.c_fc", "ffn_up"},
                            {"mlp.c_proj", "ffn_down"}};

std::string renamed(std::string name, const Renames& renames) {
  for (const auto& [from, to] : renames) {
    const size_t at = name.find(from);
    if (at != std::string::npos) name.replace(at, std::string_view(from).size(), to);
  }
  return name;
}

void add(GgufBuilder& builder, const std::string& name, Tensor& tensor, const GgufFormat& format) {
  std::vector<uint64_t> dimensions(tensor.shape.rbegin(), tensor.shape.rend());
  const bool is_vector = dimensions.size() == 1;
  builder.tensor(name, dimensions, is_vector ? 0 : format.type,
                 is_vector ? bytes_of(tensor.values) : format.encode(tensor.values));
}

GgufBuilder sizes(const std::string& architecture, uint32_t kv_heads) {
  GgufBuilder builder;
  builder.text("general.architecture", architecture).text("general.name", "tiny");
  builder.count(architecture + ".block_count", kLayers)
      .count(architecture + ".context_length", kPositions)
      .count(architecture + ".embedding_length", kDim)
      .count(architecture + ".feed_forward_length", kFfn)
      .count(architecture + ".attention.head_count", kHeads)
      .count(architecture + ".attention.head_count_kv", kv_heads);
  return builder;
}

}  // namespace

const GgufFormat kGgufFormats[5] = {{"F32", 0, encode_f32},
                                    {"F16", 1, encode_f16},
                                    {"BF16", 30, encode_bf16},
                                    {"Q8_0", 8, encode_q8_0},
                                    {"Q4_0", 2, encode_q4_0}};

GgufBuilder gguf_of_llama(const std::string& architecture, TensorMap& tensors,
                          const GgufFormat& format) {
  GgufBuilder builder = sizes(architecture, kKvHeads);
  builder.real(architecture + ".attention.layer_norm_rms_epsilon", 0x1p-17f)
      .real(architecture + ".rope.freq_base", 10000.0f)
      .count(architecture + ".attention.key_length", kHeadDim)
      .count(architecture + ".attention.value_length", kHeadDim);
  for (auto& [name, tensor] : tensors) {
    const bool is_query = name.find("q_proj") != std::string::npos;
    const bool is_key = name.find("k_proj") != std::string::npos;
    if (architecture == "llama" && (is_query || is_key)) {
      // Rounding works row by row, so it may come before the reordering.
      if (tensor.shape.size() == 2) format.encode(tensor.values);
      Tensor reordered = pairs_of_halves(tensor, is_query ? kHeads : kKvHeads);
      add(builder, renamed(name, kLlamaNames), reordered, format);
    } else {
      add(builder, renamed(name, kLlamaNames), tensor, format);
    }
  }
  return builder;
}

GgufBuilder gguf_of_gpt2(const TensorMap& tensors) {
  GgufBuilder builder = sizes("gpt2", kHeads);
  builder.real("gpt2.attention.layer_norm_epsilon", 1e-5f);
  for (const auto& [name, tensor] : tensors) {
    const bool is_conv1d = name.find(".c_") != std::string::npos && tensor.shape.size() == 2;
    Tensor stored = is_conv1d ? transposed(tensor) : tensor;
    add(builder, renamed(name, kGpt2Names), stored, kGgufFormats[0]);
  }
  return builder;
}

}  // namespace arenite::testing
