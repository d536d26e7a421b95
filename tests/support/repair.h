// SPDX-License-Identifier: Apache-2.0
// Recomputes the checksums and formulas of a damaged model file, so that a test or a fuzzer reaches
// the verifier's later checks.
#ifndef ARENITE_TESTS_SUPPORT_REPAIR_H_
#define ARENITE_TESTS_SUPPORT_REPAIR_H_

#include <cstddef>
#include <span>

namespace arenite::test {

// Recomputes the checksum of the metadata and, where the metadata is a well-formed FlatBuffer, of
// each segment that lies within the file. Other bytes stay as they are, and so does a file whose
// footer does not say where the metadata is. REQUIRES: file.data() is a multiple of 8.
void repair_checksums(std::span<std::byte> file);

// Sets each target's arena formula to the program's, without repairing checksums.
void repair_formulas(std::span<std::byte> file);

// Repairs both.
void repair_checksums_and_formulas(std::span<std::byte> file);

}  // namespace arenite::test

#endif  // ARENITE_TESTS_SUPPORT_REPAIR_H_
