// SPDX-License-Identifier: Apache-2.0
// Each pass keeps the results, in double precision and in the runtime, and each can be left out.
// With all passes, programs have the expected form.
#include "convert/passes/passes.h"

#include <gtest/gtest.h>

#include <cmath>

#include "convert/check/check_session.h"
#include "convert/convert.h"
#include "convert/graph/graph.h"
#include "convert/graph/interpreter.h"
#include "convert/program/writer.h"
#include "support/decoder_factory.h"
#include "support/encoder_factory.h"
#include "support/model_factory.h"
#include "support/refusal.h"

namespace arenite::convert {
namespace {

using Names = std::vector<std::string>;

constexpr uint32_t kTokens = 9;
constexpr double kExact = 1e-6;  // a permutation or a factor, in weights that are float32
constexpr double kTolerance = 1e-4;

// A decoder whose rotations turn neighbours, in part of each head.
TransformerSpec turning_neighbours(const test::DecoderShape& shape, uint32_t rotary_dim) {
  TransformerSpec spec = test::make_decoder(shape);
  spec.rope->turns_neighbours = true;
  spec.rope->rotary_dim = rotary_dim;
  spec.rope->inverse_frequencies.resize(rotary_dim / 2);
  return spec;
}

// The queries of each attention op are its keys (input 1) or values (input 2), too.
Graph sharing_queries(Graph graph, size_t input) {
  for (const ValueId value : graph.order()) {
    const auto* attention = graph.as<AttentionNode>(value);
    if (attention == nullptr || attention->heads != attention->kv_heads) continue;
    graph.node(value).inputs[input] = graph.node(value).inputs[0];
  }
  graph.remove_unread();
  return graph;
}

std::vector<Graph> graphs() {
  std::vector<Graph> graphs;
  for (const test::DecoderShape& shape : test::all_decoders()) {
    TransformerSpec spec = test::make_decoder(shape);
    graphs.push_back(build_graph(spec));
    for (const size_t input : {size_t{1}, size_t{2}})
      graphs.push_back(sharing_queries(graphs.back(), input));
    if (!spec.rope) continue;
    spec.rope->turns_neighbours = true;
    graphs.push_back(build_graph(spec));
    graphs.push_back(sharing_queries(graphs.back(), 1));
  }
  for (const test::EncoderShape& shape : test::all_encoders()) {
    graphs.push_back(build_graph(test::make_encoder(shape)));
  }
  for (const test::ModuleSpec& spec : test::all_specs()) {
    graphs.push_back(build_graph(test::make_module(spec)));
  }
  return graphs;
}

struct Input {
  explicit Input(const Graph& graph) {
    if (graph.inputs[0].vocab_size != 0) {
      tokens = spread_tokens(kTokens, graph.inputs[0].vocab_size);
      types = types_to_check(kTokens, graph.inputs[0].token_types);
    } else {
      features = features_to_check(size_t{kTokens} * graph.width(graph.order().front()));
    }
  }
  SequenceInput view() const { return {tokens, types, features}; }

