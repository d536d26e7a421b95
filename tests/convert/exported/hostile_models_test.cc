// SPDX-License-Identifier: Apache-2.0
// Changed programs go through the whole reader: archive, graph, recognition and comparison. Each
// becomes a model or is refused, within bounds of time and memory.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <chrono>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "convert/exported/changed_program.h"
#include "convert/exported/exported_model.h"
#include "convert/exported/sound/sound_program.h"
#include "convert/files/input_limits.h"
#include "support/refusal.h"
#include "support/temp_folder.h"
#include "support/test_data.h"

namespace arenite::convert {
namespace {

using namespace testing;

constexpr int kChanges = 40;          // of each fixture; ARENITE_MUTANTS says another number
constexpr double kSecondsMax = 20.0;  // with sanitizers, on a busy machine

class ChangedModels : public ::testing::TestWithParam<const char*> {};

TEST_P(ChangedModels, AreRefusedOrReadWithoutCrashing) {
  const TempFolder folder;
  const char* const wanted = std::getenv("ARENITE_MUTANTS");
  const int changes = wanted == nullptr ? kChanges : std::atoi(wanted);
  const Members original(std::string(GetParam()) + ".pt2");
  const bool is_of_sound = std::string(GetParam()).starts_with("sound");
  int refused = 0;
  for (int change = 0; change < changes; ++change) {
    std::mt19937 random(static_cast<unsigned>(change));
    Members members = original;
    for (int i = 0; i <= change % 3; ++i) {
      std::vector<json*> values;
      json& whole = change % 8 != 0 ? members.model["graph_module"] : members.weights;
      collect(whole, values);
      json odd = odd_value(random, values);
      *values[random() % values.size()] = std::move(odd);
    }
    const auto path = folder.write("model.pt2", members.bytes());
    const auto start = std::chrono::steady_clock::now();
    try {
      auto program = std::make_shared<const ExportedProgram>(read_exported(path));
      const auto split = split_sound(*program, is_of_sound ? 16000 : 0);
      read_exported_model(split ? split->program : program, {});
    } catch (const InputError& error) {
      EXPECT_GT(std::string(error.what()).size(), 20u);
      ++refused;
    } catch (const std::exception& error) {
      ADD_FAILURE() << GetParam() << ", change " << change << ": " << error.what();
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    EXPECT_LT(seconds.count(), kSecondsMax) << GetParam() << ", change " << change;
  }
  EXPECT_GT(refused, changes / 10);
}

INSTANTIATE_TEST_SUITE_P(All, ChangedModels,
                         ::testing::Values("exported/neighbours_dyn", "exported/complex",
                                           "exported/prefix", "exported/einsum_rms_fused",
                                           "padded/kept_rows_dyn", "padded/encoder",
                                           "sound_programs/log_mel_parts", "sound_programs/by_hand",
                                           "sound_programs/convolution"));

// Bytes of the archive itself: its list of members, what is compressed, and the example's pickle.
TEST(HostileModels, ChangedBytesOfArchivesDoNoHarm) {
  const TempFolder folder;
  const std::string original = read_bytes(convert_fixture("padded/kept_rows.pt2"));
  int refused = 0;
  for (unsigned change = 0; change < 200; ++change) {
    std::mt19937 random(change);
    std::string bytes = original;
    for (unsigned i = 0; i <= change % 4; ++i) {
      bytes[random() % bytes.size()] = static_cast<char>(random() & 0xff);
    }
    try {
      read_exported_model(folder.write("model.pt2", bytes), {});
    } catch (const InputError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 100);
}

// A node of ATen's `op`. Arguments are whole numbers, lists of them, floats, or names of tensors.
json node_of(const std::string& op, const json& arguments, const std::string& output) {
  json node = {{"target", "torch.ops.aten." + op},
               {"inputs", json::array()},
               {"outputs", json::array({{{"as_tensor", {{"name", output}}}}})},
               {"metadata", json::object()},
               {"is_hop_single_tensor_return", nullptr}};
  const auto add = [&](const std::string& name, const json& value) {
    const char* kind = value.is_string()           ? "as_tensor"
                       : value.is_array()          ? "as_ints"
                       : value.is_boolean()        ? "as_bool"
                       : value.is_number_integer() ? "as_int"
                                                   : "as_float";
    const json given = value.is_string() ? json{{"name", value}} : value;
    node["inputs"].push_back({{"name", name}, {"arg", {{kind, given}}}, {"kind", 1}});
  };
  const auto is_first = [](const std::string& name) { return name == "self" || name == "input"; };
  for (const bool first : {true, false}) {
    for (const auto& [name, value] : arguments.items()) {
      if (is_first(name) == first) add(name, value);
    }
  }
  return node;
}

// Returns the program with nodes appended; the last of them makes its output.
Members with_end(const char* fixture, const std::vector<json>& added) {
  Members members(fixture);
  json& graph = members.model["graph_module"]["graph"];
  const json meta = graph["tensor_values"][graph["outputs"][0]["as_tensor"]["name"]];
  std::string last;
  for (const json& node : added) {
    last = node["outputs"][0]["as_tensor"]["name"];
    graph["nodes"].push_back(node);
    graph["tensor_values"][last] = meta;
  }
  graph["outputs"][0]["as_tensor"]["name"] = last;
  for (json& output : members.model["graph_module"]["signature"]["output_specs"]) {
    output["user_output"]["arg"]["as_tensor"]["name"] = last;
  }
  return members;
}

// Returns the program with `op` inserted after the result `read`, before its readers.
Members with_op(const char* fixture, const std::string& read, const std::string& op,
                json arguments) {
  Members members(fixture);
  json& graph = members.model["graph_module"]["graph"];
  graph["tensor_values"]["odd"] = graph["tensor_values"][read];
  const bool is_linear = op.starts_with("linear") || op.starts_with("layer_norm");
  arguments[is_linear ? "input" : "self"] = read;
  json nodes = json::array();
  for (json& node : graph["nodes"]) {
    for (json& input : node["inputs"]) {
      json& argument = input["arg"];
      if (argument.contains("as_tensor") && argument["as_tensor"]["name"] == read) {
        argument["as_tensor"]["name"] = "odd";
      }
    }
    nodes.push_back(node);
    if (node["outputs"][0].contains("as_tensor") &&
        node["outputs"][0]["as_tensor"]["name"] == read) {
      nodes.push_back(node_of(op, arguments, "odd"));
    }
  }
  graph["nodes"] = std::move(nodes);
  return members;
}

void expect_refused(const Members& members, const std::vector<std::string>& words) {
  const TempFolder folder;
  const auto path = folder.write("model.pt2", members.bytes());
  const std::clock_t start = std::clock();
  const std::string message = refusal_of([&] { read_exported_model(path, {}); });
  EXPECT_NE(message, "") << "accepted";
  for (const std::string& word : words) {
    EXPECT_NE(message.find(word), std::string::npos) << message << " lacks " << word;
  }
  // CPU time, which other programs on the machine do not change.
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  EXPECT_LT(seconds, kSecondsMax);
}

// Each row inserts one op into a sound program, and names the op that refuses its result.
TEST(HostileModels, OneInvalidOpIsRefused) {
  constexpr int64_t kEnd = INT64_MAX;
  const struct {
    const char* read;
    const char* op;
    json arguments;
    std::vector<std::string> words;
  } kRows[] = {
      {"linear_4",
       "slice.Tensor",
       {{"dim", 2}, {"start", 0}, {"end", 0}},
       {"gelu", "empty tensor"}},
      {"linear_4", "slice.Tensor", {{"dim", 0}, {"start", kEnd}, {"end", -kEnd - 1}}, {"gelu"}},
      {"linear_4", "narrow.default", {{"dim", 1}, {"start", 1}, {"length", kEnd}}, {"narrow"}},
      {"linear_4", "repeat.default", {{"repeats", {0, 1, 1}}}, {"gelu", "empty tensor"}},
      {"linear_4", "repeat.default", {{"repeats", {1, 1, 1 << 27}}}, {"repeat", "elements"}},
      {"linear_4", "repeat.default", {{"repeats", {1 << 20, 1 << 20, 1}}}, {"repeat", "elements"}},
      {"linear_4", "repeat.default", {{"repeats", {-1, 1, 1}}}, {"repeat", "negative"}},
      {"embedding", "expand.default", {{"size", {0, 7, 8}}}, {"mul", "empty tensor"}},
      {"embedding", "view.default", {{"size", {0, -1}}}, {"view", "do not fill"}},
      {"embedding", "view.default", {{"size", {kEnd, kEnd}}}, {"view", "elements"}},
      {"embedding", "select.int", {{"dim", 1}, {"index", -kEnd - 1}}, {"select", "row"}},
      {"transpose", "mean.dim", {{"dim", {2}}, {"keepdim", true}}, {"masked_fill"}},
      {"matmul", "add.Tensor", {{"other", "p_positions"}}, {"add", "cannot be broadcast"}},
      {"matmul", "squeeze.default", {}, {"matmul"}},
      {"gelu",
       "linear.default",
       {{"weight", "p_mlp_down_weight"}, {"bias", "p_mlp_up_bias"}},
       {"bias"}},
      {"add_1",
       "layer_norm.default",
       {{"normalized_shape", {8}}, {"weight", "p_mlp_up_bias"}},
       {"layer_norm", "different widths"}},
      {"linear_1", "mul.Tensor", {{"other", "p_head_weight"}}, {"mul", "cannot be broadcast"}},
      {"linear_1", "matmul.default", {{"other", "p_norm1_weight"}}, {"view"}},
      {"linear_1", "flatten.using_ints", {{"start_dim", 2}, {"end_dim", 0}}, {"flatten"}},
      {"arange", "slice.Tensor", {{"dim", 0}, {"start", kEnd}, {"end", kEnd}}, {"masked_fill"}},
      {"gt", "slice.Tensor", {{"dim", 0}, {"start", 0}, {"end", 0}}, {"empty tensor"}},
  };
  for (const auto& row : kRows) {
    SCOPED_TRACE(fmt::format("{} of {}", row.op, row.read));
    expect_refused(with_op("exported/prefix.pt2", row.read, row.op, row.arguments), row.words);
  }
}

// The kernel of a convolution, given to an op that takes a matrix.
TEST(HostileModels, MatricesOfThreeDimensionsAreRefused) {
  Members members("exported/convolution.pt2");
  for (json& node : members.model["graph_module"]["graph"]["nodes"]) {
    if (node["target"] != "torch.ops.aten.conv1d.default") continue;
    node["target"] = "torch.ops.aten.linear.default";
    json& inputs = node["inputs"];
    inputs = {inputs[0], inputs[1]};
  }
  expect_refused(members, {"op aten.linear.default", "the weight is [", "expected a matrix"});
}

TEST(HostileModels, PaddingBetweenFramesIsRefused) {
  for (const auto& [name, numbers] :
       {std::pair("padding", json{1, 0, 0}), {"dilation", {2, 1, 1}}}) {
    Members members("convolutions/video.pt2");
    for (json& node : members.model["graph_module"]["graph"]["nodes"]) {
      if (node["target"] != "torch.ops.aten.conv3d.default") continue;
      node["inputs"].push_back({{"name", name}, {"arg", {{"as_ints", numbers}}}, {"kind", 1}});
    }
    expect_refused(members, {"convolutions over frames", "without padding or dilation of frames"});
  }
}

// Partial rotations concatenate a slice without columns.
TEST(HostileModels, EmptySlicesMayBeConcatenated) {
  Members members = with_op("exported/prefix.pt2", "linear_4", "slice.Tensor",
                            {{"dim", 2}, {"start", 16}, {"end", INT64_MAX}});
  for (json& node : members.model["graph_module"]["graph"]["nodes"]) {
    if (node["outputs"][0]["as_tensor"]["name"] != "gelu") continue;
    node = node_of("cat.default", {{"dim", 2}}, "gelu");
    node["inputs"].push_back(
        {{"name", "tensors"},
         {"arg", {{"as_tensors", {{{"name", "linear_4"}}, {{"name", "odd"}}}}}},
         {"kind", 1}});
  }
  const TempFolder folder;
  EXPECT_NO_THROW(read_exported_model(folder.write("model.pt2", members.bytes()), {}));
}

// Declared sizes of an unread result: the elements add up to 2^64.
TEST(HostileModels, SizesThatOverflowAreRefused) {
  Members members = with_end("exported/prefix.pt2", {});
  json& graph = members.model["graph_module"]["graph"];
  graph["tensor_values"]["gelu"]["sizes"] = {{{"as_int", 7}}, {{"as_int", INT64_MAX / 7}}};
  expect_refused(members, {"gelu", "exceed those of any tensor"});
}

// Tests work that doubles with each op, and a single op with too much work.
TEST(HostileModels, ExcessiveWorkIsRefused) {
  std::vector<json> doubled = {
      node_of("repeat.default", {{"self", "p_head_bias"}, {"repeats", {1 << 18}}}, "c_0")};
  for (int i = 0; i < 40; ++i) {
    const std::string before = fmt::format("c_{}", i);
    doubled.push_back(
        node_of("add.Tensor", {{"self", before}, {"other", before}}, fmt::format("c_{}", i + 1)));
  }
  doubled.push_back(
      node_of("slice.Tensor", {{"self", "c_40"}, {"dim", 0}, {"start", 0}, {"end", 3}}, "part"));
  doubled.push_back(node_of("sum.default", {{"self", "part"}}, "total"));
  doubled.push_back(node_of("add.Tensor", {{"self", "linear_6"}, {"other", "total"}}, "end"));
  expect_refused(with_end("exported/prefix.pt2", doubled), {"work limit"});
  const std::vector<json> convolution = {
      node_of("ones.default", {{"size", {1, 1, 1 << 18}}}, "image"),
      node_of("ones.default", {{"size", {1, 1, 1 << 15}}}, "kernel"),
      node_of("conv1d.default", {{"input", "image"}, {"weight", "kernel"}}, "convolved"),
      node_of("sum.default", {{"self", "convolved"}}, "total"),
      node_of("add.Tensor", {{"self", "linear_6"}, {"other", "total"}}, "end")};
  expect_refused(with_end("exported/prefix.pt2", convolution), {"conv1d", "work limit"});
}

// Runs `work` on a quarter of the stack that the converter has.
void on_small_stack(const std::function<void()>& work) {
  constexpr size_t kBytes = size_t{4} << 20;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, kBytes), 0);
  pthread_t thread;
  const auto run = [](void* data) -> void* {
    (*static_cast<const std::function<void()>*>(data))();
    return nullptr;
  };
  ASSERT_EQ(
      pthread_create(&thread, &attributes, run, const_cast<void*>(static_cast<const void*>(&work))),
      0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

// The runtime has no op for atan(atan(...)), so the whole chain is sampled.
TEST(HostileModels, DeepFormulasNeedLittleStack) {
  for (const size_t depth : {kExportedLevelsMax / 2 - 4, kExportedLevelsMax + 2, size_t{20000}}) {
    if (testing::kSanitized && depth > 2 * kExportedLevelsMax) continue;  // refused the same way
    std::vector<json> formula = {node_of("atan.default", {{"self", "linear_6"}}, "f_0")};
    for (size_t i = 0; i < depth; ++i) {
      formula.push_back(
          node_of("atan.default", {{"self", fmt::format("f_{}", i)}}, fmt::format("f_{}", i + 1)));
    }
    const Members members = with_end("exported/prefix.pt2", formula);
    on_small_stack([&] { expect_refused(members, {"op aten.atan.default"}); });
  }
}

// Repeats x = x + x / 2: terms with different factors are not merged, so each step doubles them.
TEST(HostileModels, SumsThatDoubleAreRefused) {
  std::vector<json> nodes = {
      node_of("mul.Tensor", {{"self", "linear_6"}, {"other", "p_head_bias"}}, "sum_0")};
  for (int i = 0; i < 40; ++i) {
    const std::string before = fmt::format("sum_{}", i), half = fmt::format("half_{}", i);
    nodes.push_back(node_of("mul.Tensor", {{"self", before}, {"other", 0.5}}, half));
    nodes.push_back(
        node_of("add.Tensor", {{"self", before}, {"other", half}}, fmt::format("sum_{}", i + 1)));
  }
  expect_refused(with_end("exported/alibi.pt2", nodes), {"a sum has more than 1024 nested terms"});
}

}  // namespace
}  // namespace arenite::convert
