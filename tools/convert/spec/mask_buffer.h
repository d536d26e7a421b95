// SPDX-License-Identifier: Apache-2.0
// Reads an attention mask out of a checkpoint's buffer, whatever its convention.
#pragma once

#include <optional>
#include <string>

#include "convert/files/checkpoint.h"
#include "convert/masks/dense_mask.h"
#include "convert/spec/model_options.h"

namespace arenite::convert {

struct MaskBuffer {
  DenseMask dense;
  std::string meaning;  // e.g. "1 hides: the diagonal is 0"
};

// Reads a [T, T] buffer (leading dimensions of 1 are fine) of 0/1, bool, or 0 and a large negative
// number or -infinity. Which of 0 and 1 hides is decided by, in this order: `ones` if given;
// whether one reading hides a row whole; which reading shows each query its own position; the
// name, where `mask` means 1 hides (masked_fill) and `bias` or `tril` means 0 hides.
// `positions` above 0 keeps that many rows and columns. Throws InputError;
// `file` is quoted, for messages.
MaskBuffer read_mask_buffer(const StoredTensor& tensor, const std::string& file, uint32_t positions,
                            std::optional<MaskOnes> ones);

}  // namespace arenite::convert
