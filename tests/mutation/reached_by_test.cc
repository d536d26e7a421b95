// SPDX-License-Identifier: Apache-2.0
// Records which mutants each test reaches and how long the test takes, so that `make mutation` runs
// the fastest tests that can detect a mutant. Linked into its test programs.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "arenite_mutant.h"

namespace {

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// A line for each test: its name, the seconds of the CPU, the numbers of the mutants.
class Listener : public testing::EmptyTestEventListener {
 public:
  explicit Listener(const char* path) : file_(std::fopen(path, "w")) {}

  void OnTestStart(const testing::TestInfo&) override {
    std::memset(reached_, 0, ARENITE_MUTANTS_MAX);
    start_ = cpu_seconds();
  }

  void OnTestEnd(const testing::TestInfo& test) override {
    std::fprintf(file_, "%s.%s %.4f", test.test_suite_name(), test.name(), cpu_seconds() - start_);
    for (int i = 0; i < ARENITE_MUTANTS_MAX; ++i) {
      if (reached_[i]) std::fprintf(file_, " %d", i);
    }
    std::fprintf(file_, "\n");
    std::fflush(file_);
  }

 private:
  std::FILE* file_;
  unsigned char* reached_ = arenite_list_mutants();
  double start_ = 0.0;
};

const bool installed = [] {
  const char* path = std::getenv("ARENITE_MUTANTS_REACHED");
  if (path == nullptr) return true;
  testing::UnitTest::GetInstance()->listeners().Append(new Listener(path));
  return true;
}();

}  // namespace
