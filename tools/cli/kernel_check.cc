// SPDX-License-Identifier: Apache-2.0
// Compares kernels with plain loops. Operands take a few hundred kilobytes whatever the model's
// size: widths are capped, but keep their remainder, which is where kernels differ.
#include "cli/kernel_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "convert/files/error.h"
#include "convert/files/thread_pool.h"
#include "convert/program/writer.h"
#include "convert/quantize/quantizers.h"
#include "format/model_needs.h"
#include "ops/attention.h"
#include "ops/linear.h"

namespace arenite::tool {
namespace {

constexpr double kRounded = 1e-5;         // relative to the sum of the terms' magnitudes
constexpr double kAttended = 1e-4;        // absolute; values are at most 1
constexpr double kAttendedInInt8 = 2e-3;  // queries and weights are rounded to 16 bits, too
constexpr uint32_t kWidthMost = 256;
constexpr uint32_t kWidthStep = 64;  // kernels handle a remainder of this in their own way

uint32_t cut_off(uint32_t width) {
  return width <= kWidthMost ? width : kWidthMost + width % kWidthStep;
}

// Deterministic pseudo-random values.
class Source {
 public:
  // Returns an integer from -most to most.
  int32_t next(int32_t most) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<int32_t>((state_ >> 33) % (2 * static_cast<uint64_t>(most) + 1)) - most;
  }
  // Returns `count` values from -limit to limit, plus padding that kernels may read.
  std::vector<float> numbers(size_t count, float limit) {
    std::vector<float> made(count + kReadAheadBytes / sizeof(float));
    for (float& number : made) number = limit * static_cast<float>(next(1 << 20)) / (1 << 20);
    return made;
  }

  // Returns [count, columns] plus padding. A row is int8 values minus a zero point, times a factor.
  // It spans the full int8 range, so quantizing is exact.
  std::vector<float> rows(uint32_t count, uint32_t columns, bool has_zero_points) {
    std::vector<float> made;
    for (uint32_t r = 0; r < count; ++r) {
      const int32_t zero_point = has_zero_points ? static_cast<int32_t>(3 * r) - 9 : 0;
      const float factor = (0.7f + 0.03f * static_cast<float>(r % 9)) / 127.0f;
      for (uint32_t i = 0; i < columns; ++i) {
        int32_t number = next(127);
        if (i == 0) number = 127;
        if (i == 1 && has_zero_points) number = -128;
        made.push_back(factor * static_cast<float>(number - zero_point));
      }
    }
    made.resize(made.size() + kReadAheadBytes / sizeof(float));
    return made;
  }

  convert::WeightElements weights(TensorType type, uint32_t outputs, uint32_t inputs) {
    const size_t count = size_t{outputs} * inputs;
    if (type == TensorType::kF32) {
      std::vector<float> made = numbers(count, 1.0f);
      made.resize(count);
      return made;
    }
    convert::QuantizedMatrix made = {type, outputs, inputs};
    const auto most = static_cast<int32_t>(convert::levels_of(type).most);
    for (size_t i = 0; i < count; ++i) made.values.push_back(static_cast<int8_t>(next(most)));
    for (size_t i = 0; i < count / convert::weights_per_scale(type, inputs); ++i) {
      made.scales.push_back(static_cast<float>(100 + next(27)) / (1 << 14));  // exact in bfloat16
    }
    return made;
  }

 private:
  uint64_t state_ = 1;
};

struct Expected {
  double value = 0.0;
  double magnitude = 0.0;

  void add(double term) {
    value += term;
    magnitude += std::fabs(term);
  }
};

class KernelCheck {
 public:
  KernelCheck(const KernelSet& kernels, const std::string& source)
      : kernels_(kernels), source_(source) {}

