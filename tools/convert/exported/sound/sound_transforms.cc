// SPDX-License-Identifier: Apache-2.0
// Frames of samples and their Fourier transforms, written as ops or as convolutions, and the front
// end that computes the features.
#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <numbers>

#include "convert/exported/sound/sound_chain.h"
#include "convert/exported/sound/sound_labels.h"

namespace arenite::convert {
namespace {

constexpr double kTwoPi = 2.0 * std::numbers::pi;
// Relative to the largest weight: float32 rounding with a small margin.
constexpr double kKernelErrorMax = 2e-6;

// Returns the bin k for which real + i imaginary = w[n] e^(i (2 pi k n / N + phase)).
int64_t bin_of(const Call& node, const std::vector<double>& window, const std::vector<double>& real,
               const std::vector<double>& imaginary) {
  const size_t count = window.size();
  const auto z = [&](size_t n) { return std::complex(real[n], imaginary[n]); };
  size_t largest = 0;
  for (size_t n = 0; n + 1 < count; ++n) {
    const auto at = [&](size_t i) { return window[i] * window[i + 1]; };
    if (at(n) > at(largest)) largest = n;
  }
  const double turn = std::arg(z(largest + 1) * std::conj(z(largest)));
  const double bin = std::round(turn * static_cast<double>(count) / kTwoPi);
  const auto angle = [&](size_t n) {
    return kTwoPi * std::fmod(bin * static_cast<double>(n), static_cast<double>(count)) /
           static_cast<double>(count);
  };
  const double phase = std::arg(z(largest)) - angle(largest);
  double error = 0.0;
  for (size_t n = 0; n < count; ++n) {
    error = std::max(error, std::abs(z(n) - std::polar(window[n], angle(n) + phase)));
  }
  error /= window[largest];
  if (!(error <= kKernelErrorMax)) {
    node.refuse(
        "weights of bin {} are up to {:.1e} from a windowed cosine and sine, where rounding "
        "explains {:.0e}: compute them in double precision",
        std::abs(bin), error, kKernelErrorMax);
  }
  return static_cast<int64_t>(std::abs(bin));
}

}  // namespace

// Cuts each row into frames of `size` labels, `hop` apart.
SoundChain::Frames SoundChain::cut(const Call& node, const SoundValue& from, int64_t size,
                                   int64_t hop, const std::vector<double>& window) const {
  const int64_t count = from.labels.shape().back();
  if (size < 2 || hop < 1 || count < size)
    node.refuse("frames are longer than the samples: export the model for a longer sound");
  const int64_t frames = (count - size) / hop + 1;
  const auto rows = static_cast<int64_t>(from.labels.elements()) / count;
  Frames made = {.size = size};
  elements_of({rows, frames, size});  // refuses too many
  const Array::Reals& labels = from.labels.reals();
  for (int64_t row = 0; row < rows * frames; ++row) {
    const int64_t first = row / frames * count + row % frames * hop;
    for (int64_t i = 0; i < size; ++i) {
      const auto at = static_cast<size_t>(first + i);
      made.labels.push_back(labels[at]);
      const double weight = from.weights ? from.weights->reals()[at] : 1.0;
      made.weights.push_back(window.empty() ? weight : weight * window[static_cast<size_t>(i)]);
    }
  }
  return made;
}

// Finds the sample at which each frame begins, and numbers the frames of all sounds. The window
// ends at the last element that holds samples.
SoundChain::Transform SoundChain::framing_of(const Call& node, Frames& frames) const {
  const auto size = static_cast<size_t>(frames.size);
  const size_t count = frames.labels.size() / size;
  // Two consecutive samples determine where the frame begins.
  std::vector<int64_t> sounds(count);
  std::set<int64_t> all;
  frames.starts.assign(count, 0);
  for (size_t frame = 0; frame < count; ++frame) {
    size_t i = 0;
    const auto follows = [&] {
      const int64_t index = frames.sample(frame, i, samples_);
      return index >= 0 && frames.sample(frame, i + 1, samples_) == index + 1;
    };
    while (i + 1 < size && !follows()) ++i;
    if (i + 1 >= size) node.refuse("its frames are not cut out of consecutive samples");
    frames.starts[frame] = frames.sample(frame, i, samples_) - static_cast<int64_t>(i);
    sounds[frame] = (static_cast<int64_t>(frames.labels[frame * size + i]) - 1) / samples_;
    all.insert(frames.starts[frame]);
  }
  if (all.size() < 2) node.refuse("found one frame: export the model for a longer sound");
  Transform made;
  made.padding = -*all.begin();
  made.hop = *std::next(all.begin()) - *all.begin();
  made.frames = std::ssize(all);
  size_t last = 0;
  for (size_t i = 0; i < frames.labels.size(); ++i) {
    if (frames.labels[i] == 0.0) continue;
    const int64_t at = frames.starts[i / size] + static_cast<int64_t>(i % size);
    made.is_reflected = made.is_reflected || at < 0 || at >= samples_;
    last = std::max(last, i % size);
  }
  made.window.assign(last + 1, 0.0);
  for (size_t frame = 0; frame < count; ++frame) {
    frames.numbers.push_back(sounds[frame] * made.frames +
                             (frames.starts[frame] + made.padding) / made.hop);
  }
  return made;
}

// Takes the window from the frames. Refuses frames whose samples do not match hop and padding, and
// frames with different windows.
void SoundChain::take_window(const Call& node, const Frames& frames, Transform& made) const {
  const auto size = static_cast<size_t>(frames.size);
  std::vector<bool> is_known(made.window.size(), false);
  for (size_t i = 0; i < frames.labels.size(); ++i) {
    const size_t frame = i / size, place = i % size;
    const int64_t at = frames.starts[frame] + static_cast<int64_t>(place);
    int64_t expected = at >= 0 && at < samples_ ? at : -1;
    if (expected < 0 && made.is_reflected) expected = at < 0 ? -at : 2 * (samples_ - 1) - at;
    if (place >= made.window.size()) expected = -1;
    const int64_t number = frames.numbers[frame];
    const auto label = static_cast<int64_t>(frames.labels[i]);
    const bool fits = frames.sample(frame, place, samples_) == expected &&
                      frames.starts[frame] == number % made.frames * made.hop - made.padding &&
                      (label == 0 || (label - 1) / samples_ == number / made.frames);
    if (!fits) node.refuse("its frames are not at one constant hop");
    if (label == 0) continue;
    if (is_known[place] && made.window[place] != frames.weights[i]) {
      node.refuse("its frames have different windows: expected one window");
    }
    is_known[place] = true;
    made.window[place] = frames.weights[i];
  }
}

size_t SoundChain::add_transform(const Call& node, Frames& frames, int64_t points) {
  Transform made = framing_of(node, frames);
  take_window(node, frames, made);
  const int64_t window = std::ssize(made.window);
  if (made.padding != 0 && made.padding != window / 2) {
    node.refuse(
        "found {} samples of padding before a sound, with frames of {}: expected none, or half a "
        "frame",
        made.padding, window);
  }
  const bool fits = points <= int64_t{kPointsMax} && points >= window &&
                    has_transform(static_cast<uint32_t>(points)) && made.hop <= int64_t{kHopMax};
  if (!fits) {
    node.refuse(
        "found a transform of {} points, at a hop of {} samples: expected {} to {} points, twice a "
        "product of 2, 3, 5 and 7",
        points, made.hop, kPointsMin, kPointsMax);
  }
  made.points = points;
  SoundNumbers numbers;
  numbers.window = static_cast<uint32_t>(window);
  numbers.hop = static_cast<uint32_t>(made.hop);
  numbers.flags = (made.padding != 0 ? uint32_t{kCentred} : 0u) |
                  (made.is_reflected ? uint32_t{kReflected} : 0u);
  const auto expected = static_cast<int64_t>(numbers.frames(static_cast<uint64_t>(samples_)));
  if (made.frames != expected) {
    node.refuse("a sound of {} samples has {} frames: expected {}, with equal padding at both ends",
                samples_, made.frames, expected);
  }
  transforms_.push_back(std::move(made));
  return transforms_.size() - 1;
}

// Adds two kernels for each bin, and returns the first.
size_t SoundChain::add_bins(const Call& node, size_t transform) {
  const int64_t bins = transforms_[transform].points / 2 + 1;
  if (kernels_.size() + static_cast<size_t>(2 * bins) >= size_t{1} << kPlaceBits) {
    node.refuse("found too many transforms");
  }
  for (int64_t i = 0; i < 2 * bins; ++i) kernels_.push_back({transform, i / 2});
  return kernels_.size() - static_cast<size_t>(2 * bins);
}

SoundChain::Values SoundChain::transform(const Call& node) {
  const SoundValue& from = operand(node);
  const Call call = bound(node, from.labels);
  const int64_t points = call.integer("n_fft");
  const int64_t size = call.integer("win_length", points);
  const bool is_centred =
      call.flag("center", call.overload == "center" || node.overload == "center");
  if (from.stage != SoundStage::kSamples || is_centred || !call.flag("onesided", true) ||
      points < 2 || size < 1 || size > points || points > int64_t{kPointsMax}) {
    node.refuse(
        "this transform is not supported: expected torch.stft, onesided, with win_length up to "
        "n_fft");
  }
  std::vector<double> window(static_cast<size_t>(points), 0.0);
  const Array::Reals given = call.has("window") ? call.array("window").to_reals()
                                                : Array::Reals(static_cast<size_t>(size), 1.0);
  if (std::ssize(given) != size) node.refuse("the length of the window is not win_length");
  std::ranges::copy(given, window.begin() + static_cast<std::ptrdiff_t>((points - size) / 2));
  Frames frames = cut(node, from, points, call.integer("hop_length", points / 4), window);
  budget_.take_elements(frames.labels.size());
  SoundValue made = from;
  made.transform = add_transform(node, frames, points);
  if (call.flag("normalized", false)) made.scale /= std::sqrt(static_cast<double>(points));
  const auto first = static_cast<int64_t>(add_bins(node, made.transform));
  const int64_t bins = points / 2 + 1, of_row = transforms_[made.transform].frames;
  Array::Reals labels;
  for (int64_t row = 0; row < std::ssize(frames.numbers) / of_row; ++row) {
    for (int64_t i = 0; i < bins * of_row; ++i) {
      const auto frame = static_cast<size_t>(row * of_row + i % of_row);
      labels.push_back(label_of(frames.numbers[frame], first + 2 * (i / of_row)));
    }
  }
  Shape shape = from.labels.shape();
  shape.back() = bins;
  shape.push_back(of_row);
  made.stage = SoundStage::kComplex;
  made.weights.reset();
  made.labels = Array::real(shape, std::move(labels), ElementType::kF64);
  values_[node.outputs[0]] = made;
  if (!call.has("return_complex") || call.flag("return_complex", true)) return {made};
  return part({.op = "view_as_real", .arguments = {{"self", ValueRef{node.outputs[0]}}}});
}

// Handles a transform of the last axis, whose rows are frames.
SoundChain::Values SoundChain::transform_of_frames(const Call& node) {
  const SoundValue& from = operand(node);
  const Call call = bound(node, from.labels);
  Shape shape = from.labels.shape();
  const bool is_inner = call.op == "_fft_r2c";
  const std::vector<int64_t> dims =
      call.has("dim") ? call.integers("dim") : std::vector<int64_t>{-1};
  const bool is_last =
      dims.size() == 1 && call.dimension(dims[0], shape.size()) + 1 == shape.size();
  const std::string norm = is_inner ? "" : call.text("norm", "");
  const int64_t mode = is_inner ? call.integer("normalization") : 0;  // 1: divided by sqrt(points)
  const int64_t points = is_inner ? shape.back() : call.integer("n", shape.back());
  if (from.stage != SoundStage::kSamples || !is_last || points < shape.back() || mode > 1 ||
      !is_one_of(norm, {"", "backward", "ortho"}) || !call.flag("onesided", true)) {
    node.refuse(
        "this transform is not supported: expected the last dimension, onesided, with "
        "norm='backward' or 'ortho'");
  }
  Frames frames = cut(node, from, shape.back(), shape.back(), {});
  budget_.take_elements(frames.labels.size());
  SoundValue made = from;
  made.transform = add_transform(node, frames, points);
  if (mode == 1 || norm == "ortho") made.scale /= std::sqrt(static_cast<double>(points));
  const auto first = static_cast<int64_t>(add_bins(node, made.transform));
  shape.back() = points / 2 + 1;
  Array::Reals labels;
  for (const int64_t frame : frames.numbers) {
    for (int64_t bin = 0; bin < shape.back(); ++bin) {
      labels.push_back(label_of(frame, first + 2 * bin));
    }
  }
  made.stage = SoundStage::kComplex;
  made.weights.reset();
  made.labels = Array::real(shape, std::move(labels), ElementType::kF64);
  return {made};
}

// Handles a convolution as frames times kernels. The weights are checked when squares are added.
SoundChain::Values SoundChain::convolution(const Call& node) {
  const SoundValue& from = operand(node, "input");
  const Call call = bound(node, from.labels);
  const Array& weight = call.array("weight");
  const Shape& shape = from.labels.shape();
  const auto all_are = [&](const char* name, int64_t expected) {
    return !call.has(name) || call.integers(name) == std::vector<int64_t>{expected};
  };
  const bool has_bias = call.has("bias") && std::ranges::any_of(call.array("bias").to_reals(),
                                                                [](double b) { return b != 0.0; });
  const bool fits = from.stage == SoundStage::kSamples && !from.weights && shape.size() == 3 &&
                    shape[1] == 1 && weight.rank() == 3 && weight.shape()[1] == 1 &&
                    is_real(weight.type()) && !has_bias && !call.flag("transposed", false) &&
                    call.integer("groups", 1) == 1 && all_are("dilation", 1) &&
                    (call.op == "conv1d" || all_are("output_padding", 0));
  if (!fits)
    node.refuse(
        "this convolution is not supported on samples: expected cosines and sines only, without "
        "bias, groups or dilation");
  const int64_t rows = weight.shape()[0], size = weight.shape()[2];
  const auto one_of = [&](const char* name, int64_t otherwise) {
    const std::vector<int64_t> given =
        call.has(name) ? call.integers(name) : std::vector<int64_t>{otherwise};
    if (given.size() != 1)
      node.refuse("argument '{}' has {} values: expected one", name, given.size());
    return given[0];
  };
  const int64_t zeros = one_of("padding", 0), hop = one_of("stride", 1);
  SoundValue around = from;
  around.labels =
      apply_for_array({.op = "constant_pad_nd",
                       .arguments = {{"self", from.labels}, {"pad", Argument::List{zeros, zeros}}}},
                      budget_);
  Frames frames = cut(node, around, size, hop, {});
  budget_.take_elements(frames.labels.size());
  SoundValue made = from;
  made.transform = add_transform(node, frames, size);
  const size_t first = kernels_.size();
  if (first + static_cast<size_t>(rows) >= size_t{1} << kPlaceBits) {
    node.refuse("found too many transforms");
  }
  const Array::Reals weights = weight.to_reals();
  for (int64_t row = 0; row < rows; ++row) {
    const double* const begin = weights.data() + row * size;
    kernels_.push_back({made.transform, -1, {begin, begin + size}});
  }
  const int64_t of_row = transforms_[made.transform].frames;
  if (std::ssize(frames.numbers) != shape[0] * of_row ||
      std::ssize(transforms_[made.transform].window) != size) {
    node.refuse("its frames are not consecutive");
  }
  Array::Reals labels;
  for (int64_t i = 0; i < shape[0] * rows * of_row; ++i) {
    const int64_t frame = i / (rows * of_row) * of_row + i % of_row;
    labels.push_back(label_of(frames.numbers[static_cast<size_t>(frame)],
                              static_cast<int64_t>(first) + i / of_row % rows));
  }
  made.stage = SoundStage::kParts;
  made.labels = Array::real({shape[0], rows, of_row}, std::move(labels), ElementType::kF64);
  return {made};
}

// Matches pairs of kernels with the bins of one transform. A convolution's window is the root mean
// square of its kernels over the bins.
void SoundChain::pair_kernels(const Call& node, const std::set<Pair>& pairs) {
  const auto& [first, second] = *pairs.begin();
  const Transform of = transforms_[kernels_.at(first).transform];
  const Transform& other = transforms_[kernels_.at(second).transform];
  const bool is_same = of.points == other.points && of.hop == other.hop &&
                       of.padding == other.padding && of.is_reflected == other.is_reflected &&
                       of.frames == other.frames;
  const bool is_exact = kernels_[first].bin >= 0;
  if (!is_same || (is_exact && kernels_[first].transform != kernels_[second].transform)) {
    node.refuse("squares of different transforms are added: expected one transform");
  }
  std::vector<double> window(is_exact ? 0 : of.window.size(), 0.0);
  for (const auto& [a, b] : pairs) {
    const Kernel &real = kernels_[a], &imaginary = kernels_[b];
    const bool fits = a != b && real.transform == kernels_[first].transform &&
                      imaginary.transform == kernels_[second].transform &&
                      real.bin == imaginary.bin && (real.bin >= 0) == is_exact;
    if (!fits)
      node.refuse(
          "squares are added that are not of one bin: expected its real and imaginary parts");
    for (size_t i = 0; i < window.size(); ++i) {
      window[i] += std::norm(std::complex(real.weights.at(i), imaginary.weights.at(i))) /
                   static_cast<double>(pairs.size());
    }
  }
  size_t transform = kernels_[first].transform;
  if (!is_exact) {
    for (double& weight : window) weight = std::sqrt(weight);
    transform = transforms_.size();
    transforms_.push_back(of);
    transforms_.back().window = window;
  }
  for (const auto& [a, b] : pairs) {
    const int64_t bin =
        is_exact ? kernels_[a].bin : bin_of(node, window, kernels_[a].weights, kernels_[b].weights);
    bins_[{a, b}] = {bin, transform};
  }
}

// Returns the layout of a value that has all features of all frames, possibly without the last
// frame; nullopt for other values.
std::optional<SoundChain::Features> SoundChain::layout_of(const SoundValue& of) const {
  const Array::Reals& labels = of.labels.reals();
  const int64_t count = std::ssize(labels);
  int64_t width = 0;
  for (const double label : labels) width = std::max(width, place_of(label) + 1);
  Features made;
  made.sounds = sounds_;
  made.width = width;
  made.frames = count / (width * sounds_);
  made.is_turned = count > 1 && width > 1 && place_of(labels[1]) == 0;
  const int64_t frames = transforms_[of.transform].frames;
  const bool is_whole = made.sounds * made.frames * width == count &&
                        (made.frames == frames || made.frames == frames - 1) && made.frames > 0;
  if (!is_whole) return std::nullopt;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t place = made.is_turned ? i / made.frames % width : i % width;
    const int64_t sound = i / (made.frames * width);
    const int64_t frame = made.is_turned ? i % made.frames : i / width % made.frames;
    if (labels[static_cast<size_t>(i)] != label_of(sound * frames + frame, place)) {
      return std::nullopt;
    }
  }
  return made;
}

