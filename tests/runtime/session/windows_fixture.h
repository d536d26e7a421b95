// SPDX-License-Identifier: Apache-2.0
// Small models with convolutions along features and over images, with the largest windows.
#ifndef ARENITE_TESTS_RUNTIME_WINDOWS_FIXTURE_H_
#define ARENITE_TESTS_RUNTIME_WINDOWS_FIXTURE_H_

#include <string>
#include <vector>

#include "convert/graph/graph.h"
#include "runtime/session/rows_fixture.h"

namespace arenite::test {

struct Stem {
  bool causal = false;
  bool pools = false;
  TensorType type = TensorType::kF32;
};

inline convert::ValueId add_convolution(convert::Graph& graph, const std::string& name,
                                        const Windows& windowed, const Stem& stem,
                                        convert::ValueId x) {
  const convert::ValueId windows = graph.add_windows(name + ".windows", windowed, x);
  const std::vector<double> bias(kWidth, 0.25);
  const convert::ValueId made =
      graph.add_linear(name, {weight(name, kWidth, graph.width(windows)), bias}, windows);
  graph.as<convert::LinearNode>(made)->parts[0].storage.type = stem.type;
  return made;
}

// Builds two convolutions, a depthwise convolution and attention. The second convolution halves the
// rows unless it is causal.
inline convert::Graph stem_graph(const Stem& stem) {
  convert::Graph graph;
  graph.architecture = "stem";
  graph.inputs[0].positions_max = kPositions;
  graph.inputs[0].tokens_min = stem.causal ? 0 : 3;
  convert::ValueId x = graph.add_features(kFeatures);
  const auto of_rows = [](const WindowAxis& window) { return Windows{window, {}, 1}; };
  x = add_convolution(graph, "first",
                      of_rows(stem.causal ? WindowAxis{3, 1, 1, 2, 0} : WindowAxis{3}), stem, x);
  x = graph.add("relu", convert::ActivationNode{Activation::kRelu}, {x});
  x = add_convolution(graph, "second",
                      of_rows(stem.causal ? WindowAxis{2, 1, 3, 3, 0} : WindowAxis{3, 2, 1, 1, 1}),
                      stem, x);
  const WindowAxis taps = stem.causal ? WindowAxis{4, 1, 2, 6, 0} : WindowAxis{4, 1, 2, 3, 3};
  const convert::DepthwiseNode depthwise = {of_rows(taps), weight("taps", 4, kWidth),
                                            std::vector<double>(kWidth, -0.125)};
  x = graph.add("sum", convert::AddNode{}, {x, graph.add_depthwise("taps", depthwise, x)});
  convert::AttentionNode attention;
  attention.heads = attention.kv_heads = 2;
  attention.head_dim = attention.value_dim = 3;
  attention.mask = graph.add_band(kUnlimited, stem.causal ? 0 : kUnlimited);
  const convert::ValueId attended = graph.add_attention("attention", attention, {x, x, x});
  x = graph.add("residual", convert::AddNode{}, {x, attended});
  if (stem.causal) x = graph.add_select("rows", SelectKind::kAsAsked, x);
  if (stem.pools) x = graph.add_select("rows", SelectKind::kMean, x);
  graph.output = graph.add_linear("head", {weight("head", 4, kWidth), {}}, x);
  return graph;
}

inline constexpr Stem kCausalStem = {true};
inline constexpr Stem kWholeStem = {false};
inline constexpr Stem kPooledStem = {false, true};

inline constexpr uint32_t kStemLines = 7, kStemColumns = 6, kStemPixels = kStemLines * kStemColumns;

// Images: windows that overlap, of another stride in lines than in columns; one on the rows that
// there are, whose columns are apart, and one of each channel; patches, attention, and the mean.
inline convert::Graph image_graph(const Stem& stem) {
  convert::Graph graph;
  graph.architecture = "image";
  graph.inputs[0].positions_max = graph.inputs[0].tokens_min = graph.axes[0].rows = kStemPixels;
  graph.axes[0].other = kStemColumns;
  convert::ValueId x = graph.add_features(kFeatures);
  const auto seen = [&](const WindowAxis& lines, const WindowAxis& columns) {
    return Windows{lines, columns, graph.axes[graph.axis(x)].other};
  };
  x = add_convolution(graph, "same", seen({3, 1, 1, 1, 1}, {2, 1, 2, 1, 1}), stem, x);
  x = add_convolution(graph, "first", seen({3, 2, 1, 1, 0}, {4, 1, 1, 0, 2}), stem, x);
  const convert::DepthwiseNode depthwise = {
      seen({3, 1, 1, 1, 1}, {3, 1, 1, 1, 1}), weight("taps", 9, kWidth), {}};
  x = graph.add("sum", convert::AddNode{}, {x, graph.add_depthwise("taps", depthwise, x)});
  const convert::ValueId largest =
      graph.add_max_pool("largest", seen({2, 1, 1, 0, 1}, {3, 1, 1, 1, 1}), x);
  x = graph.add("more", convert::AddNode{}, {x, largest});
  x = add_convolution(graph, "patches", seen({2, 1, 1, 0, 0}, {2, 2, 1, 0, 0}), stem, x);
  convert::AttentionNode attention;
  attention.heads = attention.kv_heads = 2;
  attention.head_dim = attention.value_dim = 3;
  attention.mask = graph.add_band(kUnlimited, kUnlimited);
  const convert::ValueId attended = graph.add_attention("attention", attention, {x, x, x});
  x = graph.add("residual", convert::AddNode{}, {x, attended});
  x = graph.add_select("rows", SelectKind::kMean, x);
  graph.output = graph.add_linear("head", {weight("head", 4, kWidth), {}}, x);
  return graph;
}

}  // namespace arenite::test

#endif  // ARENITE_TESTS_RUNTIME_WINDOWS_FIXTURE_H_
