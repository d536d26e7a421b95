// SPDX-License-Identifier: Apache-2.0
// The list of tests, and the counts of passed and failed ones.
#include <cstring>

#include "device/device_test.h"
#include "device/tests.h"

namespace arenite::device {
namespace {

struct Test {
  const char* name;
  void (*run)();
};

constexpr Test kTests[] = {
    {"floats below the normal ones are numbers, and sums are rounded to even", ieee_floats},
    {"products of matrices are exact at odd sizes", exact_products},
    {"products of rows in int8 are exact at odd sizes", exact_products_in_few_bits},
    {"attention in integers has the bits of plain C++", exact_integers},
    {"row kernels are exact at odd lengths", exact_row_kernels},
    {"functions are near their values", near_functions},
    {"transposition moves every number", transposition},
    {"ops on rows of integers are near, with the bits of x86-64", rows_of_integers},
    {"features of sound by integers are near, with the bits of x86-64", sound_of_integers},
    {"rows of integers with NaN or infinity become NaN", rows_with_nan},
    {"models give the expected numbers", expected_numbers},
    {"kernels of microcontrollers give the bits of x86-64", bits_of_x86_64},
    {"a stream of sound gives the bits of x86-64", sound},
    {"step by step gives the bits of one pass", step_by_step},
    {"sequences keep their bits in other batches", batches},
    {"an arena of N bytes is enough, N - 1 is refused", arena_sizes},
    {"the arena's neighbours stay as they are", arena_neighbours},
    {"models pass their self-tests", self_tests},
    {"texts become the expected tokens and texts again", texts},
    {"commands become the expected answers", commands},
    {"a model with any byte changed is refused", changed_bytes},
    {"a model of any other length is refused", other_lengths},
    {"a model with an endless list is refused", endless_lists},
    {"a self-test names the op whose weights are wrong", wrong_weights},
    {"painted stack tells how much a call takes", stack_is_measured},
    {"calls keep within the stack that they may take", stack_of_calls},
};

// Failures of one test that are written; a broken kernel would fill the line for minutes.
constexpr uint32_t kShownMax = 5;

struct InHand {
  const char* what;
  const char* which;
  uint32_t size;
};

constinit uint32_t checks = 0;
constinit uint32_t failures = 0;
constinit InHand hand = {};

}  // namespace

void print(std::string_view text) { write(text.data(), text.size()); }

void print(uint64_t number) {
  char digits[20];
  size_t begin = sizeof(digits);
  do {
    digits[--begin] = static_cast<char>('0' + number % 10);
    number /= 10;
  } while (number != 0);
  write(digits + begin, sizeof(digits) - begin);
}

void in_hand(const char* what, const char* which, uint32_t size) { hand = {what, which, size}; }

bool expect(bool holds, const char* condition, const char* file, uint32_t line) {
  ++checks;
  if (holds) return true;
  if (++failures > kShownMax) return false;
  const char* const slash = std::strrchr(file, '/');
  print("      ");
  print(slash != nullptr ? slash + 1 : file);
  print(":");
  print(uint64_t{line});
  print(": ");
  print(condition);
  if (hand.what != nullptr) {
    print(" (");
    print(hand.what);
    print(" ");
    print(hand.which);
    print(" ");
    print(uint64_t{hand.size});
    print(")");
  }
  print("\n");
  return false;
}

bool run_tests() {
  uint32_t passed = 0;
  uint32_t failed = 0;
  for (const Test& test : kTests) {
    checks = 0;
    failures = 0;
    hand = {};
    test.run();
    // A test without checks fails: its model or feature is missing.
    const bool ok = failures == 0 && checks != 0;
    ++(ok ? passed : failed);
    print(ok ? "pass  " : "FAIL  ");
    print(test.name);
    print(": ");
    print(uint64_t{checks});
    print(" checks\n");
  }
  print(uint64_t{passed});
  print(" passed, ");
  print(uint64_t{failed});
  print(" failed\n");
  return failed == 0;
}

}  // namespace arenite::device
