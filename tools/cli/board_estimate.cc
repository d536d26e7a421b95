// SPDX-License-Identifier: Apache-2.0
// Counts the work of each kind of op and multiplies it by measured rates. instruction_rates.json
// has the instructions per unit of work, by CPU and kernel set, in the order of the counts here.
// tests/bench/fit_rates.py has the counts of the measured shapes.
#include "cli/board_estimate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <map>
#include <vector>

#include "convert/files/error.h"
#include "convert/files/json_file.h"
#include "core/targets.h"
#include "kernels/kernel_set.h"
#include "ops/attention_block.h"
#include "ops/rows.h"

namespace arenite::tool {

extern const char* const kInstructionRates;  // the text of that file; the build generates it

namespace {

using format::ModelReader;
using format::NumberType;
using format::OpKind;
using format::OpView;

constexpr CoreRow kCores[] = {
    {"Cortex-M0+", 1.4, 1.4,
     "36.6 of 121 million of a window of models/vibration, 1.52 of 3.31 of a token of home-intent, "
     "0.69 of 1.85 of one of wake"},
    {"Cortex-M3", 1.3, 1.3,
     "28.5 of 71 million of a window of models/vibration, 1.19 of 1.90 of a token of home-intent, "
     "0.51 of 1.08 of one of wake"},
    {"Cortex-M4F", 1.3, 1.3},
    {"Cortex-M7", 0.9, 0.9},
    {"Cortex-M33", 1.1, 1.1},
    {"Cortex-M55", 1.0, 1.5},
};

// Fixed instructions per call and per op: the rest that remained of single-token calls of
// home-intent and recall when their ops were taken away.
constexpr double kCallInstructions = 2800;
constexpr double kOpInstructions = 290;

using Counts = std::initializer_list<double>;
using Rates = std::map<std::string, std::vector<double>>;  // by name of the work

// Sums the instructions of one kernel set.
class Work {
 public:
  Work(const char* cpu, const char* kernels) {
    static const nlohmann::json kAll = convert::parse_json(kInstructionRates, "the rates");
    const nlohmann::json& sets = kAll.at("rates").at(cpu);
    rates_ = sets.at(kernels).get<Rates>();
    // Float32 windows have plain C kernels in the kernel sets of all these CPUs.
    const Rates plain = sets.at("scalar").get<Rates>();
    for (const char* rows : {"1", "2", "3", "4"}) {
      rates_[fmt::format("indirect {}", rows)] = plain.at(fmt::format("linear f32 {}", rows));
    }
  }

  void add(const std::string& work, Counts counts) {
    const std::vector<double>& rates = rates_.at(work);
    for (size_t i = 0; const double count : counts) sum_ += count * rates.at(i++);
  }
  void add_instructions(double instructions) { sum_ += instructions; }
  double sum() const { return sum_; }

 private:
  Rates rates_;
  double sum_ = 0.0;
};

// Counts the work of one op in a call.
class OpWork {
 public:
  OpWork(const ModelReader& model, uint32_t packed_index, uint32_t index, const Feed& feed,
         TensorType kv_type, Work& work)
      : model_(model),
        packed_(model.packed(packed_index)),
        index_(index),
        op_(model.op(index)),
        feed_(feed),
        kv_type_(kv_type),
        rows_(on_axis(model, rows_axis(model, index), feed)),
        columns_(op_.views[format::kOutput].width),
        work_(work) {}

  void add() {
    if (rows_.rows == 0) return;
    switch (op_.kind) {
      case OpKind::kLinear:
        return products(fmt::format("linear {}", name(weights().type)));
      case OpKind::kAttention:
        return attention();
      case OpKind::kEmbedding:
        return embedding();
      case OpKind::kNorm:
        return norm();
      case OpKind::kRope:
        return rope();
      case OpKind::kActivation:
        return activation();
      case OpKind::kAdd:
        return of_rows("add", rows_.rows, columns_);
      case OpKind::kSelect:
        return select();
      case OpKind::kJoin:
        return of_rows("copy", rows_.rows, columns_);
      case OpKind::kConvolution:
        windows(fmt::format("convolution {}", name(weights().type)));
        return products(weights().type == TensorType::kF32
                            ? "indirect"
                            : fmt::format("linear {}", name(weights().type)));
      case OpKind::kDepthwise:
        return windows("depthwise");
      case OpKind::kMaxPool:
        return windows("max_pool");
      case OpKind::kStore:
        return attention();
      case OpKind::kTopK:
        return of_rows("add", rows_.rows, 0.5 * columns_ * op_.views[format::kInput].width);
      case OpKind::kExperts:
        return experts(fmt::format("linear {}", name(weights().type)));
    }
  }

