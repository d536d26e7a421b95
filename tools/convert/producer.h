// SPDX-License-Identifier: Apache-2.0
// The name under which the converter signs the files that it writes.
#pragma once

#include <string>

namespace arenite::convert {

/// "arenite MAJOR.MINOR.PATCH", for the producer field of a model file.
std::string producer();

}  // namespace arenite::convert
