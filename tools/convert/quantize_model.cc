// SPDX-License-Identifier: Apache-2.0
// The float32 program has the same tensors in the same order as the quantized one, since types are
// chosen before passes join what is alike.
#include "convert/quantize_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <stdexcept>
#include <utility>

#include "convert/calibrate/observer.h"
#include "convert/calibrate/sequence_runner.h"
#include "convert/files/error.h"
#include "convert/files/progress.h"
#include "convert/program/writer.h"
#include "convert/quantize/matrix_product.h"
#include "convert/spec/quantized_weights.h"
#include "core/packing.h"

namespace arenite::convert {
namespace {

// The same graph in float32, but for what is taken over as it is.
Graph in_float32(Graph graph) {
  for (const ValueId value : graph.order()) {
    if (auto* linear = graph.as<LinearNode>(value)) {
      for (LinearPart& part : linear->parts) part.storage.type = TensorType::kF32;
    } else if (auto* embedding = graph.as<EmbeddingNode>(value)) {
      embedding->storage.type = TensorType::kF32;
    }
  }
  graph.kv_cache = TensorType::kF32;
  return graph;
}

// The rows of each part of a matrix; shared, since graphs are copied.
std::vector<std::shared_ptr<const QuantizedMatrix>> split(const LinearNode& linear,
                                                          const QuantizedMatrix& matrix) {
  std::vector<std::shared_ptr<const QuantizedMatrix>> parts;
  uint32_t row = 0;
  const size_t scales = matrix.scales.size() / matrix.rows;
  for (const LinearPart& part : linear.parts) {
    const uint32_t rows = part.linear.weight.rows;
    const auto slice = [&](const auto& list, size_t width) {
      return std::remove_cvref_t<decltype(list)>(
          list.begin() + static_cast<ptrdiff_t>(row * width),
          list.begin() + static_cast<ptrdiff_t>((row + rows) * width));
    };
    parts.push_back(std::make_shared<QuantizedMatrix>(
        QuantizedMatrix{matrix.type, rows, matrix.columns, slice(matrix.values, matrix.columns),
                        slice(matrix.scales, scales)}));
    row += rows;
  }
  return parts;
}

// Gives a part its numbers, whose weights were scaled already.
void keep(LinearPart& part, const RoundedBefore::Rows& rows) {
  const TensorType type = rows.numbers->type;
  part.storage.is_taken_over = true;
  part.linear.weight.quantized = {type == TensorType::kW8 ? TensorType::kQ8 : type, rows.method};
  part.linear.weight.load_quantized = [own = rows.numbers] { return *own; };
  for (double& value : part.linear.bias) value *= part.scale;
  part.scale = 1.0;
}

// What was rounded of a part before; null: nothing.
const RoundedBefore::Rows* find(const RoundedBefore& before, const LinearPart& part) {
  const auto found = before.rows.find({part.layer, part.storage.type});
  return found == before.rows.end() ? nullptr : &found->second;
}

bool is_known(const RoundedBefore& before, const LinearNode& linear) {
  return std::ranges::all_of(linear.parts,
                             [&](const LinearPart& part) { return find(before, part) != nullptr; });
}

// What the range of scales did to a matrix; empty: nothing.
std::string note_of(const ScaleReport& scales, const std::string& name) {
  if (scales.zeroed == 0) return "";
  return fmt::format("{}: {} of its rows or blocks are zeros: their scales would be below {:.0e}",
                     name, scales.zeroed, kScaleMin);
}

// What leaves a matrix in float32.
std::string rule_for(const LinearNode& linear) {
  std::vector<std::string> rules;
  for (const LinearPart& part : linear.parts) rules.push_back(part.layer + "=f32");
  return fmt::format("{}", fmt::join(rules, ","));
}

bool is_to_round(const LinearNode* linear) {
  return linear != nullptr && linear->parts[0].storage.type != TensorType::kF32 &&
         !linear->parts[0].storage.is_taken_over;
}

void require_finite(const std::string& name, const std::vector<float>& weights) {
  if (const auto place = first_non_finite(weights)) {
    throw InputError("{}: element {} is not finite: weights in few bits need numbers", quote(name),
                     *place);
  }
}

// Rounds a table of its own, unless that was done before: no text makes rows more important.
void take_rounded(const std::string& name, EmbeddingNode& embedding, RoundedBefore& before) {
  const TensorType type = embedding.storage.type;
  if (type == TensorType::kF32 || embedding.storage.is_taken_over) return;
  WeightRef& weight = *embedding.tokens;
  RoundedBefore::Rows& rows = before.rows[{name, type}];
  if (rows.numbers == nullptr) {
    const std::vector<float> weights = weight.load();
    require_finite(weight.name, weights);
    rows.method = "rounding";
    ScaleReport scales;
    rows.numbers = std::make_shared<QuantizedMatrix>(
        quantize(weights, weight.rows, weight.columns, type, {}, &scales));
    check_scales(scales, name, name + "=f32");
    rows.decibels = noise_of(weights, *rows.numbers).decibels();
  }
  embedding.storage.is_taken_over = true;
  weight.quantized = {type == TensorType::kW8 ? TensorType::kQ8 : type, rows.method};
  weight.load_quantized = [own = rows.numbers] { return *own; };
}

class Quantizer {
 public:
  // `program` is that of the same graph in float32.
  Quantizer(Graph& graph, const Program& program, Quantization& result, RoundedBefore& before)
      : graph_(graph), program_(program), result_(result), before_(before) {
    std::map<std::string, uint32_t> tensors;
    for (const ProgramOp& op : program.ops) {
      if (op.body.kind != format::OpKind::kLinear) continue;
      if (!tensors.emplace(op.name, op.body.numbers[format::LinearOp::kTensor]).second) {
        throw std::logic_error("two layers are called " + op.name + ": this is a bug");
      }
    }
    for (const ValueId value : graph_.order()) {
      auto* const embedding = graph_.as<EmbeddingNode>(value);
      if (embedding != nullptr) round_table(graph_.node(value).name, *embedding);
      auto* const linear = graph_.as<LinearNode>(value);
      if (linear == nullptr || linear->parts[0].storage.type == TensorType::kF32) continue;
      if (linear->parts[0].storage.is_taken_over) {
        take_over(graph_.node(value).name, *linear);
      } else if (is_known(before_, *linear)) {
        keep_known(value, *linear);
      } else {
        layers_[tensors.at(graph_.node(value).name)].push_back(value);
      }
    }
  }

