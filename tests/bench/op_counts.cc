// SPDX-License-Identifier: Apache-2.0
// Counts instructions of whole ops of several shapes. fit_rates.py fits the rates of `arenite
// inspect --board` to the counts. The shapes are small, like those of models for microcontrollers.
#include <algorithm>
#include <cstring>
#include <iterator>

#include "bench/counting.h"
#include "core/windows.h"
#include "ops/attention.h"
#include "ops/convolution.h"
#include "ops/linear.h"
#include "ops/row_ops.h"

namespace arenite {
namespace {

// One timer tick is many instructions, so an op runs several times.
constexpr uint32_t kTimes = 16;

struct Named {
  const char* name;
  TensorType type;
};
constexpr Named kTypes[] = {{"f32", TensorType::kF32},
                            {"w8", TensorType::kW8},
                            {"q8", TensorType::kQ8},
                            {"q4", TensorType::kQ4}};

// Instructions of one call of an op; sizes follow its name.
class Line {
 public:
  explicit Line(const KernelSet& kernels) : kernels_(kernels) {}

  template <typename Work>
  void operator()(std::string_view name, const char* type, std::initializer_list<uint32_t> sizes,
                  Work work) const {
    print("op:"), print(name);
    for (const uint32_t size : sizes) print(":"), print(uint64_t{size});
    report("", kernels_.name, type, 0, count(kTimes, [&] {
             for (uint32_t i = 0; i < kTimes; ++i) work();
           }));
  }

