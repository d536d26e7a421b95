// SPDX-License-Identifier: Apache-2.0
// Checks the invariants of a loaded model independently: written from runtime/format/SPEC.md with
// the schema's own accessors, without code of the verifier.
#pragma once

#include <cstddef>
#include <span>

namespace arenite::test {

// Ends the process where a file that was loaded breaks a promise of runtime/format/SECURITY.md.
// What would take long is passed over: slots of very many columns, and very large masks.
void check_promises(std::span<const std::byte> file);

}  // namespace arenite::test