  bool has_work() const { return !layers_.empty(); }

  void round_all(const std::vector<std::vector<double>>& mean_squares) {
    size_t done = 0;
    for (const auto& [tensor, values] : layers_) {
      report_progress(kRounding, static_cast<double>(done++) / static_cast<double>(layers_.size()));
      if (!mean_squares.empty() && type_of(values[0]) == TensorType::kQ4) continue;
      const std::vector<double> none;
      const std::vector<double>& weights = mean_squares.empty() ? none : mean_squares[tensor];
      for (const ValueId value : values) round(value, tensor, weights);
    }
  }

  void round(ValueId value, uint32_t tensor, const std::vector<double>& column_weights) {
    const std::vector<float> weights = weights_of(tensor);
    const auto [rows, columns] = sides_of(tensor);
    ScaleReport scales;
    QuantizedMatrix matrix =
        quantize(weights, rows, columns, type_of(value), column_weights, &scales);
    check_scales(scales, graph_.node(value).name, rule_for(*graph_.as<LinearNode>(value)));
    finish(value, weights, matrix,
           column_weights.empty() ? "rounding" : "rounding, weighted by inputs",
           note_of(scales, graph_.node(value).name));
  }

  void compensate_all(const AlignedBytes& file, const CalibrationSet& set) {
    std::vector<uint32_t> tensors;
    for (const auto& [tensor, values] : layers_) {
      if (type_of(values[0]) == TensorType::kQ4) tensors.push_back(tensor);
    }
    for_each_hessian(file, set.fitted, tensors, [&](uint32_t tensor, const Hessian& hessian) {
      for (const ValueId value : layers_.at(tensor)) {
        compensate(value, tensor, hessian);
      }
    });
  }

