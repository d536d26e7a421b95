// SPDX-License-Identifier: Apache-2.0
// Rounds the weights of a graph. The float32 program has the same tensors in the same order as the
// quantized one, since types are chosen before passes join matrices.
#include "convert/quantize_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <utility>

#include "convert/calibrate/own_text.h"
#include "convert/calibrate/sequence_runner.h"
#include "convert/files/error.h"
#include "convert/files/progress.h"
#include "convert/program/writer.h"
#include "convert/quantize/matrix_product.h"
#include "convert/spec/quantized_weights.h"
#include "core/packing.h"

namespace arenite::convert {
namespace {

// Sets all weights and the cache to float32, except for weights that keep the file's quantization.
Graph in_float32(Graph graph) {
  for (const ValueId value : graph.order()) {
    if (auto* linear = graph.weights_at(value)) {
      for (LinearPart& part : linear->parts) part.storage.type = TensorType::kF32;
    } else if (auto* embedding = graph.as<EmbeddingNode>(value)) {
      embedding->storage.type = TensorType::kF32;
    }
  }
  graph.kv_cache = TensorType::kF32;
  return graph;
}

// Sets the quantized values of a matrix; they are shared, since graphs are copied.
void keep(WeightRef& weight, Storage& storage, const RoundingCache::Rows& rows) {
  storage.is_taken_over = true;
  weight.quantized = {use_of(rows.numbers->type).integers, rows.method};
  weight.load_quantized = [own = rows.numbers] { return *own; };
}

// Sets the weights of a layer's part, which include its scale, and folds that scale into the bias.
void keep(LinearPart& part, const RoundingCache::Rows& rows) {
  keep(part.linear.weight, part.storage, rows);
  for (double& value : part.linear.bias) value *= part.scale;
  part.scale = 1.0;
}

// Returns the rows that were rounded earlier for a part, or null.
const RoundingCache::Rows* find(const RoundingCache& before, const LinearPart& part) {
  const auto found = before.rows.find({part.layer, part.storage.type});
  return found == before.rows.end() ? nullptr : &found->second;
}

bool is_known(const RoundingCache& before, const LinearNode& linear) {
  return std::ranges::all_of(linear.parts,
                             [&](const LinearPart& part) { return find(before, part) != nullptr; });
}

// Describes the effect of limiting a matrix's scales, and its Hessian if it has one; may be empty.
std::string notes_of(const GptqReport& report, bool has_hessian, const std::string& name) {
  std::vector<std::string> notes;
  if (report.scales.zeroed != 0) {
    notes.push_back(
        fmt::format("{} of its rows or blocks become zeros: their scales would be below {:.0e}",
                    report.scales.zeroed, kScaleMin));
  }
  if (has_hessian && !report.compensated) {
    notes.emplace_back(
        "its inputs' Hessian is not positive definite: weights are rounded to nearest");
  } else if (report.dampening > 0.011) {
    notes.push_back(fmt::format(
        "its inputs' Hessian became positive definite with {:.0f} % of its mean diagonal added",
        100.0 * report.dampening));
  }
  return notes.empty() ? "" : fmt::format("{}: {}", name, fmt::join(notes, "; "));
}

// Returns the rules that would keep the matrix in float32, for messages.
std::string rule_for(const LinearNode& linear) {
  std::vector<std::string> rules;
  for (const LinearPart& part : linear.parts) rules.push_back(part.layer + "=f32");
  return fmt::format("{}", fmt::join(rules, ","));
}

void require_finite(const std::string& name, std::span<const float> weights) {
  if (const auto place = first_non_finite(weights)) {
    throw InputError("{}: element {} is not finite: only finite weights can be quantized",
                     quote(name), *place);
  }
}

// Rounds an untied embedding table once; calibration assigns no weights to its rows.
void set_rounded_weights(const std::string& name, EmbeddingNode& embedding, RoundingCache& before) {
  const TensorType type = embedding.storage.type;
  if (type == TensorType::kF32 || embedding.storage.is_taken_over) return;
  WeightRef& weight = *embedding.tokens;
  RoundingCache::Rows& rows = before.rows[{name, type}];
  if (rows.numbers == nullptr) {
    const Floats weights = weight.load();
    require_finite(weight.name, weights);
    rows.method = "rounding";
    ScaleReport scales;
    rows.numbers = std::make_shared<QuantizedMatrix>(
        quantize(weights, weight.rows, weight.columns, type, {}, &scales));
    check_scales(scales, name, name + "=f32");
    rows.decibels = noise_of(weights, *rows.numbers).decibels();
  }
  keep(weight, embedding.storage, rows);
}

class Quantizer {
 public:
  // `program` is the float32 program of this graph.
  Quantizer(Graph& graph, const Program& program, Quantization& result, RoundingCache& before)
      : graph_(graph), program_(program), result_(result), before_(before) {
    std::map<std::string, uint32_t> tensors;
    for (const ProgramOp& op : program.ops) {
      const bool is_convolution = op.body.kind == format::OpKind::kConvolution;
      const bool is_other =
          op.body.kind != format::OpKind::kLinear && op.body.kind != format::OpKind::kExperts;
      if (is_other && !is_convolution) continue;
      if (!tensors.emplace(op.name, op.body.numbers[format::LinearOp::kTensor]).second) {
        throw std::logic_error("two layers are called " + op.name + ": this is a bug");
      }
      if (is_convolution) convolutions_.insert(op.body.numbers[format::ConvolutionOp::kTensor]);
    }
    for (const ValueId value : graph_.order()) {
      auto* const embedding = graph_.as<EmbeddingNode>(value);
      if (embedding != nullptr) round_table(graph_.node(value).name, *embedding);
      auto* const linear = graph_.weights_at(value);
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

  // Rounds to nearest.
  void round_all() {
    const std::vector<std::vector<double>> none(program_.tensors.size());
    round_by(none);
  }

  // Returns the tensors whose rounding GPTQ compensates.
  std::vector<uint32_t> compensated() const {
    std::vector<uint32_t> tensors;
    for (const auto& [tensor, values] : layers_) {
      if (is_compensated(tensor)) tensors.push_back(tensor);
    }
    return tensors;
  }

  // Compensates what GPTQ is for, and weights the errors of the rest by their inputs. `known` are
  // the inputs of compensated() over the set's sequences, or of the first of them.
  void round_all(const AlignedBytes& file, const CalibrationSet& set,
                 std::optional<InputStatistics> known) {
    const auto compensate = [&](uint32_t tensor, const Hessian& hessian) {
      const auto layer = layers_.extract(tensor);
      for (const ValueId value : layer.mapped()) round(value, tensor, {}, &hessian);
    };
    round_by(for_each_hessian(file, set.fitted, compensated(), compensate, std::move(known)));
  }

 private:
  // Rounds all matrices that are left, weighted by the mean squares of their inputs, if known.
  void round_by(const std::vector<std::vector<double>>& mean_squares) {
    size_t done = 0;
    for (const auto& [tensor, values] : layers_) {
      report_progress(kRounding, static_cast<double>(done++) / static_cast<double>(layers_.size()));
      for (const ValueId value : values) round(value, tensor, mean_squares[tensor], nullptr);
    }
  }

  TensorType type_of(ValueId value) const {
    return graph_.weights_at(value)->parts[0].storage.type;
  }

  // Convolutions have no Hessian: their windowed inputs are not measured.
  bool is_compensated(uint32_t tensor) const {
    return use_of(type_of(layers_.at(tensor)[0])).is_compensated && !convolutions_.contains(tensor);
  }

  // Rounds all rows of the layer's tensor, folds included: by GPTQ if its inputs have a Hessian,
  // else weighted by the inputs' mean squares, if known.
  void round(ValueId value, uint32_t tensor, const std::vector<double>& column_weights,
             const Hessian* hessian) {
    const ProgramTensor& from = program_.tensors[tensor];
    const Floats weights = from.load();
    require_finite(from.name, weights);
    GptqReport report;
    const QuantizedMatrix matrix =
        hessian != nullptr
            ? quantize_gptq(weights, from.outputs, from.inputs, type_of(value), *hessian, &report)
            : quantize(weights, from.outputs, from.inputs, type_of(value), column_weights,
                       &report.scales);
    const std::string& name = graph_.node(value).name;
    LinearNode& linear = *graph_.weights_at(value);
    check_scales(report.scales, name, rule_for(linear));
    const char* const method = report.compensated       ? "GPTQ"
                               : column_weights.empty() ? "rounding"
                                                        : "rounding, weighted by inputs";
    const std::string note = notes_of(report, hessian != nullptr, name);
    const double decibels = noise_of(weights, matrix).decibels();
    uint32_t row = 0;
    for (const LinearPart& part : linear.parts) {
      const uint32_t rows = part.linear.weight.rows;
      before_.rows[{part.layer, part.storage.type}] = {
          std::make_shared<QuantizedMatrix>(matrix.part(row, rows)), method, decibels, note};
      row += rows;
    }
    keep_known(value, linear);
  }

  void keep_known(ValueId value, LinearNode& linear) {
    const RoundingCache::Rows& first = *find(before_, linear.parts[0]);
    QuantizedTensor tensor = {graph_.node(value).name, first.numbers->type, first.method,
                              first.decibels};
    if (!first.note.empty()) result_.notes.push_back(first.note);
    for (LinearPart& part : linear.parts) {
      const RoundingCache::Rows& rows = *find(before_, part);
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
    set_rounded_weights(name, embedding, before_);
    const RoundingCache::Rows& rows = before_.rows.at({name, type});
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
  RoundingCache& before_;
  std::map<uint32_t, std::vector<ValueId>> layers_;  // of each tensor
  std::set<uint32_t> convolutions_;                  // tensors of these
};

uint64_t tokens_for_hessians(const AlignedBytes& file) {
  return std::clamp(kOwnTokensTimesBytes / file.size(), kOwnTokensMin, kOwnTokens);
}

// Reads or generates the calibration text; nullopt if there is none. `use` gets the inputs of
// linear layers while the text is generated.
std::optional<CalibrationSet> read_set(const AlignedBytes& file, const Calibration& calibration,
                                       uint64_t own_tokens, const UseInputs& use,
                                       std::vector<std::string>& notes) {
  if (calibration.is_off) return std::nullopt;
  const Model model = load_best(file);
  if (!calibration.files.empty()) return read_calibration(calibration.files, model);
  if (can_write_text(model)) return write_own_text(file, own_tokens, use);
  notes.emplace_back(model.inputs() == 1
                         ? "weights are rounded to nearest: the model cannot write a calibration "
                           "text, and there is no --calibrate FILE"
                         : fmt::format("weights are rounded to nearest: the model has {} inputs, "
                                       "and there is no --calibrate FILE for each",
                                       model.inputs()));
  return std::nullopt;
}

}  // namespace

Quantization quantize_weights(Graph& graph, const std::string& name,
                              const std::optional<TokenizerSpec>& tokenizer,
                              const Calibration& calibration, RoundingCache& known) {
  Quantization result;
  Program program = lower(in_float32(graph), name);
  program.tokenizer = tokenizer;
  try {
    check_format_limits(program);
  } catch (const InputError& error) {
    throw InputError("{}: {}", known.model, error.what());
  }
  result.reference = write_model(program, {best_kernels().target});
  Quantizer quantizer(graph, program, result, known);
  std::optional<InputStatistics> inputs;  // of a text that the model generates
  if (!known.has_read) {
    const std::vector<uint32_t> compensated = quantizer.compensated();
    const bool is_long = known.tries_types || !compensated.empty();
    UseInputs use;
    if (!calibration.is_off && calibration.files.empty()) {
      inputs.emplace(result.reference, compensated);
      use = [&](uint32_t tensor, const ConstMatrix& rows) { inputs->add(tensor, rows); };
    }
    known.calibration = read_set(
        result.reference, calibration,
        is_long ? tokens_for_hessians(result.reference) : kOwnTokensOfSquares, use, known.notes);
    known.has_read = true;
  }
  result.calibration = known.calibration;
  result.notes.insert(result.notes.begin(), known.notes.begin(), known.notes.end());
  if (!quantizer.has_work()) return result;
  if (result.calibration) {
    quantizer.round_all(result.reference, *result.calibration, std::move(inputs));
  } else {
    quantizer.round_all();
  }
  return result;
}

void set_rounded_weights(Graph& graph, RoundingCache& before) {
  for (const ValueId value : graph.order()) {
    auto* const linear = graph.weights_at(value);
    auto* const embedding = graph.as<EmbeddingNode>(value);
    if (linear != nullptr) {
      const Storage& storage = linear->parts[0].storage;
      if (storage.type == TensorType::kF32 || storage.is_taken_over) continue;
      for (LinearPart& part : linear->parts) keep(part, *find(before, part));
    } else if (embedding != nullptr && embedding->tokens && !embedding->stored_by) {
      set_rounded_weights(graph.node(value).name, *embedding, before);
    }
  }
}

void evaluate_quantization(Quantization& quantization, const Program& program,
                           const AlignedBytes& file) {
  const CalibrationSet set = quantization.calibration
                                 ? *quantization.calibration
                                 : random_inputs(load_best(quantization.reference));
  AlignedBytes packed_here;
  const bool runs = (format::ModelReader(file.span()).file_targets() & cpu_targets()) != 0;
  if (!runs) packed_here = write_model(program, {best_kernels().target});
  quantization.evaluation = compare_models(quantization.reference, runs ? file : packed_here, set);
}

}  // namespace arenite::convert
