// SPDX-License-Identifier: Apache-2.0
// Which elements of its input each result of a convolution is made of.
#pragma once

#include <cstddef>

#include "convert/exported/call_arguments.h"

namespace arenite::convert {

struct Convolution {
  Shape stride, padding_before, padding_after, dilation;  // of each spatial dimension
  int64_t groups = 1;
};

// Refuses what is no plain convolution. `weight` is [outputs, channels, kernel...].
Convolution convolution_of(const CallArguments& call, const Array& weight);

// [sequences, outputs, places...] of an input [sequences, channels, ...]. Refuses shapes that do
// not go together.
Shape convolved_shape(const CallArguments& call, const Array& input, const Array& weight,
                      const Convolution& convolution);

}  // namespace arenite::convert