 private:
  const format::TensorShape& weights() const {
    return model_.tensor(number_of(op_, NumberType::kMatrix));
  }

  uint32_t whole_axis_of(format::Operand operand) const {
    return model_.whole_axis(model_.axis_of(op_.views[operand]));
  }

  void of_rows(const std::string& work, double rows, double columns) {
    work_.add(work, {1, rows, rows * columns});
  }

  // Calls `block(first, size)` for each block of rows, divided as products divide them.
  template <typename Block>
  static void for_each_block(uint32_t rows, uint32_t most, Block block) {
    const RowBlocks blocks(rows, most);
    for (uint32_t i = 0; i < blocks.count; ++i) block(blocks.begin(i), blocks.size(i));
  }

  void products(const std::string& work) {
    const format::TensorShape& shape = weights();
    const double rows = rows_.rows;
    const Packing packing = packed_.packing(shape.type);
    const double inputs = static_cast<double>(padded_inputs(packing, shape.inputs).value());
    const double outputs = 1.0 * panels_of(packing, shape.outputs) * packing.nr;
    // Setup costs once per call and once more per block.
    for_each_block(rows_.rows, packing.mr, [&](uint32_t, uint32_t size) {
      work_.add(fmt::format("{} {}", work, size), {1, inputs, outputs, inputs * outputs});
    });
    if (!weight_type(shape.type).rounds_inputs) return;
    work_.add("round", {0, rows, rows * shape.inputs});
  }

  // Counts a product of its own for each row and expert of the row.
  void experts(const std::string& work) {
    const format::TensorShape& shape = weights();
    const Packing packing = packed_.packing(shape.type);
    const double inputs = static_cast<double>(padded_inputs(packing, shape.inputs).value());
    const uint32_t own = shape.outputs / op_.numbers[format::ExpertsOp::kCount];
    const double outputs = 1.0 * panels_of(packing, own) * packing.nr;
    const double pairs = 1.0 * rows_.rows * op_.views[format::kIds].width;
    work_.add(fmt::format("{} 1", work),
              {pairs, pairs * inputs, pairs * outputs, pairs * inputs * outputs});
    if (!weight_type(shape.type).rounds_inputs) return;
    work_.add("round", {0, pairs, pairs * shape.inputs});
  }

  // Counts the window elements along one direction that lie within the `rows` rows of a sequence.
  static double seen(const WindowAxis& axis, uint32_t first, uint32_t count, uint32_t rows) {
    double sum = 0;
    for (uint32_t i = first; i < first + count; ++i) {
      for (uint32_t k = 0; k < axis.kernel; ++k) {
        sum += i * axis.stride + k * axis.dilation - axis.before < rows ? 1 : 0;
      }
    }
    return sum;
  }

  void windows(const std::string& work) {
    const Windows all = model_.windows_of(op_);
    const AxisFeed from = on_axis(model_, whole_axis_of(format::kInput), feed_);
    const uint32_t per_line = all.per_line();
    const double in_view = seen(all.lines, rows_.held / per_line, rows_.rows / per_line,
                                (from.held + from.rows) / all.width) *
                           seen(all.columns, 0, per_line, all.width);
    const double rows = rows_.rows, channels = op_.views[format::kInput].width;
    work_.add(work, {1, rows, rows * all.kernel(), rows * channels, in_view, in_view * channels});
    if (model_.history_bytes(op_).value() == 0) return;
    const double kept = all.lookback();
    work_.add("copy", {1, kept, kept * channels});
  }

