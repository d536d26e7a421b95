// SPDX-License-Identifier: Apache-2.0
// Cuts images into patches, where a session copies what it is fed.
#pragma once

#include "core/image_patches.h"
#include "core/matrix.h"
#include "ops/rows.h"

namespace arenite {

// Row p of each sequence, rows of a prefix apart, is patch p of the sequence's image:
// output[p][c, y, x] = image[c][p / columns * patch_height + y][p % columns * patch_width + x].
// Rows of a prefix are zeros. `images` is dense [sequences, channels, height, width]; output [rows
// of the step, channels * patch_height * patch_width]. REQUIRES: each sequence has all its patches.
void cut_patches(const ImagePatches& patches, const float* images, const StepRows& rows,
                 const Matrix& output);

}  // namespace arenite
