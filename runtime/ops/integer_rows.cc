// SPDX-License-Identifier: Apache-2.0
// Sums, norms, activations, rotations and means of integer rows. Each op computes 32-bit results
// with an exponent that is large enough for any result, then pack() shifts the row so that its
// largest element uses all 24 bits.
#include "ops/integer_rows.h"

#if defined(ARENITE_INTEGER_ROWS)
#include <algorithm>

#include "core/float_bits.h"
#include "core/needs.h"

#if !defined(__clang__) && !defined(__x86_64__)
#pragma GCC optimize("O2")  // regardless of the firmware's own level
#endif

namespace arenite::integers {
namespace {

uint32_t exponent_of(int32_t number) { return static_cast<uint32_t>(number) & kExponentBits; }

// Shifts the elements of a row to the largest of their exponents. Zeros are ignored.
[[gnu::noinline]] void align(float* row, uint32_t count) {
  uint32_t largest = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const int32_t number = bits_of(row[i]);
    const bool counts = mantissa_of(number) != 0 || exponent_of(number) == kNotFinite;
    if (counts) largest = std::max(largest, exponent_of(number));
  }
  if (largest == kNotFinite) return fill_with_nan(row, count);
  for (uint32_t i = 0; i < count; ++i) {
    const int32_t number = bits_of(row[i]);
    const int32_t right = static_cast<int32_t>(largest - exponent_of(number));
    row[i] = with_bits(mantissa_of(right < 0 ? 0 : shifted(number, right)) |
                       static_cast<int32_t>(largest));
  }
}

}  // namespace

Scan scan(const float* row, uint32_t count) {
  uint32_t all = ~0u, any = 0, magnitude = 0;  // bits
#pragma GCC unroll 4
  for (uint32_t i = 0; i < count; ++i) {
    const int32_t number = bits_of(row[i]);
    all &= static_cast<uint32_t>(number);
    any |= static_cast<uint32_t>(number);
    magnitude |= static_cast<uint32_t>(number ^ (number >> 31));
  }
  if (((all ^ any) & kExponentBits) != 0) {
    align(const_cast<float*>(row), count);
    return scan(row, count);
  }
  return {any & kExponentBits, magnitude | kExponentBits};
}

void fill_with_nan(float* row, uint32_t count) { std::fill_n(row, count, with_bits(kNotFinite)); }

void pack(float* row, uint32_t count, int32_t exponent) {
  uint32_t magnitude = 0;
#pragma GCC unroll 4
  for (uint32_t i = 0; i < count; ++i) {
    const int32_t number = bits_of(row[i]);
    magnitude |= static_cast<uint32_t>(number < 0 ? -number : number);
  }
  const int32_t left = magnitude == 0 ? 31 : leading_zeros(magnitude) - 1;
  exponent += 8 - left;
  if (magnitude == 0 || exponent < 1) {
    std::fill_n(row, count, 0.0f);
  } else if (exponent >= static_cast<int32_t>(kNotFinite)) {
    fill_with_nan(row, count);
  } else {
#pragma GCC unroll 4
    for (uint32_t i = 0; i < count; ++i)
      row[i] = with_bits(mantissa_of(shifted_left(bits_of(row[i]), left)) | exponent);
  }
}

void from_floats(const Matrix& rows) {
  for (uint32_t r = 0; r < rows.rows; ++r) {
    float* const row = rows.row(r);
    int32_t largest = 0;
    for (uint32_t i = 0; i < rows.columns; ++i) {
      largest = std::max(largest, bits_of(row[i]) & 0x7FFFFFFF);
    }
    const int32_t exponent = (largest >> 23) + 1;
    if (exponent >= static_cast<int32_t>(kNotFinite)) {
      fill_with_nan(row, rows.columns);
      continue;
    }
    for (uint32_t i = 0; i < rows.columns; ++i) {
      const auto bits = bit_cast<uint32_t>(row[i]);
      const auto field = static_cast<int32_t>(field_of(bits));
      const uint32_t magnitude = ((bits & 0x7FFFFF) | 0x800000) << 7;
      const int32_t number = shifted(static_cast<int32_t>(magnitude), exponent - field - 1);
      const int32_t mantissa = mantissa_of(bits >> 31 != 0 ? -number : number);
      row[i] = with_bits(field == 0 ? exponent : mantissa | exponent);
    }
  }
}

