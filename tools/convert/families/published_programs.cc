// SPDX-License-Identifier: Apache-2.0
// The table of published programs, and their names in a file.
#include "convert/families/published_programs.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

namespace arenite::convert {
namespace {

constexpr PublishedProgram kPrograms[] = {
    {.name = "nanoGPT and minGPT",
     .architecture = "nanogpt",
     .published = "nanoGPT as published: --activation gelu --norm-first; minGPT: --activation "
                  "gelu_tanh --norm-first",
     .key = "h.0.attn.c_attn.weight",
     .ties_head = true,
     .fused = "attn.c_attn",
     .output = "attn.c_proj",
     .up = "mlp.c_fc",
     .down = "mlp.c_proj",
     .attention_norm = "ln_1",
     .mlp_norm = "ln_2",
     .tokens = "wte",
     .positions = "wpe",
     .final_norm = "ln_f",
     .head = "lm_head"},
    {.name = "minGPT of 2020",
     .architecture = "mingpt",
     .published = "minGPT of 2020 as published: --activation gelu --norm-first",
     .key = "blocks.0.attn.query.weight",
     .query = "attn.query",
     .key_projection = "attn.key",
     .value = "attn.value",
     .output = "attn.proj",
     .up = "mlp.0",
     .down = "mlp.2",
     .attention_norm = "ln1",
     .mlp_norm = "ln2",
     .tokens = "tok_emb",
     .positions = "pos_emb",
     .final_norm = "ln_f",
     .head = "head"},
    {.name = "GPTModel of 'Build a Large Language Model (From Scratch)'",
     .architecture = "gptmodel",
     .published = "GPTModel of 'Build a Large Language Model (From Scratch)' as published: "
                  "--activation gelu_tanh --norm-first",
     .key = "trf_blocks.0.ff.layers.0.weight",
     .query = "att.W_query",
     .key_projection = "att.W_key",
     .value = "att.W_value",
     .output = "att.out_proj",
     .up = "ff.layers.0",
     .down = "ff.layers.2",
     .attention_norm = "norm1",
     .mlp_norm = "norm2",
     .tokens = "tok_emb",
     .positions = "pos_emb",
     .final_norm = "final_norm",
     .head = "out_head"},
    {.name = "Llama of the same book",
     .architecture = "gptmodel",
     .published = "The book's Llama as published: --activation silu --norm-first, and "
                  "--rope-theta 500000 of Llama 3",
     .key = "trf_blocks.0.ff.fc3.weight",
     .norm = NormKind::kRms,
     .rope = RopePairs::kHalves,
     .query = "att.W_query",
     .key_projection = "att.W_key",
     .value = "att.W_value",
     .output = "att.out_proj",
     .gate = "ff.fc1",
     .up = "ff.fc2",
     .down = "ff.fc3",
     .attention_norm = "norm1",
     .mlp_norm = "norm2",
     .tokens = "tok_emb",
     .final_norm = "final_norm",
     .head = "out_head"},
    {.name = "the GPT of Karpathy's lecture",
     .architecture = "bigram",
     .published =
         "the GPT of Karpathy's lecture as published: --activation relu --norm-first; its first "
         "version divides scores by the square root of the model's width, not the head's",
     .key = "blocks.0.sa.heads.0.query.weight",
     .query = "sa.heads.{}.query",
     .key_projection = "sa.heads.{}.key",
     .value = "sa.heads.{}.value",
     .output = "sa.proj",
     .up = "ffwd.net.0",
     .down = "ffwd.net.2",
     .attention_norm = "ln1",
     .mlp_norm = "ln2",
     .tokens = "token_embedding_table",
     .positions = "position_embedding_table",
     .final_norm = "ln_f",
     .head = "lm_head"},
    {.name = "Meta's Llama",
     .architecture = "llama",
     .published = "Meta's Llama as published: --activation silu --norm-first, and --rope-theta "
                  "500000 of Llama 3",
     .key = "layers.0.attention.wq.weight",
     .norm = NormKind::kRms,
     .rope = RopePairs::kNeighbours,
     .query = "attention.wq",
     .key_projection = "attention.wk",
     .value = "attention.wv",
     .output = "attention.wo",
     .gate = "feed_forward.w1",
     .up = "feed_forward.w3",
     .down = "feed_forward.w2",
     .attention_norm = "attention_norm",
     .mlp_norm = "ffn_norm",
     .tokens = "tok_embeddings",
     .final_norm = "norm",
     .head = "output"},
    {.name = "The Annotated Transformer's encoder",
     .architecture = "annotated",
     .published = "The Annotated Transformer as published: --activation relu --norm-first "
                  "--bidirectional --embedding-scale sqrt",
     .key = "layers.0.self_attn.linears.0.weight",
     .is_decoder = false,
     .is_layers_alone = true,
     .has_sample_norm = true,
     .query = "self_attn.linears.0",
     .key_projection = "self_attn.linears.1",
     .value = "self_attn.linears.2",
     .output = "self_attn.linears.3",
     .up = "feed_forward.w_1",
     .down = "feed_forward.w_2",
     .attention_norm = "sublayer.0.norm",
     .mlp_norm = "sublayer.1.norm",
     .tokens = "lut",
     .positions = "pe",
     .final_norm = "norm",
     .head = "generator.proj"},
    {.name = "BERT",
     .architecture = "bert",
     .published = "BERT as published: --activation gelu --norm-last --bidirectional "
                  "--epsilon 1e-12",
     .key = "layer.0.attention.self.query.weight",
     .is_decoder = false,
     .query = "attention.self.query",
     .key_projection = "attention.self.key",
     .value = "attention.self.value",
     .output = "attention.output.dense",
     .up = "intermediate.dense",
     .down = "output.dense",
     .attention_norm = "attention.output.LayerNorm",
     .mlp_norm = "output.LayerNorm",
     .tokens = "embeddings.word_embeddings",
     .types = "embeddings.token_type_embeddings",
     .positions = "embeddings.position_embeddings",
     .embedding_norm = "embeddings.LayerNorm",
     .final_norm = nullptr,
     .pooler = "pooler.dense",
     .head = "classifier"},
    // PyTorch publishes the layers, and around them two versions of a tutorial: embedding or
    // encoder, linear or decoder.
    {.name = "torch.nn.TransformerEncoder",
     .architecture = "torch.nn.TransformerEncoder",
     .published = "torch.nn.TransformerEncoderLayer has --activation relu --norm-last unless it "
                  "is told another; the language model of PyTorch's tutorial has --causal "
                  "--embedding-scale sqrt, too",
     .key = "layers.0.self_attn.in_proj_weight",
     .is_decoder = false,
     .is_layers_alone = true,
     .fused = "self_attn.in_proj",
     .output = "self_attn.out_proj",
     .up = "linear1",
     .down = "linear2",
     .attention_norm = "norm1",
     .mlp_norm = "norm2",
     .tokens = "embedding encoder token_embedding",
     .types = "segment_embedding",
     .input = "input",
     .positions = "pos_encoder.pe position position_embedding",
     .embedding_norm = "embedding_norm",
     .final_norm = "norm",
     .pooler = "pooler",
     .head = "classifier linear decoder"},
};

// What a weight or gain is called, and the bias beside it; the last are bare parameters.
constexpr std::pair<std::string_view, std::string_view> kLeaves[] = {
    {".weight", ".bias"}, {"_weight", "_bias"}, {".scale", ".shift"},
    {".gamma", ".beta"},  {".a_2", ".b_2"},     {"", ""}};

// The part at `path`, whose weight has the first of the names in use for which `is_there`.
template <typename IsThere>
PartNames part_at(const std::string& path, const IsThere& is_there) {
  for (const auto& [weight, bias] : kLeaves) {
    if (!is_there(path + std::string(weight))) continue;
    const std::string bias_name = path + std::string(bias);
    const bool has_bias = !bias.empty() && is_there(bias_name);
    return {path + std::string(weight), has_bias ? bias_name : ""};
  }
  return {};
}

// "h." of "h.0.attn.c_attn.weight".
std::string_view list_of(std::string_view key) { return key.substr(0, key.find("0.")); }

}  // namespace

std::span<const PublishedProgram> published_programs() { return kPrograms; }

std::string known_programs() {
  std::string text;
  for (const PublishedProgram& program : kPrograms) {
    text += fmt::format("  {}: ... {} ...\n", program.name, program.key);
  }
  return text;
}

bool ends_in(std::string_view name, std::string_view key) {
  return name.ends_with(key) &&
         (name.size() == key.size() || name[name.size() - key.size() - 1] == '.');
}

PartNames FoundProgram::in_layer(const TensorStore& store, size_t layer,
                                 std::string_view path) const {
  const std::string first = list + "0.";
  const PartNames part = part_at(std::string(path), [&](const std::string& name) {
    return store.find(first + name) != nullptr;
  });
  const std::string prefix = fmt::format("{}{}.", list, layer);
  if (part.empty()) return {fmt::format("{}{}.weight", prefix, path)};  // to be named as missing
  return {prefix + part.weight, part.bias.empty() ? "" : prefix + part.bias};
}

PartNames FoundProgram::outside(const TensorStore& store, const char* paths) const {
  std::string_view rest = paths == nullptr ? "" : paths;
  while (!rest.empty()) {
    const std::string_view path = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(path.size() + 1, rest.size()));
    for (const auto& [weight, bias] : kLeaves) {
      const std::string key = std::string(path) + std::string(weight);
      for (const StoredTensor& tensor : store.tensors()) {
        if (!tensor.is_real || !ends_in(tensor.name, key) || tensor.name.starts_with(list)) {
          continue;
        }
        const std::string prefix = tensor.name.substr(0, tensor.name.size() - key.size());
        return part_at(prefix + std::string(path),
                       [&](const std::string& name) { return store.find(name) != nullptr; });
      }
    }
  }
  return {};
}