  std::vector<TokenId> tokens;
  std::vector<uint8_t> types;
  std::vector<float> features;
};

double largest_difference(const auto& found, const std::vector<double>& expected) {
  double largest = found.size() == expected.size() ? 0.0 : INFINITY;
  for (size_t i = 0; i < expected.size() && i < found.size(); ++i) {
    const double difference = std::fabs(found[i] - expected[i]);
    if (!(difference <= largest)) largest = difference;
  }
  return largest;
}

std::vector<float> run(const Program& program, const Input& input) {
  const AlignedBytes file = write_model(program, {Target::kPortable});
  CheckSession session(file, Target::kPortable, kTokens, Outputs::kAll);
  return session.run({input.tokens, input.features, kTokens, 1, input.types});
}

TEST(Passes, KeepTheResultsOneByOne) {
  for (const Graph& graph : graphs()) {
    const Input input(graph);
    const Evaluation expected = evaluate(graph, input.view());
    Graph rewritten = graph;
    for (const Pass& pass : all_passes()) {
      pass.run(rewritten);
      const Evaluation found = evaluate(rewritten, input.view());
      EXPECT_LE(largest_difference(found.values, expected.values),
                kExact * std::max(1.0, expected.largest_value))
          << pass.name << "\n"
          << print_graph(rewritten);
      ASSERT_EQ(found.hidden_states.size(), expected.hidden_states.size()) << pass.name;
      for (size_t i = 0; i < found.hidden_states.size(); ++i) {
        EXPECT_LE(largest_difference(found.hidden_states[i], expected.hidden_states[i]), kTolerance)
            << pass.name << " state " << i;
      }
    }
  }
}

TEST(Passes, MayBeLeftOut) {
  for (const Graph& graph : graphs()) {
    const Input input(graph);
    const Evaluation expected = evaluate(graph, input.view());
    std::vector<std::vector<std::string>> without = {{}};
    for (const Pass& pass : all_passes()) {
      without.push_back({pass.name});
      without[0].push_back(pass.name);  // all of them at once
    }
    for (const std::vector<std::string>& names : without) {
      const Program program = compile(graph, "m", names);
      EXPECT_LE(largest_difference(run(program, input), expected.values),
                kTolerance * std::max(1.0, expected.largest_value))
          << names[0] << " of " << names.size() << "\n"
          << print_graph(graph);
    }
  }
}

TEST(Passes, AreKnownByName) {
  const Graph graph = build_graph(test::make_module(test::all_specs()[0]));
  EXPECT_TRUE(testing::refuses([&] { compile(graph, "m", {"fold-all"}); },
                               {"'fold-all'", "fold-scales", "share-caches"}));
}

size_t ops_of(const Program& program, format::OpKind kind) {
  return static_cast<size_t>(std::ranges::count_if(
      program.ops, [&](const ProgramOp& op) { return op.body.kind == kind; }));
}

TEST(Passes, ReduceTheOpsOfPrograms) {
  for (const bool head_norms : {false, true}) {
    test::DecoderShape shape;
    shape.head_norms = head_norms;
    TransformerSpec spec = turning_neighbours(shape, 4);
    spec.score_scale = 0.3;
    const size_t layers = spec.layers.size();
    const Program program = compile(build_graph(spec), "m");
    const Program plain = compile(build_graph(spec), "m", {"join-projections"});
    EXPECT_EQ(ops_of(program, format::OpKind::kLinear), 4 * layers + 1) << head_norms;
    EXPECT_EQ(ops_of(plain, format::OpKind::kLinear), 7 * layers + 1) << head_norms;
    EXPECT_EQ(ops_of(program, format::OpKind::kRope), layers) << head_norms;
    EXPECT_EQ(ops_of(program, format::OpKind::kActivation), layers) << head_norms;
    EXPECT_GT(ops_of(compile(build_graph(spec), "m", {"fold-scales"}), format::OpKind::kActivation),
              layers);
  }
}

// In exported programs the queries may come from another module than the keys, with a shorter name.
TEST(Passes, JoinLayersOfModulesWithOtherNames) {
  Graph graph = build_graph(test::make_decoder(test::decoder_named("gpt2")));
  std::vector<ValueId> joined;
  for (const ValueId value : graph.order()) {
    const auto* attention = graph.as<AttentionNode>(value);
    if (attention != nullptr && joined.empty()) joined = graph.node(value).inputs;
  }
  ASSERT_EQ(joined.size(), 3u);
  graph.node(joined[0]).name = "a.module.of.its.own.query";
  graph.node(joined[1]).name = "key";
  graph.node(joined[2]).name = "v.";
  const Program program = compile(graph, "m");
  EXPECT_TRUE(std::ranges::any_of(program.ops, [](const ProgramOp& op) {
    return op.name == "a.module.of.its.own.query_key_";
  }));
}

TEST(Graph, LayersThatShareANameGetOneEach) {
  Graph graph = build_graph(test::make_decoder(test::decoder_named("gpt2")));
  std::vector<ValueId> layers;
  for (const ValueId value : graph.order()) {
    if (graph.as<LinearNode>(value) != nullptr) layers.push_back(value);
  }
  graph.node(layers[0]).name = graph.node(layers[1]).name = graph.node(layers[2]).name = "up";
  graph.node(layers[3]).name = "up_2";
  graph.make_names_unique();
  const char* const expected[] = {"up", "up_3", "up_4", "up_2"};
  for (size_t i = 0; i < std::size(expected); ++i) {
    EXPECT_EQ(graph.node(layers[i]).name, expected[i]);
  }
  EXPECT_EQ(graph.as<LinearNode>(layers[1])->parts[0].layer, "up_3");
}

TEST(Passes, CompileTheMasksOfBuffers) {
  const std::pair<const char*, MaskKind> kinds[] = {
      {"strip", MaskKind::kStrip}, {"documents", MaskKind::kTiles}, {"prefix", MaskKind::kTiles}};
  for (const auto& [name, kind] : kinds) {
    const Graph graph = build_graph(test::make_module(test::spec_named(name)));
    EXPECT_TRUE(std::holds_alternative<BufferMask>(graph.masks[0])) << name;
    EXPECT_EQ(std::get<CompiledMask>(rewrite(graph).masks[0]).kind, kind) << name;
    EXPECT_EQ(compile(graph, "m", {"compile-masks"}).masks[0].kind, MaskKind::kTiles) << name;
  }
}

TEST(Passes, MergeEqualMasks) {
  test::ModuleSpec spec = test::spec_named("head_masks");
  const auto window = [](uint32_t q, uint32_t k) { return k <= q && q - k < 70; };
  spec.positions_max = 70;
  spec.masks = {band_mask(69, 0, 70), test::buffer_where(70, window)};
  const Graph graph = build_graph(test::make_module(spec));
  const Program program = compile(graph, "m");
  ASSERT_EQ(program.masks.size(), 1u);
  EXPECT_EQ(program.masks[0], band_mask(kUnlimited, 0, 70));
  EXPECT_EQ(compile(graph, "m", {"compile-masks"}).masks.size(), 2u);
}

TEST(Passes, RefuseAMaskThatHidesARow) {
  test::ModuleSpec spec = test::spec_named("prefix");
  spec.masks = {test::buffer_where(70, [](uint32_t q, uint32_t k) { return q != 7 && k <= q; })};
  const Graph graph = build_graph(test::make_module(spec));
  for (const std::vector<std::string>& without : {Names{}, Names{"compile-masks"}}) {
    EXPECT_TRUE(
        testing::refuses([&] { compile(graph, "m", without); }, {"test mask", "row 7 of 70"}));
  }
}

TEST(Passes, DropRowsBeforeTheHead) {
  const Program program =
      compile(build_graph(test::make_decoder(test::decoder_named("gpt2"))), "m");
  ASSERT_GE(program.ops.size(), 2u);
  EXPECT_EQ(program.ops[program.ops.size() - 2].body.kind, format::OpKind::kSelect);
  const Program late =
      compile(build_graph(test::make_decoder(test::decoder_named("gpt2"))), "m", {"drop-rows"});
  EXPECT_EQ(late.ops.back().body.kind, format::OpKind::kSelect);
}

TEST(Passes, ShareCachesOnlyWhereNothingIsKept) {
  TransformerSpec spec = test::make_decoder(test::decoder_named("gpt2"));
  EXPECT_EQ(compile(build_graph(spec), "m").caches.size(), spec.layers.size());
  spec.causal = false;
  EXPECT_EQ(compile(build_graph(spec), "m").caches.size(), 1u);
  EXPECT_EQ(compile(build_graph(spec), "m", {"share-caches"}).caches.size(), spec.layers.size());
}

}  // namespace
}  // namespace arenite::convert
