// SPDX-License-Identifier: Apache-2.0
// Activation functions in double precision.
#pragma once

#include "core/op_kinds.h"

namespace arenite::convert {

double activate(Activation function, double parameter, double x);

}  // namespace arenite::convert
