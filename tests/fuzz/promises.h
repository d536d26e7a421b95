// SPDX-License-Identifier: Apache-2.0
// What holds after load, checked a second time: written from runtime/format/SPEC.md with the
// schema's own accessors, and with none of the verifier's code.
#pragma once

#include <cstddef>
#include <span>

namespace arenite::test {

// Ends the process where a file that was loaded breaks a promise of runtime/format/SECURITY.md.
// What would take long is passed over: slots of very many columns, and very large masks.
void check_promises(std::span<const std::byte> file);

}  // namespace arenite::test
