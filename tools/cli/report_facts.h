// SPDX-License-Identifier: Apache-2.0
// Facts that a report shows beside those of `arenite inspect`: where the bytes are, each tensor's
// kernel, pictures of masks, distributions of weights, and the results of a conversion.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/inspect_facts.h"
#include "core/views.h"

namespace arenite::tool {

// --- Accuracy of a conversion ---
//
// Empty lists and absent values are not shown.

// How a tensor was quantized.
struct QuantizedTensor {
  std::string name;
  std::string type;    // "q4"
  std::string method;  // "GPTQ", "weighted rounding", "taken over"
  // Signal-to-noise ratio of the weights to the quantization error; infinite: no error.
  double signal_to_noise_db = 0.0;
  uint64_t float_bytes = 0;
  uint64_t bytes = 0;
};

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
  std::vector<QuantizedTensor> tensors;
  std::vector<ConversionNote> notes;
};

// --- Tensor elements, unpacked from the file ---

// A histogram of a tensor's elements. Elements that are not finite count only in `not_finite`.
struct Distribution {
  std::string tensor{};     // its name
  uint64_t numbers = 0;     // elements of the tensor
  uint64_t sampled = 0;     // how many of these were read: whole rows, evenly spaced
  uint64_t not_finite = 0;  // how many of these are NaN or infinite
  double mean = 0.0;
  double deviation = 0.0;
  double least = 0.0;
  double most = 0.0;
  // counts[i] counts elements from -limit + i * 2 * limit / counts.size() up to the next bin.
  // Elements outside [-limit, limit] are in `beyond`.
  double limit = 0.0;
  uint64_t beyond = 0;
  std::vector<uint64_t> counts;  // empty: no element could be read
};

inline constexpr uint32_t kDistributionBins = 41;  // odd, so that zero has its own bin
inline constexpr uint64_t kSampledNumbers = 1u << 16;
inline constexpr uint32_t kSampledRows = 16;  // at least, whatever their length

Distribution distribution_of(const WeightView& view);

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

// The tensors of a target that share a kernel.
struct KernelUse {
  Target target = Target::kPortable;
  TensorType type = TensorType::kF32;
  format::Layout layout = format::Layout::kGemm;
  std::string kernel;  // "avx2 qd8-f32-qc8w-gemm 4x8c8": set, family and tile
  uint32_t tensors = 0;
  uint64_t bytes = 0;
};

// Splits "3.qkv" into layer "3" and part "qkv". Other names have no layer and no part.
struct OpName {
  std::string layer;
  std::string part;
};
OpName split_op_name(const std::string& name);

// The place of a tensor in the program.
struct TensorPlace {
  std::string tensor;
  TensorType type = TensorType::kF32;
  std::vector<uint32_t> ops{};                // its readers; the first determines layer and part
  std::string layer{};                        // name of its group in ReportFacts::layers
  std::string part{};                         // name of its group in ReportFacts::parts
  std::vector<Named<uint64_t>> bytes{};       // per target
  std::vector<Named<std::string>> kernels{};  // per target
  bool is_computed = false;                   // a table that was computed, not trained
};

struct MaskPicture {
  uint32_t positions = 0;         // of the drawn mask
  uint64_t visible = 0;           // pairs
  uint32_t ops = 0;               // those that apply it
  std::vector<std::string> rows;  // as MaskPairs::draw makes them
};

// The least bytes of weights and cache read to decode a token, on a target.
struct DecodeBytes {
  double first = 0.0;  // with an empty cache
  double last = 0.0;   // with all positions but one held
};

// `arenite convert --json` prints these facts, too.
struct WeightsReport {
  std::vector<FilePart> file_parts{};
  std::vector<TensorGroup> types{};          // each type in the file
  std::vector<TensorGroup> layers{};         // in program order
  std::vector<TensorGroup> parts{};          // the same tensors by their role in a layer
  std::vector<Named<DecodeBytes>> decode{};  // per target; empty: the model does not decode
  std::vector<KernelUse> kernels{};
  std::vector<TensorPlace> places{};  // per tensor
  std::optional<ConversionFacts> conversion{};
};

struct ReportFacts : WeightsReport {
  explicit ReportFacts(ModelFacts facts) : model(std::move(facts)) {}

  ModelFacts model;
  std::vector<Distribution> distributions{};
  uint32_t distributed_of = 0;       // how many tensors are large enough for a distribution
  std::vector<MaskPicture> masks{};  // per mask
};

inline constexpr uint32_t kDistributionsMax = 60;
inline constexpr uint32_t kDistributedNumbersMin = 64;  // for a distribution to be made
inline constexpr uint32_t kMaskCells = 32;

// The facts point into `file`. Throws InputError if the model cannot serve the sizes.
ReportFacts gather_report(const VerifiedFile& file, const SizeOptions& sizes,
                          std::optional<ConversionFacts> conversion = {});

// Names for people the CPUs that run a target.
const char* cpus_of(Target target);

// Returns XNNPACK's name of the kernels that multiply weights of a type.
const char* kernel_family(TensorType type);

// Returns the tile of a kernel: rows x outputs and, if inputs lie side by side, how many: "4x8c8".
std::string tile_name(Packing packing);

}  // namespace arenite::tool
