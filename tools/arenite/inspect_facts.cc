// SPDX-License-Identifier: Apache-2.0
// Reads a verified file; every number that a formula gives comes from the runtime's own formula.
#include "arenite/inspect_facts.h"

#include <algorithm>
#include <cstring>

#include "convert/mask_compiler.h"
#include "convert/mask_pairs.h"
#include "format/file_layout.h"

namespace arenite::tool {
namespace {

using format::ColumnView;
using format::ModelReader;
using format::OpKind;

OpFacts op_facts(const ModelReader& reader, uint32_t index, uint32_t positions) {
  OpFacts facts;
  facts.name = reader.op_name(index);
  facts.op = reader.op(index);
  facts.writes = facts.op.output().slot;
  facts.cost = op_cost(reader, index);
  std::vector<ColumnView> inputs = {facts.op.linear.input};
  Checked pass = Checked(facts.cost.per_token) * positions;
  if (facts.op.kind == OpKind::kAttention) {
    const format::AttentionOp& attention = facts.op.attention;
    inputs = {attention.query, attention.key, attention.value};
    const convert::MaskPairs mask(reader.mask(attention.mask), positions);
    pass = Checked(facts.cost.per_pair) * mask.visible();
  }
  facts.pass_multiply_adds = pass.saturated();
  for (const ColumnView& view : inputs) {
    if (view.width != 0 && std::count(facts.reads.begin(), facts.reads.end(), view.slot) == 0) {
      facts.reads.push_back(view.slot);
    }
  }
  return facts;
}

SlotFacts slot_facts(const ModelReader& reader, uint32_t index) {
  const format::SlotView slot = reader.slot(index);
  if (index == reader.input_slot()) return {"input", slot};
  if (index == reader.output_slot()) return {"output", slot};
  uint32_t op = slot.first_op;
  while (reader.op(op).output().slot != index) ++op;
  return {reader.op_name(op), slot};
}

TensorFacts tensor_facts(const ModelReader& reader, uint32_t index) {
  TensorFacts facts{reader.tensor_name(index), reader.tensor(index), {}};
  for (uint32_t i = 0; i < reader.packed_count(); ++i) {
    facts.packed_bytes.push_back(
        packed_weight_bytes(reader.packed(i).packing, facts.shape.outputs, facts.shape.inputs)
            .value());
  }
  return facts;
}

MaskFacts mask_facts(const MaskView& mask, uint32_t positions) {
  const uint64_t side = mask.positions != 0 ? mask.positions : positions;
  return {mask, convert::describe_mask(mask), convert::mask_bytes(mask),
          (Checked(side) * side * sizeof(float)).saturated()};
}

CacheFacts cache_facts(const ModelReader& reader, uint32_t index, const SessionSizes& sizes) {
  CacheFacts facts{reader.cache(index), {}};
  for (uint32_t i = 0; i < reader.packed_count(); ++i) {
    const Packing packing = reader.packed(i).packing;
    const Checked bytes =
        Checked(key_panels(packing, sizes.positions)) *
            cache_bytes_per_panel(packing, facts.shape) +
        Checked(value_pages(sizes.positions)) * cache_bytes_per_page(packing, facts.shape);
    facts.bytes.push_back((bytes * sizes.sequences).saturated());
  }
  return facts;
}

void add_targets(const VerifiedFile& file, ModelFacts& facts) {
  const std::vector<ArenaLayout> arenas = plan_targets(file, facts.sizes);
  const Result<Model> model = Model::load(file.bytes());
  for (uint32_t i = 0; i < arenas.size(); ++i) {
    const format::PackedView packed = file.reader().packed(i);
    const Target target = static_cast<Target>(packed.target);
    facts.targets.push_back({target, packed, arenas[i], (cpu_targets() & bit(target)) != 0,
                             model.ok() && model->target() == target});
  }
}

}  // namespace

const TargetFacts& ModelFacts::shown_target() const {
  const auto target = std::find_if(targets.begin(), targets.end(),
                                   [](const TargetFacts& candidate) { return candidate.chosen; });
  return target != targets.end() ? *target : targets.front();
}

ModelFacts gather_facts(const VerifiedFile& file, const SessionSizes& sizes) {
  const ModelReader reader = file.reader();
  format::Footer footer{};
  std::memcpy(&footer, file.bytes().last(sizeof(footer)).data(), sizeof(footer));
  ModelFacts facts;
  facts.path = file.name();
  facts.name = reader.name();
  facts.architecture = reader.architecture();
  facts.producer = reader.producer();
  facts.format_version = footer.format_version;
  facts.file_bytes = footer.file_bytes;
  facts.metadata_bytes = footer.metadata_bytes;
  facts.input_features = reader.slot(reader.input_slot()).width;
  facts.output_features = reader.slot(reader.output_slot()).width;
  facts.positions_max = reader.positions_max();
  facts.causal = reader.causal();
  facts.sizes = resolve_sizes(file, sizes);
  for (uint32_t i = 0; i < reader.ops(); ++i) {
    facts.ops.push_back(op_facts(reader, i, facts.sizes.positions));
  }
  for (uint32_t i = 0; i < reader.slots(); ++i) facts.slots.push_back(slot_facts(reader, i));
  for (uint32_t i = 0; i < reader.tensors(); ++i) facts.tensors.push_back(tensor_facts(reader, i));
  for (uint32_t i = 0; i < reader.masks(); ++i) {
    facts.masks.push_back(mask_facts(reader.mask(i), facts.sizes.positions));
  }
  for (uint32_t i = 0; i < reader.caches(); ++i) {
    facts.caches.push_back(cache_facts(reader, i, facts.sizes));
  }
  add_targets(file, facts);
  return facts;
}

}  // namespace arenite::tool
