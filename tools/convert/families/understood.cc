// SPDX-License-Identifier: Apache-2.0
// Sizes come from shapes; options, configs and buffers answer the rest, or it is asked for.
#include "convert/families/understood.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>
#include <utility>

#include "convert/families/families.h"
#include "convert/files/error.h"
#include "convert/masks/masks.h"

namespace arenite::convert {
namespace {

constexpr Program kPrograms[] = {
    {"nanoGPT and minGPT", "nanogpt", "0.attn.c_attn.weight",
     "nanoGPT as published: --activation gelu --norm-first; minGPT: --activation gelu_tanh "
     "--norm-first"},
    {"minGPT of 2020", "mingpt", "blocks.0.attn.query.weight",
     "minGPT of 2020 as published: --activation gelu --norm-first"},
    {"GPTModel of 'Build a Large Language Model (From Scratch)'", "gptmodel",
     "trf_blocks.0.att.W_query.weight",
     "GPTModel of 'Build a Large Language Model (From Scratch)' as published: --activation "
     "gelu_tanh --norm-first"},
    {"the GPT of Karpathy's lecture", "bigram", "0.sa.heads.0.query.weight",
     "the GPT of Karpathy's lecture as published: --activation relu --norm-first; its first "
     "version divides scores by the square root of the model's width, not the head's"},
    {"Meta's Llama", "llama", "0.attention.wq.weight",
     "Meta's Llama as published: --activation silu --norm-first --norm rms --rope pairs"},
    {.name = "The Annotated Transformer's encoder",
     .architecture = "annotated",
     .key = "0.self_attn.linears.0.weight",
     .published = "The Annotated Transformer as published: --activation relu --norm-first "
                  "--bidirectional --embedding-scale sqrt",
     .is_torch = true,
     .has_sample_norm = true},
    {"BERT", "bert", "0.attention.self.query.weight",
     "BERT as published: --activation gelu --norm-last --bidirectional --epsilon 1e-12"},
    {.name = "torch.nn.TransformerEncoder",
     .architecture = "torch.nn.TransformerEncoder",
     .key = "layers.0.self_attn.in_proj_weight",
     .published = "torch.nn.TransformerEncoderLayer has --activation relu --norm-last unless it "
                  "is told another; the language model of PyTorch's tutorial has --causal "
                  "--embedding-scale sqrt, too",
     .is_torch = true},
};
constexpr Program kUnknown = {"a transformer", "transformer", "", ""};

const Program& program_of(const std::vector<StoredTensor>& tensors) {
  for (const Program& program : kPrograms) {
    const bool has_key = std::ranges::any_of(
        tensors, [&](const StoredTensor& tensor) { return tensor.name.ends_with(program.key); });
    if (has_key) return program;
  }
  return kUnknown;
}

using Size = TrainingFacts::Size;

class Understanding {
 public:
  Understanding(ModelTensors& tensors, TrainingFacts& facts, StateDictAnswers& answers,
                Understood start)
      : tensors_(tensors),
        facts_(facts),
        answers_(answers),
        where_(quote(tensors.source())),
        is_(std::move(start)) {}

  Understood run() {
    read_sizes();
    read_answers();
    return std::move(is_);
  }

 private:
  // ---- what tensors say ----

  uint32_t rows_of(const PartNames& part) const { return tensors_.shape_of(part.weight).rows; }
  uint32_t layer_rows(const PartNames& part) const { return rows_of(is_.layers.in_layer(0, part)); }

  // A language model: it gives logits of its vocabulary for each token. nanoGPT's head may be the
  // embedding alone.
  bool is_language_model() const {
    if (is_.program.is_torch || !is_.has_tokens() || !is_.outer.types.empty() ||
        !is_.outer.pooler.empty()) {
      return false;
    }
    if (is_.outer.head.empty()) return std::string_view(is_.program.architecture) == "nanogpt";
    return rows_of(is_.outer.head) == is_.vocab_size;
  }

