// SPDX-License-Identifier: Apache-2.0
// Facts that a report shows beside those of `arenite inspect`: where the bytes are, pictures of
// masks, and the results of a conversion.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/inspect_facts.h"
#include "convert/quantize_model.h"
#include "core/views.h"

namespace arenite::tool {

// --- Accuracy of a conversion ---
//
// Empty lists and absent values are not shown.

// Cosine similarity of a hidden state of the quantized and the float model over all compared
// tokens.
struct HiddenStateError {
  std::string name;  // "embedding", "layer 0"
  double mean_cosine = 1.0;
  double least_cosine = 1.0;
};

// The outputs of both models on text that was not used for calibration.
struct OutputComparison {
  std::string text;  // what the text is: "16 texts of 256 tokens that the model wrote"
  uint64_t tokens = 0;
  std::optional<double> mean_kl{};         // nats per token, of the quantized from the float model
  std::optional<double> top1_agreement{};  // share of tokens, 0 to 1
  std::optional<double> float_perplexity{};
  std::optional<double> quantized_perplexity{};
};

// A requested limit and the value found.
struct LimitCheck {
  std::string option;  // "--max-kl"
  double asked = 0.0;
  double found = 0.0;
  std::string unit;  // "bytes", "nats"; empty: none
  bool is_met = false;
  std::vector<std::string> offenders;  // names of what exceeded it, the worst first
};

// A deviation from the request, and its effect.
struct ConversionNote {
  std::string kind;     // "fell back", "note"
  std::string subject;  // a tensor, or a count; empty: the model
  std::string text;     // "are q8: their rows of 172 are not multiples of 32, which q4 needs"
  std::vector<std::string> tensors = {};  // all that the note is about
};

struct ConversionFacts {
  uint64_t parameters = 0;  // as PyTorch counts: without buffers, tied weights once
  std::string source;       // the checkpoint's path and form
  std::string weights;      // as requested: "q4, keeping output=q8 and embedding=q8"
  std::string calibration;  // the text and its origin
  std::vector<LimitCheck> limits;
  std::optional<OutputComparison> outputs;
  std::vector<HiddenStateError> hidden_states;  // in program order
  std::vector<convert::QuantizedTensor> tensors;
  std::vector<ConversionNote> notes;
};

struct FilePart {
  std::string name;  // "metadata", "weights for x86-64-v3", ...
  uint64_t bytes = 0;
};

// A group of tensors, with their bytes as packed for the shown target.
struct TensorGroup {
  std::string name;
  uint32_t tensors = 0;
  uint64_t numbers = 0;
  std::array<uint64_t, kTensorTypes> bytes_by_type = {};

  uint64_t bytes() const;
};

// Splits "3.qkv" into layer "3" and part "qkv". Other names have no layer and no part.
struct OpName {
  std::string layer;
  std::string part;
};
OpName split_op_name(const std::string& name);

// Lists the ops that read a tensor, and its groups in the report.
struct TensorPlace {
  std::string tensor;
  TensorType type = TensorType::kF32;
  std::vector<uint32_t> ops{};  // its readers; the first determines layer and part
  std::string layer{};          // name of its group in ReportFacts::layers
  std::string part{};           // name of its group in ReportFacts::parts
};

struct MaskPicture {
  uint32_t positions = 0;         // of the drawn mask
  uint64_t visible = 0;           // pairs
  uint32_t ops = 0;               // those that apply it
  std::vector<std::string> rows;  // as MaskPairs::draw makes them
};

// `arenite convert --json` prints these facts, too.
struct WeightsReport {
  std::vector<FilePart> file_parts{};
  std::vector<TensorGroup> types{};   // each type in the file
  std::vector<TensorGroup> layers{};  // in program order
  std::vector<TensorGroup> parts{};   // the same tensors by their role in a layer
  std::vector<TensorPlace> places{};  // per tensor
  std::optional<ConversionFacts> conversion{};
};

struct ReportFacts : WeightsReport {
  explicit ReportFacts(ModelFacts facts) : model(std::move(facts)) {}

  ModelFacts model;
  std::vector<MaskPicture> masks{};  // per mask
};

inline constexpr uint32_t kMaskCells = 32;

// Adds to the facts of a file those of a report.
ReportFacts gather_report(ModelFacts model, std::optional<ConversionFacts> conversion = {});

// Names for people the CPUs that run a target.
const char* cpus_of(Target target);

// Returns the tile of a kernel: rows x outputs and, if inputs lie side by side, how many: "4x8c8".
std::string tile_name(Packing packing);

// Returns one JSON object: the keys of a model's facts, and `report`.
Json facts_of(const ReportFacts& facts);

// The part of `report` that a conversion prints, too.
Json facts_of_weights(const WeightsReport& facts);
Json weights_schema();

// Returns a self-contained page: report.html with the facts inserted. The page fits screens of any
// width and paper, and loads nothing.
std::string report_as_html(const ReportFacts& facts);

// Renders the report in the format of `file`'s extension. REQUIRES: --report accepts the name.
std::string render_report(const ReportFacts& facts, const std::filesystem::path& file);

}  // namespace arenite::tool
