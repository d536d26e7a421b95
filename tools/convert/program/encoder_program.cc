// SPDX-License-Identifier: Apache-2.0
// One residual stream through all layers, normalised in place where norms come last.
#include "convert/program/encoder_program.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>
#include <vector>

#include "convert/program/program_assembler.h"

namespace arenite::convert {
namespace {

using format::ColumnView;

// As torch.nn.functional.normalize: rows shorter than this are divided by this.
constexpr float kShortestRow = 1e-12f;

SelectKind kind_of(Pooling pooling) {
  switch (pooling) {
    case Pooling::kNone:
      break;
    case Pooling::kFirst:
      return SelectKind::kFirst;
    case Pooling::kMean:
      return SelectKind::kMean;
    case Pooling::kMax:
      return SelectKind::kMax;
    case Pooling::kMeanSqrtLength:
      return SelectKind::kMeanSqrtLength;
    case Pooling::kWeightedMean:
      return SelectKind::kWeightedMean;
    case Pooling::kLast:
      return SelectKind::kLast;
  }
  return SelectKind::kAsAsked;
}

class EncoderBuilder {
 public:
  EncoderBuilder(const EncoderSpec& spec, const std::string& name)
      : spec_(spec), assembler_(name, spec.architecture), program_(assembler_.program()) {
    program_.positions_max = spec.positions_max;
    program_.vocab_size = spec.vocab_size;
    program_.labels = spec.labels;
  }

  Program build() {
    if (spec_.vocab_size != 0) {
      embed_tokens();
    } else {
      embed_features();
    }
    if (!program_.ops.empty()) assembler_.show_state(residual_);
    if (!spec_.causal) cache_ = add_cache();
    mask_ = assembler_.add_band(behind(), spec_.causal ? 0 : kUnlimited);
    for (size_t i = 0; i < spec_.layers.size(); ++i) add_layer(spec_.layers[i], i);
    if (spec_.final_norm) {
      assembler_.add_norm("final_norm", *spec_.final_norm, whole(residual_), whole(residual_));
      assembler_.show_state(residual_);
    }
    give_out();
    return assembler_.finish();
  }

 private:
  ColumnView whole(uint32_t slot) const { return assembler_.whole(slot); }

  // Positions before a query that it sees. A window as long as the context hides nothing.
  uint32_t behind() const {
    const bool is_whole = spec_.positions_max != 0 && spec_.window >= spec_.positions_max;
    return spec_.window == 0 || is_whole ? kUnlimited : spec_.window - 1;
  }

  uint32_t add_cache() {
    return assembler_.add_cache({spec_.heads, spec_.head_dim, spec_.head_dim}, behind());
  }

  uint32_t position_table() {
    return assembler_.add_table(*spec_.position_embedding,
                                spec_.positions_max + spec_.position_offset);
  }

  // Packed, and with the bias, where a head multiplies by it.
  uint32_t token_table() {
    for (const HeadStepSpec& step : spec_.head) {
      if (step.is_token_embedding) {
        return tied_ = assembler_.add_matrix(step.linear->weight.name, {{&*step.linear}});
      }
    }
    return assembler_.add_table(*spec_.token_embedding, spec_.vocab_size);
  }

  // norm(tokens + positions + types), then the projection to the width of the layers.
  void embed_tokens() {
    const uint32_t embedded = assembler_.add_slot(spec_.token_embedding->columns);
    EmbeddingParts parts;
    parts.tokens = token_table();
    parts.scale = static_cast<float>(spec_.embedding_scale);
    if (spec_.position_embedding) {
      parts.positions = position_table();
      parts.position_offset = spec_.position_offset;
      parts.padding_id = spec_.padding_id.value_or(format::kAbsent);
    }
    if (spec_.type_embedding) {
      parts.types = assembler_.add_table(*spec_.type_embedding, spec_.token_types);
    }
    assembler_.add_embedding("embedding", whole(embedded), parts);
    add_embedding_norm(embedded);
    residual_ = embedded;
    if (!spec_.input) return;
    residual_ = assembler_.add_slot(spec_.model_dim);
    assembler_.add_linear("input", whole(embedded), whole(residual_), {{&*spec_.input}});
  }

  // norm(projection + positions). A bare stack of layers works on the features themselves.
  void embed_features() {
    const uint32_t features = assembler_.add_slot(spec_.input_features);
    program_.input_slot = residual_ = features;
    if (spec_.input) {
      residual_ = assembler_.add_slot(spec_.model_dim);
      assembler_.add_linear("input", whole(features), whole(residual_),
                            {{&*spec_.input, spec_.embedding_scale}});
    }
    if (spec_.position_embedding) {
      const uint32_t positions = assembler_.add_slot(spec_.model_dim);
      EmbeddingParts parts;
      parts.positions = position_table();
      parts.position_offset = spec_.position_offset;
      assembler_.add_embedding("positions", whole(positions), parts);
      assembler_.add_sum("positions_add", residual_, positions);
    }
    add_embedding_norm(residual_);
  }

  void add_embedding_norm(uint32_t slot) {
    if (!spec_.embedding_norm) return;
    assembler_.add_norm("embedding_norm", *spec_.embedding_norm, whole(slot), whole(slot));
  }

