// SPDX-License-Identifier: Apache-2.0
// A session's profile hook says when an op begins; its input then lies in the arena.
#include "convert/calibrate/observer.h"

#include <map>

#include "convert/calibrate/sequence_runner.h"
#include "convert/files/progress.h"

namespace arenite::convert {
namespace {

using Use = std::function<void(uint32_t tensor, const ConstMatrix& inputs)>;

struct Watch {
  SessionState& state;
  const Use& use;

  void op_begins(uint32_t index) const {
    const format::OpView& op = state.reader.op(index);
    if (op.kind != format::OpKind::kLinear) return;
    const Matrix inputs = state.activation(op.views[format::kInput]);
    use(op.numbers[format::LinearOp::kTensor],
        {inputs.data, inputs.rows, inputs.columns, inputs.stride});
  }
};

}  // namespace

void for_each_input(const AlignedBytes& file, const std::vector<CalibrationSequence>& sequences,
                    const Use& use, const std::function<void(double share)>& done) {
  if (sequences.empty()) return;
  SequenceRunner runner(file, longest_of(sequences));
  Watch watch = {runner.state(), use};
  runner.set_profile(
      {.op_begins = [](void* context,
                       uint32_t index) { static_cast<const Watch*>(context)->op_begins(index); },
       .context = &watch});
  for (size_t i = 0; i < sequences.size(); ++i) {
    if (done) done(static_cast<double>(i) / static_cast<double>(sequences.size()));
    runner.begin(sequences[i]);
    while (runner.advance()) continue;
  }
}

std::vector<std::vector<double>> mean_squares_of_inputs(
    const AlignedBytes& file, const std::vector<CalibrationSequence>& sequences) {
  const format::ModelReader reader(file.span());
  std::vector<std::vector<double>> squares(reader.tensors());
  std::vector<uint64_t> rows(reader.tensors());
  const auto add = [&](uint32_t tensor, const ConstMatrix& inputs) {
    squares[tensor].resize(inputs.columns);
    rows[tensor] += inputs.rows;
    for (uint32_t row = 0; row < inputs.rows; ++row) {
      for (uint32_t i = 0; i < inputs.columns; ++i) {
        const double value = inputs.row(row)[i];
        squares[tensor][i] += value * value;
      }
    }
  };
  for_each_input(file, sequences, add,
                 [](double share) { report_progress("measuring inputs of matrices", share); });
  for (size_t tensor = 0; tensor < squares.size(); ++tensor) {
    for (double& square : squares[tensor]) square /= static_cast<double>(rows[tensor]);
  }
  return squares;
}

void for_each_hessian(const AlignedBytes& file, const std::vector<CalibrationSequence>& sequences,
                      const std::vector<uint32_t>& tensors,
                      const std::function<void(uint32_t tensor, const Hessian& hessian)>& use,
                      uint64_t bytes_max) {
  const format::ModelReader reader(file.span());
  const auto bytes_of = [&](uint32_t tensor) {
    return Hessian::bytes(reader.tensor(tensor).inputs);
  };
  double all = 0.0, done = 0.0;
  for (const uint32_t tensor : tensors) all += static_cast<double>(bytes_of(tensor));
  for (size_t begin = 0; begin < tensors.size();) {
    std::map<uint32_t, Hessian> hessians;
    uint64_t bytes = 0;
    size_t end = begin;
    for (; end < tensors.size(); ++end) {
      if (end > begin && bytes + bytes_of(tensors[end]) > bytes_max) break;
      bytes += bytes_of(tensors[end]);
      hessians.try_emplace(tensors[end], reader.tensor(tensors[end]).inputs);
    }
    const double half = 0.5 * static_cast<double>(bytes);
    for_each_input(
        file, sequences,
        [&](uint32_t tensor, const ConstMatrix& inputs) {
          const auto found = hessians.find(tensor);
          if (found != hessians.end()) found->second.add(inputs);
        },
        [&](double share) { report_progress(kRounding, (done + share * half) / all); });
    done += half;
    for (; begin < end; ++begin) {
      report_progress(kRounding, done / all);
      use(tensors[begin], hessians.at(tensors[begin]));
      done += 0.5 * static_cast<double>(bytes_of(tensors[begin]));
    }
  }
}

}  // namespace arenite::convert
