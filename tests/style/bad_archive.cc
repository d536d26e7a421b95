// SPDX-License-Identifier: Apache-2.0
// What a runtime must not do, for the test that the checks of archives notice it.
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