void to_floats(const Matrix& rows) {
  for (uint32_t r = 0; r < rows.rows; ++r) {
    float* const row = rows.row(r);
    for (uint32_t i = 0; i < rows.columns; ++i) {
      const int32_t mantissa = bits_of(row[i]) >> 8;
      const auto exponent = static_cast<int32_t>(exponent_of(bits_of(row[i])));
      const uint32_t magnitude = static_cast<uint32_t>(mantissa < 0 ? -mantissa : mantissa);
      const int32_t left = magnitude == 0 ? 0 : leading_zeros(magnitude) - 8;
      uint32_t bits = static_cast<uint32_t>(mantissa) & 0x80000000u;
      bits += static_cast<uint32_t>(exponent - left - 1) << 23;
      bits += magnitude << (left < 0 ? 0 : left);
      if (exponent == static_cast<int32_t>(kNotFinite)) {
        bits = 0x7FC00000;
      } else if (magnitude == 0 || exponent - left < 1) {
        bits = 0;
      }
      row[i] = bit_cast<float>(bits);
    }
  }
}

void add(const KernelSet&, const ConstMatrix& input, const OtherRows& other, const Matrix& output,
         const ParallelFor& parallel) {
  auto work = [&](uint32_t row) {
    const float* const a = input.row(row);
    const float* const b = other.row(row);
    float* const to = output.row(row);
    const uint32_t of_a = scan(a, output.columns).exponent;
    const uint32_t of_b = scan(b, output.columns).exponent;
    const uint32_t larger = std::max(of_a, of_b);
    if (larger == kNotFinite) return fill_with_nan(to, output.columns);
    const auto right_a = static_cast<int32_t>(larger - of_a + 1);
    const auto right_b = static_cast<int32_t>(larger - of_b + 1);
    for (uint32_t i = 0; i < output.columns; ++i) {
      to[i] = with_bits(shifted(mantissa_of(bits_of(a[i])), right_a) +
                        shifted(mantissa_of(bits_of(b[i])), right_b));
    }
    pack(to, output.columns, static_cast<int32_t>(larger) - 7);
  };
  for_each_row(parallel, output.rows, output.columns * kRoundWork, work);
}

namespace {

// Returns 2^31 / sqrt(x) in 16 bits. REQUIRES: x >= 2^30.
uint32_t reciprocal_root(uint32_t x) {
  uint32_t root = 0;
  for (uint32_t bit = 0x8000; bit != 0; bit >>= 1) {
    const uint32_t next = root | bit;
    if (next * next <= x) root = next;
  }
  if (x - root * root > root) ++root;
  const uint32_t quotient = 0x80000000u / root;
  return quotient < 0x10000 ? quotient : 0xFFFF;
}

// to = x - mean or, for kRms, x, as integers of 16 bits * 2^unit; returns the unit. `squares`
// becomes the sum of their squares.
int32_t centre(NormKind kind, const float* x, uint32_t count, const Scan& row, float* to,
               uint64_t& squares) {
  int32_t mean = 0;
  if (is_centred(kind)) {
    constexpr uint32_t kWithoutOverflow = 256;
    int64_t sum = 0;
    for (uint32_t i = 0; i < count;) {
      int32_t part = 0;
      const uint32_t end = std::min(count, i + kWithoutOverflow);
      for (; i < end; ++i) part += bits_of(x[i]) >> 8;
      sum += part;
    }
    mean = static_cast<int32_t>(sum / static_cast<int64_t>(count));
  }
  uint32_t magnitude = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const int32_t number = (bits_of(x[i]) >> 8) - mean;
    magnitude |= static_cast<uint32_t>(number ^ (number >> 31));
    to[i] = with_bits(number);
  }
  const int32_t room = magnitude == 0 ? 0 : leading_zeros(magnitude) - 1;
  uint32_t upper = 0, lower = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const int32_t number = shifted_left(bits_of(to[i]), room) >> 16;
    const auto square = static_cast<uint32_t>(number * number);
    lower += square;
    upper += lower < square ? 1 : 0;
    to[i] = with_bits(number);
  }
  squares = uint64_t{upper} << 32 | lower;
  return static_cast<int32_t>(row.exponent) - 134 - room;
}

// factor * 2^exponent = 1 / sqrt(mean square + epsilon), where factor has 16 bits and the mean
// square is that of integers * 2^unit.
struct Root {
  uint32_t factor;
  int32_t exponent;