  // Returns the slot of what is to be added to the residual stream.
  uint32_t add_attention(const EncoderLayerSpec& layer, const std::string& prefix, uint32_t input) {
    const uint32_t width = spec_.heads * spec_.head_dim;
    const double scale =
        spec_.score_scale.value_or(1.0 / std::sqrt(static_cast<double>(spec_.head_dim)));
    const uint32_t qkv = assembler_.add_slot(3 * width);
    assembler_.add_linear(prefix + "qkv", whole(input), whole(qkv),
                          {{&layer.query, scale}, {&layer.key}, {&layer.value}});
    const uint32_t context = assembler_.add_slot(width);
    const AttentionParts parts = {{qkv, 0, width},
                                  {qkv, width, width},
                                  {qkv, 2 * width, width},
                                  whole(context),
                                  spec_.heads,
                                  spec_.causal ? add_cache() : cache_,
                                  mask_};
    assembler_.add_attention(prefix + "attention", parts);
    const uint32_t output = assembler_.add_slot(spec_.model_dim);
    assembler_.add_linear(prefix + "output", whole(context), whole(output), {{&layer.output}});
    return output;
  }

  uint32_t add_mlp(const EncoderLayerSpec& layer, const std::string& prefix, uint32_t input) {
    const uint32_t hidden = assembler_.add_slot(spec_.ffn_dim);
    assembler_.add_linear(prefix + "up", whole(input), whole(hidden), {{&layer.up}});
    assembler_.add_activation(prefix + "activation", spec_.activation, whole(hidden));
    const uint32_t output = assembler_.add_slot(spec_.model_dim);
    assembler_.add_linear(prefix + "down", whole(hidden), whole(output), {{&layer.down}});
    return output;
  }

  // The rows that a part of a layer reads: the residual stream, normalised where norms come first.
  uint32_t before(const NormSpec& norm, const std::string& name) {
    if (!spec_.norm_first) return residual_;
    const uint32_t normed = assembler_.add_slot(spec_.model_dim);
    assembler_.add_norm(name, norm, whole(residual_), whole(normed));
    return normed;
  }

  // Adds what the part made, and normalises the sum where norms come last.
  void after(const NormSpec& norm, const std::string& name, const std::string& sum_name,
             uint32_t made) {
    assembler_.add_sum(sum_name, residual_, made);
    if (!spec_.norm_first) assembler_.add_norm(name, norm, whole(residual_), whole(residual_));
  }

  void add_layer(const EncoderLayerSpec& layer, size_t index) {
    const std::string prefix = fmt::format("{}.", index);
    const std::string attention_norm = prefix + "attention_norm";
    const std::string mlp_norm = prefix + "mlp_norm";
    const uint32_t attended =
        add_attention(layer, prefix, before(layer.attention_norm, attention_norm));
    after(layer.attention_norm, attention_norm, prefix + "attention_add", attended);
    const uint32_t transformed = add_mlp(layer, prefix, before(layer.mlp_norm, mlp_norm));
    after(layer.mlp_norm, mlp_norm, prefix + "mlp_add", transformed);
    if (index + 1 < spec_.layers.size() || !spec_.final_norm) assembler_.show_state(residual_);
  }

  // Rows are given out for sequences, not for tokens: pooled ones, or those that a call asks for.
  bool selects() const { return spec_.pooling != Pooling::kNone || spec_.causal; }

  // The slot of the rows that the head starts from.
  uint32_t pool() {
    if (!selects()) return residual_;
    if (spec_.pooling == Pooling::kNone) {
      const uint32_t asked = assembler_.add_slot(spec_.model_dim, true);
      assembler_.add_select("select", residual_, asked, SelectKind::kAsAsked);
      return asked;
    }
    std::vector<Pooling> poolings = {spec_.pooling};
    poolings.insert(poolings.end(), spec_.more_pooling.begin(), spec_.more_pooling.end());
    const uint32_t pooled = assembler_.add_slot(pooled_width(spec_), true);
    uint32_t column = 0;
    for (const Pooling pooling : poolings) {
      const std::string name = poolings.size() == 1 ? "pooling" : fmt::format("pooling.{}", column);
      assembler_.add_select(name, whole(residual_), {pooled, column, spec_.model_dim},
                            kind_of(pooling));
      column += spec_.model_dim;
    }
    return pooled;
  }

  // Returns the slot of the result.
  uint32_t add_head_step(const HeadStepSpec& step, const std::string& name, uint32_t rows) {
    if (step.linear) {
      const uint32_t output = assembler_.add_slot(step.linear->weight.rows, selects());
      const uint32_t matrix =
          step.is_token_embedding ? tied_ : assembler_.add_matrix(name, {{&*step.linear}});
      assembler_.add_product(name, whole(rows), whole(output), matrix);
      rows = output;
    }
    if (step.activation) {
      assembler_.add_activation(name + ".activation", *step.activation, whole(rows));
    }
    if (step.norm) assembler_.add_norm(name + ".norm", *step.norm, whole(rows), whole(rows));
    if (!step.normalize) return rows;
    NormParts parts;
    parts.kind = NormKind::kLength;
    parts.epsilon = kShortestRow;
    const bool is_last = &step == &spec_.head.back();
    assembler_.add_op(is_last ? "normalize" : name + ".normalize",
                      norm_op(whole(rows), whole(rows), parts));
    return rows;
  }

  void give_out() {
    uint32_t rows = pool();
    for (size_t i = 0; i < spec_.head.size(); ++i) {
      rows = add_head_step(spec_.head[i], fmt::format("head.{}", i), rows);
    }
    program_.output_slot = rows;
  }

  const EncoderSpec& spec_;
  ProgramAssembler assembler_;
  Program& program_;
  uint32_t residual_ = 0;  // slot
  uint32_t cache_ = 0;     // of all layers, where the model is not causal
  uint32_t mask_ = 0;
  uint32_t tied_ = 0;  // the tensor of the token embedding, where a head multiplies by it
};

}  // namespace

Program build_encoder_program(const EncoderSpec& spec, const std::string& name) {
  return EncoderBuilder(spec, name).build();
}

}  // namespace arenite::convert