  // Counts the appended keys and values, then the keys that each block of queries multiplies.
  void attention() {
    const CacheShape& shape = model_.cache(number_of(op_, NumberType::kCache)).shape;
    const char* const type = kv_type_ == TensorType::kInt8 ? "int8" : "f32";
    const double kv_heads = shape.kv_heads, head_dim = shape.head_dim, value_dim = shape.value_dim;
    const double entry = head_dim + value_dim;
    const auto add_blocks = [&](uint32_t size, double count, double keys) {
      work_.add(fmt::format("attention {} {}", type, size == 3 ? 4 : size),
                {0, 0, 0, count, count * head_dim, count * value_dim, count * keys,
                 count * keys * entry});
    };
    const bool is_store = op_.kind == OpKind::kStore;
    const bool appends = is_store || op_.views[format::kValue].width != 0;
    const double kept = appends ? kv_heads * rows_.rows : 0;
    work_.add(fmt::format("attention {} {}", type, rows_.rows == 1 ? 1 : 4),
              {1, kept, kept * entry});
    if (is_store) return;
    const uint32_t heads = model_.heads_of(op_);
    const uint32_t most = packed_.packing(TensorType::kF32).mr;
    double rows = 0, row_chunks = 0, row_keys = 0;
    // For a single token the blocks are over its query heads.
    const bool by_head = rows_.rows == 1;
    for_each_block(by_head ? heads / shape.kv_heads : rows_.rows, most,
                   [&](uint32_t first, uint32_t size) {
                     const double keys = by_head ? keys_of(0, 1) : keys_of(first, size);
                     const double count = by_head ? kv_heads : heads;
                     add_blocks(size, count, keys);
                     rows += count * size;
                     row_chunks += count * size * std::ceil(keys / 256.0);
                     row_keys += count * size * keys;
                   });
    terms(rows, row_chunks, row_keys);
  }

  // Counts the keys that a block of queries multiplies: the union of its queries' ranges.
  double keys_of(uint32_t first, uint32_t size) const {
    const uint32_t stored = axis_of_stored_keys(model_, index_);
    const InputTokens tokens = tokens_after(feed_);
    if (stored != format::kAbsent) return model_.rows_of_axes(tokens, 1, true)[stored];
    const MaskView mask = model_.mask(number_of(op_, NumberType::kMask));
    const uint32_t keys = rows_.held + rows_.rows;
    uint32_t begin = UINT32_MAX, end = 0;
    for (uint32_t row = 0; row < size; ++row) {
      const KeyRange range = visible_keys(mask, rows_.held + first + row, keys);
      begin = std::min(begin, range.begin);
      end = std::max(end, range.end);
    }
    return end > begin ? end - begin : 0;
  }

  // Counts the attention bias and the score cap.
  void terms(double rows, double row_chunks, double row_keys) {
    const MaskView mask = model_.mask(number_of(op_, NumberType::kMask));
    if (op_.numbers[format::AttentionOp::kTerms] != format::kAbsent) {
      if (op_.choice<ScoreTerms>(format::AttentionOp::kTermsBy) == ScoreTerms::kSlopes) {
        work_.add("slopes", {row_chunks, row_keys});
      } else {
        work_.add("add", {0, rows, row_keys});
      }
    }
    if (mask.kind == MaskKind::kStrip) work_.add("add", {0, rows, row_keys});
    if (op_.reals[format::AttentionOp::kScoreCap] != 0.0f) {
      work_.add("activation soft_cap", {0, rows, row_keys});
    }
  }

  void table(uint32_t tensor) {
    const format::TensorShape& shape = model_.tensor(tensor);
    of_rows(fmt::format("{} {}", shape.layout == format::Layout::kPlain ? "table" : "packed_table",
                        name(shape.type)),
            rows_.rows, columns_);
  }

  void embedding() {
    using enum format::EmbeddingOp::Number;
    const double rows = rows_.rows, numbers = rows * columns_;
    if (op_.numbers[kTokens] == format::kAbsent) return table(op_.numbers[kPositions]);
    table(op_.numbers[kTokens]);
    for (const bool adds :
         {op_.numbers[kPositions] != format::kAbsent, op_.numbers[kTypes] != format::kAbsent,
          op_.reals[format::EmbeddingOp::kScale] != 1.0f}) {
      if (adds) work_.add("add", {0, rows, numbers});
    }
  }

  void norm() {
    const double groups = op_.numbers[format::NormOp::kGroups];
    const auto kind = op_.choice<NormKind>(format::NormOp::kKind);
    work_.add(fmt::format("norm {}", arenite::name(kind)),
              {1, rows_.rows * groups, rows_.rows * columns_});
  }

  void rope() {
    const double rows = rows_.rows, heads = op_.numbers[format::RopeOp::kHeads];
    const double turned = model_.tensor(op_.numbers[format::RopeOp::kAngles]).inputs;
    work_.add("rope", {1, rows, rows * heads, rows * heads * turned});
  }

