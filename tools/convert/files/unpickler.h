// SPDX-License-Identifier: Apache-2.0
// A restricted reader of Python pickles: it builds plain values and tensor descriptions and nothing
// else, calls nothing, and refuses by name whatever would need more.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "convert/files/pickle_value.h"

namespace arenite::convert {

// Reads one pickle (protocol 2 to 5) that torch.save wrote. The strings of the result view `bytes`.
// Throws InputError; `where` says in its messages which file this is.
Pickle unpickle(std::span<const std::byte> bytes, const std::string& where);

}  // namespace arenite::convert
