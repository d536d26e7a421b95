// SPDX-License-Identifier: Apache-2.0
// A program cannot pass constant memory as an arena, because a session writes to it.
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
