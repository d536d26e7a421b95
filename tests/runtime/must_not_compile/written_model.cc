// SPDX-License-Identifier: Apache-2.0
// The bytes of a model cannot be reached to write them.
#include "arenite/session.h"

namespace arenite {

void write(const Model& model) {
#ifdef ARENITE_MISUSE
  model.file()[0] = std::byte{0};
#else
  (void)model.file()[0];
#endif
}

}  // namespace arenite
