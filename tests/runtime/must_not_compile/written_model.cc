// SPDX-License-Identifier: Apache-2.0
// A program cannot write the bytes of a model through the interface.
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