  void read_sizes() {
    if (is_.layers.layers > kLayersMax) {
      throw InputError("{}: {} layers: at most {} are accepted", where_, is_.layers.layers,
                       kLayersMax);
    }
    is_.model_dim = is_.layers.model_dim;
    is_.ffn_dim = layer_rows(is_.layers.up);
    if (is_.has_tokens()) {
      is_.vocab_size = rows_of(is_.outer.tokens);
      facts_.check(Size::kVocabulary, is_.vocab_size);
    }
    is_.is_decoder = is_language_model();
    if (!is_.outer.positions.empty()) {
      is_.positions_max = tensors_.shape_of(is_.outer.positions).rows;
      if (is_.is_decoder) facts_.check(Size::kPositions, is_.positions_max);
    }
    facts_.check(Size::kModelDim, is_.model_dim);
    facts_.check(Size::kFfnDim, is_.ffn_dim);
    facts_.check(Size::kLayers, is_.layers.layers);
  }

  // ---- what they do not say ----

  void read_answers() {
    is_.heads = is_.layers.query.size() > 1 ? heads_in_list() : answers_.heads(is_.model_dim);
    is_.activation = answers_.activation();
    is_.norm_first = answers_.norm_first();
    is_.norm_kind = read_norm_kind();
    const std::optional<BandChoice> buffer = read_mask_buffers();
    if (buffer) {
      is_.mask = *buffer;
    } else {
      is_.mask = is_.is_decoder ? answers_.mask_of_decoder() : answers_.mask();
    }
    if (!is_.is_decoder) read_encoder_scale();
    read_rope();
    if (!is_.is_decoder) is_.pooling = read_pooling();
    is_.score_scale = answers_.score_scale(is_.model_dim);
    is_.epsilon = answers_.epsilon(is_.program.has_sample_norm ? 1e-6 : 1e-5);
    if (is_.is_decoder) is_.embedding_scale = answers_.embedding_scale_of_decoder(is_.model_dim);
    const bool is_said =
        is_.program.is_torch || is_.program.architecture == std::string_view("nanogpt");
    answers_.refuse_layout(is_.is_fused() && !is_said, !is_.layers.gate.empty());
    if (is_.is_fused() && !is_said) {
      is_.fused_order = answers_.fused_order(layer_name(is_.layers.fused), is_.layers.fused_order);
    }
    if (!is_.layers.gate.empty() && !is_.layers.gate_is_named) {
      const bool swaps =
          answers_.second_is_gate(layer_name(is_.layers.gate), layer_name(is_.layers.up));
      if (swaps) std::swap(is_.layers.gate, is_.layers.up);
    }
    answers_.require_all(is_.program.published);
  }

  uint32_t heads_in_list() {
    const auto heads = static_cast<uint32_t>(is_.layers.query.size());
    return answers_.heads_of_modules(heads);
  }

