// SPDX-License-Identifier: Apache-2.0
// Breaks the rules of the runtime, to test that the checks of archives detect it.
#include <cstdio>
#include <cstdlib>

namespace {

struct Logger {
  Logger() { std::printf("a constructor runs before main\n"); }
};
const Logger logger;

}  // namespace

int calls = 1;

void* allocate() {
  ++calls;
  return std::malloc(16);
}

void fail() { throw 1; }
