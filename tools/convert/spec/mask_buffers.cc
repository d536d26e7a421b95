// SPDX-License-Identifier: Apache-2.0
// Decides what hides: by the option, by rows that would see nothing, by the diagonal, by the name.
#include "convert/spec/mask_buffers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "convert/files/error.h"

namespace arenite::convert {
namespace {

// Additive masks hide with -infinity, the lowest float, -1e9 or -10000, so this value or less
// hides.
constexpr double kHidingAtMost = -1e4;
constexpr uint64_t kPositionsMax = 1u << 15;

uint32_t mask_positions(const StoredTensor& tensor, const std::string& file) {
  const std::vector<uint64_t>& shape = tensor.shape;
  const size_t rank = shape.size();
  bool square = rank >= 2 && shape[rank - 1] == shape[rank - 2] && shape[rank - 1] > 0;
  for (size_t i = 0; i + 2 < rank; ++i) square = square && shape[i] == 1;
  if (!square) {
    throw InputError("{}: mask {} has shape [{}]: expected [T, T], or leading extents of 1", file,
                     quote(tensor.name), fmt::join(shape, ", "));
  }
  if (shape[rank - 1] > kPositionsMax) {
    throw InputError("{}: mask {} has {} positions: at most {} are supported", file,
                     quote(tensor.name), shape[rank - 1], kPositionsMax);
  }
  return static_cast<uint32_t>(shape[rank - 1]);
}

// Whether the buffer is additive: 0 shows and a large negative number hides. Throws InputError
// unless all values are 0 and 1, or 0 and such numbers.
bool is_additive(std::span<const float> values, const StoredTensor& tensor,
                 const std::string& file) {
  bool has_one = false;
  bool has_hiding = false;
  for (size_t i = 0; i < values.size(); ++i) {
    has_one = has_one || values[i] == 1.0f;
    has_hiding = has_hiding || values[i] <= kHidingAtMost;
    if (values[i] == 0.0f || values[i] == 1.0f || values[i] <= kHidingAtMost) continue;
    throw InputError(
        "{}: mask {} has the value {} at index {}: expected only 0 and 1, or 0 and "
        "-infinity (or a number below {})",
        file, quote(tensor.name), values[i], i, kHidingAtMost);
  }
  if (has_one && has_hiding) {
    throw InputError("{}: mask {} mixes 1 with large negative numbers: expected one convention",
                     file, quote(tensor.name));
  }
  return has_hiding;
}

bool hides_a_row(const DenseMask& dense, bool visible_value) {
  for (uint32_t row = 0; row < dense.positions; ++row) {
    bool seen = false;
    for (uint32_t key = 0; key < dense.positions && !seen; ++key) {
      seen = dense.at(row, key) == visible_value;
    }
    if (!seen) return true;
  }
  return false;
}

// Returns the diagonal's value, or nullopt if it is not constant.
std::optional<bool> diagonal(const DenseMask& dense) {
  for (uint32_t i = 1; i < dense.positions; ++i) {
    if (dense.at(i, i) != dense.at(0, 0)) return std::nullopt;
  }
  return dense.at(0, 0);
}

// Decides which value means visible; `ones` is the buffer with true for 1.
bool decide(const DenseMask& ones, const std::string& name, std::optional<MaskOnes> given,
            std::string& meaning) {
  if (given) {
    meaning = *given == MaskOnes::kVisible ? "1 shows, as requested" : "1 hides, as requested";
    return *given == MaskOnes::kVisible;
  }
  const bool as_shown = hides_a_row(ones, true);
  const bool as_hidden = hides_a_row(ones, false);
  if (as_shown != as_hidden) {
    meaning = as_hidden ? "1 shows: otherwise a row would see nothing"
                        : "1 hides: otherwise a row would see nothing";
    return as_hidden;
  }
  if (const std::optional<bool> own = diagonal(ones)) {
    meaning = *own ? "1 shows: the diagonal is 1" : "1 hides: the diagonal is 0";
    return *own;
  }
  const std::string last = name.substr(name.rfind('.') + 1);
  const bool shows = last != "mask";
  meaning = fmt::format("1 {}: by the name {}", shows ? "shows" : "hides", quote(last));
  return shows;
}

}  // namespace

MaskBuffer read_mask_buffer(const StoredTensor& tensor, const std::string& file, uint32_t positions,
                            std::optional<MaskOnes> ones) {
  const uint32_t stored = mask_positions(tensor, file);
  if (positions > stored) {
    throw InputError("{}: mask {} covers {} positions, but --context asks for {}", file,
                     quote(tensor.name), stored, positions);
  }
  const uint32_t kept = positions != 0 ? positions : stored;
  const Floats values = tensor.load();
  MaskBuffer result;
  DenseMask whole(stored);
  if (is_additive(values, tensor, file)) {
    result.meaning = "0 shows, large negative numbers hide";
    for (size_t i = 0; i < values.size(); ++i) whole.visible[i] = values[i] == 0.0f;
  } else {
    for (size_t i = 0; i < values.size(); ++i) whole.visible[i] = values[i] == 1.0f;
    if (!decide(whole, tensor.name, ones, result.meaning)) whole.visible.flip();
  }
  result.dense = DenseMask(kept);
  for (uint32_t row = 0; row < kept; ++row) {
    for (uint32_t key = 0; key < kept; ++key) result.dense.set(row, key, whole.at(row, key));
  }
  return result;
}

std::string describe(const BandChoice& mask) {
  if (!mask.causal) return "bidirectional";
  return mask.window == 0 ? "causal" : fmt::format("a causal window of {}", mask.window);
}

BandChoice read_band_buffer(const StoredTensor& tensor, const std::string& file,
                            std::optional<MaskOnes> ones) {
  const MaskBuffer buffer = read_mask_buffer(tensor, file, 0, ones);
  const CompiledMask mask =
      compile_mask(buffer.dense, fmt::format("{}: {}", file, quote(tensor.name)));
  const bool is_all = mask.lookback == kUnlimited && mask.lookahead == kUnlimited;
  if (mask.kind != MaskKind::kBand || !(is_all || mask.lookahead == 0)) {
    throw InputError("{}: mask {} is {}: expected a causal mask, a causal window, or none", file,
                     quote(tensor.name), mask.describe());
  }
  return {.causal = !is_all, .window = mask.lookback == kUnlimited ? 0 : mask.lookback + 1};
}

}  // namespace arenite::convert
