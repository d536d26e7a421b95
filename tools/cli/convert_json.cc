// SPDX-License-Identifier: Apache-2.0
// What a conversion made, as one JSON object.
#include <nlohmann/json.hpp>

#include "cli/convert_report.h"
#include "cli/report.h"
#include "cli/session_sizes.h"
#include "convert/families/hf_models.h"
#include "format/reader.h"

namespace arenite::tool {
namespace {

using Json = nlohmann::ordered_json;

Json masks_json(const std::vector<convert::CompiledMask>& masks,
                const std::vector<std::string>& origins) {
  Json json = Json::array();
  for (size_t i = 0; i < masks.size(); ++i) {
    const uint64_t positions = masks[i].positions;
    json.push_back({{"description", masks[i].describe()},
                    {"bytes", masks[i].bytes()},
                    {"dense_bytes", positions * positions * sizeof(float)},
                    {"origin", i < origins.size() ? Json(origins[i]) : Json()}});
  }
  return json;
}

// Arena and error of each target. An error is null where this CPU cannot run the target.
Json targets_json(const convert::ConvertedModel& conversion, const format::ModelReader& reader,
                  const SessionSizes& sizes) {
  Json json = Json::array();
  for (uint32_t i = 0; i < reader.packed_count(); ++i) {
    const convert::TargetCheck& check = conversion.checks[i];
    json.push_back({{"name", name(check.target)},
                    {"cpus", cpus_of(check.target)},
                    {"arena_bytes",
                     evaluate(reader.formula(i), sizes, reader.prefix_rows()).total_bytes.value()},
                    {"largest_error", check.ran ? Json(check.largest_error) : Json()}});
  }
  return json;
}

Json expect_json(const std::vector<convert::AuthorCheck>& expect) {
  Json list = Json::array();
  for (const convert::AuthorCheck& check : expect) {
    list.push_back({{"sequences", check.sequences},
                    {"tokens", check.tokens},
                    {"of_last_tokens", check.of_last_tokens},
                    {"largest_difference", check.largest_difference},
                    {"largest_value", check.largest_value},
                    {"difference_in_few_bits",
                     check.difference_in_few_bits ? Json(*check.difference_in_few_bits) : Json()}});
  }
  return list;
}

// The keys that all kinds have after their own.
std::string finished(Json json, const convert::Conversion& conversion, const WrittenFile& written,
                     const ReportFacts& facts) {
  const format::ModelReader reader(conversion.file.span());
  const SessionOptions options = default_session_options(reader);
  const SessionSizes sizes = default_sizes(reader);
  json["targets"] = targets_json(conversion, reader, sizes);
  json["arena"] = {{"positions", options.positions_max},
                   {"tokens", options.tokens_max},
                   {"sequences", 1},
                   {"threads", 1},
                   {"kv_cache", name(reader.kv_cache())}};
  for (uint32_t i = 0; i < reader.packed_count(); ++i) {
    const char* const target = name(static_cast<Target>(reader.packed(i).target));
    json["formula"][target] = formula_json(reader.formula(i));
  }
  const std::optional<double> computing = conversion.computing_error();
  json["check"] = {{"tokens", conversion.checked_tokens},
                   {"largest_output", conversion.largest_output},
                   {"computing_error", computing ? Json(*computing) : Json()},
                   {"storing_error", conversion.storing_error}};
  json["chosen"] = Json::array();
  for (const convert::TypeChoice& choice : conversion.choices) {
    json["chosen"].push_back(
        {{"names", choice.name}, {"type", name(choice.type)}, {"reason", choice.reason}});
  }
  json["given"] = conversion.account.given;
  json["assumed"] = conversion.account.assumed;
  json["expect"] = expect_json(written.expect);
  const format::SelfTestView test = reader.self_test();
  json["self_test"] = {{"tokens", test.tokens},
                       {"bytes", test.tokens == 0 ? 0 : test.segment.bytes()}};
  json["report"] = weights_json(facts);
  json["file"] = {{"path", written.path.string()}, {"bytes", conversion.file.size()}};
  // Names come from the checkpoint and may be no text at all.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

// The keys that whole models have.
Json model_json(const char* kind, const char* source, const convert::TransformerSpec& spec,
                const convert::Program& program) {
  Json json = {{"kind", kind},
               {"architecture", spec.architecture},
               {"source", source},
               {"parameters", parameters_of(program)}};
  json["shape"] = {{"layers", spec.layers.size()},
                   {"model_dim", spec.model_dim},
                   {"heads", spec.heads},
                   {"head_dim", spec.head_dim},
                   {"ffn_dim", spec.ffn_dim},
                   {"vocab_size", spec.vocab_size},
                   {"output_features", program.slots[program.output_slot].width},
                   {"activation", convert::option_name(spec.activation)},
                   {"norm_first", spec.norm_first},
                   {"causal", spec.causal}};
  json["context"] = spec.positions_max;
  return json;
}

// The keys after them: `notes` are the model's own, as the report says them.
Json with_results(Json json, const convert::Program& program, const std::vector<std::string>& notes,
                  const char* output_rows, const std::vector<std::string>& labels) {
  json["notes"] = program.tokenizer ? Json(program.tokenizer->notes) : Json::array();
  for (const std::string& note : notes) json["notes"].push_back(note);
  json["output_rows"] = output_rows;
  json["labels"] = labels;
  json["tokenizer"] = nullptr;
  if (program.tokenizer) {
    json["tokenizer"] = {{"tokens", program.tokenizer->tokens.size()},
                         {"origin", program.tokenizer->origin}};
  }
  json["masks"] = masks_json(program.masks, {});
  return json;
}

Json kind_json(const convert::AttentionModule& module, const convert::Conversion& conversion) {
  Json json = {{"kind", "module"},
               {"architecture", module.architecture},
               {"source", "a state dict"},
               {"parameters", parameters_of(conversion.program)}};
  json["shape"] = {{"input_features", module.features},
                   {"output_features", module.output_features()},
                   {"heads", module.heads},
                   {"head_dim", module.head_dim},
                   {"value_dim", module.value_dim}};
  json["context"] = module.positions_max;
  json["output_rows"] = "tokens";
  json["labels"] = Json::array();
  json["tokenizer"] = nullptr;
  json["notes"] = Json::array();
  json["masks"] = masks_json(conversion.program.masks, module.mask_origins);
  return json;
}

Json decoder_json(const convert::TransformerSpec& spec, const convert::Conversion& conversion) {
  const convert::Program& program = conversion.program;
  Json json = model_json("decoder", conversion.model.form, spec, program);
  json["shape"]["kv_heads"] = spec.kv_heads;
  json["shape"]["gated_mlp"] = spec.layers[0].gate.has_value();
  json["shape"]["tied"] = !spec.output.has_value();
  return with_results(std::move(json), program, spec.notes, "tokens", {});
}

Json encoder_json(const convert::TransformerSpec& spec, const convert::Conversion& conversion) {
  const convert::Program& program = conversion.program;
  Json json = model_json("encoder", conversion.model.form, spec, program);
  json["shape"]["input_features"] = spec.input_features;
  json["shape"]["token_types"] = spec.token_types;
  json["shape"]["normalize"] = convert::is_normalized(spec);
  return with_results(std::move(json), program, {},
                      spec.pooling == SelectKind::kAsAsked ? "tokens" : "sequences", spec.labels);
}

Json kind_json(const convert::TransformerSpec& spec, const convert::Conversion& conversion) {
  return spec.is_decoder ? decoder_json(spec, conversion) : encoder_json(spec, conversion);
}

Json kind_json(const convert::ExportedModel& model, const convert::Conversion& conversion) {
  const convert::Program& program = conversion.program;
  Json json = {{"kind", "exported"},
               {"architecture", model.graph.architecture},
               {"source", conversion.model.form},
               {"parameters", parameters_of(program)}};
  json["shape"] = {{"vocab_size", model.graph.vocab_size},
                   {"output_features", program.slots[program.output_slot].width},
                   {"causal", model.causal}};
  json["context"] = model.graph.positions_max;
  json["length"] = model.length;
  json["tokens_min"] = model.graph.tokens_min;
  json["program"] = {{"inputs", model.compared_inputs},
                     {"seconds", model.compared_seconds},
                     {"largest_difference", model.largest_difference},
                     {"largest_value", model.largest_value}};
  return with_results(std::move(json), program, {},
                      model.has_row_of_sequence ? "sequences" : "tokens", {});
}

}  // namespace

std::string conversion_as_json(const convert::Conversion& conversion, const WrittenFile& written,
                               const ReportFacts& facts) {
  Json json = std::visit([&](const auto& spec) { return kind_json(spec, conversion); },
                         conversion.model.facts);
  return finished(std::move(json), conversion, written, facts);
}

}  // namespace arenite::tool
