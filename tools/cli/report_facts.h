// SPDX-License-Identifier: Apache-2.0
// What a report shows beside the facts of `arenite inspect`: where bytes are, which kernel each
// tensor gets, pictures of masks, distributions of weights, and what a conversion found.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/conversion_facts.h"
#include "cli/inspect_facts.h"
#include "cli/report_weights.h"

namespace arenite::tool {

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
  uint64_t parameters = 0;  // trained numbers; biases that are all zero do not count
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
