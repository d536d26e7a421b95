// SPDX-License-Identifier: Apache-2.0
// Facts about a model's inputs follow from its graph.
#include "convert/exported/model_ends.h"

#include <gtest/gtest.h>

#include <memory>

#include "convert/exported/recover/graph_builder.h"

namespace arenite::convert {
namespace {

// Three rows that are two apart span five tokens.
TEST(TokensOfAWindow, AreThoseThatTheWidestWindowSpans) {
  const auto program = std::make_shared<const ExportedProgram>();
  GraphBuilder builder(program, {TraceSizes{.sequences = 1, .tokens = 9}}, {"x"});
  builder.name = "x";
  const LinearExprRef features = features_input(builder, {1, 9, 4});
  const ValueId rows = builder.producer(features->front()).node;
  EXPECT_EQ(tokens_of_a_window(builder.graph, 0), 1);
  Windows wide;
  wide.lines = {.kernel = 3, .stride = 1, .dilation = 2, .before = 0, .after = 0};
  builder.graph.add_windows("windows", wide, rows);
  EXPECT_EQ(tokens_of_a_window(builder.graph, 0), 5);
  Windows padded = wide;
  padded.lines.before = padded.lines.after = 2;
  GraphBuilder other(program, {TraceSizes{.sequences = 1, .tokens = 9}}, {"x"});
  const LinearExprRef same = features_input(other, {1, 9, 4});
  other.graph.add_windows("windows", padded, other.producer(same->front()).node);
  EXPECT_EQ(tokens_of_a_window(other.graph, 0), 1);
}

}  // namespace
}  // namespace arenite::convert
