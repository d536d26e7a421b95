// SPDX-License-Identifier: Apache-2.0
// The metadata holds offsets, checksums and arena formulas that follow from itself, and its size
// does not depend on their values: it is built as a draft to derive them, and once more with them.
#include "convert/program/writer.h"

#include <algorithm>
#include <cstring>

#include "arenite/version.h"
#include "convert/files/error.h"
#include "convert/program/packer.h"
#include "convert/tokenizers/tokenizer_compiler.h"
#include "core/crc32c.h"
#include "format/file_layout.h"
#include "format/self_test_layout.h"
#include "format/verify.h"
#include "model_generated.h"

namespace arenite::convert {
namespace {

namespace fb = flatbuffers;

// Where the weights of one target go.
struct SegmentPlan {
  Target target;
  Packing packing;
  std::vector<uint64_t> tensor_offsets;
  uint64_t bytes = 0;
  uint64_t offset = 0;
  uint32_t crc32c = 0;
  ArenaFormula formula;
};

uint64_t align(uint64_t offset) { return round_up(offset, format::kSegmentAlignment).value(); }

SegmentPlan plan_segment(const Program& program, Target target) {
  SegmentPlan segment{target, packing_of(target, TensorType::kF32), {}, 0, 0, 0, {}};
  for (const ProgramTensor& tensor : program.tensors) {
    const Checked bytes = format::stored_bytes(tensor.shape(), segment.packing);
    if (!bytes.ok()) throw InputError("tensor {} is too large to pack", quote(tensor.name));
    segment.tensor_offsets.push_back(segment.bytes);
    segment.bytes = align(segment.bytes + bytes.value());
  }
  segment.bytes += kReadAheadBytes;
  std::vector<uint32_t> behind;
  for (const ProgramCache& cache : program.caches) behind.push_back(cache.behind);
  std::sort(behind.begin(), behind.end());
  behind.erase(std::unique(behind.begin(), behind.end()), behind.end());
  const size_t groups = behind.size();
  if (groups > kCacheGroupsMax) {
    throw InputError("the layers have {} different sliding windows: a file holds at most {}",
                     groups, kCacheGroupsMax);
  }
  segment.formula.group_count = static_cast<uint32_t>(groups);  // the rest follows from the draft
  return segment;
}

format::View view(const format::ColumnView& columns) {
  return {columns.slot, columns.column, columns.width};
}

// Null where the view is absent.
class OptionalView {
 public:
  explicit OptionalView(const format::ColumnView& columns)
      : view_(view(columns)), present_(columns.width != 0) {}
  const format::View* get() const { return present_ ? &view_ : nullptr; }

