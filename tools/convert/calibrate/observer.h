// SPDX-License-Identifier: Apache-2.0
// Watches what a float32 model feeds to its linear layers.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "convert/calibrate/calibration_set.h"
#include "convert/files/memory.h"
#include "convert/quantize/hessian.h"
#include "core/views.h"

namespace arenite::convert {

// Runs the model of `file` over `sequences`, and shows the inputs of each linear op, piece by
// piece: [tokens, inputs] for the matrix `tensor` of the file. The rows are gone when the function
// returns. `done` gets the share of the sequences that were run.
void for_each_input(const AlignedBytes& file, const std::vector<CalibrationSequence>& sequences,
                    const std::function<void(uint32_t tensor, const ConstMatrix& inputs)>& use,
                    const std::function<void(double share)>& done = {});

// Mean squares of the inputs of each tensor of the file, column by column; none where a tensor is
// not a matrix that a linear op multiplies with.
std::vector<std::vector<double>> mean_squares_of_inputs(
    const AlignedBytes& file, const std::vector<CalibrationSequence>& sequences);

// The stage of a conversion (progress.h) that Hessians are for.
inline constexpr const char* kRounding = "rounding the weights";

// Memory of Hessians that are summed in one pass.
inline constexpr uint64_t kHessianBytesMax = uint64_t{256} << 20;

// The Hessian of each of `tensors`, in their order, over all sequences; one of a tensor that no
// linear op multiplies with has no rows. As many at a time as fit in `bytes_max`, at least one:
// the text is run as often as it takes. Tells how far kRounding is: half of a run is the text, half
// what `use` does with the Hessians.
void for_each_hessian(const AlignedBytes& file, const std::vector<CalibrationSequence>& sequences,
                      const std::vector<uint32_t>& tensors,
                      const std::function<void(uint32_t tensor, const Hessian& hessian)>& use,
                      uint64_t bytes_max = kHessianBytesMax);

}  // namespace arenite::convert
