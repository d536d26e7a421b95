// SPDX-License-Identifier: Apache-2.0
// Attention on integer rows, with int8 keys and values. Elements of a query, or weights of keys,
// are multiplied by four bytes of the cache at a time; the softmax uses powers of two.
#include "ops/integer_rows.h"

#if defined(ARENITE_INTEGER_ROWS)
#include <algorithm>
#include <cstring>

#include "core/float_bits.h"
#include "ops/attention_block.h"

#if !defined(__OPTIMIZE__)
#undef ARENITE_THUMB_1  // a frame pointer takes one of the eight low registers
#endif
#if !defined(__clang__) && !defined(__x86_64__)
#pragma GCC optimize("O2")  // regardless of the firmware's own level
#endif

namespace arenite::integers {
namespace {

constexpr uint32_t kAtOnce = 4;  // bytes of a word

// sums[i] += the sum over j < 4 of factors[j] * (byte j of word i), for `count` words of the cache
// that are `step` bytes apart.
[[gnu::noinline]] void add_words(const float* factors, const std::byte* words, size_t step,
                                 uint32_t count, float* sums) {
#if defined(ARENITE_THUMB_1)
  if (count == 0) return;
  register const float* const end asm("r8") = sums + count;
  register const size_t apart asm("r9") = step;
  register uint32_t sum asm("r10");
  uint32_t f0, f1, f2, f3, word;
  asm volatile(
      ".syntax unified\n"
      "ldr %[f0], [%[factors], #0]\n"
      "ldr %[f1], [%[factors], #4]\n"
      "ldr %[f2], [%[factors], #8]\n"
      "ldr %[f3], [%[factors], #12]\n"
      "1: ldr %[word], [%[words]]\n"
      "sxtb %[factors], %[word]\n"  // from here on `factors` holds products
      "muls %[factors], %[f0]\n"
      "mov %[sum], %[factors]\n"
      "lsls %[factors], %[word], #16\n"
      "asrs %[factors], %[factors], #24\n"
      "muls %[factors], %[f1]\n"
      "add %[sum], %[factors]\n"
      "lsls %[factors], %[word], #8\n"
      "asrs %[factors], %[factors], #24\n"
      "muls %[factors], %[f2]\n"
      "add %[sum], %[factors]\n"
      "asrs %[word], %[word], #24\n"
      "muls %[word], %[f3]\n"
      "add %[word], %[sum]\n"
      "ldr %[factors], [%[sums]]\n"
      "adds %[word], %[word], %[factors]\n"
      "stmia %[sums]!, {%[word]}\n"
      "add %[words], %[apart]\n"
      "cmp %[sums], %[end]\n"
      "bne 1b\n"
      : [words] "+l"(words), [sums] "+l"(sums), [factors] "+l"(factors), [f0] "=&l"(f0),
        [f1] "=&l"(f1), [f2] "=&l"(f2), [f3] "=&l"(f3), [word] "=&l"(word), [sum] "=&r"(sum)
      : [end] "r"(end), [apart] "r"(apart)
      : "cc", "memory");
#else
  const int32_t f0 = bits_of(factors[0]), f1 = bits_of(factors[1]);
  const int32_t f2 = bits_of(factors[2]), f3 = bits_of(factors[3]);
  for (float* const end = sums + count; sums != end; ++sums, words += step) {
    uint32_t word;
    std::memcpy(&word, __builtin_assume_aligned(words, sizeof(word)), sizeof(word));
    *sums = with_bits(bits_of(*sums) + f0 * static_cast<int8_t>(word) +
                      f1 * static_cast<int8_t>(word >> 8) + f2 * static_cast<int8_t>(word >> 16) +
                      f3 * (static_cast<int32_t>(word) >> 24));
  }
#endif
}

// Quantizes a row to int8 by its largest magnitude, with `group` bytes from element to element.
// Returns the scale as a float: NaN for a row that is not finite.
float quantize(const float* from, uint32_t count, int8_t* to, uint32_t group) {
  const Scan row = scan(from, count);
  const int32_t left = row.room();
  int32_t largest = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const int32_t x = bits_of(from[i]) >> 8;
    largest = std::max(largest, x < 0 ? -x : x);
  }
  largest = largest << left >> 8;
  constexpr int32_t kShift = 23, kHalf = 1 << (kShift - 1);
  const int32_t field = static_cast<int32_t>(row.exponent) - left - 8;
  const bool is_zero = largest == 0 || field < 1 || row.exponent == kNotFinite;
  const int32_t per_unit = is_zero ? 0 : (127 << kShift) / largest;
  for (uint32_t i = 0; i < count; ++i, to += group) {
    const int32_t x = (bits_of(from[i]) >> 8) << left >> 8;
    *to = static_cast<int8_t>((x * per_unit + kHalf) >> kShift);
  }
  if (row.exponent == kNotFinite) return __builtin_nanf("");
  if (is_zero) return __FLT_MIN__;  // small, so that it takes no digits from the weights of others
  const uint32_t scale = std::min<uint32_t>(0x80000000u / static_cast<uint32_t>(per_unit), 0xFFFFu);
  return bit_cast<float>((static_cast<uint32_t>(field) << 23) + ((scale - 0x8000) << 8));
}

// 2^-f in units of 2^-15, for f = 0, 1/64 ... 1.
struct Powers {
  uint16_t values[65] = {};
  consteval Powers() {
    double power = 1;
    for (uint16_t& value : values) {
      value = static_cast<uint16_t>(power * 32768 + 0.5);
      power *= 0.98922801319397548;
    }
  }
};
constexpr Powers kPowers;

// Returns 2^-f in units of 2^-15 for a fraction f in units of 2^-16, by linear interpolation.
[[gnu::always_inline]] inline uint32_t power_below(uint32_t fraction) {
  const uint16_t* const at = kPowers.values + (fraction >> 10);
  const int32_t first = at[0], difference = at[1] - first;
  return static_cast<uint32_t>(first + (static_cast<int32_t>(fraction & 0x3FF) * difference >> 10));
}

// Adds slope * distance to the scores, minus the largest of these terms, which changes no weight.
// Returns false if the slope is 2^11 or more, or not finite.
bool add_slope(float slope, uint32_t count, float* scores, int32_t& largest) {
  constexpr uint64_t kLog2e = 3098164009;                // in units of 2^-31
  constexpr int32_t kLeast = -(((1 << 14) + 32) << 16);  // a score with it has weight 0
  const auto bits = bit_cast<uint32_t>(slope);
  const auto left = static_cast<int32_t>(field_of(bits)) - 133;
  if (left > 4) return false;
  const auto product = static_cast<int64_t>(((bits & 0x7FFFFF) | 0x800000) * kLog2e);
  // The product is in units of 2^-48; its upper word is in the unit of scores.
  const int64_t step = left < 0 ? product >> std::min<int32_t>(-left, 63) : product << left;
  const bool falls = bits >> 31 != 0;
  float* score = falls ? scores : scores + count - 1;
  largest = INT32_MIN;
  for (int64_t term = 0; count != 0; --count, score += falls ? 1 : -1) {
    const auto whole = static_cast<int32_t>(term >> 32);
    const int32_t sum = bits_of(*score) + whole;
    *score = with_bits(sum);
    largest = std::max(largest, sum);
    if (whole > kLeast) term -= step;
  }
  return true;
}

class Attending {
 public:
  Attending(const Attention& op, const CacheLayout& layout) : op_(op), layout_(layout) {
    while (op.shape.head_dim > 511u << more_) ++more_;
    left_ = leading_zeros(op.shape.head_dim << (22 - more_)) - 1;
  }