std::optional<SoundChain::Features> SoundChain::features(uint32_t value) const {
  const SoundValue* const of = find(value);
  const bool is_made = of != nullptr && of->stage >= SoundStage::kSpectrum &&
                       of->stage != SoundStage::kPeak && of->labels.elements() != 0;
  auto made = is_made ? layout_of(*of) : std::nullopt;
  if (!made) return std::nullopt;
  const Transform& transform = transforms_[of->transform];
  std::vector<double> window = transform.window;
  int64_t padding = transform.padding;
  // Zeros at both ends of a centred window can be dropped.
  const auto is_some = [](double weight) { return weight != 0.0; };
  const auto zeros =
      std::min(std::ranges::find_if(window, is_some) - window.begin(),
               std::find_if(window.rbegin(), window.rend(), is_some) - window.rbegin());
  if (padding != 0 && window.size() % 2 == 0 && 2 * zeros + 2 <= std::ssize(window)) {
    window = {window.begin() + zeros, window.end() - zeros};
    padding -= zeros;
  }
  SoundNumbers numbers;
  numbers.window = static_cast<uint32_t>(window.size());
  numbers.hop = static_cast<uint32_t>(transform.hop);
  numbers.points = static_cast<uint32_t>(transform.points);
  const size_t bins = numbers.bins();
  SoundMatrix bands;
  if (of->bands) {
    bands = *of->bands;
  } else {
    const size_t count = of->cosines ? of->cosines->columns : static_cast<size_t>(made->width);
    if (count > bins) return std::nullopt;
    bands = {count, bins, std::vector<double>(count * bins, 0.0)};
    for (size_t i = 0; i < count; ++i) bands.values[i * bins + i] = 1.0;
  }
  for (double& weight : bands.values) weight *= of->scale;
  numbers.bands = static_cast<uint32_t>(bands.rows);
  numbers.coefficients = of->cosines ? static_cast<uint32_t>(of->cosines->rows) : 0;
  const bool drops_last = made->frames != transform.frames;
  const std::pair<SoundFlags, bool> flags[] = {
      {kCentred, padding != 0},       {kReflected, transform.is_reflected},
      {kMagnitude, of->is_magnitude}, {kAddsFloor, of->added != 0.0},
      {kDropsLast, drops_last},       {kIsLinear, of->factor == 0.0}};
  for (const auto& [flag, is_set] : flags) numbers.flags |= is_set ? flag : 0u;
  numbers.floor = static_cast<float>(of->added != 0.0 ? of->added : of->floor);
  numbers.factor = of->factor == 0.0 ? 1.0f : static_cast<float>(of->factor);
  numbers.offset = static_cast<float>(of->offset);
  numbers.range = static_cast<float>(of->range);
  const int64_t rows = made->sounds * made->frames;
  const bool fits = bands.rows <= bins && numbers.coefficients <= numbers.bands &&
                    int64_t{numbers.features()} == made->width &&
                    (of->factor == 0.0 || numbers.floor > 0.0f) &&
                    (!drops_last || numbers.hop <= numbers.padding()) &&
                    // The peak is taken over the same frames.
                    (of->range == 0.0 || of->elements == static_cast<size_t>(rows) * bands.rows);
  if (!fits) return std::nullopt;
  made->table =
      make_sound_table(numbers, window, bands, of->cosines ? *of->cosines : SoundMatrix{});
  return made;
}

}  // namespace arenite::convert
