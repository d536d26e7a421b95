// SPDX-License-Identifier: Apache-2.0
// Buffers named mask, bias or tril hold ones and zeros with either meaning; this decides which.
#include "convert/spec/model_tensors.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "convert/files/error.h"

namespace arenite::convert {
namespace {

// Additive masks hide with -infinity, the lowest float, -1e9, -10000: anything from here down.
constexpr double kHidingAtMost = -1e4;
constexpr uint64_t kPositionsMax = 1u << 15;

uint32_t mask_positions(const StoredTensor& tensor, const std::string& file) {
  const std::vector<uint64_t>& shape = tensor.shape;
  const size_t rank = shape.size();
  bool square = rank >= 2 && shape[rank - 1] == shape[rank - 2] && shape[rank - 1] > 0;
  for (size_t i = 0; i + 2 < rank; ++i) square = square && shape[i] == 1;
  if (!square) {
    throw InputError("{}: mask {} has shape [{}]: expected [T, T], leading ones allowed", file,
                     quote(tensor.name), fmt::join(shape, ", "));
  }
  if (shape[rank - 1] > kPositionsMax) {
    throw InputError("{}: mask {} has {} positions: at most {} are supported", file,
                     quote(tensor.name), shape[rank - 1], kPositionsMax);
  }
  return static_cast<uint32_t>(shape[rank - 1]);
}

struct Values {
  bool has_one = false;
  bool has_hiding = false;  // a large negative number
  bool has_zero = false;
};

Values survey(const std::vector<float>& values, const StoredTensor& tensor,
              const std::string& file) {
  Values seen;
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] == 0.0f) {
      seen.has_zero = true;
    } else if (values[i] == 1.0f) {
      seen.has_one = true;
    } else if (values[i] <= kHidingAtMost) {
      seen.has_hiding = true;
    } else {
      throw InputError(
          "{}: mask {} has the value {} at index {}: expected only 0 and 1, or 0 and "
          "-infinity (or a number below {})",
          file, quote(tensor.name), values[i], i, kHidingAtMost);
    }
  }
  if (seen.has_one && seen.has_hiding) {
    throw InputError("{}: mask {} mixes 1 with large negative numbers: expected one convention",
                     file, quote(tensor.name));
  }
  return seen;
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

// 1, 0, or neither if the diagonal is not all the same.
std::optional<bool> diagonal(const DenseMask& dense) {
  for (uint32_t i = 1; i < dense.positions; ++i) {
    if (dense.at(i, i) != dense.at(0, 0)) return std::nullopt;
  }
  return dense.at(0, 0);
}

std::string last_part(const std::string& name) {
  const size_t dot = name.rfind('.');
  return dot == std::string::npos ? name : name.substr(dot + 1);
}

// Decides which value means visible; `ones` is the buffer with true for 1.
bool decide(const DenseMask& ones, const std::string& name, std::optional<MaskOnes> given,
            std::string& meaning) {
  if (given) {
    meaning = *given == MaskOnes::kVisible ? "1 shows, as asked" : "1 hides, as asked";
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
  const bool shows = last_part(name) != "mask";
  meaning = fmt::format("1 {}: by the name {}", shows ? "shows" : "hides", quote(last_part(name)));
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
  const std::vector<float> values = tensor.load();
  const Values seen = survey(values, tensor, file);

  MaskBuffer result;
  DenseMask whole(stored);
  if (seen.has_hiding) {
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

}  // namespace arenite::convert
