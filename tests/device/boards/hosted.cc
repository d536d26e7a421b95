// SPDX-License-Identifier: Apache-2.0
// The board is a process of this machine; text goes to standard output.
#include <cstdio>

#include "device/device_test.h"

namespace arenite::device {

void write(const char* bytes, size_t count) { std::fwrite(bytes, 1, count, stdout); }

}  // namespace arenite::device

int main() { return arenite::device::run_tests() ? 0 : 1; }