  Root(uint32_t mean_square, int32_t unit, float epsilon) {
    uint32_t sum = mean_square;
    const auto bits = bit_cast<uint32_t>(epsilon);
    const uint32_t rest = field_of(bits) == 0 ? 0 : (bits & 0x7FFFFF) | 0x800000;
    // Adds epsilon in the unit of the mean, or the mean in the unit of epsilon.
    int32_t power = 2 * unit;
    const int32_t left = rest == 0 ? 0 : static_cast<int32_t>(field_of(bits)) - 150 - power;
    if (left <= 6) {
      sum += left < 0 ? rest >> std::min<int32_t>(-left, 31) : rest << left;
    } else {
      sum = rest + (sum >> std::min<int32_t>(left, 31));
      power += left;
    }
    // The power is made even, as the root halves it.
    if (sum == 0) sum = 1;
    int32_t room = leading_zeros(sum);
    if (((power - room) & 1) != 0) --room;
    factor = reciprocal_root(sum << room);
    exponent = -31 - (power - room) / 2;
  }
};

void norm_group(const NormWeights& weights, uint32_t count, const Ends& ends, const float* from,
                float* to) {
  const Scan row = scan(from, count);
  if (row.exponent == kNotFinite || !ends.are_finite()) return fill_with_nan(to, count);
  uint64_t squares = 0;
  const int32_t unit = centre(weights.kind, from, count, row, to, squares);
  const Root root(static_cast<uint32_t>(squares / count), unit, weights.epsilon);
  const int32_t of_row = unit + root.exponent;
  const int32_t result = ends.exponent(of_row);
  const int32_t right_of_gain = result - of_row - 24, right_of_bias = result + 7;
  for (uint32_t i = 0; i < count; ++i) {
    const auto gain = bit_cast<uint32_t>(weights.gain[i]);
    const int32_t centred = bits_of(to[i]) * static_cast<int32_t>(root.factor);
    const int32_t product = times(centred, upper_bits(gain));
    int32_t y = shifted(product, right_of_gain - static_cast<int32_t>(field_of(gain)));
    if (static_cast<int32_t>(gain) < 0) y = -y;
    if (weights.bias != nullptr) {
      const auto bias = bit_cast<uint32_t>(weights.bias[i]);
      y += shifted(bias_bits(bias), right_of_bias - static_cast<int32_t>(field_of(bias)));
    }
    to[i] = with_bits(y);
  }
  pack(to, count, result);
}

}  // namespace

bool has_norm(NormKind kind) { return kind == NormKind::kLayer || kind == NormKind::kRms; }

void norm(const NormWeights& weights, uint32_t groups, const ConstMatrix& input,
          const Matrix& output, const ParallelFor& parallel) {
  const uint32_t width = input.columns / groups;
  Ends ends;
  ends.take(weights.gain, weights.bias, width);
  auto work = [&](uint32_t row) {
    for (uint32_t group = 0; group < groups; ++group) {
      const size_t column = size_t{group} * width;
      norm_group(weights, width, ends, input.row(row) + column, output.row(row) + column);
    }
  };
  for_each_row(parallel, input.rows, input.columns * kNormWork, work);
}

