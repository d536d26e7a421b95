// SPDX-License-Identifier: Apache-2.0
// What a report shows beside the facts of `arenite inspect`: where bytes are, which kernel each
// tensor gets, pictures of masks, distributions of weights, and what a conversion found.
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

// --- What a conversion found out about its own accuracy ---
//
// Plain names and numbers. Lists that are empty and numbers that are absent are not shown.

// How one tensor was stored in fewer bits.
struct QuantizedTensor {
  std::string name;
  std::string type;    // "q4"
  std::string method;  // "GPTQ", "weighted rounding", "taken over"
  // Of the weights against what quantizing changed, in decibels; infinite: nothing changed.
  double signal_to_noise_db = 0.0;
  uint64_t float_bytes = 0;
  uint64_t bytes = 0;
};

// How far a hidden state of the quantized model points where the float model's does, over all
// tokens that were compared.
struct HiddenStateError {
  std::string name;  // "embedding", "layer 0"
  double mean_cosine = 1.0;
  double least_cosine = 1.0;
};

// The outputs of both models on text that neither was calibrated with.
struct OutputComparison {
  std::string text;  // what the text is: "16 texts of 256 tokens that the model wrote"
  uint64_t tokens = 0;
  std::optional<double> mean_kl{};         // nats a token, of the quantized from the float model
  std::optional<double> top1_agreement{};  // share of tokens, 0 to 1
  std::optional<double> float_perplexity{};
  std::optional<double> quantized_perplexity{};
};

// A limit that was asked for.
struct LimitCheck {
  std::string option;  // "--max-kl"
  double asked = 0.0;
  double found = 0.0;
  std::string unit;  // "bytes", "nats"; empty: a plain number
  bool is_met = false;
  std::vector<std::string> offenders;  // names of what broke it, the worst first
};

// Something that went another way than asked, and what that cost.
struct ConversionNote {
  std::string kind;     // "fell back", "note"
  std::string subject;  // a tensor, or how many; empty: the model
  std::string text;     // "are q8: their rows of 172 are no multiple of 32, as q4 needs"
  std::vector<std::string> tensors = {};  // all that it is about
};

struct ConversionFacts {
  uint64_t parameters = 0;  // as PyTorch counts: no buffers, and tied weights once
  std::string source;       // the checkpoint: path and form
  std::string weights;      // as asked for: "q4, keeping output=q8 and embedding=q8"
  std::string calibration;  // the text, and where it is from
  std::vector<LimitCheck> limits;
  std::optional<OutputComparison> outputs;
  std::vector<HiddenStateError> hidden_states;  // in the order of the program
  std::vector<QuantizedTensor> tensors;
  std::vector<ConversionNote> notes;
};

// --- The numbers of tensors, unpacked from where they lie in the file ---

// Whether a packed tensor has a bias other than zero.
bool has_bias(const WeightView& view);

// A histogram. What is not finite counts as `not_finite` and nowhere else.
struct Distribution {
  std::string tensor{};     // its name
  uint64_t numbers = 0;     // of the tensor
  uint64_t sampled = 0;     // of these: whole rows, evenly spaced
  uint64_t not_finite = 0;  // of the sampled
  double mean = 0.0;
  double deviation = 0.0;
  double least = 0.0;
  double most = 0.0;
  // counts[i] is of numbers from -limit + i * 2 * limit / counts.size() on; what lies beyond the
  // limit is in `beyond`.
  double limit = 0.0;
  uint64_t beyond = 0;
  std::vector<uint64_t> counts;  // empty: nothing could be read
};

inline constexpr uint32_t kDistributionBins = 41;  // odd: zero has a bin of its own
inline constexpr uint64_t kSampledNumbers = 1u << 16;
inline constexpr uint32_t kSampledRows = 16;  // at least, however long they are

Distribution distribution_of(const WeightView& view);

struct FilePart {
  std::string name;  // "metadata", "weights for x86-64-v3", ...
  uint64_t bytes = 0;
};

// Tensors that belong together, as they are packed for the target that is shown.
struct TensorGroup {
  std::string name;
  uint32_t tensors = 0;
  uint64_t numbers = 0;
  std::array<uint64_t, kTensorTypes> bytes_by_type = {};

  uint64_t bytes() const;
};

// Tensors of one kind on one target: they share a kernel.
struct KernelUse {
  Target target = Target::kPortable;
  TensorType type = TensorType::kF32;
  format::Layout layout = format::Layout::kGemm;
  std::string kernel;  // "avx2 qd8-f32-qc8w-gemm 4x8c8": set, family and tile
  uint32_t tensors = 0;
  uint64_t bytes = 0;
};

// "3.qkv" is the part "qkv" of layer "3". Other names are parts of no layer.
struct OpName {
  std::string layer;
  std::string part;
};
OpName split_op_name(const std::string& name);

// A tensor's place in the program.
struct TensorPlace {
  std::string tensor;
  TensorType type = TensorType::kF32;
  std::vector<uint32_t> ops{};                // those that read it; it belongs to the first
  std::string layer{};                        // the name of its group of ReportFacts::layers
  std::string part{};                         // the same of ReportFacts::parts
  std::vector<Named<uint64_t>> bytes{};       // for each target
  std::vector<Named<std::string>> kernels{};  // for each target
  bool is_computed = false;                   // a table that nobody trained
};

struct MaskPicture {
  uint32_t positions = 0;         // that it is drawn for
  uint64_t visible = 0;           // pairs
  uint32_t ops = 0;               // that apply it
  std::vector<std::string> rows;  // as MaskPairs::draw makes them
};

// Bytes of weights and cache that one token reads at least, on one target.
struct DecodeBytes {
  double first = 0.0;  // with nothing before it
  double last = 0.0;   // with all positions but one before it
};

// What `arenite convert --json` says, too.
struct WeightsReport {
  std::vector<FilePart> file_parts{};
  std::vector<TensorGroup> types{};          // each type that the file has
  std::vector<TensorGroup> layers{};         // in the order of the program
  std::vector<TensorGroup> parts{};          // the same tensors by their role in a layer
  std::vector<Named<DecodeBytes>> decode{};  // for each target; empty: no token by token
  std::vector<KernelUse> kernels{};
  std::vector<TensorPlace> places{};  // for each tensor
  std::optional<ConversionFacts> conversion{};
};

struct ReportFacts : WeightsReport {
  explicit ReportFacts(ModelFacts facts) : model(std::move(facts)) {}

  ModelFacts model;
  std::vector<Distribution> distributions{};
  uint32_t distributed_of = 0;       // tensors that are large enough for one
  std::vector<MaskPicture> masks{};  // for each mask
};

inline constexpr uint32_t kDistributionsMax = 60;
inline constexpr uint32_t kDistributedNumbersMin = 64;  // of a tensor that gets a distribution
inline constexpr uint32_t kMaskCells = 32;

// The facts point into `file`. Throws InputError if the model cannot serve the sizes.
ReportFacts gather_report(const VerifiedFile& file, const SizeOptions& sizes,
                          std::optional<ConversionFacts> conversion = {});

// Which CPUs run what is packed for a target, for people.
const char* cpus_of(Target target);

// XNNPACK's name of the kernels that multiply weights of a type.
const char* kernel_family(TensorType type);

// Rows and outputs that its kernels compute at once, and inputs that lie side by side if these are
// several: "4x8c8".
std::string tile_name(Packing packing);

}  // namespace arenite::tool