 private:
  // All rows that the layer becomes, with what is folded into them.
  std::vector<float> weights_of(uint32_t tensor) const {
    const ProgramTensor& found = program_.tensors[tensor];
    std::vector<float> weights = found.load();
    require_finite(found.name, weights);
    return weights;
  }
  std::pair<uint32_t, uint32_t> sides_of(uint32_t tensor) const {
    return {program_.tensors[tensor].outputs, program_.tensors[tensor].inputs};
  }

  TensorType type_of(ValueId value) const {
    return graph_.as<LinearNode>(value)->parts[0].storage.type;
  }

  void compensate(ValueId value, uint32_t tensor, const Hessian& hessian) {
    const std::vector<float> weights = weights_of(tensor);
    const auto [rows, columns] = sides_of(tensor);
    GptqReport report;
    QuantizedMatrix matrix =
        quantize_gptq(weights, rows, columns, type_of(value), hessian, &report);
    const std::string& name = graph_.node(value).name;
    check_scales(report.scales, name, rule_for(*graph_.as<LinearNode>(value)));
    std::string note = note_of(report.scales, name);
    if (!note.empty() && (!report.compensated || report.dampening > 0.011)) note += "; ";
    if (!report.compensated) {
      note += fmt::format(
          "{}: its inputs' Hessian is not positive definite: weights are rounded one by one", name);
    } else if (report.dampening > 0.011) {
      note += fmt::format(
          "{}: its inputs' Hessian became positive definite with {:.0f} % of its mean diagonal "
          "added",
          name, 100.0 * report.dampening);
    }
    finish(value, weights, matrix, report.compensated ? "GPTQ" : "rounding", note);
  }

  void finish(ValueId value, const std::vector<float>& weights, const QuantizedMatrix& matrix,
              const std::string& method, const std::string& note) {
    LinearNode& linear = *graph_.as<LinearNode>(value);
    const double decibels = noise_of(weights, matrix).decibels();
    const auto parts = split(linear, matrix);
    for (size_t i = 0; i < parts.size(); ++i) {
      LinearPart& part = linear.parts[i];
      const auto key = std::pair(part.layer, part.storage.type);
      before_.rows[key] = {parts[i], method, decibels, note};
    }
    keep_known(value, linear);
  }

  void keep_known(ValueId value, LinearNode& linear) {
    const RoundedBefore::Rows& first = *find(before_, linear.parts[0]);
    QuantizedTensor tensor = {graph_.node(value).name, first.numbers->type, first.method,
                              first.decibels};
    if (!first.note.empty()) result_.notes.push_back(first.note);
    for (LinearPart& part : linear.parts) {
      const RoundedBefore::Rows& rows = *find(before_, part);
      tensor.decibels = std::min(tensor.decibels, rows.decibels);
      add_bytes(*rows.numbers, tensor);
      keep(part, rows);
    }
    result_.tensors.push_back(tensor);
  }

  void take_over(const std::string& name, const LinearNode& linear) {
    for (const LinearPart& part : linear.parts) {
      const WeightRef& weight = part.linear.weight;
      add_taken_over(linear.parts.size() == 1 ? name : weight.name, weight, part.storage.type);
    }
  }

  void round_table(const std::string& name, EmbeddingNode& embedding) {
    const TensorType type = embedding.storage.type;
    if (!embedding.tokens || embedding.stored_by || type == TensorType::kF32) return;
    if (embedding.storage.is_taken_over) {
      add_taken_over(name, *embedding.tokens, type);
      return;
    }
    take_rounded(name, embedding, before_);
    const RoundedBefore::Rows& rows = before_.rows.at({name, type});
    add(name, *rows.numbers, rows.method, rows.decibels);
  }

