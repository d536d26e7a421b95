// SPDX-License-Identifier: Apache-2.0
// Twice the input costs about twice as much, whatever its shape. Costs are counted, not timed.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "convert/scaling/cost_counter.h"
#include "convert/scaling/reader_cases.h"
#include "convert/tokenizers/tokenizer_source.h"
#include "convert/tokenizers/tokenizer_spec.h"
#include "support/temp_folder.h"

namespace arenite::testing {
namespace {

constexpr double kGrowthMax = 2.5;  // sorting adds a little to 2, and buffers double by themselves
constexpr uint64_t kStepsFree = 20'000;  // fixed cost of any file
constexpr uint64_t kBytesFree = 64 << 10;

struct Measured {
  size_t input_bytes;
  Cost cost;
  bool is_read;
};

Measured measure(const ReaderCase& test, size_t size) {
  const TempFolder folder;
  const auto [file, bytes] = write_case(test, size, folder.path());
  const CostCounter counter;
  const bool is_read = read_case(test, file);
  return {bytes, counter.cost(), is_read};
}

class Scaling : public ::testing::TestWithParam<ReaderCase> {};

uint64_t memory_per_byte(const ReaderCase& test) {
  for (const ReaderLimit& limit : reader_limits()) {
    if (limit.reader == test.reader) return limit.memory_per_byte;
  }
  ADD_FAILURE() << "no limit is listed for " << test.reader;
  return 0;
}

TEST_P(Scaling, TwiceTheInputCostsAtMostTwiceAndAHalf) {
  const ReaderCase& test = GetParam();
  const Measured once = measure(test, test.size);
  const Measured twice = measure(test, 2 * test.size);
  EXPECT_GT(once.cost.steps, 0u);
  EXPECT_LE(static_cast<double>(twice.cost.steps),
            kGrowthMax * static_cast<double>(once.cost.steps) + kStepsFree)
      << once.cost.steps << " steps become " << twice.cost.steps;
  EXPECT_LE(static_cast<double>(twice.cost.peak_bytes),
            kGrowthMax * static_cast<double>(once.cost.peak_bytes) + kBytesFree)
      << once.cost.peak_bytes << " bytes become " << twice.cost.peak_bytes;
  // Compares only the growth with the input; the fixed cost of any file cancels.
  EXPECT_LE(twice.cost.peak_bytes,
            once.cost.peak_bytes + kBytesFree +
                memory_per_byte(test) * (twice.input_bytes - once.input_bytes))
      << once.input_bytes << " to " << twice.input_bytes << " bytes of input";
}

std::string name_of(const ::testing::TestParamInfo<ReaderCase>& info) {
  std::string name = info.param.reader + "_" + info.param.shape;
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Readers, Scaling, ::testing::ValuesIn(reader_cases()), name_of);

// The tables of WordPiece are built from all code points, whatever the size of the vocabulary.
TEST(SmallInputs, CostLittle) {
  const TempFolder folder;
  const auto file = folder.write("vocab.txt", "[UNK]\n[CLS]\n[SEP]\nhello\n##s\n");
  const CostCounter counter;
  convert::TokenizerSpec spec = convert::read_tokenizer(file);
  convert::complete_tokenizer(spec);
  EXPECT_LT(counter.cost().steps, uint64_t{1} << 29);
}

// Tests the counter itself: a nested loop must be refused.
TEST(CostCounter, SeesQuadraticTime) {
  const auto steps_of = [](size_t size) {
    const CostCounter counter;
    volatile size_t sum = 0;
    for (size_t i = 0; i < size; ++i) {
      for (size_t j = 0; j < size; ++j) sum = sum + 1;
    }
    return counter.cost().steps;
  };
  EXPECT_GT(steps_of(200), 3 * steps_of(100));
  EXPECT_EQ(steps_of(100), steps_of(100));
}

TEST(CostCounter, SeesMemoryAndComparisons) {
  const CostCounter counter;
  {
    const std::string a(1 << 20, 'x');
    const std::string b = a;
    EXPECT_EQ(a, b);
  }
  EXPECT_GE(counter.cost().peak_bytes, uint64_t{2} << 20);
  EXPECT_GE(counter.cost().steps, uint64_t{3} << 16);
}

}  // namespace
}  // namespace arenite::testing
