// SPDX-License-Identifier: Apache-2.0
// Follows an exported program from its samples to features: each element of a value is a label that
// says which samples, bins or bands it is made of, so that any way to write a Fourier transform in
// frames is seen for what it is.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "convert/exported/aten/interpret.h"
#include "convert/exported/read/exported_program.h"
#include "convert/sound/sound_parameters.h"

namespace arenite::convert {

// What the elements of a value are, in the order in which they are made.
enum class SoundStage {
  kSamples,       // or 0 of a padding; perhaps in frames and times a window
  kComplex,       // of a Fourier transform
  kParts,         // real and imaginary ones
  kSquares,       // of parts
  kSpectrum,      // powers or magnitudes
  kBands,         // sums of these
  kLogarithms,    // of bands
  kPeak,          // less `range`: the largest logarithm
  kCoefficients,  // a cosine transform of logarithms
};

struct SoundValue {
  SoundStage stage = SoundStage::kSamples;
  // 1 + the sample's index among all, or 0 of none; from kComplex on a frame of all sounds and a
  // kernel, bin, band or coefficient (sound_labels.h). Of kPeak: 1 + the sound.
  Array labels{};
  std::optional<Array> weights{};  // of samples
  double scale = 1.0;              // of samples, parts, powers or magnitudes
  size_t transform = 0;
  bool is_magnitude = false;
  std::shared_ptr<const SoundMatrix> bands{};  // null: the bins themselves
  std::shared_ptr<const SoundMatrix> cosines{};
  double floor = 0.0, added = 0.0;    // of bands
  double factor = 0.0, offset = 0.0;  // of natural logarithms; 0: there are none
  double range = 0.0;                 // below the peak,
  size_t elements = 0;                // which is that of so many
};

class SoundChain {
 public:
  // Follows all nodes for an input of this shape, samples last.
  SoundChain(const ExportedProgram& program, uint32_t input, const Shape& shape);

  // What is known of a value, or null where it is none of the chain.
  const SoundValue* find(uint32_t value) const;
  // Why the node is no part of the chain, although it reads it; empty: it is, or reads none.
  std::string why_not(const Call& node) const;

  // Why the program cannot be of the runtime, although its features could be; empty: it may be.
  const std::string& refusal() const { return refusal_; }

  // What gives the features `value`; nothing where they are incomplete, or not what a front end
  // makes. `is_turned`: they are [sounds, features, frames], else [sounds, frames, features].
  struct Features {
    SoundTable table;
    bool is_turned = false;
    int64_t sounds = 0, frames = 0, width = 0;
  };
  std::optional<Features> features(uint32_t value) const;

 private:
  // Samples -padding, .. of each frame, and of the next one those from `hop` later on.
  struct Transform {
    std::vector<double> window{};
    int64_t points = 0, hop = 0, padding = 0;
    bool is_reflected = false;
    int64_t frames = 0;  // of a sound
  };
  // What a frame is multiplied with: a part of a bin, or weights of a convolution.
  struct Kernel {
    size_t transform = 0;
    int64_t bin = -1;
    std::vector<double> weights{};
  };
  // Frames one after the other, of which sample the first would be, and which each is.
  struct Frames {
    int64_t size = 0;
    std::vector<double> labels{}, weights{};
    std::vector<int64_t> starts{}, numbers{};

    // Of its sound; -1: it is 0.
    int64_t sample(size_t frame, size_t i, int64_t samples) const {
      const auto label = static_cast<int64_t>(labels[frame * static_cast<size_t>(size) + i]);
      return label == 0 ? -1 : (label - 1) % samples;
    }
  };
  struct Bin {
    int64_t number = 0;
    size_t transform = 0;
  };
  using Pair = std::pair<size_t, size_t>;  // of kernels
  using Values = std::vector<SoundValue>;
  using Follow = Values (SoundChain::*)(const Call& node);
  static Follow rule_of(const Call& node);

  void step(const Call& node);
  const SoundValue* chain(const Call& node, std::string_view name) const;
  const SoundValue& operand(const Call& node, std::string_view name = "self") const;
  Argument constant(uint32_t value);
  bool is_learned(const Argument& argument) const;
  Call bound(const Call& node, const Array& labels);
  std::optional<double> number(const Call& node, std::string_view name, size_t rank_max);
  Array array(const Call& node, std::string_view name);

  Values moved(const Call& node);
  Values padded(const Call& node);
  Values times(const Call& node);
  Values plus(const Call& node);
  Values power(const Call& node);
  Values root(const Call& node);
  Values absolute(const Call& node);
  Values part(const Call& node);
  Values sum(const Call& node);
  Values logarithm(const Call& node);
  Values larger(const Call& node);
  Values peak(const Call& node);
  Values product(const Call& node);
  Values transform(const Call& node);
  Values transform_of_frames(const Call& node);
  Values convolution(const Call& node);

  Values windowed(const Call& node, const SoundValue& from, const Array& by);
  Values ranged(const Call& node, const SoundValue& from, const SoundValue& peak);
  Values squares_added(const Call& node, const SoundValue& a, const SoundValue& b);
  void pair_kernels(const Call& node, const std::set<Pair>& pairs);
  Frames cut(const Call& node, const SoundValue& from, int64_t size, int64_t hop,
             const std::vector<double>& window) const;
  Transform framing_of(const Call& node, Frames& frames) const;
  void take_window(const Call& node, const Frames& frames, Transform& made) const;
  size_t add_transform(const Call& node, Frames& frames, int64_t points);
  size_t add_bins(const Call& node, size_t transform);
  std::optional<Features> layout_of(const SoundValue& of) const;

  const ExportedProgram& program_;
  int64_t sounds_ = 1, samples_ = 0;
  OpBudget budget_;
  std::map<uint32_t, SoundValue> values_;
  std::map<uint32_t, Argument> constants_;
  std::map<uint32_t, const Call*> makers_;
  std::map<const Call*, std::string> why_not_;
  std::string refusal_;
  std::vector<Transform> transforms_;
  std::vector<Kernel> kernels_;
  std::map<Pair, Bin> bins_;
};

}  // namespace arenite::convert