  void add_taken_over(const std::string& name, const WeightRef& weight, TensorType type) {
    add(name, load_as(weight, type), "taken over: " + weight.quantized.scheme,
        -20.0 * std::log10(change_of_scales(weight).root_mean_square));
  }

  void add(const std::string& name, const QuantizedMatrix& matrix, const std::string& method,
           double decibels) {
    QuantizedTensor tensor = {name, matrix.type, method, decibels};
    add_bytes(matrix, tensor);
    result_.tensors.push_back(tensor);
  }

  static void add_bytes(const QuantizedMatrix& matrix, QuantizedTensor& tensor) {
    const uint64_t numbers = uint64_t{matrix.rows} * matrix.columns;
    tensor.float_bytes += numbers * sizeof(float);
    const WeightType& type = weight_type(matrix.type);
    tensor.bytes += numbers * type.bits / 8 + matrix.scales.size() * type.scale_bytes;
  }

  Graph& graph_;
  const Program& program_;
  Quantization& result_;
  RoundedBefore& before_;
  std::map<uint32_t, std::vector<ValueId>> layers_;  // of each tensor
};

// The text that weights are rounded for; none where there is none.
std::optional<CalibrationSet> read_set(const AlignedBytes& file, const Calibration& calibration,
                                       std::vector<std::string>& notes) {
  if (calibration.is_off) return std::nullopt;
  const Model model = load_best(file);
  if (!calibration.file.empty()) return read_calibration(calibration.file, model);
  if (can_write_text(model)) return write_own_text(file);
  notes.emplace_back(
      "weights are rounded one by one: the model cannot write a text to calibrate with, and "
      "--calibrate FILE names none");
  return std::nullopt;
}

}  // namespace

Quantization quantize_weights(Graph& graph, const std::string& name,
                              const std::optional<TokenizerSpec>& tokenizer,
                              const Calibration& calibration, RoundedBefore* before) {
  RoundedBefore nothing;
  RoundedBefore& known = before != nullptr ? *before : nothing;
  Quantization result;
  Program program = lower(in_float32(graph), name);
  program.tokenizer = tokenizer;
  result.reference = write_model(program, {best_kernels().target});
  if (!known.has_read) {
    known.calibration = read_set(result.reference, calibration, known.notes);
    known.has_read = true;
  }
  result.calibration = known.calibration;
  result.notes = known.notes;
  Quantizer quantizer(graph, program, result, known);
  if (!quantizer.has_work()) return result;
  if (!result.calibration) {
    quantizer.round_all({});
    return result;
  }
  quantizer.round_all(mean_squares_of_inputs(result.reference, result.calibration->fitted));
  quantizer.compensate_all(result.reference, *result.calibration);
  return result;
}

void take_rounded(Graph& graph, RoundedBefore& before) {
  for (const ValueId value : graph.order()) {
    auto* const linear = graph.as<LinearNode>(value);
    auto* const embedding = graph.as<EmbeddingNode>(value);
    if (is_to_round(linear)) {
      for (LinearPart& part : linear->parts) keep(part, *find(before, part));
    } else if (embedding != nullptr && embedding->tokens && !embedding->stored_by) {
      take_rounded(graph.node(value).name, *embedding, before);
    }
  }
}

void evaluate_quantization(Quantization& quantization, const Program& program,
                           const AlignedBytes& file) {
  const CalibrationSet set = quantization.calibration
                                 ? *quantization.calibration
                                 : made_up_input(load_best(quantization.reference));
  AlignedBytes packed_here;
  const bool runs = (format::ModelReader(file.span()).file_targets() & cpu_targets()) != 0;
  if (!runs) packed_here = write_model(program, {best_kernels().target});
  quantization.evaluation = compare_models(quantization.reference, runs ? file : packed_here, set);
}

}  // namespace arenite::convert