  void activation() {
    const auto kind = op_.choice<Activation>(format::ActivationOp::kKind);
    // A task is a chunk of 256 elements of a row.
    const double chunks = rows_.rows * std::ceil(columns_ / 256.0);
    const double numbers = rows_.rows * columns_;
    work_.add(fmt::format("activation {}", arenite::name(kind)), {1, chunks, numbers});
    if (op_.views[format::kFactor].width != 0) work_.add("gated", {1, chunks, numbers});
  }

  void select() {
    const auto kind = op_.choice<SelectKind>(format::SelectOp::kKind);
    const double width = op_.views[format::kInput].width;
    const AxisFeed in = on_axis(model_, whole_axis_of(format::kInput), feed_);
    const AxisFeed out = on_axis(model_, whole_axis_of(format::kOutput), feed_);
    if (makes_a_row_of_several(kind)) return of_rows("add", in.rows, width);
    of_rows("copy", out.rows, columns_);
  }

  const ModelReader& model_;
  const format::PackedView packed_;
  const uint32_t index_;
  const OpView op_;
  const Feed& feed_;
  const TensorType kv_type_;
  const AxisFeed rows_;
  const double columns_;
  Work& work_;
};

}  // namespace

double call_instructions(const ModelReader& model, uint32_t packed_index, uint32_t function,
                         const Feed& feed, TensorType kv_type, const char* core) {
  Work work(core, packed_for(static_cast<Target>(model.packed(packed_index).target)));
  work.add_instructions(kCallInstructions);
  for (uint32_t i = 0; i < model.inputs(); ++i) {
    if (!model.takes(function, i) || model.vocab_size(i) != 0) continue;
    const double rows = feed.tokens[i], width = model.slot(model.input_slot(i)).width;
    work.add("copy", {1, rows, rows * width});
  }
  for (uint32_t i = model.first_op(function); i < model.end_of_ops(function); ++i) {
    work.add_instructions(kOpInstructions);
    OpWork(model, packed_index, i, feed, kv_type, work).add();
  }
  return work.sum();
}

BoardEstimate estimate_for(const ModelReader& model, const std::string& board_name,
                           double clock_mhz) {
  const Board& board = board_named(board_name);
  const auto* const core = std::ranges::find(kCores, std::string_view(board.core), &CoreRow::name);
  if (core == std::end(kCores)) {
    std::string known;
    for (const CoreRow& row : kCores)
      known += fmt::format("{}{}", known.empty() ? "" : ", ", row.name);
    throw convert::InputError(
        "--board {} ({}): no instructions were measured for its CPU, expected one of {}",
        board.name, board.chip, known);
  }
  BoardEstimate estimate;
  estimate.board = &board;
  estimate.core = core;
  const uint32_t targets = model.file_targets() & board.targets;
  if (targets == 0) {
    const auto best = static_cast<Target>(std::bit_width(board.targets) - 1);
    throw convert::InputError(
        "--board {} ({}): found weights for none of its targets: arenite repack FILE -o NEW.arn "
        "--target {}",
        board.name, board.chip, name(best));
  }
  // Targets are in ascending order of what the CPU must support: the last match is the best.
  for (uint32_t i = 0; i < kTargets; ++i) {
    if ((targets >> i & 1) != 0) estimate.target = static_cast<Target>(i);
  }
  estimate.clock_mhz = clock_mhz != 0.0 ? clock_mhz : board.clock_mhz;
  estimate.cycles = estimate.target == Target::kCortexMMve ? core->vector_cycles : core->cycles;
  return estimate;
}

void add_call(const ModelReader& model, uint32_t function, const Feed& feed, TensorType kv_type,
              const std::string& name, const CallSize& size, BoardEstimate& estimate) {
  uint32_t packed_index = 0;
  while (model.packed(packed_index).target != static_cast<uint32_t>(estimate.target)) {
    ++packed_index;
  }
  const double instructions =
      call_instructions(model, packed_index, function, feed, kv_type, estimate.core->name);
  const double cycles = instructions * estimate.cycles;
  estimate.calls.push_back({name, size, static_cast<uint64_t>(std::llround(instructions)),
                            cycles / (estimate.clock_mhz * 1e3)});
}

}  // namespace arenite::tool