  // Checks products of 1 to tile + 1 rows, with a partial last panel.
  void products(TensorType type, uint32_t inputs) {
    const Packing packing = packing_of(kernels_.target, type);
    const uint32_t outputs = 2u * packing.nr - 1, rows = packing.mr + 1u;
    const std::vector<float> input = made_.rows(rows, inputs, true);
    convert::ProgramTensor tensor = {"", outputs, inputs};
    tensor.type = type;
    tensor.bias = made_.numbers(outputs, 1.0f);
    tensor.bias.resize(outputs);
    convert::AlignedBytes packed(
        static_cast<size_t>(format::stored_bytes(tensor.shape(), packing).value()));
    convert::pack_weights(tensor, made_.weights(type, outputs, inputs), packing, packed.span());
    const WeightView weights = {packed.data(), type, packing, outputs, inputs};
    std::vector<Expected> expected;
    std::vector<float> row(inputs);
    for (uint32_t n = 0; n < outputs; ++n) {
      read_row(weights, n, row.data());
      for (uint32_t r = 0; r < rows; ++r) {
        Expected& sum = expected.emplace_back();
        sum.add(tensor.bias[n]);
        for (uint32_t i = 0; i < inputs; ++i) sum.add(double{row[i]} * input[r * inputs + i]);
      }
    }
    const auto compare = [&](const char* what, uint32_t count, const std::vector<float>& found) {
      for (size_t i = 0; i < size_t{count} * outputs; ++i) {
        const Expected& sum = expected[i % outputs * rows + i / outputs];
        if (near(found[i], sum.value, kRounded * sum.magnitude)) continue;
        fail(fmt::format("{} of {} x {} with {} weights", what, count, inputs, name(type)),
             found[i], sum.value);
      }
    };
    convert::AlignedBytes scratch(
        static_cast<size_t>(rows * quantized_scratch_bytes(inputs) + kReadAheadBytes));
    for (uint32_t count = 1; count <= rows; ++count) {
      std::vector<float> found(size_t{count} * outputs);
      linear(kernels_, {input.data(), count, inputs, inputs}, weights,
             {found.data(), count, outputs, outputs}, {scratch.data()}, {});
      compare("products", count, found);
      if (type != TensorType::kF32 || kernels_.indirect == nullptr || count == rows) continue;
      std::ranges::fill(found, 0.0f);
      windows(input, inputs, weights, count, found);
      compare("windows", count, found);
    }
  }

  // Checks attention: a call of 2 * nr + 3 rows, then calls of 1 to tile + 1 rows.
  void attention(uint32_t head_dim, uint32_t value_dim, TensorType kv_type) {
    const bool is_int8 = kv_type == TensorType::kInt8;
    const uint32_t most = packing_of(kernels_.target, kv_type).mr + 1u;
    const uint32_t first = 2u * kernels_.f32.packing.nr + 3,
                   positions = first + most * (most + 1) / 2;
    const float query_limit = 4.0f / std::sqrt(static_cast<float>(std::max(1u, head_dim)));
    const std::vector<float> query = made_.numbers(size_t{positions} * head_dim, query_limit);
    const std::vector<float> key = made_.rows(positions, head_dim, false);
    const std::vector<float> value = made_.rows(positions, value_dim, false);
    std::vector<float> found(size_t{positions} * value_dim);
    const CacheShape shape = {1, head_dim, value_dim};
    convert::AlignedBytes cache(kernels_.layout_of_cache(is_int8, shape, positions).bytes());
    ArenaFormula formula;
    formula.nr = kernels_.f32.packing.nr;
    formula.score_rows = kernels_.f32.packing.mr;
    formula.group_count = 1;
    formula.groups[0].lookback = kUnlimited;
    const auto scratch_bytes =
        static_cast<size_t>(evaluate(formula, std::vector<Axis>(1), {.positions_max = positions})
                                .scratch_bytes_per_thread.value());
    convert::AlignedBytes scratch(scratch_bytes);
    Attention op;
    op.heads = 1;
    op.shape = shape;
    op.mask.lookahead = 0;
    op.cache_positions = positions;
    op.kv_type = kv_type;
    op.cache = cache.data();
    op.scratch = {nullptr, scratch.data(), scratch_bytes};
    for (uint32_t begin = 0, rows = first; begin < positions; begin += rows) {
      if (begin != 0) rows = begin == first ? 1 : rows + 1;
      const SequenceRows sequence = {begin, 0, rows};
      const auto matrix = [&](const std::vector<float>& of, uint32_t width) {
        return width == 0 ? ConstMatrix{}
                          : ConstMatrix{of.data() + size_t{begin} * width, rows, width, width};
      };
      op.query = matrix(query, head_dim);
      op.key = matrix(key, head_dim);
      op.value = matrix(value, value_dim);
      op.output = {found.data() + size_t{begin} * value_dim, rows, value_dim, value_dim};
      op.queries = op.keys = {&sequence, 1};
      arenite::attention(kernels_, op, {});
    }
    for (size_t i = 0; i < positions; ++i) {
      std::vector<double> expected(value_dim + 1);  // the last element is the sum of weights
      for (size_t j = 0; j <= i; ++j) {
        const double weight = std::exp(sum_of(head_dim, [&](size_t d) {
          return double{query[i * head_dim + d]} * key[j * head_dim + d];
        }));
        for (size_t c = 0; c < value_dim; ++c) expected[c] += weight * value[j * value_dim + c];
        expected.back() += weight;
      }
      for (size_t c = 0; c < value_dim; ++c) {
        const float result = found[i * value_dim + c];
        const double right = expected[c] / expected.back();
        if (near(result, right, is_int8 ? kAttendedInInt8 : kAttended)) continue;
        fail(fmt::format("attention over keys and values in {}", name(kv_type)), result, right);
      }
    }
  }

