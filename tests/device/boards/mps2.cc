// SPDX-License-Identifier: Apache-2.0
// The board is one of ARM's MPS2, with the start-up code of the examples.
#include "board.h"
#include "device/device_test.h"

extern "C" [[noreturn]] void arenite_fault();

namespace arenite::device {

void write(const char* bytes, size_t count) { board::write({bytes, count}); }

}  // namespace arenite::device

int main() { return arenite::device::run_tests() ? 0 : 1; }

// Programs that read the output wait for a line like this one.
void arenite_fault() {
  arenite::device::print("fault\n0 passed, 1 failed\n");
  board::leave(2);
}