 private:
  const KernelSet& kernels_;
};

// Without an FPU the cost of a float depends on its value, so float weights vary. Other types hold
// 0.0115 as a float and 60 as an integer.
void fill_weights(TensorType type) {
  constexpr size_t kBytes = 512 << 10;
  std::fill_n(memory, kBytes, std::byte{0x3C});
  for (size_t at = 0; type == TensorType::kF32 && at + sizeof(input) <= kBytes;) {
    std::memcpy(memory + at, input, sizeof(input));
    at += sizeof(input);
  }
}

ConstMatrix from(uint32_t rows, uint32_t columns) { return {input, rows, columns, columns}; }
ConstMatrix other(uint32_t rows, uint32_t columns) {
  return {input + kFloats / 2, rows, columns, columns};
}
Matrix to(uint32_t rows, uint32_t columns) { return {output, rows, columns, columns}; }

void count_linear(const KernelSet& kernels, const Line& line) {
  constexpr uint32_t kShapes[][2] = {{4, 32},   {8, 128},  {64, 32},  {64, 64},
                                     {12, 256}, {128, 64}, {64, 128}, {192, 160}};
  for (const Named& type : kTypes) {
    const Packing packing = packing_of(kernels.target, type.type);
    fill_weights(type.type);
    for (const auto& [outputs, inputs] : kShapes) {
      const WeightView weights = {memory, type.type, packing, outputs, inputs};
      for (uint32_t rows = 1; rows <= packing.mr; ++rows) {
        line("linear", type.name, {rows, outputs, inputs}, [&] {
          linear(kernels, from(rows, inputs), weights, to(rows, outputs), scratch(), {});
        });
      }
    }
  }
  for (const uint32_t columns : {16u, 64u, 160u, 512u}) {
    for (const uint32_t rows : {1u, 8u}) {
      line("round", "-", {rows, columns}, [&] {
        QuantizedRows rounded(scratch().rows, rows, columns);
        rounded.quantize(kernels, *kernels.q8, from(rows, columns), {});
      });
    }
  }
}

void count_attention(const KernelSet& kernels, const Line& line, TensorType kv_type,
                     const char* type, uint32_t heads, uint32_t kv_heads, uint32_t head_dim,
                     uint32_t value_dim, uint32_t held, uint32_t rows) {
  const SequenceRows sequence = {held, 0, rows, held};
  Attention op;
  op.heads = heads;
  op.shape = {kv_heads, head_dim, value_dim};
  op.cache_positions = 256;
  op.query = {input, rows, heads * head_dim, heads * head_dim};
  op.key = {input + 4096, rows, kv_heads * head_dim, kv_heads * head_dim};
  op.value = {input + 8192, rows, kv_heads * value_dim, kv_heads * value_dim};
  op.output = to(rows, heads * value_dim);
  op.queries = op.keys = {&sequence, 1};
  op.kv_type = kv_type;
  op.cache = memory;
  op.scratch = scratch();
  fill_weights(kv_type);  // keys and values that are held already
  const std::initializer_list<uint32_t> sizes = {heads, kv_heads, head_dim, value_dim, held, rows};
  line("attention", type, sizes, [&] { attention(kernels, op, {}); });
  if (kv_type != TensorType::kF32) return;
  op.slopes = input;
  line("slopes", type, sizes, [&] { attention(kernels, op, {}); });
}

void count_attention(const KernelSet& kernels, const Line& line) {
  constexpr uint32_t kDims[][2] = {{16, 16}, {32, 32}, {8, 16}, {32, 16}};
  for (const Named& kv : {Named{"f32", TensorType::kF32}, Named{"int8", TensorType::kInt8}}) {
    for (const auto& [head_dim, value_dim] : kDims) {
      for (const uint32_t held : {0u, 15u, 60u, 200u}) {
        for (const uint32_t rows : {1u, 2u, 4u}) {
          count_attention(kernels, line, kv.type, kv.name, 2, 2, head_dim, value_dim, held, rows);
        }
        count_attention(kernels, line, kv.type, kv.name, 4, 1, head_dim, value_dim, held, 1);
      }
      for (const uint32_t rows : {1u, 2u, 4u}) {
        count_attention(kernels, line, kv.type, kv.name, 6, 6, head_dim, value_dim, 30, rows);
      }
      count_attention(kernels, line, kv.type, kv.name, 4, 2, head_dim, value_dim, 30, 1);
    }
  }
}

// Ops of rows: a line for each of several numbers of rows and columns.
template <typename Op>
void of_rows(const Line& line, std::string_view name, const char* type, Op op) {
  for (const uint32_t columns : {32u, 64u, 160u, 224u}) {
    for (const uint32_t rows : {1u, 8u}) {
      line(name, type, {rows, columns}, [&] { op(rows, columns); });
    }
  }
}

void count_row_ops(const KernelSet& kernels, const Line& line) {
  for (uint32_t i = 0; i < std::size(kNormNames); ++i) {
    const auto kind = static_cast<NormKind>(i);
    of_rows(line, kNormNames[i], "norm", [&](uint32_t rows, uint32_t columns) {
      const float* const gain = has_gain(kind) ? input : nullptr;
      const float* const bias = kind == NormKind::kLayer ? input : nullptr;
      norm(kernels, {kind, 1e-5f, gain, bias}, 1, from(rows, columns), to(rows, columns), {});
    });
  }
  for (uint32_t i = 0; i < std::size(kActivationNames); ++i) {
    of_rows(line, kActivationNames[i], "activation", [&](uint32_t rows, uint32_t columns) {
      activation(kernels, static_cast<Activation>(i), 1.5f, from(rows, columns), ConstMatrix{},
                 to(rows, columns), {});
    });
  }
  of_rows(line, "gated", "activation", [&](uint32_t rows, uint32_t columns) {
    activation(kernels, Activation::kRelu, 0.0f, from(rows, columns), other(rows, columns),
               to(rows, columns), {});
  });
  of_rows(line, "add", "-", [&](uint32_t rows, uint32_t columns) {
    add(kernels, from(rows, columns), other(rows, columns), to(rows, columns), {});
  });
  of_rows(line, "copy", "-", [&](uint32_t rows, uint32_t columns) {
    const SequenceRows first = {0, 0, rows, 0}, none = {0, 0, 0, 0};
    join(from(rows, columns), {&first, 1}, from(rows, columns), {&none, 1}, {&first, 1},
         to(rows, columns), {});
  });
}

void count_places(const KernelSet& kernels, const Line& line) {
  constexpr uint32_t kHeads[][2] = {{1, 16}, {6, 16}, {2, 32}, {5, 32}, {4, 64}};
  for (const auto& [heads, head_dim] : kHeads) {
    for (const uint32_t rows : {1u, 8u}) {
      const SequenceRows all = {0, 0, rows, 0};
      const uint32_t columns = heads * head_dim;
      line("rope", "-", {rows, heads, head_dim}, [&] {
        rope(kernels, from(rows, columns), heads, input, head_dim, {{&all, 1}}, to(rows, columns),
             {});
      });
    }
  }
  static constexpr uint32_t kIds[8] = {};
  for (const Named& type : kTypes) {
    for (const bool packed : {false, true}) {
      const Packing packing = packed ? packing_of(kernels.target, type.type) : Packing{};
      of_rows(line, packed ? "packed_table" : "table", type.name,
              [&](uint32_t rows, uint32_t columns) {
                const SequenceRows all = {0, 0, rows, 0};
                Embedding op;
                op.tokens = {memory, type.type, packing, 64, columns};
                embedding(kernels, op, {kIds}, {{&all, 1}}, to(rows, columns), {});
              });
    }
  }
}

void count_windows(const KernelSet& kernels, const Line& line) {
  for (const auto& [channels, kernel] : {std::pair{16u, 3u}, {64u, 7u}, {80u, 3u}, {32u, 5u}}) {
    Windows windows;
    windows.lines.kernel = kernel;
    windows.lines.before = kernel - 1;
    for (const uint32_t rows : {1u, 4u, 8u}) {
      const SequenceRows all = {0, 0, rows, 0};
      const WindowInput rows_in = {from(rows, channels), {&all, 1}, {&all, 1}};
      for (const Named& type : kTypes) {
        fill_weights(type.type);
        const WeightView weights = {memory, type.type, packing_of(kernels.target, type.type), 32,
                                    kernel * channels};
        if (type.type == TensorType::kQ4 && weights.columns % kQ4Block != 0) continue;
        line("convolution", type.name, {rows, kernel, channels, 32},
             [&] { convolution(kernels, windows, rows_in, weights, to(rows, 32), scratch(), {}); });
      }
      line("depthwise", "-", {rows, kernel, channels}, [&] {
        depthwise_convolution(kernels, windows, rows_in, {input, input}, to(rows, channels),
                              scratch(), {});
      });
      line("max_pool", "-", {rows, kernel, channels},
           [&] { max_pool(windows, rows_in, to(rows, channels), scratch(), {}); });
    }
  }
}

}  // namespace

void count_ops(const KernelSet& kernels) {
  const Line line(kernels);
  count_linear(kernels, line);
  count_attention(kernels, line);
  count_row_ops(kernels, line);
  count_places(kernels, line);
  count_windows(kernels, line);
}

}  // namespace arenite