  // Checks the elementwise functions that the kernel set has.
  void functions() {
    constexpr size_t kCount = 67;
    const std::vector<float> a = made_.numbers(2 * kCount, 6.0f);
    const std::vector<float> b = made_.numbers(2 * kCount, 6.0f);
    std::vector<float> y(a.size());
    const auto check = [&](const char* what, auto kernel, auto operands, size_t count, auto right) {
      if (kernel == nullptr) return;
      std::ranges::fill(y, 0.0f);
      std::apply(kernel, std::tuple_cat(std::tuple(kCount * sizeof(float), a.data()), operands));
      for (size_t i = 0; i < count; ++i) {
        if (!near(y[i], right(i), kRounded * (1.0 + std::fabs(right(i)))))
          fail(what, y[i], right(i));
      }
    };
    const KernelSet& k = kernels_;
    const std::tuple out(y.data());
    const std::tuple of_b(b.data(), y.data());
    const float most = *std::max_element(a.begin(), a.begin() + kCount);
    const float least = *std::min_element(a.begin(), a.begin() + kCount);
    const auto x = [&](size_t i) { return double{a[i]}; };
    const auto gelu = [&](size_t i) { return 0.5 * x(i) * (1 + std::erf(x(i) * std::sqrt(0.5))); };
    const auto power = [&](size_t i) { return std::exp(x(i) - most); };
    const auto powers = [&](size_t i) { return i < kCount ? power(i) : sum_of(kCount, power); };
    const auto turned = [&](size_t i) {
      const size_t re = i % kCount, im = re + kCount;
      return i < kCount ? x(re) * b[re] - x(im) * b[im] : x(re) * b[im] + x(im) * b[re];
    };
    check("gelu", k.gelu, out, kCount, gelu);
    check("sigmoid", k.sigmoid, out, kCount, [&](size_t i) { return 1 / (1 + std::exp(-x(i))); });
    check("tanh", k.tanh, out, kCount, [&](size_t i) { return std::tanh(x(i)); });
    check("add", k.add, of_b, kCount, [&](size_t i) { return x(i) + b[i]; });
    check("multiply", k.multiply, of_b, kCount, [&](size_t i) { return x(i) * b[i]; });
    check("add_constant", k.add_constant, of_b, kCount, [&](size_t i) { return x(i) + b[0]; });
    check("scale", k.scale, of_b, kCount, [&](size_t i) { return x(i) * b[0]; });
    check("rotate", k.rotate, of_b, 2 * kCount, turned);
    check("sum", k.sum, out, 1, [&](size_t) { return sum_of(kCount, x); });
    check("row_extremes", k.row_extremes, out, 2, [&](size_t i) { return i == 0 ? least : most; });
    check("exp_sum", k.exp_sum, std::tuple(&most, y.data(), &y[kCount]), kCount + 1, powers);
  }

 private:
  static bool near(float found, double expected, double tolerance) {
    return std::fabs(found - expected) <= tolerance;  // false for NaN
  }
  [[noreturn]] void fail(const std::string& what, float found, double expected) const {
    throw convert::InputError(
        "{}: the self-test failed: kernel set {} is wrong at {}: found {:.7g}, expected {:.7g}: "
        "this build or this CPU computes wrongly: --kernels names another set",
        source_, kernels_.name, what, found, expected);
  }

  template <typename Term>
  static double sum_of(size_t count, Term term) {
    double sum = 0.0;
    for (size_t i = 0; i < count; ++i) sum += term(i);
    return sum;
  }

