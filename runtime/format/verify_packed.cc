// SPDX-License-Identifier: Apache-2.0
// Verifies the segments of a file: the packed weights of each target (offsets, sizes, the arena
// formula), the self-test after them, and the zeros between segments. The checksums of segments are
// a separate pass, which a caller can skip.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "format/reader.h"
#include "format/verify.h"

namespace arenite::format {
namespace {

bool all_zero(std::span<const std::byte> bytes) {
  for (const std::byte byte : bytes) {
    if (byte != std::byte{0}) return false;
  }
  return true;
}

bool verify_target(const PackedView& packed, uint32_t index, uint32_t targets_seen,
                   const Refusal& refuse) {
  if (packed.target >= kTargets) {
    return refuse("weights are packed for an unknown target", "packed.target", index, packed.target,
                  kTargets - 1);
  }
  const Target target = static_cast<Target>(packed.target);
  if ((targets_seen & bit(target)) != 0) {
    return refuse("a target appears twice", "packed.target", index);
  }
  return true;
}

// REQUIRES: the segment lies within the file.
std::span<const std::byte> bytes_of(std::span<const std::byte> file, const SegmentView& segment) {
  return file.subspan(static_cast<size_t>(segment.begin()), static_cast<size_t>(segment.bytes()));
}

// Checks that a segment lies between byte `end` and the footer, and that the bytes from `end` to
// its start are zero. Then moves `end` to the end of the segment. Diagnostics count in units of
// kSegmentUnit bytes, as the file does.
bool verify_segment(std::span<const std::byte> file, const SegmentView& segment, size_t& end,
                    Message field, uint32_t index, const Refusal& refuse) {
  const size_t first = (end + kSegmentUnit - 1) / kSegmentUnit;
  const size_t last = (file.size() - sizeof(Footer)) / kSegmentUnit;
  if (segment.offset < first || segment.offset > last) {
    return refuse("a segment is misplaced", field, index, segment.offset, first);
  }
  if (segment.length > last - segment.offset) {
    return refuse("a segment does not fit the file", field, index, segment.length,
                  last - segment.offset);
  }
  if (!all_zero(file.subspan(end, static_cast<size_t>(segment.begin()) - end))) {
    return refuse("the bytes before a segment are not zero", field, index);
  }
  end = static_cast<size_t>(segment.end());
  return true;
}

// Checks only where the self-test lies and how long it is. Its values need no check: the runtime
// uses them as tokens, features, tolerances and digests, never as sizes or offsets.
bool verify_self_test(const ModelReader& model, std::span<const std::byte> file, size_t& end,
                      const Refusal& refuse) {
  const SelfTestView test = model.self_test();
  if (test.segment.length == 0) {
    if (test.segment.offset == 0 && test.segment.crc32c == 0 && test.tokens == 0) return true;
    return refuse("the self-test has fields, but no bytes", "self_test");
  }
  const uint32_t tokens_max = model.positions_max() != 0 ? model.positions_max() : UINT32_MAX;
  if (test.tokens == 0 || test.tokens > tokens_max) {
    return refuse("the self-test is empty, or longer than the context", "self_test.tokens", 0,
                  test.tokens, tokens_max);
  }
  const uint32_t allowed = allowed_length(model.lengths(), test.tokens);
  if (test.tokens != allowed) {
    return refuse("the self-test has a length that the model does not take", "self_test.tokens", 0,
                  test.tokens, allowed);
  }
  const uint64_t bytes = self_test_layout(model, test.tokens).bytes;
  if (test.segment.bytes() != bytes) {
    return refuse("the self-test is not as long as its parts", "self_test.segment.length", 0,
                  test.segment.bytes(), bytes);
  }
  return verify_segment(file, test.segment, end, "self_test.segment", 0, refuse);
}

// REQUIRES: tensor_offsets has an entry for each tensor of each target.
bool verify_tensor_places(const ModelReader& model, uint32_t index, const Refusal& refuse) {
  const PackedView& packed = model.packed(index);
  if (packed.segment.length == 0) {
    return refuse("a segment has no room to read ahead", "packed.segment.length", index, 0, 1);
  }
  const auto end_max = static_cast<size_t>(packed.segment.bytes()) - kReadAheadBytes;
  Checked end = 0;
  for (uint32_t i = 0; i < model.tensors(); ++i) {
    const Checked offset = model.tensor_offset(index, i);
    if (offset.value() < end.value()) {
      return refuse("packed tensors overlap", "tensor_offsets", i, offset.value(), end.value());
    }
    end = offset + stored_bytes(model.tensor(i), packed.packing(model.tensor(i).type));
    if (end.value() > end_max) {
      return refuse("a packed tensor reaches beyond its segment", "tensor_offsets", i, end.value(),
                    end_max);
    }
  }
  return true;
}

bool verify_formula(const ModelReader& model, uint32_t index, const Refusal& refuse) {
  arenite::ArenaFormula expected;
  const Target target = static_cast<Target>(model.packed(index).target);
  if (!derive_formula(model, target, expected)) {
    return refuse("the arena is larger than the formula can express", "packed.formula", index);
  }
  const arenite::ArenaFormula& found = model.formula(index);
  if constexpr (!linked(Need::kInt8Cache)) {  // these coefficients are never evaluated
    for (uint32_t g = 0; g < kCacheGroupsMax; ++g) expected.groups[g].int8 = found.groups[g].int8;
  }
  static_assert(std::has_unique_object_representations_v<arenite::ArenaFormula>);
  if (std::memcmp(&found, &expected, sizeof(found)) == 0) return true;
  return refuse("the arena formula is not that of the program", "packed.formula", index,
                found.axes[0].activations, expected.axes[0].activations);
}

// Stores `bytes` as a coefficient of 32 bits. Returns false if it is too large.
bool fit(Checked bytes, uint32_t& coefficient) {
  coefficient = static_cast<uint32_t>(bytes.value());
  return bytes.value() < UINT32_MAX;
}

bool add_bytes(const CacheShape& shape, Packing packing, arenite::CacheBytes& bytes) {
  return fit(Checked(bytes.per_panel) + cache_bytes_per_panel(packing, shape), bytes.per_panel) &&
         fit(Checked(bytes.per_page) + cache_bytes_per_page(packing, shape), bytes.per_page);
}

// Adds a cache to the group of its axis and lookback, or to a new group. Returns false if there are
// more than kCacheGroupsMax groups or if a coefficient is too large.
bool add_cache(const CacheView& cache, uint32_t axis, Target target,
               arenite::ArenaFormula& formula) {
  uint32_t g = 0;
  const auto fits = [&](const arenite::CacheGroup& group) {
    return group.axis == axis && group.lookback == cache.lookback;
  };
  while (g < formula.group_count && !fits(formula.groups[g])) ++g;
  if (g == kCacheGroupsMax) return false;
  arenite::CacheGroup& group = formula.groups[g];
  if (g == formula.group_count) {
    group.axis = axis;
    group.lookback = cache.lookback;
    ++formula.group_count;
  }
  if (!add_bytes(cache.shape, packing_of(target, TensorType::kF32), group.f32)) return false;
  return !linked(Need::kInt8Cache) ||
         add_bytes(cache.shape, packing_of(target, TensorType::kInt8), group.int8);
}

// Adds the scratch of ops with windows, and the history that they keep of each sequence in a causal
// function. Returns false if a coefficient is too large.
bool add_windows(const ModelReader& model, Target target, arenite::ArenaFormula& formula) {
  uint32_t of = 0;
  bool keeps_rows = model.sees_windows() && model.causal();
  for (uint32_t i = 0; i < model.ops(); ++i) {
    if (kFunctionsLinked && model.function_of_op(i) != of) {
      of = model.function_of_op(i);
      keeps_rows = model.sees_windows(of) && model.causal(of);
    }
    if (!model.has_windows(i)) continue;
    const OpView& op = model.op(i);
    const uint32_t channels = op.views[kInput].width;
    const Windows windows = model.windows_of(op);
    WindowScratch scratch = depthwise_scratch(windows, channels);
    if (op.kind == OpKind::kConvolution) {
      const uint32_t tensor = op.numbers[ConvolutionOp::kTensor];
      // verify_ops and verify_tensors refuse these.
      if (tensor >= model.tensors() || !holds_weights(model.tensor(tensor).type)) continue;
      const TensorType type = model.tensor(tensor).type;
      scratch = convolution_scratch(packing_of(target, type), windows, channels);
    }
    uint32_t& most = formula.scratch_bytes_per_thread;
    if (scratch.bytes.value() > most && !fit(scratch.bytes, most)) return false;
    if (keeps_rows &&
        !fit(Checked(formula.history_bytes) + model.history_bytes(op), formula.history_bytes)) {
      return false;
    }
  }
  return true;
}

// Adds the scratch of products with q8 or q4 weights, and of experts. Returns false if a
// coefficient is too large.
bool add_product(const ModelReader& model, const OpView& op, Target target,
                 arenite::ArenaFormula& formula) {
  const uint32_t tensor = number_of(op, NumberType::kMatrix);
  const uint32_t slot = op.views[kOutput].slot;
  // verify_slots, verify_tensors, verify_flow and verify_ops refuse all other files.
  if (tensor >= model.tensors() || slot >= model.slots() || model.slot(slot).axis >= kAxesMax ||
      !holds_weights(model.tensor(tensor).type)) {
    return true;
  }
  const TensorShape& shape = model.tensor(tensor);
  const Packing packing = packing_of(target, shape.type);
  Checked of_row = 0, of_thread = 0;
  if (linked(Need::kExperts) && op.kind == OpKind::kExperts) {
    const uint32_t count = op.numbers[ExpertsOp::kCount];
    if (count == 0) return true;
    const ExpertsScratch scratch =
        experts_scratch(packing, count, op.views[kIds].width, shape.inputs, shape.outputs / count);
    of_row = scratch.row;
    of_thread = scratch.thread;
  } else if (weight_type(shape.type).rounds_inputs) {
    of_row = quantized_scratch_bytes(shape.inputs);
    of_thread = product_scratch_bytes(packing, shape.inputs);
  }
  uint32_t& most = formula.axes[model.slot(slot).axis].scratch;
  uint32_t& most_of_thread = formula.scratch_bytes_per_thread;
  return (of_row.value() <= most || fit(of_row, most)) &&
         (of_thread.value() <= most_of_thread || fit(of_thread, most_of_thread));
}

}  // namespace

bool verify_tensors(const ModelReader& model, const Refusal& refuse) {
  for (uint32_t i = 0; i < model.tensors(); ++i) {
    const TensorShape& shape = model.tensor(i);
    if (shape.outputs == 0 || shape.inputs == 0) return refuse("a tensor is empty", "tensors", i);
    if (shape.layout > Layout::kPlain) {
      return refuse("a tensor has an unknown layout", "tensors.layout", i,
                    static_cast<uint32_t>(shape.layout), static_cast<uint32_t>(Layout::kPlain));
    }
    if (!holds_weights(shape.type)) {
      return refuse("a tensor's type is unknown or holds no weights", "tensors.type", i,
                    static_cast<uint32_t>(shape.type), kWeightTypeCount - 1);
    }
    if constexpr (!kQuantizedLinked) continue;
    const WeightType& type = weight_type(shape.type);
    if (type.block != 0 && shape.inputs % type.block != 0) {
      return refuse("a row of q4 is not a whole number of blocks", "tensors.inputs", i,
                    shape.inputs, type.block);
    }
    if (shape.inputs > type.inputs_max) {
      return refuse("a row of q8 is too long for its sums", "tensors.inputs", i, shape.inputs,
                    type.inputs_max);
    }
  }
  return true;
}

bool derive_formula(const ModelReader& model, Target target, arenite::ArenaFormula& formula) {
  const Packing packing = packing_of(target, TensorType::kF32);
  formula = {};
  formula.nr = packing.nr;
  bool ok = true;
  for (uint32_t i = 0; i < model.ops(); ++i) {
    const OpKind kind = model.op(i).kind;
    if (!known(kind)) continue;
    if (row_of(kind).scratch == Scratch::kScores) formula.score_rows = packing.mr;
    const bool is_product = row_of(kind).scratch == Scratch::kQuantizedRows;
    const bool has_experts = linked(Need::kExperts) && row_of(kind).scratch == Scratch::kExperts;
    if ((kInt8RowsLinked && is_product) || has_experts) {
      ok = ok && add_product(model, model.op(i), target, formula);
    }
  }
  for (uint32_t i = 0; i < model.slots(); ++i) {
    const SlotView& slot = model.slot(i);
    const uint32_t area = slot.axis < model.axes().size() ? model.area_of(slot.axis) : kAxesMax;
    if (area >= kAxesMax) continue;
    uint32_t& most = formula.axes[area].activations;
    const Checked bytes = (Checked(slot.offset) + slot.width) * sizeof(float);
    if (bytes.value() > most) ok = ok && fit(bytes, most);
  }
  if constexpr (kWindowsLinked) ok = ok && add_windows(model, target, formula);
  if constexpr (linked(Need::kSound)) {
    const Checked history = Checked(formula.history_bytes) + model.sound_bytes();
    ok = ok && fit(history, formula.history_bytes);
  }
  for (uint32_t i = 0; i < model.caches() && ok; ++i) {
    ok = add_cache(model.cache(i), model.axis_of_cache(i), target, formula);
  }
  return ok;
}

bool verify_packed(const ModelReader& model, std::span<const std::byte> file, size_t metadata_bytes,
                   const Refusal& refuse) {
  size_t end = metadata_bytes;  // bytes [0, end) are accounted for
  uint32_t targets_seen = 0;
  const uint32_t targets = model.packed_count();
  if (model.tensor_offsets() != targets * model.tensors()) {
    return refuse("expected an offset for each target and tensor", "tensor_offsets", 0,
                  model.tensor_offsets(), targets * model.tensors());
  }
  for (uint32_t i = 0; i < model.packed_count(); ++i) {
    const PackedView& packed = model.packed(i);
    if (!verify_target(packed, i, targets_seen, refuse) ||
        !verify_segment(file, packed.segment, end, "packed.segment", i, refuse) ||
        !verify_tensor_places(model, i, refuse) || !verify_formula(model, i, refuse)) {
      return false;
    }
    targets_seen |= 1u << packed.target;
  }
  if (!verify_self_test(model, file, end, refuse)) return false;
  if (!all_zero(file.subspan(end, file.size() - sizeof(Footer) - end))) {
    return refuse("the bytes before the footer are not zero", "file");
  }
  return true;
}

bool verify_segment_checksums(const ModelReader& model, std::span<const std::byte> file,
                              Crc32c crc32c, const Refusal& refuse) {
  const uint32_t targets = model.packed_count();
  for (uint32_t i = 0; i <= targets; ++i) {  // the self-test comes last
    const SegmentView segment = i < targets ? model.packed(i).segment : model.self_test().segment;
    const std::span<const std::byte> bytes = bytes_of(file, segment);
    const uint32_t crc = crc32c(bytes.data(), bytes.size());
    if (crc == segment.crc32c) continue;
    if (i < targets) {
      return refuse("packed weights are damaged: their CRC-32C differs", "packed.segment.crc32c", i,
                    crc, segment.crc32c);
    }
    return refuse("the self-test is damaged: its CRC-32C differs", "self_test.segment.crc32c", 0,
                  crc, segment.crc32c);
  }
  return true;
}

}  // namespace arenite::format
