// SPDX-License-Identifier: Apache-2.0
// Counts instructions of kernels, ops and whole models on a Cortex-M in QEMU, whose system timer
// counts instructions under `-icount shift=0`. Prints one line for each measurement: subject,
// kernel set, type, rows, and instructions per multiply-add, element or token. Models come from
// files of the build machine through semihosting: arguments "MODEL=FILE:TOKENS" after the program's
// name.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "arenite/session.h"
#include "bench/counting.h"
#include "board.h"
#include "core/cache_layout.h"
#include "core/packing.h"
#include "kernels/kernel_set.h"
#include "ops/attention.h"
#include "ops/integer_rows.h"
#include "ops/linear.h"
#include "ops/row_ops.h"

namespace arenite {
void print(std::string_view text) { board::write(text); }

void print(uint64_t number) {
  char digits[20];
  size_t begin = sizeof(digits);
  do {
    digits[--begin] = static_cast<char>('0' + number % 10);
    number /= 10;
  } while (number != 0);
  print({digits + begin, sizeof(digits) - begin});
}

void report(std::string_view what, std::string_view set, std::string_view type, uint64_t rows,
            uint64_t thousandths) {
  print(what), print(" "), print(set), print(" "), print(type), print(" "), print(rows);
  print(" "), print(thousandths), print("\n");
}

uint32_t loop_ticks = 0;
alignas(64) constinit std::byte memory[3u << 20] = {};
alignas(64) constinit float input[kFloats] = {};
alignas(64) constinit float output[kFloats] = {};

namespace {

uint32_t measure_loop() {
  auto* const timer = reinterpret_cast<volatile SysTick*>(0xE000E010);
  timer->reload = kTimerMask;
  timer->value = 0;
  timer->control = 5;  // on, by the CPU's clock
  const uint32_t begin = ticks();
  uint32_t left = kLoops;
  asm volatile(".syntax unified\n1: subs %0, %0, #1\n bne 1b" : "+l"(left)::"cc");
  return (ticks() - begin) & kTimerMask;
}

constexpr uint32_t kHeads = 4;
constexpr uint32_t kHeadDim = 16;

alignas(64) constinit std::byte row_scratch[kRowsOfAll * (kSideMax + 8) + 64] = {};
alignas(64) constinit std::byte thread_scratch[64 * 1024] = {};

// Fills the inputs with values in [-1, 1).
void fill_input() {
  uint32_t state = 1;
  for (float& x : input) {
    state = state * 1664525 + 1013904223;
    x = static_cast<float>(static_cast<int32_t>(state)) * 0x1p-31f;
  }
}

void count_products(const KernelSet& kernels, TensorType type, const char* type_name) {
  std::ranges::fill(memory, std::byte{0x3C});  // 0.0115 as float or bfloat16, 60 as a number
  for (const auto& shape : kProductShapes) {
    const Packing packing = packing_of(kernels.target, type);
    const WeightView weights = {memory, type, packing, shape.outputs, shape.inputs};
    for (const uint32_t rows : {1u, 8u, 16u}) {
      const uint64_t products = uint64_t{rows} * shape.outputs * shape.inputs;
      const ConstMatrix from = {input, rows, shape.inputs, shape.inputs};
      const Matrix to = {output, rows, shape.outputs, shape.outputs};
      bool is_counted = false;
      if constexpr (kRowsAreIntegers) is_counted = integers::has_linear(weights);
      if (is_counted) build_rows::from_floats({input, rows, shape.inputs, shape.inputs});
      report(shape.name, kernels.name, type_name, rows, count(products, [&] {
               if constexpr (kRowsAreIntegers) {
                 if (is_counted) return integers::linear(from, weights, to, scratch(), {});
               }
               linear(kernels, from, weights, to, scratch(), {});
             }));
      if (is_counted) fill_input();
    }
  }
}

// Multiply-adds of scores and of weighing values, all rows together and then a row at a time.
void count_attention(const KernelSet& kernels, TensorType kv_type, const char* type_name) {
  const CacheShape shape = {kHeads, kHeadDim, kHeadDim};
  const uint32_t width = kHeads * kHeadDim;
  const auto attend = [&](uint32_t first, uint32_t rows) {
    const SequenceRows sequence = {first, 0, rows, first};
    Attention op;
    op.heads = kHeads;
    op.shape = shape;
    op.cache_positions = kRowsOfAll;
    op.query = {input, rows, width, 3 * width};
    op.key = {input + width, rows, width, 3 * width};
    op.value = {input + 2 * width, rows, width, 3 * width};
    op.output = {output, rows, width, width};
    op.queries = op.keys = {&sequence, 1};
    op.kv_type = kv_type;
    op.cache = memory;
    op.scratch = scratch();
    if constexpr (kRowsAreIntegers) {
      if (integers::has_attention(kernels, op)) return integers::attention(kernels, op, {});
    }
    attention(kernels, op, {});
  };
  if (kv_type == TensorType::kInt8) {
    build_rows::from_floats({input, kRowsOfAll, 3 * width, 3 * width});
  }
  const uint64_t products = uint64_t{kRowsOfAll} * kRowsOfAll * width * 2;
  report("attention", kernels.name, type_name, kRowsOfAll,
         count(products, [&] { attend(0, kRowsOfAll); }));
  report("attention", kernels.name, type_name, 1,
         count(uint64_t{kRowsOfAll} * width * 2, [&] { attend(kRowsOfAll - 1, 1); }));
  fill_input();
}

void count_row_kernels(const KernelSet& kernels) {
  constexpr uint32_t kRows = 16;
  constexpr uint32_t kColumns = 384;
  constexpr uint64_t kNumbers = kRows * kColumns;
  const ConstMatrix from = {input, kRows, kColumns, kColumns};
  const Matrix to = {output, kRows, kColumns, kColumns};
  const auto of_row = [&](const char* name, auto work) {
    report(name, kernels.name, "f32", kRows, count(kNumbers, work));
  };
  of_row("rounding", [&] {
    QuantizedRows rows(row_scratch, kRows, kColumns);
    rows.quantize(kernels, *kernels.q8, from, {});
  });
  of_row("gelu", [&] { kernels.gelu(kNumbers * sizeof(float), input, output); });
  of_row("sigmoid", [&] { kernels.sigmoid(kNumbers * sizeof(float), input, output); });
  of_row("sum", [&] { add(kernels, from, from, to, {}); });
  for (const auto& [name, kind] : {std::pair{"softmax", NormKind::kSoftmax},
                                   {"layer_norm", NormKind::kLayer},
                                   {"rms_norm", NormKind::kRms}}) {
    of_row(name, [&] { norm(kernels, {kind, 1e-5f, input, nullptr}, 1, from, to, {}); });
  }
}

// Semihosting.
uint32_t host(uint32_t operation, const uintptr_t* arguments) {
  register uint32_t r0 asm("r0") = operation;
  register const uintptr_t* r1 asm("r1") = arguments;
  asm volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
  return r0;
}

size_t read_file(const char* path, std::span<std::byte> to) {
  constexpr uint32_t kOpen = 0x01, kRead = 0x06;
  const uintptr_t name[3] = {reinterpret_cast<uintptr_t>(path), 1, std::strlen(path)};
  const uint32_t file = host(kOpen, name);
  if (file == UINT32_MAX) return 0;
  const uintptr_t part[3] = {file, reinterpret_cast<uintptr_t>(to.data()), to.size()};
  return to.size() - host(kRead, part);
}

Status begin(Session& session, const Model& model, std::span<const TokenId> ids, uint32_t rows) {
  if (model.vocab_size() != 0) return session.begin_step(TokenBatch{ids.first(rows), 1, rows});
  const size_t floats = size_t{rows} * model.input_features();
  return session.begin_step(Batch{std::span<const float>(input).first(floats), 1, rows});
}

// Counts the longest slice of the same calls at the smallest accepted budget. The budget is printed
// in the column of rows.
void count_slices(const char* name, const Model& model, Session& session,
                  std::span<const TokenId> ids, uint32_t tokens) {
  uint64_t budget = 0, longest = 0;
  for (const bool measures : {false, true}) {
    session.reset();
    for (const uint32_t rows : {tokens, uint32_t{1}}) {
      uint32_t left = begin(session, model, ids, rows) == Status::kOk ? 1 : 0;
      while (left != 0) {
        Diagnostic why;
        const uint64_t taken = count(1, [&] {
          const Result<uint32_t> advanced = session.advance(budget, &why);
          if (advanced.ok()) left = *advanced;
        });
        budget = std::max(budget, why.expected);
        if (measures) longest = std::max(longest, taken);
      }
      if (!model.causal()) break;
    }
  }
  print("slice:");
  report(name, kernel_set_name(model.target()), "-", budget, longest);
}

// Counts a call of `tokens` tokens, then a call of one token if the model allows it.
void count_model(const char* name, const char* path, uint32_t tokens, bool with_slices) {
  const size_t bytes = read_file(path, memory);
  const size_t arena = (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
  Diagnostic why;
  const Result<Model> model = Model::load({memory, bytes}, &why);
  if (!model.ok()) return report(name, "refused", "-", 0, 0);
  SessionOptions options;
  options.positions_max = tokens + 1;
  if (model->positions_max() != 0) {
    options.positions_max = std::min(tokens + 1, model->positions_max());
  }
  options.tokens_max = tokens;
  const auto session = Session::create(*model, options, std::span(memory).subspan(arena), &why);
  if (!session.ok()) return report(name, "refused", "-", 0, 0);
  static constinit TokenId ids[kRowsOfAll] = {};
  for (uint32_t i = 0; i < kRowsOfAll; ++i)
    ids[i] = i * 7 % std::max<uint32_t>(model->vocab_size(), 1);
  for (const uint32_t rows : {tokens, uint32_t{1}}) {
    bool ok = true;
    const uint64_t thousandths = count(1, [&] {
      const Result<Output> made =
          model->vocab_size() != 0
              ? (*session)->step(std::span<const TokenId>(ids).first(rows), &why)
              : (*session)->step(
                    std::span<const float>(input).first(size_t{rows} * model->input_features()),
                    &why);
      ok = made.ok();
    });
    if (ok) report(name, kernel_set_name(model->target()), "-", rows, thousandths);
    if (!model->causal()) break;
  }
  if (with_slices) count_slices(name, *model, **session, ids, tokens);
}

char line[8192] = {};

void read_command_line() {
  const uintptr_t place[2] = {reinterpret_cast<uintptr_t>(line), sizeof(line)};
  constexpr uint32_t kGetCommandLine = 0x15;
  if (host(kGetCommandLine, place) != 0) line[0] = '\0';
}

// "NAME=FILE:TOKENS" after the program's own name.
void count_models(bool with_slices) {
  for (char* word = line; word != nullptr;) {
    char* const end = std::strchr(word, ' ');
    if (end != nullptr) *end = '\0';
    char* const name = word;
    word = end != nullptr ? end + 1 : nullptr;
    char* const path = std::strchr(name, '=');
    char* const tokens = std::strrchr(name, ':');
    if (path == nullptr || tokens == nullptr) continue;
    *path = *tokens = '\0';
    uint32_t number = 0;
    for (const char* digit = tokens + 1; *digit != '\0'; ++digit) {
      number = number * 10 + static_cast<uint32_t>(*digit - '0');
    }
    count_model(name, path + 1, number, with_slices);
  }
}

}  // namespace

ScratchArea scratch() { return {row_scratch, thread_scratch, sizeof(thread_scratch)}; }

void count_kernels() {
  fill_input();
  for (uint32_t i = 0; i < kTargets; ++i) {
    const KernelSet* const kernels = kernel_set(static_cast<Target>(i));
    if (kernels == nullptr) continue;
    count_products(*kernels, TensorType::kF32, "f32");
    count_products(*kernels, TensorType::kW8, "w8");
    count_products(*kernels, TensorType::kQ8, "q8");
    count_products(*kernels, TensorType::kQ4, "q4");
    count_attention(*kernels, TensorType::kF32, "f32");
    count_attention(*kernels, TensorType::kInt8, "int8");
    count_row_kernels(*kernels);
    count_ops(*kernels);
  }
#if defined(ARENITE_CMSIS_NN)
  count_cmsis_nn();
#endif
}

// If the program is called "models", only models are counted.
void count_everything() {
  loop_ticks = measure_loop();
  read_command_line();
  const bool models_alone = std::strncmp(line, "models", 6) == 0;
  if (!models_alone) count_kernels();
  fill_input();
  count_models(!models_alone);
}

}  // namespace arenite

int main() {
  arenite::count_everything();
  return 0;
}
