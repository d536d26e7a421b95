// SPDX-License-Identifier: Apache-2.0
// Programs that somebody changed go through all of the reader: archive, graph, what is recognised,
// and the comparison. Each becomes a model or is refused, within bounds of time and memory.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <random>
#include <string>

#include "convert/exported/changed_program.h"
#include "convert/exported/exported_model.h"
#include "support/refusal.h"
#include "support/temp_folder.h"

namespace arenite::convert {
namespace {

using namespace testing;

constexpr int kChanges = 40;          // of each fixture; ARENITE_MUTANTS says another number
constexpr double kSecondsMax = 20.0;  // with sanitizers, on a busy machine

class ChangedModels : public ::testing::TestWithParam<const char*> {};

TEST_P(ChangedModels, AreRefusedOrRead) {
  const TempFolder folder;
  const char* const wanted = std::getenv("ARENITE_MUTANTS");
  const int changes = wanted == nullptr ? kChanges : std::atoi(wanted);
  const Members original(std::string(GetParam()) + ".pt2");
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
      read_exported_model(path, {});
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
                                           "padded/kept_rows_dyn", "padded/encoder"));

// Bytes of the archive itself: its list of members, what is compressed, and the example's pickle.
TEST(HostileModels, WithChangedBytesAreRefusedOrRead) {
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

// A graph where the rest of the program reads what `node` makes of the first result of `after`.
Members with_node(const char* fixture, std::string_view after, const json& node) {
  Members members(fixture);
  json& nodes = members.model["graph_module"]["graph"]["nodes"];
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i]["target"].get<std::string>().find(after) == std::string::npos) continue;
    json& output = nodes[i]["outputs"][0]["as_tensor"]["name"];
    json added = node;
    added["inputs"][0]["arg"]["as_tensor"]["name"] = "small";
    added["outputs"][0]["as_tensor"]["name"] = std::exchange(output, "small");
    nodes.insert(nodes.begin() + static_cast<ptrdiff_t>(i) + 1, added);
    json& values = members.model["graph_module"]["graph"]["tensor_values"];
    values["small"] = values[added["outputs"][0]["as_tensor"]["name"].get<std::string>()];
    return members;
  }
  throw InputError("the fixture has no such node");
}

json expanding(const std::vector<int64_t>& sizes) {
  json node = {{"target", "torch.ops.aten.repeat.default"},
               {"inputs", json::array()},
               {"outputs", json::array({{{"as_tensor", {{"name", ""}}}}})},
               {"metadata", json::object()},
               {"is_hop_single_tensor_return", nullptr}};
  node["inputs"].push_back(
      {{"name", "self"}, {"arg", {{"as_tensor", {{"name", ""}}}}}, {"kind", 1}});
  node["inputs"].push_back({{"name", "repeats"}, {"arg", {{"as_ints", sizes}}}, {"kind", 1}});
  return node;
}

TEST(HostileModels, ThatRepeatWithoutEndAreRefusedBeforeThereIsMemory) {
  const TempFolder folder;
  for (const std::vector<int64_t>& sizes :
       {std::vector<int64_t>{1, 1, 1 << 27}, {1 << 20, 1 << 20, 1}, {1, 1 << 13, 1 << 13}}) {
    Members members = with_node("exported/prefix.pt2", "embedding", expanding(sizes));
    EXPECT_TRUE(
        refuses([&] { read_exported_model(folder.write("model.pt2", members.bytes()), {}); },
                {"repeat", "elements"}));
  }
}

// x = x factors, then x = x + x / 2 over and over: parts with factors of their own stay apart, so
// that each step doubles them.
TEST(HostileModels, SumsThatDoubleAreRefused) {
  Members members("exported/alibi.pt2");
  json& graph = members.model["graph_module"]["graph"];
  const json name = graph["outputs"][0]["as_tensor"]["name"];
  const json meta = graph["tensor_values"][name.get<std::string>()];
  std::string last = name.get<std::string>();
  const auto add_node = [&](const std::string& op, const json& other, const std::string& made) {
    graph["nodes"].push_back(
        {{"target", "torch.ops.aten." + op + ".Tensor"},
         {"inputs",
          {{{"name", "self"}, {"arg", {{"as_tensor", {{"name", last}}}}}, {"kind", 1}},
           {{"name", "other"}, {"arg", other}, {"kind", 1}}}},
         {"outputs", {{{"as_tensor", {{"name", made}}}}}},
         {"metadata", json::object()},
         {"is_hop_single_tensor_return", nullptr}});
    graph["tensor_values"][made] = meta;
  };
  add_node("mul", {{"as_tensor", {{"name", "p_head_bias"}}}}, "factored");
  last = "factored";
  for (int i = 0; i < 40; ++i) {
    add_node("mul", {{"as_float", 0.5}}, "half_" + std::to_string(i));
    add_node("add", {{"as_tensor", {{"name", "half_" + std::to_string(i)}}}},
             "sum_" + std::to_string(i));
    last = "sum_" + std::to_string(i);
  }
  graph["outputs"][0]["as_tensor"]["name"] = last;
  for (json& output : members.model["graph_module"]["signature"]["output_specs"]) {
    output["user_output"]["arg"]["as_tensor"]["name"] = last;
  }
  const TempFolder folder;
  const auto path = folder.write("model.pt2", members.bytes());
  EXPECT_TRUE(refuses([&] { read_exported_model(path, {}); }, {"a sum of more than 1024 parts"}));
}

}  // namespace
}  // namespace arenite::convert
