// SPDX-License-Identifier: Apache-2.0
// Readers of whole models, one per file format and family, and the graph of a spec. Every reader
// reads the sizes, checks that every tensor is present and accounted for, leaves loading weights to
// WeightRef::load, and throws InputError for unsupported models.
//
//   const TransformerSpec spec = read_hf_decoder(model);
//   const Graph graph = build_graph(spec);
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "convert/graph/graph.h"
#include "convert/open/opened.h"
#include "convert/spec/model_options.h"
#include "convert/spec/model_spec.h"
#include "convert/spec/model_tensors.h"
#include "convert/spec/stack_spec.h"

namespace arenite::convert {

// Tensor names of a BERT layer, in folders and in state dicts.
inline constexpr LayerNames kBertLayer = {.attention_norm = "attention.output.LayerNorm",
                                          .mlp_norm = "output.LayerNorm",
                                          .query = "attention.self.query",
                                          .key = "attention.self.key",
                                          .value = "attention.self.value",
                                          .output = "attention.output.dense",
                                          .up = "intermediate.dense",
                                          .down = "output.dense"};

// Tensor names of a layer of BART and its relatives, and of OPT.
inline constexpr LayerNames kBartLayer = {.attention_norm = "self_attn_layer_norm",
                                          .mlp_norm = "final_layer_norm",
                                          .query = "self_attn.q_proj",
                                          .key = "self_attn.k_proj",
                                          .value = "self_attn.v_proj",
                                          .output = "self_attn.out_proj",
                                          .up = "fc1",
                                          .down = "fc2"};

// Whether to keep the head that `architectures` names, if any.
enum class HeadUse { kKeep, kDrop };

// Reads decoders saved by save_pretrained of transformers, by model_type. decoder_types lists the
// supported ones for messages: "gpt2, llama, ...".
TransformerSpec read_hf_decoder(const Opened& model, HeadUse head_use = HeadUse::kKeep);
bool is_decoder_type(std::string_view model_type);
std::string decoder_types();

// Reads decoders in GGUF files, by architecture; gguf_architectures lists these for messages.
// Throws InputError for other ones, for unsupported metadata about the computation, and for missing
// or extra tensors. `store` is tensors_of the file.
TransformerSpec read_gguf_decoder(const GgufFile& file, const TensorStore& store);
std::string gguf_architectures();

// Reads encoders of transformers, by model_type, with the head that `architectures` names. Drops a
// language-model head if `options` ask for pooling.
TransformerSpec read_hf_encoder(const Opened& model, const ModelOptions& options,
                                HeadUse head_use = HeadUse::kKeep);
bool is_encoder_type(std::string_view model_type);
std::string encoder_types();

// Reads encoder-decoders of transformers, by model_type. REQUIRES: is_encoder_decoder_type.
EncoderDecoderSpec read_hf_encoder_decoder(const Opened& model);
bool is_encoder_decoder_type(std::string_view model_type);
std::string encoder_decoder_types();

// A folder of the sentence-transformers library: an encoder of transformers and a list of modules
// that compute one vector per text from its rows: Transformer and Pooling, then Dense, LayerNorm,
// Normalize and Dropout in any order.
struct SentenceTransformers {
  TransformerSpec spec;
  std::filesystem::path tokenizer_folder;
  bool lowers_case = false;  // texts are lowercased before tokenization
};
bool is_sentence_transformers(const Opened& model);
SentenceTransformers read_sentence_transformers(const Opened& model, const ModelOptions& options);

// Whether the tensors are a state dict of a published program (state_dicts.h), recognised by their
// names: several layers, or one layer with more of a model around it (a bare layer's attention is a
// module instead). Sizes follow from shapes. `options`, plain values and the config next to the
// tensors supply the rest. Required: heads, activation and the position of norms; the context
// length if there is no position table; for an encoder the mask, unless it is a buffer; pooling, if
// there is a head without a pooler; for layers alone the scale of embeddings. Assumptions are
// listed in the spec's account.
bool is_state_dict(const TensorStore& tensors);
TransformerSpec read_state_dict(const Opened& model, const ModelOptions& options);

// Builds the graph of a model, with each op as in the author's code: separate queries, keys and
// values, explicit scales and masks, and the results of every row.
Graph build_graph(const TransformerSpec& spec);
Graph build_graph(const EncoderDecoderSpec& spec);

}  // namespace arenite::convert