 private:
  format::View view_;
  bool present_;
};

// The body of an op, and the kind that the union stores beside it.
struct OpBody {
  format::Body kind;
  fb::Offset<void> body;
};

OpBody write_attention(fb::FlatBufferBuilder& builder, const format::AttentionOp& op) {
  const format::View value = view(op.value);
  const format::View output = view(op.output);
  return {format::Body::Attention,
          format::CreateAttention(builder, OptionalView(op.query).get(), OptionalView(op.key).get(),
                                  &value, &output, op.heads, op.cache, op.mask)
              .Union()};
}

OpBody write_embedding(fb::FlatBufferBuilder& builder, const format::EmbeddingOp& op) {
  const format::View output = view(op.output);
  return {format::Body::Embedding,
          format::CreateEmbedding(builder, &output, op.tokens, op.positions, op.position_offset,
                                  op.scale, op.types, op.padding_id)
              .Union()};
}

OpBody write_norm(fb::FlatBufferBuilder& builder, const format::NormOp& op) {
  const format::View input = view(op.input);
  const format::View output = view(op.output);
  return {format::Body::Norm,
          format::CreateNorm(builder, &input, &output, static_cast<uint8_t>(op.kind), op.groups,
                             op.epsilon, op.gain, op.bias)
              .Union()};
}

OpBody write_activation(fb::FlatBufferBuilder& builder, const format::ActivationOp& op) {
  const format::View target = view(op.target);
  return {format::Body::Activation,
          format::CreateActivation(builder, &target, OptionalView(op.factor).get(),
                                   static_cast<uint8_t>(op.kind), op.cap)
              .Union()};
}

// The two views of an op are in the order of its fields in the file.
template <typename Create, typename... Rest>
fb::Offset<void> write_two(fb::FlatBufferBuilder& builder, Create create,
                           const format::ColumnView& first, const format::ColumnView& second,
                           Rest... rest) {
  const format::View views[] = {view(first), view(second)};
  return create(builder, &views[0], &views[1], rest...).Union();
}

OpBody write_body(fb::FlatBufferBuilder& builder, const format::OpView& op) {
  using format::Body;
  using format::OpKind;
  switch (op.kind) {
    case OpKind::kLinear:
      return {Body::Linear, write_two(builder, format::CreateLinear, op.linear.input,
                                      op.linear.output, op.linear.tensor)};
    case OpKind::kAttention:
      return write_attention(builder, op.attention);
    case OpKind::kEmbedding:
      return write_embedding(builder, op.embedding);
    case OpKind::kNorm:
      return write_norm(builder, op.norm);
    case OpKind::kRope: {
      const format::View target = view(op.rope.target);
      return {Body::Rope,
              format::CreateRope(builder, &target, op.rope.heads, op.rope.angles).Union()};
    }
    case OpKind::kActivation:
      return write_activation(builder, op.activation);
    case OpKind::kAdd:
      return {Body::Add, write_two(builder, format::CreateAdd, op.add.target, op.add.other)};
    case OpKind::kSelect:
      return {Body::Select, write_two(builder, format::CreateSelect, op.select.input,
                                      op.select.output, static_cast<uint8_t>(op.select.kind))};
    case OpKind::kNone:
      break;
  }
  throw std::logic_error("an op of no kind: this is a bug");
}

fb::Offset<format::Op> write_op(fb::FlatBufferBuilder& builder, const ProgramOp& op) {
  const auto name = builder.CreateString(op.name);
  const OpBody body = write_body(builder, op.body);
  return format::CreateOp(builder, name, body.kind, body.body);
}

fb::Offset<format::Mask> write_mask(fb::FlatBufferBuilder& builder, const CompiledMask& mask) {
  switch (mask.kind) {
    case MaskKind::kBand:
      break;
    case MaskKind::kStrip: {
      const auto values = builder.CreateVector(mask.values);
      const auto body = format::CreateStripMask(builder, mask.behind, mask.ahead, values);
      return format::CreateMask(builder, mask.positions, format::MaskBody::StripMask, body.Union());
    }
    case MaskKind::kTiles: {
      const auto map = builder.CreateVector(mask.map);
      const auto bits = builder.CreateVector(mask.bits);
      const auto begin = builder.CreateVector(mask.row_begin);
      const auto end = builder.CreateVector(mask.row_end);
      const auto body = format::CreateTileMask(builder, map, bits, begin, end);
      return format::CreateMask(builder, mask.positions, format::MaskBody::TileMask, body.Union());
    }
  }
  const auto body = format::CreateBandMask(builder, mask.behind, mask.ahead);
  return format::CreateMask(builder, mask.positions, format::MaskBody::BandMask, body.Union());
}

fb::Offset<format::Packed> write_packed(fb::FlatBufferBuilder& builder,
                                        const SegmentPlan& segment) {
  const ArenaFormula& formula = segment.formula;
  const format::ArenaFormula stored(formula.activation_bytes_per_token,
                                    formula.activation_bytes_per_output, formula.nr,
                                    formula.score_rows);
  std::vector<format::CacheGroup> groups;
  for (uint32_t i = 0; i < formula.group_count; ++i) {
    const CacheGroup& group = formula.groups[i];
    groups.emplace_back(group.lookback, group.bytes_per_panel, group.bytes_per_page);
  }
  const format::Segment place(segment.offset, segment.bytes, segment.crc32c);
  const auto offsets = builder.CreateVector(segment.tensor_offsets);
  const auto groups_at = builder.CreateVectorOfStructs(groups);
  return format::CreatePacked(builder, static_cast<uint8_t>(segment.target), segment.packing.nr,
                              segment.packing.mr, &place, offsets, &stored, groups_at);
}

fb::DetachedBuffer build_metadata(const Program& program, const std::vector<SegmentPlan>& segments,
                                  const format::SelfTest& self_test) {
  fb::FlatBufferBuilder builder;
  builder.ForceDefaults(true);  // the size must not depend on values being zero
  std::vector<format::Slot> slots;
  for (const format::SlotView& slot : program.slots) {
    slots.emplace_back(slot.width, slot.column, slot.first_op, slot.last_op,
                       slot.per_output ? 1 : 0);
  }
  std::vector<fb::Offset<format::Op>> ops;
  for (const ProgramOp& op : program.ops) ops.push_back(write_op(builder, op));
  std::vector<format::Tensor> tensors;
  std::vector<fb::Offset<fb::String>> tensor_names;
  for (const ProgramTensor& tensor : program.tensors) {
    tensors.emplace_back(tensor.outputs, tensor.inputs, static_cast<uint32_t>(tensor.layout));
    tensor_names.push_back(builder.CreateString(tensor.name));
  }
  std::vector<format::Cache> caches;
  for (const ProgramCache& cache : program.caches) {
    caches.emplace_back(cache.shape.kv_heads, cache.shape.head_dim, cache.shape.value_dim,
                        cache.behind);
  }
  std::vector<format::HiddenState> hidden_states;
  for (const format::HiddenStateView& state : program.hidden_states) {
    hidden_states.emplace_back(state.op, view(state.view));
  }
  std::vector<fb::Offset<format::Mask>> masks;
  for (const CompiledMask& mask : program.masks) masks.push_back(write_mask(builder, mask));
  std::vector<fb::Offset<format::Packed>> packed;
  for (const SegmentPlan& segment : segments) {
    packed.push_back(write_packed(builder, segment));
  }
  fb::Offset<format::Tokenizer> tokenizer;
  if (program.tokenizer) tokenizer = write_tokenizer(builder, *program.tokenizer);
  const auto labels_at = builder.CreateVectorOfStrings(program.labels);
  const auto producer = builder.CreateString(std::string("arenite ") + version());
  const auto name = builder.CreateString(program.name);
  const auto architecture = builder.CreateString(program.architecture);
  const auto slots_at = builder.CreateVectorOfStructs(slots);
  const auto ops_at = builder.CreateVector(ops);
  const auto tensors_at = builder.CreateVectorOfStructs(tensors);
  const auto names_at = builder.CreateVector(tensor_names);
  const auto caches_at = builder.CreateVectorOfStructs(caches);
  const auto masks_at = builder.CreateVector(masks);
  const auto packed_at = builder.CreateVector(packed);
  const auto states_at = builder.CreateVectorOfStructs(hidden_states);
  builder.Finish(
      format::CreateModel(builder, producer, name, architecture, program.positions_max,
                          program.input_slot, program.output_slot, slots_at, ops_at, tensors_at,
                          names_at, caches_at, masks_at, packed_at, program.vocab_size, states_at,
                          tokenizer, labels_at, &self_test),
      format::ModelIdentifier());
  return builder.Release();
}

// Each tensor is read once and packed for every target, then forgotten.
void write_weights(const Program& program, std::vector<SegmentPlan>& segments, AlignedBytes& file) {
  for (size_t i = 0; i < program.tensors.size(); ++i) {
    const ProgramTensor& tensor = program.tensors[i];
    const std::vector<float> loaded = tensor.weights.empty() ? tensor.load() : std::vector<float>();
    const std::span<const float> weights = tensor.weights.empty() ? loaded : tensor.weights;
    for (const SegmentPlan& segment : segments) {
      const uint64_t bytes = format::stored_bytes(tensor.shape(), segment.packing).value();
      float* const packed =
          reinterpret_cast<float*>(file.data() + segment.offset + segment.tensor_offsets[i]);
      pack_weights(tensor, weights, segment.packing,
                   {packed, static_cast<size_t>(bytes / sizeof(float))});
    }
  }
  for (SegmentPlan& segment : segments) {
    segment.crc32c = crc32c({file.data() + segment.offset, static_cast<size_t>(segment.bytes)});
  }
}

}  // namespace

AlignedBytes write_model(const Program& program, const std::vector<Target>& targets,
                         uint32_t self_test_tokens) {
  std::vector<SegmentPlan> segments;
  for (const Target target : targets) segments.push_back(plan_segment(program, target));
  const fb::DetachedBuffer draft = build_metadata(program, segments, {});
  const size_t metadata_bytes = draft.size();
  const format::ModelReader reader(std::as_bytes(std::span(draft.data(), draft.size())));
  uint64_t end = align(metadata_bytes);
  for (SegmentPlan& segment : segments) {
    segment.offset = end;
    end = align(end + segment.bytes);
    if (!format::derive_formula(reader, segment.packing, segment.formula)) {
      throw InputError("the model is too large: its arena overflows 64 bits");
    }
  }
  format::SelfTest self_test;
  if (self_test_tokens != 0) {
    const uint64_t bytes = format::self_test_layout(reader, self_test_tokens).bytes;
    const std::vector<std::byte> zeros(static_cast<size_t>(bytes));
    self_test = {format::Segment(end, bytes, crc32c(zeros)), self_test_tokens};
    end = align(end + bytes);
  }

  if (end > PTRDIFF_MAX - sizeof(format::Footer)) {
    throw InputError(
        "the model takes {} bytes, more than this machine can address: convert it on a 64-bit "
        "machine",
        end);
  }
  AlignedBytes file(static_cast<size_t>(end) + sizeof(format::Footer));
  write_weights(program, segments, file);
  const fb::DetachedBuffer metadata = build_metadata(program, segments, self_test);
  std::memcpy(file.data(), metadata.data(), metadata.size());

  format::Footer footer{format::kFooterMagic,
                        format::kFormatVersion,
                        file.size(),
                        metadata_bytes,
                        crc32c(std::span<const std::byte>(file.span()).first(metadata_bytes)),
                        0};
  std::memcpy(file.data() + end, &footer, sizeof(footer));
  return file;
}

void check_format_limits(const Program& program) {
  const struct {
    const char* what;
    size_t count;
    size_t count_max;
  } lists[] = {{"masks", program.masks.size(), format::kMasksMax},
               {"ops", program.ops.size(), format::kOpsMax},
               {"slots", program.slots.size(), format::kSlotsMax},
               {"tensors", program.tensors.size(), format::kTensorsMax}};
  for (const auto& list : lists) {
    if (list.count > list.count_max) {
      throw InputError("the model needs {} {}: a file holds at most {}", list.count, list.what,
                       list.count_max);
    }
  }
}

}  // namespace arenite::convert
