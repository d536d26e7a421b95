// SPDX-License-Identifier: Apache-2.0
// Prints the accepted size and the cost of each reader, for the table in
// runtime/format/SECURITY.md.
#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "convert/scaling/cost_counter.h"
#include "convert/scaling/reader_cases.h"
#include "support/temp_folder.h"

namespace arenite::testing {
namespace {

constexpr size_t kTimes = 4;  // larger than in the tests
constexpr double kMegabyte = 1e6;
constexpr double kSmallFile = 1e5;  // below, what any file costs says little about a megabyte

struct Worst {
  double seconds = 0, memory = 0;  // for each megabyte of input
  std::string slowest, largest;    // the shapes that take it
};

void measure(const ReaderCase& test, Worst& worst) {
  const TempFolder folder;
  const auto [file, bytes] = write_case(test, kTimes * test.size, folder.path());
  const double megabytes = std::max(static_cast<double>(bytes), kSmallFile) / kMegabyte;
  const std::clock_t start = std::clock();  // of the processor: others may use it, too
  const CostCounter counter;
  read_case(test, file);
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  const double memory = static_cast<double>(counter.cost().peak_bytes) / kMegabyte / megabytes;
  if (seconds / megabytes >= worst.seconds) {
    worst.seconds = seconds / megabytes;
    worst.slowest = test.shape;
  }
  if (memory >= worst.memory) {
    worst.memory = memory;
    worst.largest = test.shape;
  }
}

void print_table() {
  fmt::print("| reader | accepts at most | s/MB | slowest input | MB/MB | largest input |\n");
  fmt::print("|---|---|---|---|---|---|\n");
  const std::vector<ReaderCase> cases = reader_cases();
  for (const ReaderLimit& limit : reader_limits()) {
    Worst worst;
    for (const ReaderCase& test : cases) {
      if (test.reader == limit.reader) measure(test, worst);
    }
    fmt::print("| {} | {} | {:.2f} | {} | {:.0f} | {} |\n", limit.reader, limit.bytes_max,
               worst.seconds, worst.slowest, worst.memory, worst.largest);
  }
}

}  // namespace
}  // namespace arenite::testing

int main() { arenite::testing::print_table(); }
