// SPDX-License-Identifier: Apache-2.0
// The name under which the converter signs the files that it writes.
#include "convert/producer.h"

#include <fmt/format.h>

#include "arenite/version.h"

namespace arenite::convert {

std::string producer() { return fmt::format("arenite {}", version()); }

}  // namespace arenite::convert
