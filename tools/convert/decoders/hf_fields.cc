// SPDX-License-Identifier: Apache-2.0
// The table of config fields that may be passed over, each with its reason, and of those that may
// have one value only.
#include "convert/decoders/hf_fields.h"

#include "convert/error.h"
#include "convert/models/hf_common.h"

namespace arenite::convert {
namespace {

// Fields that do not change what a decoder computes, by the reason why not.
constexpr const char* kHarmless[] = {
    // What the Python call returns.
    "is_decoder",
    // Of heads other than the language model's, whose tensors would be refused.
    "classifier_dropout",
    "id2label",
    "label2id",
    "problem_type",
    "summary_activation",
    "summary_first_dropout",
    "summary_proj_to_labels",
    "summary_type",
    "summary_use_proj",
};

}  // namespace

void take_common_fields(ConfigFields& config, DecoderSpec& spec) {
  pass_over_harmless(config);
  for (const char* field : kHarmless) config.pass_over(field);
  config.expect("is_encoder_decoder", false, "only decoders are read");
  config.expect("add_cross_attention", false, "attention over another sequence is not supported");
  config.expect("tie_encoder_decoder", false, "only decoders are read");
  config.expect("pruned_heads", nlohmann::json::object(), "pruned heads are not supported");
  config.expect("chunk_size_feed_forward", 0, "the feed-forward layer is not cut into chunks");
  config.expect("quantization_config", nullptr,
                "quantized checkpoints are not read; convert the original weights");

  // An id beyond the vocabulary never comes up; small models keep those of larger ones.
  for (const uint32_t id : config.ids("bos_token_id")) {
    if (id < spec.vocab_size) spec.bos_id = id;
  }
  for (const uint32_t id : config.ids("eos_token_id")) {
    if (id < spec.vocab_size) spec.eos_ids.push_back(id);
  }
}

void check_sizes(const DecoderSpec& spec, size_t layers, const std::string& where) {
  if (layers > kLayersMax) {
    throw InputError("{}: {} layers: at most {} are accepted", where, layers, kLayersMax);
  }
  if (uint64_t{spec.heads} * spec.head_dim > kSideMax) {
    throw InputError("{}: {} heads of {} elements: at most {} elements together are accepted",
                     where, spec.heads, spec.head_dim, kSideMax);
  }
  if (spec.heads % spec.kv_heads != 0) {
    throw InputError("{}: {} query heads cannot share {} key/value heads: expected a divisor",
                     where, spec.heads, spec.kv_heads);
  }
}

}  // namespace arenite::convert
