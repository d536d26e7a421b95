// SPDX-License-Identifier: Apache-2.0
// Groups tensors by the ops that read them, because names in a file need not say their role.
#include "cli/report_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "arenite/version.h"
#include "convert/files/error.h"
#include "convert/masks/masks.h"
#include "core/targets.h"

namespace arenite::tool {
namespace {

void add_places(ReportFacts& facts) {
  const ModelFacts& model = facts.model;
  for (const TensorFacts& tensor : model.tensors) {
    facts.places.push_back({tensor.name, tensor.shape.type});
  }
  for (uint32_t index = 0; index < model.ops.size(); ++index) {
    const format::OpView& op = model.ops[index].op;
    const format::OpRow& row = format::row_of(op.kind);
    for (uint32_t i = 0; i < format::kOpNumbers; ++i) {
      const uint32_t tensor = op.numbers[i];
      if (!format::is_tensor(row.numbers[i].type) || tensor == format::kAbsent) continue;
      facts.places[tensor].ops.push_back(index);
    }
  }
}

// Collects groups by name, in the order of first use.
class Groups {
 public:
  explicit Groups(std::vector<TensorGroup>& groups) : groups_(groups) {}

  const std::string& add(const std::string& name, const TensorFacts& tensor, uint32_t shown) {
    const auto [known, is_new] = indexes_.try_emplace(name, groups_.size());
    if (is_new) groups_.push_back({name});
    TensorGroup& group = groups_[known->second];
    ++group.tensors;
    group.numbers += uint64_t{tensor.shape.outputs} * tensor.shape.inputs;
    group.bytes_by_type[static_cast<size_t>(tensor.shape.type)] += tensor.packed_bytes[shown].value;
    return group.name;
  }

 private:
  std::vector<TensorGroup>& groups_;
  std::unordered_map<std::string, size_t> indexes_;
};

void add_groups(ReportFacts& facts) {
  const ModelFacts& model = facts.model;
  const uint32_t shown = model.shown_target_index();
  Groups types(facts.types), layers(facts.layers), parts(facts.parts);
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    const TensorFacts& tensor = model.tensors[i];
    TensorPlace& place = facts.places[i];
    const std::string& owner = place.ops.empty() ? tensor.name : model.ops[place.ops[0]].name;
    const OpName name = split_op_name(owner);
    types.add(arenite::name(tensor.shape.type), tensor, shown);
    place.layer = layers.add(name.layer.empty() ? owner : "layer " + name.layer, tensor, shown);
    place.part = parts.add(name.part, tensor, shown);
  }
}

void add_file_parts(ReportFacts& facts) {
  const ModelFacts& model = facts.model;
  uint64_t rest = model.footer.file_bytes;
  const auto add = [&](const std::string& name, uint64_t bytes) {
    if (bytes == 0) return;
    facts.file_parts.push_back({name, bytes});
    rest -= std::min(rest, bytes);
  };
  add("metadata", model.footer.metadata_bytes);
  for (const TargetFacts& target : model.targets) {
    add(fmt::format("weights for {}", name(target.target)), target.packed.segment.bytes());
  }
  add("self-test", model.reader.self_test().segment.bytes());
  add("padding and footer", rest);
}

void add_masks(ReportFacts& facts) {
  for (uint32_t i = 0; i < facts.model.masks.size(); ++i) {
    const MaskView& mask = facts.model.masks[i].mask;
    MaskPicture picture;
    picture.positions = mask.positions == 0 ? facts.model.sizes.positions : mask.positions;
    const convert::MaskPairs pairs(mask, picture.positions);
    picture.visible = pairs.visible();
    picture.rows = pairs.draw(kMaskCells);
    for (const OpFacts& op : facts.model.ops) {
      picture.ops += format::number_of(op.op, format::NumberType::kMask) == i ? 1 : 0;
    }
    facts.masks.push_back(std::move(picture));
  }
}

}  // namespace

OpName split_op_name(const std::string& name) {
  const size_t dot = name.find('.');
  const bool has_layer = dot != std::string::npos && dot > 0 && dot + 1 < name.size() &&
                         name.find_first_not_of("0123456789") == dot;
  if (!has_layer) return {"", name};
  return {name.substr(0, dot), name.substr(dot + 1)};
}

uint64_t TensorGroup::bytes() const {
  return std::accumulate(bytes_by_type.begin(), bytes_by_type.end(), uint64_t{0});
}

const char* cpus_of(Target target) { return kTargetRows[static_cast<size_t>(target)].cpus; }

std::string tile_name(Packing packing) {
  const std::string group = packing.kr == 1 ? "" : fmt::format("c{}", packing.kr);
  return fmt::format("{}x{}{}", packing.mr, packing.nr, group);
}

ReportFacts gather_report(ModelFacts model, std::optional<ConversionFacts> conversion) {
  ReportFacts facts(std::move(model));
  add_places(facts);
  add_groups(facts);
  add_file_parts(facts);
  add_masks(facts);
  facts.conversion = std::move(conversion);
  return facts;
}

// --- The page ---

extern const char* const kReportPage;  // the text of report.html; the build generates it

namespace {

std::string text_as_html(std::string_view text) {
  std::string html;
  for (const char c : convert::visible(text, "\n")) {
    html += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  }
  return html;
}

}  // namespace

std::string report_as_html(const ReportFacts& facts) {
  std::string page = kReportPage;
  const auto put = [&](const std::string_view place, const std::string& content) {
    page.replace(page.find(place), place.size(), content);
  };
  const ModelFacts& model = facts.model;
  Json json = facts_of(facts);
  json["page"] = {
      {"version", version()},
      {"calls", calls_text(model.reader)},
      {"positions", sizes_text(model.reader, model.sizes.positions_of_inputs(), "position")},
      {"tokens", sizes_text(model.reader, model.sizes.tokens_of_inputs(), "token")},
      {"tokenizer_tokens", model.tokenizer_tokens}};
  put("{{facts}}", page_document(std::move(json)) + "\n");
  put("{{brief}}", text_as_html(facts_in_brief(model)));
  return page;
}

std::string render_report(const ReportFacts& facts, const std::filesystem::path& file) {
  return file.extension() == ".json" ? document(facts_of(facts)) + "\n" : report_as_html(facts);
}

}  // namespace arenite::tool
