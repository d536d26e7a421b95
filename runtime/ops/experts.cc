// SPDX-License-Identifier: Apache-2.0
// The ops of mixtures of experts. A pair is a row with one of its experts. Pairs are sorted by
// expert and divided into tasks as rows of a product are, so the tasks, and their work, do not
// depend on what is chosen. Of a task, the pairs of one expert are multiplied together. Each pair
// has its own columns of the output, so its bits depend on its row alone.
#include "ops/experts.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "core/needs.h"
#include "ops/linear.h"

namespace arenite {
namespace {

bool is_larger(float a, float b) { return a > b || (a != a && b == b); }

class Experts {
 public:
  Experts(const KernelSet& kernels, const ConstMatrix& input, const ConstMatrix& ids,
          const WeightView& weights, uint32_t count, const Matrix& output,
          const ScratchArea& scratch)
      : kernels_(kernels),
        input_(input),
        ids_(ids),
        weights_(weights),
        count_(count),
        output_(output),
        scratch_(scratch),
        outputs_(weights.rows / count),
        pairs_(ids.rows * ids.columns),
        packing_(packing_of(kernels)),
        sums_offset_(
            experts_scratch(packing_, count, ids.columns, weights.columns, outputs_).sums.value()),
        rows_(scratch.rows, rounds_inputs() ? pairs_ : 0, weights.columns),
        order_(reinterpret_cast<uint32_t*>(
            scratch.rows +
            (rounds_inputs() ? pairs_ * quantized_scratch_bytes(weights.columns) : 0))) {}

  void run(const ParallelFor& parallel) {
    auto sort_all = [&](uint32_t, uint32_t thread_index) {
      sort(reinterpret_cast<uint32_t*>(scratch_.of(thread_index)));
    };
    for_each_task(parallel, 1, (2 * pairs_ + count_) * kSumWork, sort_all);
    if constexpr (kInt8RowsLinked) {
      auto quantize = [&](uint32_t place) {
        const float* const from = input_of(order_[place]);
        rows_.quantize_row(kernels_, kernels_.quantized(weights_.type), place,
                           {&from, 1, 1, weights_.columns});
      };
      if (rounds_inputs()) {
        for_each_row(parallel, pairs_, weights_.columns * kRoundWork, quantize);
      }
    }
    const ProductDivision division(packing_, {nullptr, pairs_, outputs_, 0}, weights_.columns,
                                   parallel);
    auto work = [&](uint32_t task_index, uint32_t thread_index) {
      const uint32_t block = task_index % division.blocks.count;
      const uint32_t chunk = division.chunk_panels * packing_.nr;
      const uint32_t column = task_index / division.blocks.count * chunk;
      const uint32_t columns = std::min(chunk, outputs_ - column);
      const uint32_t end = division.blocks.begin(block) + division.blocks.size(block);
      for (uint32_t first = division.blocks.begin(block), next; first < end; first = next) {
        const uint32_t expert = expert_of(order_[first]);
        next = first + 1;
        while (next < end && expert_of(order_[next]) == expert) ++next;
        multiply_pairs(first, next - first, expert, column, columns, scratch_.of(thread_index));
      }
    };
    // An expert's outputs may begin within a panel, whose first columns are computed, too.
    for_each_task(parallel, division.tasks(), division.task_work() + division.panel_work, work);
  }

 private:
  bool rounds_inputs() const { return kInt8RowsLinked && weight_type(weights_.type).rounds_inputs; }
  const FloatKernels& float_kernels() const {
    return linked(Need::kW8) && weights_.type == TensorType::kW8 ? *kernels_.w8 : kernels_.f32;
  }
  Packing packing_of(const KernelSet& kernels) const {
    return rounds_inputs() ? kernels.quantized(weights_.type).packing : float_kernels().packing;
  }

  uint32_t expert_of(uint32_t pair) const {
    const float id = ids_.row(pair / ids_.columns)[pair % ids_.columns] + 0.5f;
    return id >= 0.0f && id < static_cast<float>(count_) ? static_cast<uint32_t>(id) : 0;
  }
  const float* input_of(uint32_t pair) const {
    const bool has_own = input_.columns != weights_.columns;
    const size_t column = has_own ? size_t{pair % ids_.columns} * weights_.columns : 0;
    return input_.row(pair / ids_.columns) + column;
  }
  float* output_of(uint32_t pair) const {
    return output_.row(pair / ids_.columns) + size_t{pair % ids_.columns} * outputs_;
  }

