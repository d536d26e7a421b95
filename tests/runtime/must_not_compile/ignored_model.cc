// SPDX-License-Identifier: Apache-2.0
// A program cannot ignore a loaded model.
#include "arenite/session.h"

namespace arenite {

void look(std::span<const std::byte> file) {
#ifdef ARENITE_MISUSE
  Model::load(file);
#else
  (void)Model::load(file);
#endif
}

}  // namespace arenite