  void append(uint32_t row) const;
  void attend(uint32_t row, uint32_t head, float* sums) const;

 private:
  std::byte* cache(size_t sequence, uint32_t kv_head) const {
    return op_.cache + sequence * layout_.bytes() + kv_head * layout_.head_bytes();
  }
  uint32_t place(uint32_t position) const { return position % layout_.positions(); }
  // Calls part(first, count) for each run of positions that are contiguous in the cache.
  template <typename Part>
  void for_each_part(KeyRange keys, Part part) const {
    while (keys.begin < keys.end) {
      const uint32_t in_a_row = layout_.positions() - place(keys.begin);
      const uint32_t count = std::min(keys.end - keys.begin, in_a_row);
      part(keys.begin, count);
      keys.begin += count;
    }
  }
  // Scratch holds integers in the same way as rows: as floats with the same bits.
  void add_keys(const float* query, int32_t room, const std::byte* head, KeyRange keys,
                float* sums) const;
  bool make_scores(int32_t exponent, const std::byte* head, KeyRange keys, float* sums,
                   int32_t& largest) const;
  bool make_weights(const std::byte* head, KeyRange keys, int32_t largest, float* scores,
                    int32_t& exponent, uint32_t& factor) const;
  void add_values(const std::byte* head, KeyRange keys, const float* weights, float* to) const;

