// SPDX-License-Identifier: Apache-2.0
// A test framework for machines without heap and operating system: checks, counters, and lines of
// text that leave through one function of the board.
//
//   void add_numbers() { EXPECT(1 + 1 == 2); }     // and a line in run_tests.cc
#ifndef ARENITE_TESTS_DEVICE_DEVICE_TEST_H_
#define ARENITE_TESTS_DEVICE_DEVICE_TEST_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace arenite::device {

// Sends bytes of text at once. Each board defines this function.
void write(const char* bytes, size_t count);

// Runs all tests and writes a line for each, then "N passed, N failed". True if all passed.
bool run_tests();

// Counts a check and, where it failed, writes the first few places and what was in hand. Returns
// whether it held.
bool expect(bool holds, const char* condition, const char* file, uint32_t line);

// Names what the test works on now, for messages of failures: a model, a kernel set, a size. The
// strings must outlive the test.
void in_hand(const char* what, const char* which = "", uint32_t size = 0);

void print(std::string_view text);
void print(uint64_t number);

#define EXPECT(condition) ::arenite::device::expect((condition), #condition, __FILE__, __LINE__)
// Leaves a test that makes no sense any more.
#define REQUIRE(condition) \
  if (!EXPECT(condition)) return

}  // namespace arenite::device

#endif  // ARENITE_TESTS_DEVICE_DEVICE_TEST_H_