namespace {

// exp(-x) as exp(-n / 2) * exp(-r), evaluated by the compiler.
constexpr double decay(double x) {
  double power = 1, series = 1;
  for (; x > 0.5; x -= 0.5) power *= 0.60653065971263342;
  for (int i = 12; i > 0; --i) series = 1 - series * x / i;
  return power * series;
}
constexpr double sigmoid_below(double x) { return decay(x) / (1 + decay(x)); }
// The tail of the normal distribution beyond x: one half minus the series of its integral.
constexpr double normal_beyond(double x) {
  double term = x, sum = x;
  for (int i = 1; i < 120; ++i) sum += term *= x * x / (2 * i + 1);
  return 0.5 - 0.3989422804014327 * decay(x * x / 2) * sum;
}
constexpr double gelu_tanh_beyond(double x) {
  return sigmoid_below(1.5957691216057308 * (x + 0.044715 * x * x * x));
}

// f(0), f(1/16) ... in units of 2^-16, followed by two zeros, where f has vanished.
template <size_t kCount, double kFunction(double)>
struct Table {
  uint16_t values[kCount + 2] = {};
  consteval Table() {
    for (size_t i = 0; i < kCount; ++i) {
      values[i] = static_cast<uint16_t>(kFunction(static_cast<double>(i) / 16) * 65536 + 0.5);
    }
  }
};

struct Shape {
  const uint16_t* values;
  uint32_t count;
};
template <size_t kCount, double kFunction(double)>
Shape shape() {
  static constexpr Table<kCount, kFunction> kTable;
  return {kTable.values, kCount};
}

// Returns f of max(x, 0) - |x| * f(|x|), or the sigmoid function at -|x|; no values: f is 0.
Shape shape_of(Activation function) {
  if (linked(Need::kGeluErf) && function == Activation::kGeluErf) return shape<70, normal_beyond>();
  if (linked(Need::kGeluTanh) && function == Activation::kGeluTanh) {
    return shape<70, gelu_tanh_beyond>();
  }
  if (any_linked(Need::kSilu, Need::kSigmoid) &&
      (function == Activation::kSilu || function == Activation::kSigmoid)) {
    return shape<190, sigmoid_below>();
  }
  return {nullptr, 0};
}

// to = max(x, 0) - |x| * f(|x|), in 31 bits.
void apply(const Shape& shape, uint32_t exponent, uint32_t count, const float* x, float* to) {
  const int32_t left = static_cast<int32_t>(exponent) - 131;
  const uint32_t most = shape.count << 15;
  const uint32_t largest = left > 0 ? most >> std::min<int32_t>(left, 31) : most;
  for (uint32_t i = 0; i < count; ++i) {
    const int32_t number = mantissa_of(bits_of(x[i]));
    const int32_t magnitude = number < 0 ? -number : number;
    int32_t y = number < 0 ? 0 : number;
    uint32_t place = static_cast<uint32_t>(magnitude) >> 8;
    if (left < 0) place >>= std::min<int32_t>(-left, 31);
    if (place < largest) {
      if (left > 0) place <<= left;
      y -= times(magnitude, interpolated(shape.values, place));
    }
    to[i] = with_bits(y);
  }
}

// to = 1 / (1 + exp(-x)) in units of 2^-30.
void sigmoid(uint32_t exponent, uint32_t count, const float* x, float* to) {
  const Shape table = shape_of(Activation::kSigmoid);
  const int32_t left = static_cast<int32_t>(exponent) - 131;
  const uint32_t most = table.count << 15;
  const uint32_t largest = left > 0 ? most >> std::min<int32_t>(left, 31) : most;
  for (uint32_t i = 0; i < count; ++i) {
    const int32_t number = bits_of(x[i]) >> 8;
    auto place = static_cast<uint32_t>(number < 0 ? -number : number);
    if (left < 0) place >>= std::min<int32_t>(-left, 31);
    uint32_t y = 0;
    if (place < largest) y = interpolated(table.values, left > 0 ? place << left : place);
    to[i] = bit_cast<float>((number < 0 ? y : 0x10000 - y) << 14);
  }
}

}  // namespace

bool has_activation(Activation function) {
  return function == Activation::kRelu || function == Activation::kSigmoid ||
         shape_of(function).count != 0;
}

void activation(Activation function, const ConstMatrix& input, const OtherRows& factor,
                const Matrix& output, const ParallelFor& parallel) {
  const bool is_sigmoid = linked(Need::kSigmoid) && function == Activation::kSigmoid;
  const Shape shape = shape_of(function);
  const uint32_t count = output.columns;
  auto work = [&](uint32_t row) {
    const float* const x = input.row(row);
    float* const to = output.row(row);
    const uint32_t of_x = scan(x, count).exponent;
    const float* const y = factor.data == nullptr ? nullptr : factor.row(row);
    const Scan of_y = y == nullptr ? Scan{0, 0} : scan(y, factor.columns);
    if (of_x == kNotFinite || of_y.exponent == kNotFinite) return fill_with_nan(to, count);
    int32_t exponent = static_cast<int32_t>(of_x) - 8;
    if (is_sigmoid) {
      sigmoid(of_x, count, x, to);
      exponent = 120;
    } else {
      apply(shape, of_x, count, x, to);
    }
    if (y != nullptr) {
      const int32_t left = of_y.room();
      const uint32_t each = count / factor.columns;
      for (uint32_t i = 0, end = 0, of = 0; i < count; ++of) {
        const int32_t factor_bits = shifted_left(mantissa_of(bits_of(y[of])), left) >> 16;
        for (end += each; i < end; ++i)
          to[i] = with_bits(times_signed(bits_of(to[i]), factor_bits));
      }
      exponent += 32 + static_cast<int32_t>(of_y.exponent) - 158 - left;
    }
    pack(to, count, exponent);
  };
  for_each_row(parallel, output.rows, count * kFunctionWork, work);
}

