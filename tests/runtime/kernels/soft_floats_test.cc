// SPDX-License-Identifier: Apache-2.0
// Arithmetic for CPUs without an FPU gives this machine's bits, in the variant for a Cortex-M0+,
// which has no wide products. The device tests run both ways.
#define ARENITE_THUMB_1
#include "kernels/soft_float_bits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <random>

#include "core/float_bits.h"
#include "kernels/integer_attention.h"

namespace arenite::test {
namespace {

float value_of(uint32_t bits) { return bit_cast<float>(bits); }
// Maps all NaN to one.
uint32_t bits_of(float x) { return std::isnan(x) ? soft::kNan : bit_cast<uint32_t>(x); }

constexpr uint32_t kSpecial[] = {0,          1,          0x7FFFFF,   0x800000,  0x3F7FFFFF,
                                 0x3F800000, 0x7F7FFFFF, 0x7F800000, 0x7FC00000};

// Pairs of floats of all sorts: any, near to each other, ends of the range, and denormals.
class Operands {
 public:
  void next() {
    a = random(), b = random();
    switch (turn_++ % 5) {
      case 1:
        b = (b & 0x807FFFFF) | (a & 0x7F800000);
        break;
      case 2:  // both between 2^-28 and 2^28
        a = (a & 0x807FFFFF) | (99 + random() % 56) << 23;
        b = (b & 0x807FFFFF) | (99 + random() % 56) << 23;
        break;
      case 3:
        a = kSpecial[random() % std::size(kSpecial)] | (a & soft::kSign);
        break;
      case 4:
        a &= 0x80FFFFFF, b &= 0x81FFFFFF;
        break;
    }
  }
  uint32_t random() { return static_cast<uint32_t>(random_()); }

  uint32_t a = 0, b = 0;

 private:
  std::mt19937 random_{1};
  uint32_t turn_ = 0;
};

constexpr int kPairs = 300'000;

TEST(SoftFloats, RoundEachOperationAsAnFpuDoes) {
  Operands of;
  for (int i = 0; i < kPairs; ++i) {
    of.next();
    const float x = value_of(of.a), y = value_of(of.b);
    ASSERT_EQ(soft::sum(of.a, of.b), bits_of(x + y)) << std::hex << of.a << " " << of.b;
    ASSERT_EQ(soft::product(of.a, of.b), bits_of(x * y)) << std::hex << of.a << " " << of.b;
    ASSERT_EQ(soft::quotient(of.a, of.b), bits_of(x / y)) << std::hex << of.a << " " << of.b;
    const int32_t whole = static_cast<int32_t>(of.a) >> (of.b & 31);
    ASSERT_EQ(soft::from_integer(whole), bits_of(static_cast<float>(whole))) << whole;
    ASSERT_EQ(soft::neither_is_nan(of.a, of.b), x == x && y == y);
    if (x != x || y != y) continue;
    ASSERT_EQ(soft::order(of.a) < soft::order(of.b), x < y) << std::hex << of.a << " " << of.b;
    ASSERT_EQ(value_of(soft::of_order(soft::order(of.a))), x);
  }
}

TEST(SoftFloats, RoundSeveralOperationsAtOnceOneByOne) {
  Operands of;
  for (int i = 0; i < kPairs; ++i) {
    of.next();
    const int32_t whole = i % 64 == 0 ? 0 : static_cast<int32_t>(of.random()) >> (i & 31);
    const float x = value_of(of.a), y = value_of(of.b), product = x * y;
    const uint32_t scaled = soft::scaled(whole, of.a, of.b);
    ASSERT_EQ(bits_of(value_of(scaled)), bits_of(static_cast<float>(whole) * x * y))
        << whole << " " << x << " " << y;
    if (!(std::fabs(product) < 0x1p22f)) continue;
    ASSERT_EQ(static_cast<uint32_t>(soft::rounded_product_of(of.a, of.b)),
              bits_of(product + kRoundingMagic) - bits_of(kRoundingMagic))
        << x << " " << y;
  }
  EXPECT_EQ(soft::rounded_product_of(bits_of(-1e20f), bits_of(1.0f)), -0x400000);
  for (int halves = -99; halves < 99; ++halves) {
    const auto x = static_cast<float>(halves);
    ASSERT_EQ(soft::rounded_product_of(bits_of(x), bits_of(0.5f)), std::nearbyint(x * 0.5f));
  }
}

TEST(SoftFloats, ComputeTheBitsOfFunctions) {
  const KernelSet& plain = *kernel_set(Target::kPortable);
  int exponentials = 0, gelus = 0, sigmoids = 0;
  for (uint64_t i = 0; i < 0xFFFFFFFF; i += 6007) {
    const auto bits = static_cast<uint32_t>(i);
    const float x = value_of(bits);
    float y = 0.0f;
    if (soft::has_exponential(bits)) {
      ++exponentials;
      const float range[] = {x, 0.0f};
      float sum = 0.0f;
      integer_exp_sum(sizeof(float), &x, range, &y, &sum);
      ASSERT_EQ(soft::exponential(bits), bits_of(y)) << x;
    }
    if (soft::has_decay(bits)) {
      ++sigmoids;
      float decay = -std::fabs(x), sum = 0.0f;
      plain.exp_sum(sizeof(float), &decay, &sum, &decay, &sum);
      ASSERT_EQ(soft::decay(bits), bits_of(decay)) << x;
      plain.sigmoid(sizeof(float), &x, &y);
      ASSERT_EQ(soft::sigmoid(bits), bits_of(y)) << x;
    }
    if (!soft::has_gelu(bits)) continue;
    ++gelus;
    plain.gelu(sizeof(float), &x, &y);
    ASSERT_EQ(soft::gelu(bits), bits_of(y)) << x;
  }
  EXPECT_GT(exponentials, 10'000);
  EXPECT_GT(sigmoids, 10'000);
  EXPECT_GT(gelus, 100'000);
  EXPECT_TRUE(soft::has_exponential(bits_of(-69.0f)) && soft::has_exponential(bits_of(-0x1p-8f)));
  for (const float x : {0.0f, 1.0f, -0x1p-9f, -69.1f, -INFINITY, NAN}) {
    EXPECT_FALSE(soft::has_exponential(bits_of(x))) << x;
  }
  for (const float x : {0.0f, -0.0f, INFINITY, -INFINITY, NAN}) {
    EXPECT_FALSE(soft::has_gelu(bits_of(x)) || soft::has_decay(bits_of(x))) << x;
  }
}

}  // namespace
}  // namespace arenite::test
