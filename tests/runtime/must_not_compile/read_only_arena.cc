// SPDX-License-Identifier: Apache-2.0
// An arena is written to.
#include "arenite/session.h"

namespace arenite {

Status create(const Model& model, std::span<const std::byte> flash, std::span<std::byte> memory) {
#ifdef ARENITE_MISUSE
  return Session::create(model, {}, flash).status();
#else
  return flash.empty() ? Status::kOk : Session::create(model, {}, memory).status();
#endif
}

}  // namespace arenite
