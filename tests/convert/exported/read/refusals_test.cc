// SPDX-License-Identifier: Apache-2.0
// Archives of torch.export.save that cannot be followed are refused with the author's line, and
// damaged ones within bounds: every value of the graph and of the lists of tensors is changed.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "convert/exported/aten/interpret.h"
#include "convert/exported/changed_program.h"
#include "convert/files/memory.h"
#include "convert/files/zip_archive.h"
#include "support/refusal.h"
#include "support/test_data.h"
#include "support/zip_builder.h"

namespace arenite::convert {
namespace {

using namespace testing;
using nlohmann::json;

ExportedProgram read(const std::string& bytes) {
  return read_exported(std::as_bytes(std::span(bytes)), "model.pt2");
}

void run(const ExportedProgram& program) {
  std::vector<Array> inputs;
  for (const ExportedInput* input : program.user_inputs()) {
    const ExportedValue& value = program.values[input->value];
    const size_t elements = elements_of(value.shape());
    if (elements > 1000) throw InputError("too large an input for this test");
    inputs.push_back(Array::real(value.shape(), Array::Reals(elements, 1.0)).to(value.type));
  }
  OpBudget budget;
  budget.elements = budget.live_elements = uint64_t{1} << 22;
  budget.multiplications = uint64_t{1} << 24;
  interpret(program, inputs, budget);
}

class ChangedPrograms : public ::testing::TestWithParam<const char*> {};

TEST_P(ChangedPrograms, AreRefusedOrRunWithoutCrashing) {
  std::mt19937 random(7);
  size_t refused = 0;
  const Members original(GetParam());
  constexpr int kChanges = 400;
  for (int change = 0; change < kChanges; ++change) {
    Members members = original;
    const bool is_model = change % 4 != 0;
    std::vector<json*> values;
    collect(is_model ? members.model["graph_module"]["graph"] : members.weights, values);
    json& place = *values[random() % values.size()];
    json odd = odd_value(random, values);
    place = std::move(odd);
    try {
      run(read(members.bytes()));
    } catch (const InputError& error) {
      EXPECT_GT(std::string(error.what()).size(), 20u);
      ++refused;
    }
  }
  EXPECT_GT(refused, kChanges / 10u);
}

INSTANTIATE_TEST_SUITE_P(All, ChangedPrograms,
                         ::testing::Values("exported_in_place.pt2", "exported_dynamic.pt2",
                                           "exported_products.pt2", "exported_rotate.pt2",
                                           "exported_moves.pt2"));

TEST(DamagedArchives, AreRefusedWhereverTheyAreCut) {
  const std::string whole = Members("exported_dynamic.pt2").bytes();
  for (size_t size = 0; size < whole.size(); size += 401) {
    EXPECT_TRUE(refuses([&] { read(whole.substr(0, size)); }, {"model.pt2"})) << size;
  }
}

json& first_node(Members& members, std::string_view op) {
  for (json& node : members.model["graph_module"]["graph"]["nodes"]) {
    if (node["target"].get<std::string>().find(op) != std::string::npos) return node;
  }
  throw InputError("the fixture has no such node");
}

TEST(ExportedPrograms, UnsupportedOpsNameTheLineOfTheSource) {
  const auto run_fixture = [](const char* name) { run(read(Members(name).bytes())); };
  EXPECT_TRUE(refuses([&] { run_fixture("exported_active_dropout.pt2"); },
                      {"aten.dropout", "make_exported.py", "return s.d(x)", "model.eval()"}));
  EXPECT_TRUE(refuses([&] { run_fixture("exported_data_dependent.pt2"); },
                      {"aten.masked_select", "make_exported.py", "x.masked_select(x > 0)"}));
  Members unknown("exported_dynamic.pt2");
  first_node(unknown, "softmax")["target"] = "torch.ops.mine.softmax.default";
  EXPECT_TRUE(refuses([&] { run(read(unknown.bytes())); },
                      {"mine.softmax", "make_exported.py", "this op is not supported"}));
  Members random("exported_dynamic.pt2");
  first_node(random, "softmax")["target"] = "torch.ops.aten.rand_like.default";
  EXPECT_TRUE(refuses([&] { run(read(random.bytes())); }, {"rand_like", "random numbers"}));
}

TEST(ExportedPrograms, NameTheVersionThatTheReaderNeeds) {
  Members members("exported_dynamic.pt2");
  members.model["schema_version"]["major"] = 7;
  EXPECT_TRUE(refuses([&] { read(members.bytes()); },
                      {"schema_version: found 7: expected 8, as PyTorch 2.9"}));
  const std::string older = ZipBuilder().add("serialized_exported_program.json", "{}").bytes();
  EXPECT_TRUE(refuses([&] { read(older); }, {"before 2.9"}));
  const std::string other = ZipBuilder().add("x/data.txt", "").bytes();
  EXPECT_TRUE(refuses([&] { read(other); }, {"torch.export.save"}));
}

TEST(ExportedPrograms, MustBeLittleEndian) {
  Members members("exported_dynamic.pt2");
  const auto order = std::ranges::find_if(
      members.files, [](const auto& file) { return file.first.ends_with("byteorder"); });
  ASSERT_NE(order, members.files.end());
  for (const std::string& text : {std::string("big"), std::string(64, 'x')}) {
    order->second = text;
    EXPECT_TRUE(refuses([&] { read(members.bytes()); },
                        {"byteorder: found '" + text + "': expected 'little'"}));
  }
}

TEST(ExportedPrograms, NameTheLimitOfTheirText) {
  const auto named = [](const auto& file) { return file.first.ends_with("model.json"); };
  const Members members("exported_dynamic.pt2");
  const std::string model = std::ranges::find_if(members.files, named)->first;
  ZipBuilder builder;
  for (const auto& [member, text] : members.files) {
    const ZipClaim compressed = {.method = 8, .bytes = (1u << 26) + 1};
    builder.add(member, text, member == model ? compressed : ZipClaim{});
  }
  EXPECT_TRUE(refuses([&] { read(builder.bytes()); },
                      {"models/model.json has 67108865 bytes: at most 67108864 are accepted"}));
}

TEST(ExportedPrograms, LimitViewsOfViews) {
  Members members("exported_dynamic.pt2");
  json& nodes = members.model["graph_module"]["graph"]["nodes"];
  json view = first_node(members, "softmax");
  view["target"] = "torch.ops.aten.alias.default";
  view["inputs"].get_ref<json::array_t&>().resize(1);
  std::string name = view["outputs"][0]["as_tensor"]["name"];
  for (int i = 0; i < 513; ++i) {
    view["inputs"][0]["arg"]["as_tensor"]["name"] = name;
    name = "view_of_view_" + std::to_string(i);
    view["outputs"][0]["as_tensor"]["name"] = name;
    nodes.push_back(view);
  }
  EXPECT_TRUE(refuses([&] { read(members.bytes()); },
                      {"'model.pt2', op aten.alias.default", "more than 512 nested views"}));
}

TEST(ExportedPrograms, RefuseNamesReadBeforeTheirDefinition) {
  Members members("exported_dynamic.pt2");
  json& nodes = members.model["graph_module"]["graph"]["nodes"];
  std::swap(nodes[nodes.size() - 1], nodes[nodes.size() - 2]);
  EXPECT_TRUE(refuses([&] { read(members.bytes()); }, {"read before it is computed"}));
  Members twice("exported_dynamic.pt2");
  json& same = twice.model["graph_module"]["graph"]["nodes"];
  same.push_back(same.back());
  EXPECT_TRUE(refuses([&] { read(twice.bytes()); }, {"defined twice"}));
}

// Reads a graph of 25,000 nodes; superlinear time would exceed CTest's limit.
TEST(ExportedPrograms, TenMegabytesAreReadInLinearTime) {
  Members members("exported_dynamic.pt2");
  json& nodes = members.model["graph_module"]["graph"]["nodes"];
  const json node = first_node(members, "softmax");
  const size_t count = (size_t{10} << 20) / node.dump().size();
  const std::string name = node["outputs"][0]["as_tensor"]["name"];
  for (size_t i = 0; i < count; ++i) {
    json copy = node;
    copy["outputs"][0]["as_tensor"]["name"] = name + "_" + std::to_string(i);
    nodes.push_back(std::move(copy));
  }
  const std::string bytes = members.bytes();
  const ExportedProgram program = read(bytes);
  EXPECT_GT(program.nodes.size(), count);
}

TEST(ExportedPrograms, DescribeTheirInputsAndOutputs) {
  const ExportedProgram program = read(Members("exported_dynamic.pt2").bytes());
  ASSERT_EQ(program.user_inputs().size(), 1u);
  const ExportedValue& input = program.values[program.user_inputs()[0]->value];
  EXPECT_EQ(input.type, ElementType::kI64);
  ASSERT_EQ(input.sizes.size(), 2u);
  EXPECT_TRUE(input.sizes[0].is_fixed());
  ASSERT_TRUE(program.symbols.contains(input.sizes[1].symbol));
  EXPECT_EQ(program.symbols.at(input.sizes[1].symbol).max, 64);
  ASSERT_EQ(program.sample_inputs.size(), 1u);
  EXPECT_EQ(program.sample_inputs[0].shape(), (Shape{1, 7}));
  EXPECT_EQ(program.tensors->tensors().size(), 3u);
}

}  // namespace
}  // namespace arenite::convert