  const Attention& op_;
  const CacheLayout& layout_;
  uint32_t more_ = 0;  // bits by which elements of long queries are shorter
  int32_t left_;       // left shift of sums of products with keys that cannot overflow
};

void Attending::append(uint32_t row) const {
  const size_t s = sequence_of_row(op_.keys, row);
  const uint32_t position = op_.keys[s].positions + row - op_.keys[s].row_begin;
  const uint32_t dims = op_.shape.head_dim, columns = op_.shape.value_dim;
  for (uint32_t kv_head = 0; kv_head < op_.shape.kv_heads; ++kv_head) {
    std::byte* const head = cache(s, kv_head);
    if (dims != 0) {
      auto* const to = reinterpret_cast<int8_t*>(head + layout_.integer_key(position));
      *reinterpret_cast<float*>(head + layout_.integer_key_scale(position)) =
          quantize(op_.key.row(row) + size_t{kv_head} * dims, dims, to, 1);
    }
    auto* const to = reinterpret_cast<int8_t*>(
        head + layout_.integer_value(position / kPagePositions, position % kPagePositions));
    *reinterpret_cast<float*>(head + layout_.value_scale(position)) =
        quantize(op_.value.row(row) + size_t{kv_head} * columns, columns, to, kIntegerGroup);
  }
}

// sums[key] = query * key, with elements of the query in 16 bits or less.
void Attending::add_keys(const float* query, int32_t room, const std::byte* head, KeyRange keys,
                         float* sums) const {
  const uint32_t dims = op_.shape.head_dim;
  const size_t step = integer_key_bytes(dims);
  const uint32_t right = 8 + more_;
  std::fill_n(sums, keys.end - keys.begin, 0.0f);
  for_each_part(keys, [&](uint32_t first, uint32_t count) {
    const std::byte* const key = head + layout_.integer_key(first);
    for (uint32_t i = 0; i < dims; i += kAtOnce) {
      float factors[kAtOnce];
#pragma GCC unroll 4
      for (uint32_t k = 0; k < kAtOnce; ++k) {
        factors[k] = with_bits(i + k < dims ? (bits_of(query[i + k]) >> 8) << room >> right : 0);
      }
      add_words(factors, key + i, step, count, sums + (first - keys.begin));
    }
  });
}

// Turns sums into scores in units of 2^-16, whose powers of two are the weights. Returns false if a
// scale is not finite, or a score beyond 2^13.
bool Attending::make_scores(int32_t exponent, const std::byte* head, KeyRange keys, float* sums,
                            int32_t& largest) const {
  constexpr uint32_t kLog2e = 47274;  // in units of 2^-15
  constexpr int32_t kMost = 1 << 29;
  const int32_t left = left_;
  uint32_t largest_field = 0;
  for_each_part(keys, [&](uint32_t first, uint32_t count) {
    const auto* scale = reinterpret_cast<const float*>(head + layout_.integer_key_scale(first));
    float* sum = sums + (first - keys.begin);
    for (const float* const end = sum + count; sum != end; ++sum, ++scale) {
      const auto bits = bit_cast<uint32_t>(*scale);
      const uint32_t factor = upper_bits(bits) * kLog2e >> 16;
      const int32_t product = times(shifted_left(bits_of(*sum), left), factor);
      const int32_t right = exponent - static_cast<int32_t>(field_of(bits));
      largest_field = std::max(largest_field, field_of(bits));
      int32_t score = shifted(product, std::max<int32_t>(right, 0));
      if (right < 2) {
        const int32_t most = shifted(kMost, std::max<int32_t>(-right, 0));
        const bool is_beyond = score >= most || score <= -most;
        score = is_beyond ? kMost
                          : static_cast<int32_t>(static_cast<uint32_t>(score)
                                                 << std::max<int32_t>(-right, 0));
        if (is_beyond) largest_field = kNotFinite;
      }
      largest = std::max(largest, score);
      *sum = with_bits(score);
    }
  });
  return largest_field != kNotFinite;
}

// Turns scores into weights times the scales of their values, such that no sum of products with
// values reaches 2^31. Such sums stand for sum * factor * 2^(exponent - 150 - 16). Returns false if
// a scale is not finite.
bool Attending::make_weights(const std::byte* head, KeyRange keys, int32_t largest, float* scores,
                             int32_t& exponent, uint32_t& factor) const {
  uint32_t largest_scale = 0;
  for_each_part(keys, [&](uint32_t first, uint32_t count) {
    const auto* scale = reinterpret_cast<const float*>(head + layout_.value_scale(first));
#pragma GCC unroll 4
    for (uint32_t i = 0; i < count; ++i) {
      largest_scale = std::max(largest_scale, bit_cast<uint32_t>(scale[i]));
    }
  });
  const auto field = static_cast<int32_t>(field_of(largest_scale));
  if (field == static_cast<int32_t>(kNotFinite)) return false;
  const int32_t less = 32 - leading_zeros(keys.end - keys.begin);  // bits of the number of keys
  uint32_t sum = 0;
  const float* const end_of_all = scores + (keys.end - keys.begin);
  for (float* weight = scores; weight != end_of_all; ++weight) {
    const auto below = static_cast<uint32_t>(largest) - bit_cast<uint32_t>(*weight);
    uint32_t power = 0;
    if (below < 31u << 16) power = power_below(below & 0xFFFF) << 15 >> (below >> 16);
    *weight = bit_cast<float>(power);
    sum += power >> less;
  }
  const int32_t left = leading_zeros(sum);
  const int32_t right = std::max<int32_t>(less + 8 - left, 0);
  for_each_part(keys, [&](uint32_t first, uint32_t count) {
    const auto* scale = reinterpret_cast<const float*>(head + layout_.value_scale(first));
    float* weight = scores + (first - keys.begin);
    for (const float* const end = weight + count; weight != end; ++weight, ++scale) {
      const auto bits = bit_cast<uint32_t>(*scale);
      *weight = with_bits(shifted(times(bits_of(*weight), upper_bits(bits)),
                                  field + right - static_cast<int32_t>(field_of(bits))));
    }
  });
  factor = std::min<uint32_t>(0x80000000u / (sum << left >> 16), 0xFFFFu);
  exponent = field + left + right - less - 7;
  return true;
}

// to = weights * values. REQUIRES: keys.begin is a multiple of 4, to which zeros pad the weights.
void Attending::add_values(const std::byte* head, KeyRange keys, const float* weights,
                           float* to) const {
  const uint32_t columns = op_.shape.value_dim;
  std::fill_n(to, columns, 0.0f);
  for (uint32_t first = keys.begin; first < keys.end;) {
    const uint32_t page = first / kPagePositions;
    const uint32_t end = std::min(keys.end, (page + 1) * kPagePositions);
    const std::byte* const values = head + layout_.integer_value(page, 0);
    for (; first < end; first += kAtOnce, weights += kAtOnce) {
      const uint32_t at = first % kPagePositions, in_group = at % kIntegerGroup;
      add_words(weights, values + size_t{at - in_group} * columns + in_group, kIntegerGroup,
                columns, to);
    }
  }
}

void Attending::attend(uint32_t row, uint32_t head, float* sums) const {
  const size_t s = sequence_of_row(op_.queries, row);
  const SequenceRows& queries = op_.queries[s];
  const uint32_t dims = op_.shape.head_dim, columns = op_.shape.value_dim;
  KeyRange keys = visible_keys(op_.mask, queries.positions + row - queries.row_begin,
                               op_.keys[s].positions + op_.keys[s].rows);
  const std::byte* const cached = cache(s, head / (op_.heads / op_.shape.kv_heads));
  float* const to = op_.output.row(row) + size_t{head} * columns;
  const float* const query = op_.query.row(row) + size_t{head} * dims;
  const Scan of_query = scan(query, dims);
  if (of_query.exponent == kNotFinite) return fill_with_nan(to, columns);
  // Weights begin at a multiple of four, like words of values; weights before keys.begin are 0.
  const uint32_t before = keys.begin % kAtOnce;
  std::fill_n(sums, before, 0.0f);
  float* const weights = sums + before;
  const uint32_t count = keys.end - keys.begin;
  add_keys(query, of_query.room(), cached, keys, weights);
  int32_t exponent = 251 + left_ + of_query.room() - static_cast<int32_t>(of_query.exponent) -
                     static_cast<int32_t>(more_);
  int32_t largest = INT32_MIN;
  uint32_t factor = 0;
  if (!make_scores(exponent, cached, keys, weights, largest) ||
      (op_.slopes != nullptr && !add_slope(op_.slopes[head], count, weights, largest)) ||
      !make_weights(cached, keys, largest, weights, exponent, factor)) {
    return fill_with_nan(to, columns);
  }
  std::fill_n(weights + count, kAtOnce - 1, 0.0f);
  keys.begin -= before;
  add_values(cached, keys, sums, to);
  for (uint32_t i = 0; i < columns; ++i) to[i] = with_bits(times(bits_of(to[i]), factor));
  pack(to, columns, exponent);
}

}  // namespace

