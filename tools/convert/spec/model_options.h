// SPDX-License-Identifier: Apache-2.0
// What a person may say about a model that its file does not.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "convert/spec/model_spec.h"

namespace arenite::convert {

// What a 1 (or True) in a mask's buffer says about a key.
enum class MaskOnes { kHidden, kVisible };

enum class MaskChoice { kUnsaid, kCausal, kBidirectional, kWindow };

// kPooler: the first token, then a linear layer and tanh, whose weights the model must have.
enum class PoolingChoice { kNone, kFirst, kPooler, kMean };

// What multiplies token embeddings, or the features' projection to the width of the layers.
struct EmbeddingScale {
  bool is_sqrt = false;  // of model_dim
  double value = 1.0;    // otherwise

  double of(uint32_t model_dim) const;
  friend bool operator==(const EmbeddingScale&, const EmbeddingScale&) = default;
};

// Where a file says it, they must agree. What neither says is asked for or assumed, by the kind of
// model, and never in silence.
struct ModelOptions {
  uint32_t heads = 0;  // 0: not said
  std::optional<Activation> activation{};
  std::optional<bool> norm_first{};
  std::optional<PoolingChoice> pooling{};
  MaskChoice mask = MaskChoice::kUnsaid;
  uint32_t window = 0;  // keys that a query sees, its own included; for kWindow
  std::optional<EmbeddingScale> embedding_scale{};
  std::optional<double> score_scale{};  // of attention scores, instead of 1/sqrt(head_dim)
  std::optional<double> epsilon{};      // of norms
  std::optional<double> rope_theta{};

  // Of an exported program: which of its outputs, counted from 0, side by side.
  std::vector<uint32_t> output_indices{};
  bool any_length = false;  // numbers of one with fixed sizes do not depend on its length
  uint32_t sound_rate = 0;  // samples a second, where the program takes them; 0: nobody says
  std::vector<std::string> functions{};  // names of its functions; none: "encode" and "step"
  // Of two programs: the second one's input that is the first one's output, where several may be.
  std::string encoded{};

  // The key of the weights, in a file that holds an average of them, too: "model_ema".
  std::string state_dict{};

  // Of a single attention module.
  std::optional<std::string> module{};  // which one of several: its prefix in the checkpoint
  uint32_t features = 0;                // width of the input, where there are no weights; 0: unsaid
  std::optional<MaskOnes> mask_ones{};
  uint32_t context = 0;  // rows and columns of its mask that count; 0: all

  // Whether something was said that only an attention module has.
  bool ask_for_module() const { return module || features != 0 || mask_ones; }
};

const char* name(PoolingChoice choice);          // as options and configs write it: "pooler"
const char* option_name(Activation activation);  // as the option writes it: "gelu_tanh"

// The option that chooses this mask: "--window 8".
std::string option_text(MaskChoice mask, uint32_t window);

// Throws InputError, which begins with `where`, if other heads or another activation were said than
// the model's config has.
void check_said(const ModelOptions& options, uint32_t heads, Activation activation,
                const std::string& where);

// The options among these that Hugging Face's and GGUF's configs always answer, such as mask,
// scales and epsilon, as the command line names them: "--causal, --scale".
std::vector<std::string> options_of_state_dicts(const ModelOptions& options);

// Throws InputError, which begins with `where`, if any of these was given for a model whose config
// says it all.
void refuse_options_of_state_dicts(const ModelOptions& options, const std::string& where);

// The same for all options that say what a model computes, of an exported program.
void refuse_options_of_unsaid(const ModelOptions& options, const std::string& where);

}  // namespace arenite::convert
