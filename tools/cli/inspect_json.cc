// SPDX-License-Identifier: Apache-2.0
// The facts of a model file as JSON. Keys are never renamed: programs read them.
#include <nlohmann/json.hpp>

#include "cli/inspect_facts.h"
#include "cli/report_facts.h"
#include "convert/quantize/quantized_matrix.h"

namespace arenite::tool {
namespace {

using Json = nlohmann::ordered_json;

// null where there is no limit.
Json limit(uint32_t value) { return value == kUnlimited ? Json(nullptr) : Json(value); }

Json by_target(const ModelFacts& facts, const std::vector<uint64_t>& values) {
  Json json = Json::object();
  for (size_t i = 0; i < values.size(); ++i) json[name(facts.targets[i].target)] = values[i];
  return json;
}

// What the op's row in the table names. Absent tensors and tokens are null.
void add_fields(const format::OpView& op, Json& json) {
  const format::OpRow& row = format::row_of(op.kind);
  for (uint32_t i = 0; i < format::kOpNumbers; ++i) {
    const auto& [field, type, optional] = row.numbers[i];
    if (type == format::NumberType::kNone) continue;
    const bool is_absent = optional && op.numbers[i] == format::kAbsent;
    json[field_name(field)] = type == format::NumberType::kChoice ? Json(function_name(op))
                              : is_terms_by(op, i)                ? Json(terms_name(op))
                              : is_absent                         ? Json(nullptr)
                                                                  : Json(op.numbers[i]);
  }
  for (uint32_t i = 0; i < format::kOpReals; ++i) {
    if (row.reals[i].type != format::RealType::kNone) {
      json[field_name(row.reals[i].field)] = op.reals[i];
    }
  }
  if (op.kind == format::OpKind::kActivation) {
    json["gated"] = op.views[format::kFactor].width != 0;
  }
}

Json op_json(const OpFacts& op, size_t index) {
  Json json = {{"index", index},
               {"name", op.name},
               {"kind", op_kind_name(op.op.kind)},
               {"reads_slots", op.reads},
               {"writes_slot", op.writes},
               {"multiply_adds_per_token", op.cost.per_token},
               {"multiply_adds_per_key", op.cost.per_pair},
               {"multiply_adds_per_pass", op.pass_multiply_adds},
               {"bytes_read_per_pass", op.pass_traffic.read},
               {"bytes_written_per_pass", op.pass_traffic.written}};
  add_fields(op.op, json);
  return json;
}

const char* mask_kind_name(MaskKind kind) {
  switch (kind) {
    case MaskKind::kBand:
      return "band";
    case MaskKind::kStrip:
      return "strip";
    case MaskKind::kTiles:
      return "tiles";
  }
  return "";
}

Json program_json(const ModelFacts& facts, Json json) {
  for (size_t i = 0; i < facts.ops.size(); ++i) json["ops"].push_back(op_json(facts.ops[i], i));
  for (size_t i = 0; i < facts.slots.size(); ++i) {
    const format::SlotView& slot = facts.slots[i].slot;
    json["slots"].push_back({{"index", i},
                             {"label", facts.slots[i].label},
                             {"width", slot.width},
                             {"column", slot.offset},
                             {"per_output", slot.per_output != 0},
                             {"first_op", slot.first_op},
                             {"last_op", slot.last_op}});
  }
  json["tensors"] = json["masks"] = json["caches"] = Json::array();
  for (size_t i = 0; i < facts.tensors.size(); ++i) {
    const TensorFacts& tensor = facts.tensors[i];
    json["tensors"].push_back({{"index", i},
                               {"name", tensor.name},
                               {"outputs", tensor.shape.outputs},
                               {"inputs", tensor.shape.inputs},
                               {"layout", layout_name(tensor.shape.layout)},
                               {"packed_bytes", by_target(facts, tensor.packed_bytes)}});
  }
  for (size_t i = 0; i < facts.masks.size(); ++i) {
    const MaskFacts& mask = facts.masks[i];
    json["masks"].push_back({{"index", i},
                             {"kind", mask_kind_name(mask.mask.kind)},
                             {"description", mask.description},
                             {"positions", mask.mask.positions},
                             {"lookback", limit(mask.mask.lookback)},
                             {"lookahead", limit(mask.mask.lookahead)},
                             {"bytes", mask.bytes},
                             {"dense_bytes", mask.dense_bytes}});
  }
  for (size_t i = 0; i < facts.caches.size(); ++i) {
    const CacheFacts& cache = facts.caches[i];
    json["caches"].push_back({{"index", i},
                              {"kv_heads", cache.cache.shape.kv_heads},
                              {"head_dim", cache.cache.shape.head_dim},
                              {"value_dim", cache.cache.shape.value_dim},
                              {"lookback", limit(cache.cache.lookback)},
                              {"bytes", by_target(facts, cache.bytes)}});
  }
  return json;
}

// How weights of each type lie for a target.
Json packings_json(const TargetFacts& target) {
  Json packings = Json::object();
  for (const TensorType type : convert::kWeightTypes) {
    const Packing packing = target.packed.packing(type);
    packings[name(type)] = {{"nr", packing.nr}, {"kr", packing.kr}, {"mr", packing.mr}};
  }
  return packings;
}

Json target_json(const TargetFacts& target) {
  const ArenaPlan& plan = target.arena.plan;
  return {{"name", name(target.target)},
          {"cpus", cpus_of(target.target)},
          {"packings", packings_json(target)},
          {"offset", target.packed.segment.begin()},
          {"bytes", target.packed.segment.bytes()},
          {"crc32c", target.packed.segment.crc32c},
          {"kernel_set", kernel_set_name(target.target)},
          {"runs_here", target.runs_here},
          {"chosen", target.chosen},
          {"formula", formula_json(target.formula)},
          {"arena",
           {{"session_bytes", plan.session_bytes},
            {"kv_cache_bytes", plan.kv_cache_bytes},
            {"activation_bytes", plan.activation_bytes},
            {"scratch_bytes", plan.scratch_bytes},
            {"total_bytes", plan.total_bytes}}}};
}

}  // namespace

Json facts_json(const ModelFacts& facts) {
  const format::ModelReader& reader = facts.reader;
  Json json;
  json["file"] = {{"path", facts.path},
                  {"bytes", facts.footer.file_bytes},
                  {"metadata_bytes", facts.footer.metadata_bytes},
                  {"format_version", facts.footer.format_version},
                  {"producer", reader.producer()}};
  nlohmann::ordered_json image;
  if (reader.reads_images()) {
    const ImagePatches cut = reader.image_patches();
    image = {{"shape", {cut.channels, cut.height, cut.width}},
             {"patch", {cut.channels, cut.patch_height, cut.patch_width}}};
  }
  json["model"] = {{"name", reader.name()},
                   {"architecture", reader.architecture()},
                   {"vocab_size", reader.vocab_size()},
                   {"tokenizer", facts.tokenizer_kind},
                   {"hidden_states", reader.hidden_states()},
                   {"input_features", facts.input_features},
                   {"image", image},
                   {"prefix_rows", reader.prefix_rows()},
                   {"token_types", reader.token_types()},
                   {"output_features", facts.output_features()},
                   {"output_rows", facts.output_rows()},
                   {"labels", facts.labels},
                   {"positions_max", reader.positions_max()},
                   {"tokens_min", reader.tokens_min()},
                   {"causal", reader.causal()},
                   {"kv_cache", name(reader.kv_cache())}};
  json["self_test"] = {{"tokens", reader.self_test().tokens},
                       {"bytes", reader.self_test().segment.bytes()},
                       {"crc32c", reader.self_test().segment.crc32c}};
  json["sizes"] = {{"positions", facts.sizes.positions},
                   {"tokens", facts.sizes.tokens},
                   {"sequences", facts.sizes.sequences},
                   {"threads", facts.sizes.threads},
                   {"kv_cache", name(facts.sizes.kv_type())}};
  json["needs"] = facts.needs;
  json = program_json(facts, std::move(json));
  for (const TargetFacts& target : facts.targets) json["targets"].push_back(target_json(target));
  json["bounds"] = bounds_json(facts);
  return json;
}

std::string facts_as_json(const ModelFacts& facts) {
  // Names come from the checkpoint and may be no text at all.
  return facts_json(facts).dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace arenite::tool
