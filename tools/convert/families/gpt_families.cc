// SPDX-License-Identifier: Apache-2.0
// A row for each program.
#include "convert/families/gpt_families.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "convert/families/families.h"
#include "convert/files/error.h"

namespace arenite::convert {
namespace {

constexpr GptFamily kFamilies[] = {
    {.name = "nanoGPT and minGPT",
     .architecture = "nanogpt",
     .published = "nanoGPT as published: --activation gelu --norm-first; minGPT: --activation "
                  "gelu_tanh --norm-first",
     .key = "transformer.h.0.attn.c_attn.weight",
     .token_embedding = "transformer.wte.weight",
     .position_embedding = "transformer.wpe.weight",
     .layer = "transformer.h.",
     .attention_norm = "ln_1",
     .mlp_norm = "ln_2",
     .gain = "weight",
     .shift = "bias",
     .fused = "attn.c_attn",
     .query = nullptr,
     .key_projection = nullptr,
     .value = nullptr,
     .attention_output = "attn.c_proj",
     .up = "mlp.c_fc",
     .down = "mlp.c_proj",
     .final_norm = "transformer.ln_f",
     .output = "lm_head",
     .has_one_bias_switch = true},
    {.name = "minGPT of 2020",
     .architecture = "mingpt",
     .published = "minGPT of 2020 as published: --activation gelu --norm-first",
     .key = "blocks.0.attn.query.weight",
     .token_embedding = "tok_emb.weight",
     .position_embedding = "pos_emb",
     .layer = "blocks.",
     .attention_norm = "ln1",
     .mlp_norm = "ln2",
     .gain = "weight",
     .shift = "bias",
     .fused = nullptr,
     .query = "attn.query",
     .key_projection = "attn.key",
     .value = "attn.value",
     .attention_output = "attn.proj",
     .up = "mlp.0",
     .down = "mlp.2",
     .final_norm = "ln_f",
     .output = "head",
     .has_one_bias_switch = true},
    {.name = "GPTModel of 'Build a Large Language Model (From Scratch)'",
     .architecture = "gptmodel",
     .published = "GPTModel of 'Build a Large Language Model (From Scratch)' as published: "
                  "--activation gelu_tanh --norm-first",
     .key = "trf_blocks.0.att.W_query.weight",
     .token_embedding = "tok_emb.weight",
     .position_embedding = "pos_emb.weight",
     .layer = "trf_blocks.",
     .attention_norm = "norm1",
     .mlp_norm = "norm2",
     .gain = "scale",
     .shift = "shift",
     .fused = nullptr,
     .query = "att.W_query",
     .key_projection = "att.W_key",
     .value = "att.W_value",
     .attention_output = "att.out_proj",
     .up = "ff.layers.0",
     .down = "ff.layers.2",
     .final_norm = "final_norm",
     .output = "out_head",
     .has_one_bias_switch = false},
};

// Is `name` <prefix>key, where the prefix is empty or ends in a dot?
bool ends_in(std::string_view name, std::string_view key) {
  return name.ends_with(key) &&
         (name.size() == key.size() || name[name.size() - key.size() - 1] == '.');
}

// transformers keeps GPT-2's layers as [inputs, outputs].
bool is_of_transformers(const StoredTensor& tensor) {
  return ends_in(tensor.name, "h.0.attn.c_attn.weight") && tensor.shape.size() == 2 &&
         tensor.shape[1] == 3 * tensor.shape[0];
}

}  // namespace

bool is_gpt_state_dict(const TensorStore& tensors) {
  return std::ranges::any_of(tensors.tensors(), [](const StoredTensor& tensor) {
    return tensor.name.ends_with("wte.weight") || tensor.name.ends_with("tok_emb.weight");
  });
}

FoundGpt find_gpt_family(const std::vector<StoredTensor>& tensors, const std::string& where) {
  for (const StoredTensor& tensor : tensors) {
    if (is_of_transformers(tensor)) {
      throw InputError(
          "{}: {} has shape {}, as transformers' GPT-2 keeps its layers, whose config.json says "
          "what they compute: put that config.json beside the file",
          where, quote(tensor.name), shape_text(tensor.shape));
    }
    for (const GptFamily& family : kFamilies) {
      if (!ends_in(tensor.name, family.key)) continue;
      const size_t prefix_size = tensor.name.size() - std::string_view(family.key).size();
      return {&family, tensor.name.substr(0, prefix_size)};
    }
  }
  throw InputError(
      "{}: no GPT is known by these names. State dicts of decoders that are known:\n{}Weights of "
      "transformers need their config.json beside them. The file has:\n{}",
      where, known_gpt_families(), list_tensors(tensors));
}

std::string known_gpt_families() {
  std::string text;
  for (const GptFamily& family : kFamilies) {
    text += fmt::format("  {}: {} {} {} ... {}\n", family.name, family.token_embedding,
                        family.position_embedding, family.key, family.output);
  }
  return text;
}

}  // namespace arenite::convert
