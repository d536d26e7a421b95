// SPDX-License-Identifier: Apache-2.0
// Weights of a graph in few bits, rounded for what the model sees: the float32 model runs over a
// calibration text, and each matrix is rounded for the inputs that it had.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "convert/calibrate/calibration_set.h"
#include "convert/calibrate/evaluation.h"
#include "convert/graph/graph.h"
#include "convert/program/program.h"
#include "convert/quantize/gptq.h"

namespace arenite::convert {

struct Calibration {
  // Lines of text or .npy, by files_of_inputs; none: the model's own text, if it can.
  std::vector<std::string> files{};
  bool is_off = false;  // no text: weights are rounded one by one
};

// What became of a matrix.
struct QuantizedTensor {
  std::string name;
  TensorType type = TensorType::kF32;
  std::string method;     // "GPTQ", "rounding, weighted by inputs", "taken over: Q4_0"
  double decibels = 0.0;  // of the weights to what they lost; infinity: nothing
  uint64_t float_bytes = 0;
  uint64_t bytes = 0;  // of numbers and scales
};

struct Quantization {
  AlignedBytes reference;  // the model file in float32, for one target of this CPU
  std::optional<CalibrationSet> calibration;
  std::vector<QuantizedTensor> tensors;
  std::vector<std::string> notes;  // for people
  std::optional<ModelComparison> evaluation;
};

// What was rounded already, and for which text: with it other choices of types take no more work.
struct RoundedBefore {
  struct Rows {
    std::shared_ptr<const QuantizedMatrix> numbers;
    std::string method;
    double decibels = 0.0;
    std::string note;  // for people; empty: none
  };

  std::string model;                                        // its path, for messages
  bool has_read = false;                                    // the text, if there is one
  std::optional<CalibrationSet> calibration;                // it
  std::vector<std::string> notes;                           // about it
  std::map<std::pair<std::string, TensorType>, Rows> rows;  // of each layer, by its name
};

// Gives each matrix of a graph, after all passes, the numbers that its type holds: q4 by GPTQ, w8
// and q8 with scales for the least error in what comes out; without a calibration text for the
// least error of the weights. What is taken over stays as it is. `name` and `tokenizer` are those
// of the model. What is in `before` is not rounded again; what is not, is added. Throws InputError
// for weights that are not finite and for a text that cannot be used.
Quantization quantize_weights(Graph& graph, const std::string& name,
                              const std::optional<TokenizerSpec>& tokenizer,
                              const Calibration& calibration, RoundedBefore& before);

// The same for a graph all of whose layers are in `before`, and without a report. Embeddings that
// are no layer's weights are rounded when they come here first.
void take_rounded(Graph& graph, RoundedBefore& before);

// Compares the quantized program with the one in float32, on sequences that were held out or,
// without a calibration text, on made-up ones. `file` is the program's; where it has no target of
// this CPU, the program is packed once more.
void evaluate_quantization(Quantization& quantization, const Program& program,
                           const AlignedBytes& file);

}  // namespace arenite::convert
