// SPDX-License-Identifier: Apache-2.0
// Verifies the packed weights of each target: places, sizes, the arena formula, that the bytes
// between segments are zero, the self-test behind them, and, apart from these, the checksums.
#include <cstring>

#include "core/crc32c.h"
#include "format/self_test_layout.h"
#include "format/verify.h"
#include "format/verify_parts.h"

namespace arenite::format {
namespace {

// Writes the number to `to`, if it has less than 32 bits.
bool fits(const Checked& number, uint32_t& to) {
  if (number.saturated() >= UINT32_MAX) return false;
  to = static_cast<uint32_t>(number.value());
  return true;
}

bool all_zero(std::span<const std::byte> bytes) {
  for (const std::byte byte : bytes) {
    if (byte != std::byte{0}) return false;
  }
  return true;
}

bool verify_target(const PackedView& packed, uint32_t index, uint32_t targets_seen,
                   const Refusal& refuse) {
  if (packed.target >= kTargets) {
    return refuse("weights are packed for a target that this version does not know",
                  "packed.target", index, packed.target, kTargets - 1);
  }
  const Target target = static_cast<Target>(packed.target);
  if ((targets_seen & bit(target)) != 0) {
    return refuse("a target appears twice", "packed.target", index);
  }
  const Packing expected = packing_of(target, TensorType::kF32);
  if (packed.packing.nr != expected.nr) {
    return refuse("the packing is not that of its target", "packed.nr", index, packed.packing.nr,
                  expected.nr);
  }
  if (packed.packing.mr != expected.mr) {
    return refuse("the packing is not that of its target", "packed.mr", index, packed.packing.mr,
                  expected.mr);
  }
  return true;
}

// Bytes [begin, end). REQUIRES: begin <= end <= file.size().
std::span<const std::byte> part(std::span<const std::byte> file, uint64_t begin, uint64_t end) {
  return file.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
}

// Within what follows byte `begin_min`, and nothing but zeros between the two.
bool verify_segment(std::span<const std::byte> file, const SegmentView& segment, uint64_t begin_min,
                    Message field, uint32_t index, const Refusal& refuse) {
  const uint64_t end_max = file.size() - sizeof(Footer);
  if (segment.offset % kSegmentAlignment != 0 || segment.offset < begin_min ||
      segment.offset > end_max) {
    return refuse("a segment is misplaced", field, index, segment.offset, begin_min);
  }
  if (segment.bytes > end_max - segment.offset) {
    return refuse("a segment does not fit the file", field, index, segment.bytes,
                  end_max - segment.offset);
  }
  if (!all_zero(part(file, begin_min, segment.offset))) {
    return refuse("the bytes before a segment are not zero", field, index);
  }
  return true;
}

// What it holds is compared with results and never taken for more than a number.
bool verify_self_test(const ModelReader& model, std::span<const std::byte> file, uint64_t& end,
                      const Refusal& refuse) {
  const SelfTestView test = model.self_test();
  if (test.segment.bytes == 0) {
    if (test.segment.offset == 0 && test.segment.crc32c == 0 && test.tokens == 0) return true;
    return refuse("a self-test without bytes is not empty", "self_test");
  }
  const uint32_t tokens_max = model.positions_max() != 0 ? model.positions_max() : UINT32_MAX;
  if (test.tokens == 0 || test.tokens > tokens_max) {
    return refuse("the self-test is longer than the context, or empty", "self_test.tokens", 0,
                  test.tokens, tokens_max);
  }
  const uint64_t bytes = self_test_layout(model, test.tokens).bytes;
  if (test.segment.bytes != bytes) {
    return refuse("the self-test is not as long as its parts", "self_test.segment.bytes", 0,
                  test.segment.bytes, bytes);
  }
  if (!verify_segment(file, test.segment, end, "self_test.segment", 0, refuse)) return false;
  end = test.segment.offset + test.segment.bytes;
  return true;
}

bool verify_tensor_places(const ModelReader& model, uint32_t index, const PackedView& packed,
                          const Refusal& refuse) {
  if (packed.segment.bytes < kReadAheadBytes) {
    return refuse("a segment has no room for what kernels read ahead", "packed.segment.bytes",
                  index, packed.segment.bytes, kReadAheadBytes);
  }
  if (model.tensor_offsets(index) != model.tensors()) {
    return refuse("a target has a place for each tensor", "packed.tensor_offsets", index,
                  model.tensor_offsets(index), model.tensors());
  }
  Checked end = 0;
  for (uint32_t i = 0; i < model.tensors(); ++i) {
    const uint64_t offset = model.tensor_offset(index, i);
    if (offset % kSegmentAlignment != 0 || offset < end.saturated()) {
      return refuse("packed tensors overlap or are misaligned", "packed.tensor_offsets", i, offset,
                    end.saturated());
    }
    const TensorShape shape = model.tensor(i);
    if (shape.outputs == 0 || shape.inputs == 0) {
      return refuse("a tensor is empty", "tensors", i);
    }
    if (shape.layout != Layout::kGemm && shape.layout != Layout::kRows) {
      return refuse("a tensor has an unknown layout", "tensors.layout", i);
    }
    end = Checked(offset) + stored_bytes(shape, packed.packing);
    if (end.saturated() > packed.segment.bytes - kReadAheadBytes) {
      return refuse("a packed tensor reaches beyond its segment", "packed.tensor_offsets", i,
                    end.saturated(), packed.segment.bytes - kReadAheadBytes);
    }
  }
  return true;
}

}  // namespace

bool derive_formula(const ModelReader& model, Packing packing, ArenaFormula& formula) {
  formula = {};
  formula.nr = packing.nr;
  formula.score_rows = model.caches() == 0 ? 0 : packing.mr;
  Checked columns[2] = {0, 0};  // of tokens, of outputs
  for (uint32_t i = 0; i < model.slots(); ++i) {
    const SlotView slot = model.slot(i);
    const Checked end = Checked(slot.column) + slot.width;
    Checked& most = columns[slot.per_output ? 1 : 0];
    if (end.saturated() > most.saturated()) most = end;
  }
  bool ok = fits(columns[0] * sizeof(float), formula.activation_bytes_per_token) &&
            fits(columns[1] * sizeof(float), formula.activation_bytes_per_output);
  for (uint32_t i = 0; i < model.caches() && ok; ++i) {
    uint32_t g = 0;
    while (g < formula.group_count && formula.groups[g].lookback != model.cache_behind(i)) ++g;
    if (g == kCacheGroupsMax) return false;
    CacheGroup& group = formula.groups[g];
    if (g == formula.group_count) {
      group.lookback = model.cache_behind(i);
      ++formula.group_count;
    }
    const CacheShape shape = model.cache(i);
    ok = fits(cache_bytes_per_panel(packing, shape) + group.bytes_per_panel,
              group.bytes_per_panel) &&
         fits(cache_bytes_per_page(packing, shape) + group.bytes_per_page, group.bytes_per_page);
  }
  return ok;
}

bool verify_packed(const ModelReader& model, std::span<const std::byte> file,
                   uint64_t metadata_bytes, const Refusal& refuse) {
  const uint64_t end_max = file.size() - sizeof(Footer);
  uint64_t end = metadata_bytes;  // of what is accounted for
  uint32_t targets_seen = 0;
  for (uint32_t i = 0; i < model.packed_count(); ++i) {
    const PackedView packed = model.packed(i);
    if (!verify_target(packed, i, targets_seen, refuse) ||
        !verify_segment(file, packed.segment, end, "packed.segment", i, refuse) ||
        !verify_tensor_places(model, i, packed, refuse)) {
      return false;
    }
    targets_seen |= 1u << packed.target;
    ArenaFormula formula;
    if (model.cache_groups(i) > kCacheGroupsMax ||
        !derive_formula(model, packed.packing, formula) || !(formula == packed.formula)) {
      return refuse("the arena formula is not that of the program", "packed.formula", i,
                    packed.formula.activation_bytes_per_token, formula.activation_bytes_per_token);
    }
    end = packed.segment.offset + packed.segment.bytes;
  }
  if (!verify_self_test(model, file, end, refuse)) return false;
  if (!all_zero(part(file, end, end_max))) {
    return refuse("the bytes before the footer are not zero", "file", 0, end, end_max);
  }
  return true;
}

bool verify_segment_checksums(const ModelReader& model, std::span<const std::byte> file,
                              const Refusal& refuse) {
  const auto whole = [&](const SegmentView& segment, Message reason, Message field,
                         uint32_t index) {
    const uint32_t crc = crc32c(part(file, segment.offset, segment.offset + segment.bytes));
    return crc == segment.crc32c || refuse(reason, field, index, crc, segment.crc32c);
  };
  for (uint32_t i = 0; i < model.packed_count(); ++i) {
    if (!whole(model.packed(i).segment, "packed weights are damaged: their CRC-32C differs",
               "packed.segment.crc32c", i)) {
      return false;
    }
  }
  return whole(model.self_test().segment, "the self-test is damaged: its CRC-32C differs",
               "self_test.segment.crc32c", 0);
}

}  // namespace arenite::format