namespace {

// Returns a float in units of 2^-14, or +-kTwo for magnitudes from 2 on.
constexpr int32_t kTwo = 0x8000;
int32_t turn_of(float x) {
  const auto bits = bit_cast<uint32_t>(x);
  const uint32_t magnitude = (bits & 0x7FFFFF) | 0x800000;
  const int32_t right = 135 - static_cast<int32_t>(field_of(bits));
  const int32_t number =
      right < 8 ? kTwo : (shifted(static_cast<int32_t>(magnitude), right) + 1) >> 1;
  return static_cast<int32_t>(bits) < 0 ? -number : number;
}
bool is_two(int32_t turn) { return turn == kTwo || turn == -kTwo; }

}  // namespace

void rope(const KernelSet&, const ConstMatrix& input, uint32_t heads, const float* angles,
          uint32_t rotary_dim, const StepRows& rows, const Matrix& output,
          const ParallelFor& parallel) {
  const uint32_t head_dim = input.columns / heads, half = rotary_dim / 2;
  auto work = [&](uint32_t row) {
    const float* const turn = angles + size_t{place_of_row(rows, row).position} * rotary_dim;
    const float* const from = input.row(row);
    float* const to = output.row(row);
    const Scan of_row = scan(from, input.columns);
    if (of_row.exponent == kNotFinite) return fill_with_nan(to, input.columns);
    bool is_large = false;
    for (uint32_t i = 0; i < half; ++i) {
      const int32_t cosine = turn_of(turn[i]), sine = turn_of(turn[half + i]);
      is_large = is_large || is_two(cosine) || is_two(sine);
      for (uint32_t at = i; at < input.columns; at += head_dim) {
        const int32_t x = mantissa_of(bits_of(from[at]));
        const int32_t y = mantissa_of(bits_of(from[at + half]));
        to[at] = with_bits(times_signed(x, cosine) - times_signed(y, sine));
        to[at + half] = with_bits(times_signed(x, sine) + times_signed(y, cosine));
      }
    }
    for (uint32_t at = 0; at < input.columns; at += head_dim) {
      for (uint32_t i = rotary_dim; i < head_dim; ++i) {
        to[at + i] = with_bits(mantissa_of(bits_of(from[at + i])) >> 2);
      }
    }
    if (is_large) return fill_with_nan(to, input.columns);
    pack(to, input.columns, static_cast<int32_t>(of_row.exponent) - 6);
  };
  for_each_row(parallel, output.rows, output.columns * kRoundWork, work);
}

void mean(const ConstMatrix& input, std::span<const SequenceRows> rows,
          std::span<const SequenceRows> to, const Matrix& output, const ParallelFor& parallel) {
  auto work = [&](uint32_t index) {
    if (to[index].rows == 0) return;
    const uint32_t begin = rows[index].row_begin, count = rows[index].rows;
    float* const sums = output.row(to[index].row_begin);
    uint32_t largest = 0;
    for (uint32_t row = begin; row < begin + count; ++row) {
      largest = std::max(largest, scan(input.row(row), input.columns).exponent);
    }
    if (largest == kNotFinite) return fill_with_nan(sums, input.columns);
    const int32_t room = 32 - leading_zeros(count);
    std::fill_n(sums, input.columns, 0.0f);
    for (uint32_t row = begin; row < begin + count; ++row) {
      const float* const from = input.row(row);
      const int32_t right = static_cast<int32_t>(largest - exponent_of(bits_of(from[0]))) + room;
      for (uint32_t i = 0; i < input.columns; ++i) {
        sums[i] = with_bits(bits_of(sums[i]) + shifted(mantissa_of(bits_of(from[i])), right));
      }
    }
    // Divides by count << left, which has 16 bits.
    const int32_t left = 16 - room;
    const uint32_t by = left < 0 ? count >> -left : count << left;
    const uint32_t factor = std::min<uint32_t>(0x80000000u / by, 0xFFFFu);
    for (uint32_t i = 0; i < input.columns; ++i) {
      sums[i] = with_bits(times(bits_of(sums[i]), factor));
    }
    pack(sums, input.columns, static_cast<int32_t>(largest) - 7);
  };
  for_each_row(parallel, static_cast<uint32_t>(to.size()),
               input.rows * input.columns * (2 * kSumWork), work);
}

}  // namespace arenite::integers
#endif
