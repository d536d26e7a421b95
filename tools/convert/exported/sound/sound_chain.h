// SPDX-License-Identifier: Apache-2.0
// Recovers a sound front end from an exported program. Elements computed from samples carry labels
// of their origin, so a windowed Fourier transform is recognized by its data flow, however it is
// written. Each op maps labels to labels, or ends the chain with a reason.
//
//   |stft(x, 400, hop 160)|^2 @ mel -> clamp -> log10
//   ->  window 400, hop 160, 80 bands, floor 1e-10, logarithms
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

// Stages of a front end, in processing order.
enum class SoundStage {
  kSamples,       // samples or zeros of padding; may be framed and windowed
  kComplex,       // Fourier transform
  kParts,         // its real and imaginary parts
  kSquares,       // squares of parts
  kSpectrum,      // powers or magnitudes
  kBands,         // weighted sums of the spectrum
  kLogarithms,    // of bands
  kPeak,          // largest logarithm of a sound, minus `range`
  kCoefficients,  // cosine transform of logarithms
};

struct SoundValue {
  SoundStage stage = SoundStage::kSamples;
  // For kSamples: 1 + the sample's index, or 0 for padding. From kComplex on: the frame and the
  // kernel, bin, band or coefficient (sound_labels.h). For kPeak: 1 + the sound's index.
  Array labels{};
  std::optional<Array> weights{};  // window of samples
  double scale = 1.0;              // factor of samples, parts, powers or magnitudes
  size_t transform = 0;
  bool is_magnitude = false;
  std::shared_ptr<const SoundMatrix> bands{};  // null: the bins
  std::shared_ptr<const SoundMatrix> cosines{};
  double floor = 0.0, added = 0.0;    // minimum and addend of bands
  double factor = 0.0, offset = 0.0;  // of natural logarithms; factor 0: none
  double range = 0.0;                 // logarithms are at least peak - range
  size_t elements = 0;                // that the peak is taken over
};

class SoundChain {
 public:
  // Labels the values of all nodes for an input [.., samples].
  SoundChain(const ExportedProgram& program, uint32_t input, const Shape& shape);

  // Returns the state of a value; null if it is not part of the chain.
  const SoundValue* find(uint32_t value) const;
  // Returns why a node that reads the chain ends it; empty for other nodes.
  std::string why_not(const Call& node) const;

  // Returns why the runtime cannot compute these features at all; empty if no reason was found.
  const std::string& refusal() const { return refusal_; }

  // Returns the front end that computes `value`; nullopt if frames or features are missing, or if
  // the runtime has no such front end. The layout is [sounds, features, frames] if `is_turned`,
  // else [sounds, frames, features].
  struct Features {
    SoundTable table;
    bool is_turned = false;
    int64_t sounds = 0, frames = 0, width = 0;
  };
  std::optional<Features> features(uint32_t value) const;

 private:
  // A transform of frames: frame i begins at sample i * hop - padding.
  struct Transform {
    std::vector<double> window{};
    int64_t points = 0, hop = 0, padding = 0;
    bool is_reflected = false;
    int64_t frames = 0;  // of one sound
  };
  // The factors applied to a frame: one part of a bin or, with bin -1, a row of a convolution's
  // weights.
  struct Kernel {
    size_t transform = 0;
    int64_t bin = -1;
    std::vector<double> weights{};
  };
  // Frames [count, size] of labels and weights, with the first sample and the number of each frame.
  struct Frames {
    int64_t size = 0;
    std::vector<double> labels{}, weights{};
    std::vector<int64_t> starts{}, numbers{};

    // Returns a sample's index in its sound; -1 for padding.
    int64_t sample(size_t frame, size_t i, int64_t samples) const {
      const auto label = static_cast<int64_t>(labels[frame * static_cast<size_t>(size) + i]);
      return label == 0 ? -1 : (label - 1) % samples;
    }
  };
  struct Bin {
    int64_t number = 0;
    size_t transform = 0;
  };
  using Pair = std::pair<size_t, size_t>;  // kernels of the real and the imaginary part
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
  Values add_squares(const Call& node, const SoundValue& a, const SoundValue& b);
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
