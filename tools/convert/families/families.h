// SPDX-License-Identifier: Apache-2.0
// The readers of whole models, one for each form that they come in, and the graphs of what they
// read. All readers take the sizes, check that every tensor is there and accounted for, leave the
// weights to WeightRef::load, and throw InputError for what they do not understand.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "convert/graph/graph.h"
#include "convert/open/opened.h"
#include "convert/spec/model_options.h"
#include "convert/spec/model_spec.h"
#include "convert/spec/model_tensors.h"

namespace arenite::convert {

// Decoders that transformers' save_pretrained wrote, by model_type. decoder_types lists those that
// are read, for messages: "gpt2, llama, ...".
TransformerSpec read_hf_decoder(const Opened& model);
std::string decoder_types();

// The parts of a layer of BERT, in folders and in state dicts.
inline constexpr LayerNames kBertLayer = {.attention_norm = "attention.output.LayerNorm",
                                          .mlp_norm = "output.LayerNorm",
                                          .query = "attention.self.query",
                                          .key = "attention.self.key",
                                          .value = "attention.self.value",
                                          .output = "attention.output.dense",
                                          .up = "intermediate.dense",
                                          .down = "output.dense"};

// Whether an encoder keeps the head that its `architectures` names, if it names any.
enum class HeadUse { kKeep, kDrop };

// Encoders of transformers, by model_type, with the head that `architectures` names. A language
// head goes where `options` ask for a pooling.
TransformerSpec read_hf_encoder(const Opened& model, const ModelOptions& options,
                                HeadUse head_use = HeadUse::kKeep);
bool is_encoder_type(std::string_view model_type);
std::string encoder_types();

// For a folder of transformers that is not read: the lines of Python that export the model instead,
// and the command that converts what they write. REQUIRES: it has a config.
// `pooled` makes the sentence's row of the last hidden states, "{}"; empty: the class's own
// results.
std::string export_lines(const Opened& model, const std::string& pooled = "");

// Folders of the sentence-transformers library: an encoder of transformers, and a list of modules
// that make one vector of its rows: Transformer and Pooling, then Dense, LayerNorm, Normalize and
// Dropout in any order.
struct SentenceTransformers {
  TransformerSpec spec;
  std::filesystem::path tokenizer_folder;
  bool lowers_case = false;  // of texts, before they are tokenized
};
bool is_sentence_transformers(const Opened& model);
SentenceTransformers read_sentence_transformers(const Opened& model, const ModelOptions& options);

// State dicts of published programs (state_dicts.h), known by the names of their tensors:
// several layers, or one with more of a model around it, as a bare layer's attention is a module.
// Sizes go by shapes. What neither tensors nor the program's row say comes from `options`, the
// plain values and the config beside them. Heads, activation and the place of norms have to be
// said; the longest sequence where there is no table of positions; of an encoder the mask, unless
// it is a buffer, and where there is a head without a pooler, pooling; around layers alone the
// scale of embeddings. What is assumed is in the spec's account.
bool is_state_dict(const TensorStore& tensors);
TransformerSpec read_state_dict(const Opened& model, const ModelOptions& options);

// The model as a graph, each op as its author wrote it: separate queries, keys and values, scales
// and masks of their own, and every row's results.
Graph build_graph(const TransformerSpec& spec);

}  // namespace arenite::convert
