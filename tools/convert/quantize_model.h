// SPDX-License-Identifier: Apache-2.0
// Quantizes the weights of a graph for their actual inputs: runs the float32 model on a calibration
// text, and rounds each matrix to minimize the error of its outputs for these inputs.
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
  // Text or .npy files, as in files_of_inputs; if empty, the model generates the text itself if it
  // can.
  std::vector<std::string> files{};
  bool is_off = false;  // no calibration: weights are rounded to nearest
};

// The quantization of one matrix.
struct QuantizedTensor {
  std::string name;
  TensorType type = TensorType::kF32;
  std::string method;     // "GPTQ", "rounding, weighted by inputs", "taken over: Q4_0"
  double decibels = 0.0;  // signal to quantization error of the weights; infinity: exact
  uint64_t float_bytes = 0;
  uint64_t bytes = 0;  // of elements and scales
};

struct Quantization {
  AlignedBytes reference;  // the model file in float32, for one target of this CPU
  std::optional<CalibrationSet> calibration;
  std::vector<QuantizedTensor> tensors;
  std::vector<std::string> notes;  // for the report
  std::optional<ModelComparison> evaluation;
};

// Cache of rounded matrices for one calibration text, so that trying other types rounds nothing
// twice.
struct RoundingCache {
  struct Rows {
    std::shared_ptr<const QuantizedMatrix> numbers;
    std::string method;
    double decibels = 0.0;
    std::string note;  // for the report, or empty
  };

  std::string model;         // path, for messages
  bool tries_types = false;  // several types of a matrix are compared
  bool has_read = false;     // the calibration text was read, if there is one
  std::optional<CalibrationSet> calibration;
  std::vector<std::string> notes;                           // about the calibration text
  std::map<std::pair<std::string, TensorType>, Rows> rows;  // by layer name and type
};

// Rounds each matrix of a graph, after all passes, to its type: q4 by GPTQ, w8 and q8 with the
// scales of least output error or, without a calibration text, of least weight error. Matrices that
// keep the file's quantization stay unchanged. `name` and `tokenizer` belong to the model. Reuses
// the matrices in `before` and adds the others to it. Throws InputError for weights that are not
// finite and for an unusable text.
Quantization quantize_weights(Graph& graph, const std::string& name,
                              const std::optional<TokenizerSpec>& tokenizer,
                              const Calibration& calibration, RoundingCache& before);

// Sets the weights of a graph whose layers are all in `before`, without a report. Embeddings that
// are not tied to a layer are rounded on first use.
void set_rounded_weights(Graph& graph, RoundingCache& before);

// Compares the quantized program with the float32 one, on held-out sequences or, without a
// calibration text, on random inputs. `file` is the program's file; if it has no target of this
// CPU, the program is packed once more.
void evaluate_quantization(Quantization& quantization, const Program& program,
                           const AlignedBytes& file);

}  // namespace arenite::convert