  // Computes the products through the indirect kernel, with rows split into pieces.
  void windows(const std::vector<float>& input, uint32_t inputs, const WeightView& weights,
               uint32_t rows, std::vector<float>& found) const {
    const uint32_t pieces = inputs % 3 == 0 ? 3 : 2 - inputs % 2, piece = inputs / pieces;
    const uint32_t list_rows = kernels_.indirect->list_rows[rows];
    std::vector<const float*> list;
    for (uint32_t i = 0; i < pieces * list_rows; ++i) {
      const uint32_t row = std::min(i % list_rows, rows - 1);
      list.push_back(input.data() + row * inputs + i / list_rows * piece);
    }
    kernels_.indirect->gemm[rows](rows, weights.rows, pieces, piece * sizeof(float), list.data(),
                                  weights.data, found.data(), weights.rows * sizeof(float));
  }

  const KernelSet& kernels_;
  const std::string& source_;
  Source made_;
};

}  // namespace

SelfTest run_self_test(const ModelFile& file, KvType kv_cache, uint32_t threads) {
  const Model& model = file.model();
  convert::ThreadPool pool(threads);
  SessionOptions options;
  options.kv_cache = kv_cache;
  options.parallel = pool.parallel_for();
  options.positions_max = std::max(1u, model.self_test_tokens());
  const format::ModelReader reader(model.file());
  for (uint32_t i = 1; i < model.inputs(); ++i) {
    options.others[i - 1].positions_max =
        std::max(1u, format::self_test_tokens(reader, i, options.positions_max));
  }
  ModelSession session(file, options);
  Diagnostic why;
  const Result<SelfTest> test = session.session().self_test(&why);
  if (!test.ok()) throw_status(file.name(), test.status(), why);
  return *test;
}

std::string op_of(const ModelFile& file, const SelfTest& test) {
  if (test.op_index == file.model().ops()) return "the output";
  return fmt::format("op {}, {}", test.op_index, convert::quote(test.op_name));
}

std::string describe_failure(const ModelFile& file, const SelfTest& test) {
  return fmt::format("{}: token {} differs by {:.2g}, where {:.2g} is allowed", op_of(file, test),
                     test.token, test.difference, test.tolerance);
}

void check_kernels(const KernelSet& kernels, const format::ModelReader& model, NeedSet needs,
                   TensorType kv_type, const std::string& source) {
  if (kv_type == TensorType::kInt8) needs |= set_of(Need::kInt8Cache);
  const KernelSet used = linked_kernels(kernels, needs);
  KernelCheck check(used, source);
  std::set<std::pair<TensorType, uint32_t>> widths;
  for (uint32_t i = 0; i < model.tensors(); ++i) {
    const format::TensorShape& tensor = model.tensor(i);
    if (tensor.layout == format::Layout::kGemm)
      widths.insert({tensor.type, cut_off(tensor.inputs)});
  }
  for (const auto& [type, inputs] : widths) check.products(type, inputs);
  std::set<std::pair<uint32_t, uint32_t>> heads;
  for (uint32_t i = 0; i < model.caches(); ++i) {
    const CacheShape& shape = model.cache(i).shape;
    heads.insert({cut_off(shape.head_dim), cut_off(shape.value_dim)});
  }
  for (const auto& [head_dim, value_dim] : heads) check.attention(head_dim, value_dim, kv_type);
  check.functions();
}

void require_right_kernels(const ModelFile& file, KvType kv_cache, uint32_t threads,
                           bool reads_weights) {
  const Model& model = file.model();
  const format::ModelReader reader(model.file());
  if (model.self_test_tokens() != 0 && reads_weights) {
    const SelfTest test = run_self_test(file, kv_cache, threads);
    if (test.passed) return;
    throw convert::InputError(
        "{}: the self-test failed with kernel set {} at {}: the weights are not those that it was "
        "recorded with, or this build or this CPU computes wrongly: --kernels names another set",
        convert::quote(file.name()), kernel_set_name(model.target()), describe_failure(file, test));
  }
  NeedSet needs;
  format::for_each_need(model.file(), [&](Need need, uint32_t) {
    needs |= need;
    return true;
  });
  const TensorType kv_type = kv_cache == KvType::kOfModel ? reader.kv_cache()
                             : kv_cache == KvType::kInt8  ? TensorType::kInt8
                                                          : TensorType::kF32;
  check_kernels(*kernel_set(model.target()), reader, needs, kv_type, convert::quote(file.name()));
}

}  // namespace arenite::tool