uint32_t FoundProgram::count_layers(const TensorStore& store) const {
  std::set<uint32_t> numbers;
  for (const StoredTensor& tensor : store.tensors()) {
    if (!tensor.name.starts_with(list)) continue;
    uint32_t number = 0;
    const char* const end = tensor.name.data() + tensor.name.size();
    const auto result = std::from_chars(tensor.name.data() + list.size(), end, number);
    if (result.ec == std::errc() && result.ptr != end && *result.ptr == '.') numbers.insert(number);
  }
  uint32_t layers = 0;
  while (numbers.contains(layers)) ++layers;
  return layers;
}

std::vector<FoundProgram> find_programs(const TensorStore& store) {
  std::vector<FoundProgram> found;
  for (const StoredTensor& tensor : store.tensors()) {
    for (const PublishedProgram& program : kPrograms) {
      const std::string_view key = program.key;
      if (!tensor.is_real || !ends_in(tensor.name, key)) continue;
      const size_t prefix = tensor.name.size() - key.size() + list_of(key).size();
      const FoundProgram stack = {&program, tensor.name.substr(0, prefix)};
      // Attention alone, without an MLP, is a module.
      if (store.find(stack.in_layer(store, 0, program.down).weight) == nullptr) continue;
      found.push_back(stack);
    }
  }
  return found;
}

}  // namespace arenite::convert