  // Writes the pairs to order_, by expert and then by row. `ends` has room for all experts.
  void sort(uint32_t* ends) {
    std::memset(ends, 0, count_ * sizeof(*ends));
    for (uint32_t pair = 0; pair < pairs_; ++pair) ++ends[expert_of(pair)];
    for (uint32_t i = 1; i < count_; ++i) ends[i] += ends[i - 1];
    for (uint32_t pair = pairs_; pair-- > 0;) order_[--ends[expert_of(pair)]] = pair;
  }

  // Multiplies pairs [first, first + rows) of order_ by columns [column, column + columns) of their
  // expert.
  void multiply_pairs(uint32_t first, uint32_t rows, uint32_t expert, uint32_t column,
                      uint32_t columns, std::byte* mine) {
    const uint32_t begin = expert * outputs_ + column;
    const uint32_t skipped = begin % packing_.nr;
    ProductPart part;
    part.rows = rows;
    part.columns = skipped + columns;
    part.inputs = weights_.columns;
    part.weight = weights_.data + begin / packing_.nr * panel_bytes(packing_, part.inputs).value();
    const bool is_in_place = rows == 1 && skipped == 0;
    part.result = is_in_place ? output_of(order_[first]) + column
                              : reinterpret_cast<float*>(mine + sums_offset_);
    part.result_stride = part.columns;
    if (rounds_inputs()) {
      if constexpr (kInt8RowsLinked) {
        multiply(kernels_.quantized(weights_.type), rows_, first, part, mine);
      }
    } else {
      multiply_floats(first, part, reinterpret_cast<float*>(mine));
    }
    for (uint32_t r = 0; r < rows && !is_in_place; ++r) {
      std::memcpy(output_of(order_[first + r]) + column,
                  part.result + r * part.result_stride + skipped, columns * sizeof(float));
    }
  }

  void multiply_floats(uint32_t first, const ProductPart& part, float* gathered) const {
    const size_t row_bytes = part.inputs * sizeof(float);
    const float* from = input_of(order_[first]);
    if (part.rows > 1) {
      from = gathered;
      for (uint32_t r = 0; r < part.rows; ++r) {
        std::memcpy(gathered + size_t{r} * part.inputs, input_of(order_[first + r]), row_bytes);
      }
    }
    float_kernels().gemm[part.rows](part.rows, part.columns, row_bytes, from, row_bytes,
                                    part.weight, part.result, part.result_stride * sizeof(float));
  }

  const KernelSet& kernels_;
  const ConstMatrix& input_;
  const ConstMatrix& ids_;
  const WeightView& weights_;
  const uint32_t count_;  // experts
  const Matrix& output_;
  const ScratchArea& scratch_;
  const uint32_t outputs_;  // of an expert
  const uint32_t pairs_;    // pair p is row p / k with its expert p % k
  const Packing packing_;
  const size_t sums_offset_;
  QuantizedRows rows_;  // in the order of order_
  uint32_t* const order_;
};

}  // namespace

void top_k(const ConstMatrix& scores, const Matrix& output, const ParallelFor& parallel) {
  const uint32_t count = output.columns / 2;
  assert(count >= 1 && scores.columns >= count && scores.rows == output.rows);
  auto work = [&](uint32_t row) {
    const float* const from = scores.row(row);
    float* const ids = output.row(row);
    float* const values = ids + count;
    for (uint32_t i = 0; i < scores.columns; ++i) {
      uint32_t place = std::min(i, count);
      for (; place > 0 && is_larger(from[i], values[place - 1]); --place) {
        if (place == count) continue;
        ids[place] = ids[place - 1];
        values[place] = values[place - 1];
      }
      if (place == count) continue;
      ids[place] = static_cast<float>(i);
      values[place] = from[i];
    }
  };
  constexpr uint64_t kMost = UINT32_MAX / 16;  // several rows are a task
  const uint64_t row_work = uint64_t{scores.columns} * count * kSumWork;
  for_each_row(parallel, scores.rows, static_cast<uint32_t>(std::min(row_work, kMost)), work);
}

void experts(const KernelSet& kernels, const ConstMatrix& input, const ConstMatrix& ids,
             const WeightView& weights, uint32_t count, const Matrix& output,
             const ScratchArea& scratch, const ParallelFor& parallel) {
  assert(count >= 1 && weights.rows % count == 0);
  assert(output.columns == weights.rows / count * ids.columns);
  assert(input.columns == weights.columns || input.columns == weights.columns * ids.columns);
  assert(input.rows == ids.rows && input.rows == output.rows);
  Experts(kernels, input, ids, weights, count, output, scratch).run(parallel);
}

}  // namespace arenite
