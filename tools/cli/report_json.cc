// SPDX-License-Identifier: Apache-2.0
// A report as JSON: the same facts as the page has. Keys are never renamed: programs read them.
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/report.h"

namespace arenite::tool {
namespace {

using Json = nlohmann::ordered_json;

// null where there is no number, or none that is finite: JSON has no word for the others.
Json number_json(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? Json(*value) : Json(nullptr);
}

const char* target_name(const ReportFacts& facts, uint32_t target) {
  return name(facts.model.targets[target].target);
}

Json groups_json(const std::vector<TensorGroup>& groups) {
  Json json = Json::array();
  for (const TensorGroup& group : groups) {
    Json by_type = Json::object();
    for (uint32_t type = 0; type < kTensorTypes; ++type) {
      if (group.bytes_by_type[type] == 0) continue;
      by_type[name(static_cast<TensorType>(type))] = group.bytes_by_type[type];
    }
    json.push_back({{"name", group.name},
                    {"tensors", group.tensors},
                    {"numbers", group.numbers},
                    {"bytes", group.bytes()},
                    {"bytes_by_type", by_type}});
  }
  return json;
}

Json kernels_json(const ReportFacts& facts) {
  Json json = Json::array();
  for (const KernelUse& use : facts.kernels) {
    json.push_back({{"target", target_name(facts, use.target)},
                    {"type", name(use.type)},
                    {"layout", layout_name(use.layout)},
                    {"kernel", use.kernel},
                    {"tensors", use.tensors},
                    {"bytes", use.bytes}});
  }
  return json;
}

Json places_json(const ReportFacts& facts) {
  Json json = Json::array();
  for (size_t i = 0; i < facts.places.size(); ++i) {
    const TensorPlace& place = facts.places[i];
    Json kernels = Json::object();
    Json bytes = Json::object();
    for (uint32_t target = 0; target < place.kernels.size(); ++target) {
      kernels[target_name(facts, target)] = facts.kernels[place.kernels[target]].kernel;
      bytes[target_name(facts, target)] = facts.model.tensors[i].packed_bytes[target];
    }
    json.push_back({{"tensor", facts.model.tensors[i].name},
                    {"type", name(facts.model.tensors[i].shape.type)},
                    {"layer", facts.layers[place.layer].name},
                    {"part", facts.parts[place.part].name},
                    {"read_by", place.ops},
                    {"bytes", bytes},
                    {"kernels", kernels}});
  }
  return json;
}

Json distributions_json(const ReportFacts& facts) {
  Json json = Json::array();
  for (size_t i = 0; i < facts.distributions.size(); ++i) {
    const Distribution& distribution = facts.distributions[i];
    json.push_back({{"tensor", facts.model.tensors[facts.distributed[i]].name},
                    {"numbers", distribution.numbers},
                    {"sampled", distribution.sampled},
                    {"not_finite", distribution.not_finite},
                    {"mean", distribution.mean},
                    {"standard_deviation", distribution.deviation},
                    {"least", distribution.least},
                    {"most", distribution.most},
                    {"limit", distribution.limit},
                    {"beyond_limit", distribution.beyond},
                    {"counts", distribution.counts}});
  }
  return json;
}

Json masks_json(const ReportFacts& facts) {
  Json json = Json::array();
  for (const MaskPicture& mask : facts.masks) {
    json.push_back({{"positions", mask.positions},
                    {"visible_pairs", mask.visible},
                    {"ops", mask.ops},
                    {"rows", mask.rows}});
  }
  return json;
}

Json decode_json(const ReportFacts& facts) {
  Json json = Json::object();
  for (uint32_t i = 0; i < facts.decode.size(); ++i) {
    json[target_name(facts, i)] = {{"first_token", facts.decode[i].first},
                                   {"last_position", facts.decode[i].last}};
  }
  return json;
}

Json limits_json(const std::vector<LimitCheck>& limits) {
  Json json = Json::array();
  for (const LimitCheck& limit : limits) {
    json.push_back({{"option", limit.option},
                    {"asked", number_json(limit.asked)},
                    {"found", number_json(limit.found)},
                    {"unit", limit.unit},
                    {"is_met", limit.is_met},
                    {"offenders", limit.offenders}});
  }
  return json;
}

Json outputs_json(const std::optional<OutputComparison>& outputs) {
  if (!outputs) return nullptr;
  return {{"text", outputs->text},
          {"tokens", outputs->tokens},
          {"mean_kl", number_json(outputs->mean_kl)},
          {"top1_agreement", number_json(outputs->top1_agreement)},
          {"float_perplexity", number_json(outputs->float_perplexity)},
          {"quantized_perplexity", number_json(outputs->quantized_perplexity)}};
}

Json conversion_json(const std::optional<ConversionFacts>& facts) {
  if (!facts) return nullptr;
  Json json = {{"source", facts->source},
               {"weights", facts->weights},
               {"calibration", facts->calibration},
               {"limits", limits_json(facts->limits)},
               {"outputs", outputs_json(facts->outputs)}};
  json["hidden_states"] = json["tensors"] = json["notes"] = Json::array();
  for (const HiddenStateError& state : facts->hidden_states) {
    json["hidden_states"].push_back({{"name", state.name},
                                     {"mean_cosine", number_json(state.mean_cosine)},
                                     {"least_cosine", number_json(state.least_cosine)}});
  }
  for (const QuantizedTensor& tensor : facts->tensors) {
    json["tensors"].push_back({{"name", tensor.name},
                               {"type", tensor.type},
                               {"method", tensor.method},
                               {"signal_to_noise_db", number_json(tensor.signal_to_noise_db)},
                               {"float_bytes", tensor.float_bytes},
                               {"bytes", tensor.bytes}});
  }
  for (const ConversionNote& note : facts->notes) {
    json["notes"].push_back({{"kind", note.kind},
                             {"subject", note.subject},
                             {"text", note.text},
                             {"tensors", note.tensors}});
  }
  return json;
}

}  // namespace

Json weights_json(const ReportFacts& facts) {
  Json parts = Json::array();
  for (const FilePart& part : facts.file_parts) {
    parts.push_back({{"name", part.name}, {"bytes", part.bytes}});
  }
  return {{"parameters", facts.parameters},
          {"file_parts", parts},
          {"types", groups_json(facts.types)},
          {"layers", groups_json(facts.layers)},
          {"parts", groups_json(facts.parts)},
          {"decode_bytes", decode_json(facts)},
          {"kernels", kernels_json(facts)},
          {"tensors", places_json(facts)},
          {"conversion", conversion_json(facts.conversion)}};
}

std::string report_as_json(const ReportFacts& facts) {
  Json json = facts_json(facts.model);
  json["report"] = weights_json(facts);
  json["report"]["distributions"] = distributions_json(facts);
  json["report"]["masks"] = masks_json(facts);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace arenite::tool