bool has_attention(const KernelSet& kernels, const Attention& op) {
  return linked(Need::kInt8Cache) && op.kv_type == TensorType::kInt8 &&
         kernels.integers != nullptr && op.mask.kind == MaskKind::kBand && !has_table(op) &&
         !has_cap(op) && !has_sinks(op) && op.query_terms.rows.data == nullptr &&
         op.query.data != nullptr;
}

void attention(const KernelSet& kernels, const Attention& op, const ParallelFor& parallel) {
  const CacheLayout layout = kernels.layout_of_cache(true, op.shape, op.cache_positions);
  const Attending attending(op, layout);
  const uint32_t width = op.shape.head_dim + op.shape.value_dim;
  auto append = [&](uint32_t row) { attending.append(row); };
  if (op.value.data != nullptr) {
    for_each_row(parallel, op.value.rows, op.shape.kv_heads * width * kRoundWork, append);
  }
  auto attend = [&](uint32_t task_index, uint32_t thread_index) {
    const ScoreRows rows(op.scratch.floats_of(thread_index), kernels.f32.packing,
                         op.cache_positions);
    attending.attend(task_index / op.heads, task_index % op.heads, rows.scores);
  };
  for_each_task(parallel, op.query.rows * op.heads, op.cache_positions * (width + kFunctionWork),
                attend);
}

}  // namespace arenite::integers
#endif
