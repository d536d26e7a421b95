// SPDX-License-Identifier: Apache-2.0
// The triangular factor of a matrix's inverse, by Cholesky's method.
#pragma once

#include <optional>

#include "convert/quantize/matrix_product.h"

namespace arenite::convert {

// U, upper triangular, with U^T U = (H + dampening I)^-1, for a symmetric H whose diagonal and what
// is right of it are in `upper`. Nothing where H + dampening I is not positive definite as far as
// double precision can tell, or holds what is not finite.
std::optional<DenseMatrix> inverse_factor(const DenseMatrix& upper, double dampening);

}  // namespace arenite::convert
