// SPDX-License-Identifier: Apache-2.0
// The table of published programs, and the search for their tensor names in a file.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

#include "convert/families/families.h"
#include "convert/families/state_dicts.h"

namespace arenite::convert {
namespace {

constexpr PublishedProgram kPrograms[] = {
    {.name = "nanoGPT and minGPT",
     .architecture = "nanogpt",
     .published = "nanoGPT as published: --activation gelu --norm-first; minGPT: --activation "
                  "gelu_tanh --norm-first",
     .key = "h.0.attn.c_attn.weight",
     .ties_head = true,
     .layer = {.attention_norm = "ln_1",
               .mlp_norm = "ln_2",
               .fused = "attn.c_attn",
               .output = "attn.c_proj",
               .up = "mlp.c_fc",
               .down = "mlp.c_proj"},
     .tokens = "wte",
     .positions = "wpe",
     .final_norm = "ln_f",
     .head = "lm_head"},
    {.name = "minGPT of 2020",
     .architecture = "mingpt",
     .published = "minGPT of 2020 as published: --activation gelu --norm-first",
     .key = "blocks.0.attn.query.weight",
     .layer = {.attention_norm = "ln1",
               .mlp_norm = "ln2",
               .query = "attn.query",
               .key = "attn.key",
               .value = "attn.value",
               .output = "attn.proj",
               .up = "mlp.0",
               .down = "mlp.2"},
     .tokens = "tok_emb",
     .positions = "pos_emb",
     .final_norm = "ln_f",
     .head = "head"},
    {.name = "GPTModel of 'Build a Large Language Model (From Scratch)'",
     .architecture = "gptmodel",
     .published = "GPTModel of 'Build a Large Language Model (From Scratch)' as published: "
                  "--activation gelu_tanh --norm-first",
     .key = "trf_blocks.0.ff.layers.0.weight",
     .layer = {.attention_norm = "norm1",
               .mlp_norm = "norm2",
               .query = "att.W_query",
               .key = "att.W_key",
               .value = "att.W_value",
               .output = "att.out_proj",
               .up = "ff.layers.0",
               .down = "ff.layers.2"},
     .tokens = "tok_emb",
     .positions = "pos_emb",
     .final_norm = "final_norm",
     .head = "out_head"},
    {.name = "Llama of the same book",
     .architecture = "gptmodel",
     .published = "The book's Llama as published: --activation silu --norm-first, and "
                  "--rope-theta 500000 of Llama 3",
     .key = "trf_blocks.0.ff.fc3.weight",
     .rope = RopePairs::kHalves,
     .layer = {.attention_norm = "norm1",
               .mlp_norm = "norm2",
               .query = "att.W_query",
               .key = "att.W_key",
               .value = "att.W_value",
               .output = "att.out_proj",
               .gate = "ff.fc1",
               .up = "ff.fc2",
               .down = "ff.fc3",
               .norm = NormKind::kRms},
     .tokens = "tok_emb",
     .final_norm = "final_norm",
     .head = "out_head"},
    {.name = "the GPT of Karpathy's lecture",
     .architecture = "bigram",
     .published =
         "the GPT of Karpathy's lecture as published: --activation relu --norm-first; its first "
         "version divides scores by the square root of the model's width, not the head's",
     .key = "blocks.0.sa.heads.0.query.weight",
     .layer = {.attention_norm = "ln1",
               .mlp_norm = "ln2",
               .query = "sa.heads.{}.query",
               .key = "sa.heads.{}.key",
               .value = "sa.heads.{}.value",
               .output = "sa.proj",
               .up = "ffwd.net.0",
               .down = "ffwd.net.2"},
     .tokens = "token_embedding_table",
     .positions = "position_embedding_table",
     .final_norm = "ln_f",
     .head = "lm_head"},
    {.name = "Meta's Llama",
     .architecture = "llama",
     .published = "Meta's Llama as published: --activation silu --norm-first, and --rope-theta "
                  "500000 of Llama 3",
     .key = "layers.0.attention.wq.weight",
     .rope = RopePairs::kNeighbours,
     .layer = kMetaLlama,
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
     .layer = {.attention_norm = "sublayer.0.norm",
               .mlp_norm = "sublayer.1.norm",
               .query = "self_attn.linears.0",
               .key = "self_attn.linears.1",
               .value = "self_attn.linears.2",
               .output = "self_attn.linears.3",
               .up = "feed_forward.w_1",
               .down = "feed_forward.w_2"},
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
     .layer = kBertLayer,
     .tokens = "embeddings.word_embeddings",
     .types = "embeddings.token_type_embeddings",
     .positions = "embeddings.position_embeddings",
     .embedding_norm = "embeddings.LayerNorm",
     .final_norm = nullptr,
     .pooler = "pooler.dense",
     .head = "classifier"},
    // PyTorch publishes the layers, and two versions of a tutorial use them: with embedding or
    // encoder before them, and linear or decoder after them.
    {.name = "torch.nn.TransformerEncoder",
     .architecture = "torch.nn.TransformerEncoder",
     .published = "torch.nn.TransformerEncoderLayer has --activation relu --norm-last unless it "
                  "is told another; the language model of PyTorch's tutorial has --causal "
                  "--embedding-scale sqrt, too",
     .key = "layers.0.self_attn.in_proj_weight",
     .is_decoder = false,
     .is_layers_alone = true,
     .layer = {.attention_norm = "norm1",
               .mlp_norm = "norm2",
               .fused = "self_attn.in_proj",
               .output = "self_attn.out_proj",
               .up = "linear1",
               .down = "linear2"},
     .tokens = "embedding encoder token_embedding",
     .types = "segment_embedding",
     .input = "input",
     .positions = "pos_encoder.pe position position_embedding",
     .embedding_norm = "embedding_norm",
     .final_norm = "norm",
     .pooler = "pooler",
     .head = "classifier linear decoder"},
};

// Returns "h." for "h.0.attn.c_attn.weight".
std::string_view list_of(std::string_view key) { return key.substr(0, key.find("0.")); }

}  // namespace

std::string known_programs() {
  std::string text;
  for (const PublishedProgram& program : kPrograms) {
    text += fmt::format("  {}: ... {} ...\n", program.name, program.key);
  }
  return text;
}

bool is_mask_buffer(const StoredTensor& tensor) {
  const size_t rank = tensor.shape.size();
  const bool is_square =
      rank >= 2 && tensor.shape[rank - 1] == tensor.shape[rank - 2] &&
      std::all_of(tensor.shape.begin(), tensor.shape.end() - 2, [](uint64_t n) { return n == 1; });
  const std::string last = tensor.name.substr(tensor.name.rfind('.') + 1);
  return is_square &&
         (last.find("mask") != std::string::npos || last.starts_with("tri") || last == "bias");
}

bool ends_in(std::string_view name, std::string_view key) {
  return name.ends_with(key) &&
         (name.size() == key.size() || name[name.size() - key.size() - 1] == '.');
}

std::string FoundProgram::outside(const TensorStore& store, const char* paths) const {
  std::string_view rest = paths == nullptr ? "" : paths;
  while (!rest.empty()) {
    const std::string path(rest.substr(0, rest.find(' ')));
    rest.remove_prefix(std::min(path.size() + 1, rest.size()));
    for (const PartNames& leaf : part_leaves()) {
      const std::string key = path + leaf.weight;
      for (const StoredTensor& tensor : store.tensors()) {
        if (tensor.is_real && ends_in(tensor.name, key) && !tensor.name.starts_with(list)) {
          return tensor.name.substr(0, tensor.name.size() - leaf.weight.size());
        }
      }
    }
  }
  return "";
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

bool FoundProgram::is_beside(const StoredTensor& tensor) const {
  constexpr std::string_view kWords[] = {
      "criterion", "criteria",   "loss",       "losses", "metric",      "metrics",    "acc",
      "accuracy",  "f1",         "auroc",      "auc",    "confmat",     "mae",        "mse",
      "rmse",      "perplexity", "n_averaged", "epoch",  "global_step", "num_updates"};
  const std::string part = tensor.name.substr(0, tensor.name.find('.'));
  if (list.starts_with(part + ".")) return false;
  return std::ranges::any_of(kWords, [&](std::string_view word) {
    return fmt::format("_{}_", part).find(fmt::format("_{}_", word)) != std::string::npos;
  });
}

std::vector<FoundProgram> find_programs(const TensorStore& store) {
  std::vector<FoundProgram> found;
  for (const StoredTensor& tensor : store.tensors()) {
    for (const PublishedProgram& program : kPrograms) {
      const std::string_view key = program.key;
      if (!tensor.is_real || !ends_in(tensor.name, key)) continue;
      const size_t prefix = tensor.name.size() - key.size() + list_of(key).size();
      const std::string list = tensor.name.substr(0, prefix);
      // Attention without an MLP is a module.
      if (ModelTensors(store).has_part(list + "0." + program.layer.down)) {
        found.push_back({&program, list});
      }
    }
  }
  return found;
}

}  // namespace arenite::convert
