// SPDX-License-Identifier: Apache-2.0
// Reads a verified file; every number that a formula gives comes from the runtime's own formula.
#include "cli/inspect_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "cli/text_table.h"
#include "convert/check/check_session.h"
#include "convert/masks/masks.h"
#include "format/bounds.h"
#include "format/model_needs.h"

namespace arenite::tool {
namespace {

using format::ModelReader;

OpFacts op_facts(const ModelReader& reader, uint32_t index, uint32_t positions) {
  OpFacts facts;
  facts.index = index;
  facts.name = reader.op_name(index);
  facts.op = reader.op(index);
  facts.cost = op_cost(reader, index);
  Checked pass = Checked(facts.cost.per_token) * positions;
  const uint32_t mask = format::number_of(facts.op, format::NumberType::kMask);
  if (mask != format::kAbsent) {
    const convert::MaskPairs pairs(reader.mask(mask), positions);
    pass = pass + Checked(facts.cost.per_pair) * pairs.visible();
  }
  facts.pass_multiply_adds = pass.value();
  facts.writes = facts.op.views[format::kOutput].slot;
  for (const format::ColumnView& view : facts.op.views) {
    const bool in_place = view == facts.op.views[format::kInput];
    if (view.width == 0 || (&view == &facts.op.views[format::kOutput] && !in_place)) continue;
    const bool listed = std::count(facts.reads.begin(), facts.reads.end(), view.slot) != 0;
    if (!listed) facts.reads.push_back(view.slot);
  }
  return facts;
}

SlotFacts slot_facts(const ModelReader& reader, uint32_t index) {
  const format::SlotView slot = reader.slot(index);
  if (reader.vocab_size() == 0 && index == reader.input_slot_of_rows())
    return {index, "input", slot};
  if (index == reader.output_slot()) return {index, "output", slot};
  return {index, reader.op_name(slot.first_op), slot};
}

TensorFacts tensor_facts(const ModelReader& reader, uint32_t index) {
  TensorFacts facts{index, reader.tensor_name(index), reader.tensor(index)};
  for (uint32_t i = 0; i < reader.packed_count(); ++i) {
    const format::PackedView packed = reader.packed(i);
    facts.packed_bytes.push_back(
        {name(static_cast<Target>(packed.target)),
         format::stored_bytes(facts.shape, packed.packing(facts.shape.type)).value()});
  }
  return facts;
}

MaskFacts mask_facts(const ModelReader& reader, uint32_t index, uint32_t positions) {
  const MaskView mask = reader.mask(index);
  const uint64_t side = mask.positions != 0 ? mask.positions : positions;
  return {index, mask, convert::describe_mask(mask), convert::mask_bytes(mask),
          (Checked(side) * side * sizeof(float)).value()};
}

CacheFacts cache_facts(const ModelReader& reader, uint32_t index, const SizeOptions& sizes) {
  CacheFacts facts{index, reader.cache(index)};
  const uint32_t prefix = reader.prefix_rows();
  const SessionSizes session = {sizes.positions + prefix,
                                rows_max(prefix, sizes.tokens, sizes.sequences), sizes.sequences, 0,
                                sizes.threads};
  for (uint32_t i = 0; i < reader.packed_count(); ++i) {
    const auto target = static_cast<Target>(reader.packed(i).target);
    const Packing packing = packing_of(target, sizes.kv_type());
    const uint32_t held = cache_positions(facts.cache.lookback, packing.nr, session);
    const Checked bytes =
        Checked(panels_of(packing, held)) * cache_bytes_per_panel(packing, facts.cache.shape) +
        Checked(value_pages(held)) * cache_bytes_per_page(packing, facts.cache.shape);
    facts.bytes.push_back({name(target), (bytes * sizes.sequences).value()});
  }
  return facts;
}

void add_targets(const VerifiedFile& file, ModelFacts& facts) {
  const std::vector<ArenaLayout> arenas = plan_targets(file, facts.sizes);
  LoadOptions options;
  options.checksums = Checksums::kSkip;  // VerifiedFile was about them
  const Result<Model> model = Model::load(file.bytes(), nullptr, options);
  for (uint32_t i = 0; i < arenas.size(); ++i) {
    const format::PackedView packed = file.reader().packed(i);
    const Target target = static_cast<Target>(packed.target);
    facts.targets.push_back({target, packed, file.reader().formula(i), arenas[i],
                             (cpu_targets() & bit(target)) != 0,
                             model.ok() && model->target() == target});
  }
}

CallFacts facts_of_call(const ModelFacts& facts, std::string name, const CallSize& size) {
  const CallBounds& bounds = facts.call_bounds;
  CallSize worst = size;
  worst.finite = false;
  return {std::move(name),
          size,
          multiply_adds_max(bounds, size),
          bytes_read_max(bounds, size),
          multiply_adds_max(bounds, worst),
          bytes_read_max(bounds, worst)};
}

}  // namespace

std::string field_name(const char* field) {
  const std::string_view name = field;
  return std::string(name.substr(name.find('.') + 1));
}

bool is_terms_by(const format::OpView& op, uint32_t number) {
  return op.kind == format::OpKind::kAttention && number == format::AttentionOp::kTermsBy;
}

std::string calls_text(const format::ModelReader& reader) {
  if (reader.causal()) return "causal: whole sequences or token by token";
  return fmt::format("whole sequences only: {}", why_whole_sequences(reader));
}

std::string image_text(const ImagePatches& image) {
  return fmt::format("images [{}, {}, {}], {} patches [{}, {}, {}]", image.channels, image.height,
                     image.width, image.patches().value(), image.channels, image.patch_height,
                     image.patch_width);
}

std::string terms_name(const format::OpView& op) {
  return name(op.choice<ScoreTerms>(format::AttentionOp::kTermsBy));
}

std::string function_name(const format::OpView& op) {
  return name(format::need_of(format::row_of(op.kind).need, format::function_of(op))).name;
}

const char* tokenizer_kind_name(format::TokenizerKind kind) {
  switch (kind) {
    case format::TokenizerKind::kBytePairs:
      return "byte pairs";
    case format::TokenizerKind::kSentencePieces:
      return "sentence pieces";
    case format::TokenizerKind::kCharacters:
      return "characters";
    case format::TokenizerKind::kWordPiece:
      return "WordPiece";
  }
  return "";
}

const char* layout_name(format::Layout layout) {
  switch (layout) {
    case format::Layout::kGemm:
      return "gemm";
    case format::Layout::kPlain:
      return "rows";
  }
  return "";
}

const TargetFacts& ModelFacts::shown_target() const {
  const auto target = std::find_if(targets.begin(), targets.end(),
                                   [](const TargetFacts& candidate) { return candidate.chosen; });
  return target != targets.end() ? *target : targets.front();
}

ModelFacts gather_facts(const VerifiedFile& file, const SizeOptions& sizes) {
  const ModelReader reader = file.reader();
  ModelFacts facts(file);
  std::memcpy(&facts.footer, file.bytes().last(sizeof(facts.footer)).data(), sizeof(facts.footer));
  if (format::has_tokenizer(file.bytes())) {
    const format::TokenizerView tokenizer = format::tokenizer_view(file.bytes());
    facts.tokenizer_kind = tokenizer_kind_name(tokenizer.kind);
    facts.tokenizer_tokens = tokenizer.vocab_size();
  }
  if (reader.vocab_size() == 0)
    facts.input_features = reader.slot(reader.input_slot_of_rows()).width;
  for (uint32_t i = 0; i < reader.labels(); ++i) facts.labels.emplace_back(reader.label(i));
  facts.has_row_of_sequence =
      convert::has_row_of_sequence(file.bytes(), convert::authors_outputs(file.bytes()));
  facts.sizes = resolve_sizes(file, sizes);
  for (uint32_t i = 0; i < reader.ops(); ++i) {
    facts.ops.push_back(op_facts(reader, i, facts.sizes.positions));
  }
  for (uint32_t i = 0; i < reader.slots(); ++i) facts.slots.push_back(slot_facts(reader, i));
  for (uint32_t i = 0; i < reader.tensors(); ++i) facts.tensors.push_back(tensor_facts(reader, i));
  for (uint32_t i = 0; i < reader.masks(); ++i) {
    facts.masks.push_back(mask_facts(reader, i, facts.sizes.positions));
  }
  for (uint32_t i = 0; i < reader.caches(); ++i) {
    facts.caches.push_back(cache_facts(reader, i, facts.sizes));
  }
  format::for_each_need(file.bytes(), [&](Need found, uint32_t) {
    const std::string need = need_name(found);
    if (std::ranges::find(facts.needs, need) == facts.needs.end()) facts.needs.push_back(need);
    return true;
  });
  add_targets(file, facts);
  const TensorType kv_type = facts.sizes.kv_type();
  const auto shown = static_cast<uint32_t>(&facts.shown_target() - facts.targets.data());
  facts.call_bounds = call_bounds(reader, shown, kv_type);
  for (uint32_t i = 0; i < reader.ops(); ++i) {
    facts.ops[i].pass_traffic = op_traffic(reader, shown, i, facts.sizes.positions, kv_type);
  }
  return facts;
}

CallFacts largest_run(const ModelFacts& facts) {
  const uint64_t prefix = facts.reader.prefix_rows();
  const uint64_t tokens = std::min(facts.sizes.tokens, facts.sizes.positions);
  bool selects = false;
  for (const OpFacts& op : facts.ops) selects |= op.op.kind == format::OpKind::kSelect;
  return facts_of_call(facts, fmt::format("run of {}", counted(tokens, "token")),
                       {0, tokens + prefix, selects ? 1 : tokens + prefix});
}

std::optional<CallFacts> last_step(const ModelFacts& facts) {
  const uint64_t positions = facts.sizes.positions;
  if (!facts.reader.causal() || positions <= 1) return std::nullopt;
  return facts_of_call(facts, fmt::format("step after {}", counted(positions - 1, "token")),
                       {positions - 1 + facts.reader.prefix_rows(), 1, 1});
}

uint64_t load_steps_max(const ModelFacts& facts) {
  return format::load_steps_max(format::load_size(facts.reader, facts.footer));
}

}  // namespace arenite::tool