  NormKind read_norm_kind() {
    if (is_.program.has_sample_norm) {
      answers_.assume("norms of (x - mean) / (deviation + epsilon), as a_2 and b_2 are called");
      answers_.refuse_norm("its norms are those of The Annotated Transformer");
      return NormKind::kLayer;
    }
    std::string name = is_.layers.attention_norm.weight;
    std::ranges::transform(name, name.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const bool is_layer = !is_.layers.attention_norm.bias.empty() || is_.program.is_torch ||
                          name.starts_with("ln") || name.find(".ln") != std::string::npos;
    const bool is_rms = !is_layer && name.find("rms") != std::string::npos;
    if (is_layer) answers_.refuse_norm("its norms are layer norms, by their tensors");
    if (is_rms) answers_.refuse_norm("its norms are called rms");
    if (is_layer || is_rms) return is_rms ? NormKind::kRms : NormKind::kLayer;
    return answers_.norm_kind();
  }

  // Models may register their mask as a buffer, in each layer or head: then it is what the file
  // says, if all say the same.
  std::optional<BandChoice> read_mask_buffers() {
    std::optional<BandChoice> found;
    for (const StoredTensor& tensor : tensors_.stored()) {
      if (!is_mask_buffer(tensor)) continue;
      tensors_.pass_over(tensor.name);
      const MaskBuffer buffer = read_mask_buffer(tensor, where_, 0, std::nullopt);
      const CompiledMask mask =
          compile_mask(buffer.dense, fmt::format("{}: {}", where_, quote(tensor.name)));
      const bool is_all = mask.lookback == kUnlimited && mask.lookahead == kUnlimited;
      if (mask.kind != MaskKind::kBand || !(is_all || mask.lookahead == 0)) {
        throw InputError("{}: mask {} is {}: expected a causal mask, a causal window, or none",
                         where_, quote(tensor.name), mask.describe());
      }
      const uint32_t window = mask.lookback == kUnlimited ? 0 : mask.lookback + 1;
      const BandChoice band = {.causal = !is_all, .window = window};
      if (!found) {
        found = answers_.mask_of_buffer(tensor.name, band);
      } else if (band != *found) {
        throw InputError("{}: mask {} is {}: expected that of the other layers", where_,
                         quote(tensor.name), mask.describe());
      }
    }
    return found;
  }

  void read_encoder_scale() {
    if (!is_.has_tokens() && is_.outer.input.empty()) {
      return answers_.refuse_embedding_scale("the layers read features as they are");
    }
    if (is_.program.is_torch || !is_.has_tokens()) {
      is_.embedding_scale = answers_.embedding_scale(is_.model_dim);
    } else {
      is_.embedding_scale = answers_.embedding_scale_of_decoder(is_.model_dim);
    }
  }

  void read_rope() {
    if (!is_.outer.positions.empty()) {
      return answers_.refuse_rope("the file has a table of positions");
    }
    if (is_.program.is_torch || !is_.has_tokens()) {
      answers_.refuse_rope("such a model rotates nothing");
      if (is_.has_tokens() || !is_.outer.input.empty()) {
        answers_.assume("no positions are added, since the file has no table of them");
      }
      return;
    }
    is_.rope_choice = answers_.rope();
    is_.positions_max = answers_.positions();
    if (is_.rope_choice == RopeChoice::kNone) return answers_.refuse_rope("--rope is none");
    if (find_frequencies(tensors_) == nullptr) is_.rope_theta = answers_.rope_theta();
  }

  // A head as wide as the vocabulary gives logits of each token; what another one reads is not to
  // be seen.
  std::optional<PoolingChoice> read_pooling() {
    const auto said = answers_.pooling_if_said();
    if (said) return said;
    if (!is_.outer.pooler.empty()) return PoolingChoice::kPooler;
    if (is_.outer.head.empty()) return std::nullopt;
    const std::string head = layer_name(is_.outer.head);
    if (is_.vocab_size != 0 && rows_of(is_.outer.head) == is_.vocab_size) {
      answers_.assume(
          fmt::format("{} reads each token, since it gives {} numbers, as many as there are tokens",
                      quote(head), is_.vocab_size));
      return PoolingChoice::kNone;
    }
    return answers_.ask_pooling(head);
  }

  ModelTensors& tensors_;
  TrainingFacts& facts_;
  StateDictAnswers& answers_;
  const std::string where_;
  Understood is_;
};

}  // namespace

const StoredTensor* find_frequencies(const ModelTensors& tensors) {
  for (const StoredTensor& tensor : tensors.stored()) {
    if (tensor.name.ends_with("inv_freq") || tensor.name.ends_with("rope.freqs")) return &tensor;
  }
  return nullptr;
}

std::string known_programs() {
  std::string text;
  for (const Program& program : kPrograms) {
    text += fmt::format("  {}: ... {} ...\n", program.name, program.key);
  }
  return text;
}

Understood understand(ModelTensors& tensors, TrainingFacts& facts, StateDictAnswers& answers,
                      LayerNames layers, OuterNames outer) {
  Understood start = {.layers = std::move(layers),
                      .outer = std::move(outer),
                      .program = program_of(tensors.stored()),
                      .mask = {},
                      .score_scale = {},
                      .fused_order = {},
                      .pooling = {}};
  return Understanding(tensors, facts, answers, std::move(start)).run();
}

}  // namespace arenite::convert
