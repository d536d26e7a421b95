// SPDX-License-Identifier: Apache-2.0
// Oracles of convolutions, which gather the windows first, as rows of doubles.
#include "reference/reference.h"

namespace arenite::test {
namespace {

// Returns where each window begins, on an axis with its padding.
std::vector<int64_t> window_begins(const AxisOfReference& axis) {
  std::vector<int64_t> begins;
  const int64_t last = axis.length + axis.after - 1;
  for (int64_t begin = -axis.before; begin + (axis.kernel - 1) * axis.dilation <= last;
       begin += axis.stride) {
    begins.push_back(begin);
  }
  return begins;
}

}  // namespace

std::vector<double> reference_windows(const WindowsOfReference& windows,
                                      std::span<const float> input, uint32_t channels) {
  const auto& [lines, columns] = windows;
  std::vector<double> gathered;
  for (const int64_t top : window_begins(lines)) {
    for (const int64_t left : window_begins(columns)) {
      for (int64_t y = top; y < top + lines.kernel * lines.dilation; y += lines.dilation) {
        for (int64_t x = left; x < left + columns.kernel * columns.dilation;
             x += columns.dilation) {
          const bool inside = y >= 0 && y < lines.length && x >= 0 && x < columns.length;
          for (uint32_t c = 0; c < channels; ++c) {
            const int64_t row = y * columns.length + x;
            gathered.push_back(inside ? input[static_cast<size_t>(row * channels + c)] : 0.0);
          }
        }
      }
    }
  }
  return gathered;
}

std::vector<double> reference_convolution(const WindowsOfReference& windows,
                                          std::span<const float> input, uint32_t channels,
                                          std::span<const float> weights,
                                          std::span<const float> bias) {
  const std::vector<double> gathered = reference_windows(windows, input, channels);
  const size_t inputs = weights.size() / bias.size();
  std::vector<double> output;
  for (size_t w = 0; w < gathered.size() / inputs; ++w) {
    for (size_t n = 0; n < bias.size(); ++n) {
      double sum = bias[n];
      for (size_t k = 0; k < inputs; ++k) {
        sum += gathered[w * inputs + k] * weights[n * inputs + k];
      }
      output.push_back(sum);
    }
  }
  return output;
}

std::vector<double> reference_depthwise(const WindowsOfReference& windows,
                                        std::span<const float> input,
                                        std::span<const float> weights,
                                        std::span<const float> bias) {
  const size_t channels = bias.size();
  const std::vector<double> gathered =
      reference_windows(windows, input, static_cast<uint32_t>(channels));
  std::vector<double> output;
  for (size_t w = 0; w < gathered.size() / weights.size(); ++w) {
    for (size_t c = 0; c < channels; ++c) {
      double sum = bias[c];
      for (size_t k = c; k < weights.size(); k += channels) {
        sum += gathered[w * weights.size() + k] * weights[k];
      }
      output.push_back(sum);
    }
  }
  return output;
}

}  // namespace arenite::test
