// SPDX-License-Identifier: Apache-2.0
// Exported programs of any size: a small program extended by ops, traces, names and descriptions.
#include <fmt/format.h>

#include "convert/exported/changed_program.h"
#include "convert/exported/read/exported_program.h"
#include "convert/scaling/reader_cases.h"

namespace arenite::testing {
namespace {

using convert::json;
using convert::Members;

json& graph_of(Members& members) { return members.model["graph_module"]["graph"]; }

InputFiles archive(const Members& members) { return {{"model.pt2", members.bytes()}}; }

json tensor(const std::string& name) { return {{"as_tensor", {{"name", name}}}}; }

// An op of one tensor, as it stands in the list of nodes.
json node(const std::string& target, const json& argument, const std::string& output) {
  return {{"target", "torch.ops.aten." + target + ".default"},
          {"inputs", {{{"name", "self"}, {"arg", argument}, {"kind", 1}}}},
          {"outputs", {tensor(output)}},
          {"metadata", json::object()},
          {"is_hop_single_tensor_return", nullptr}};
}

InputFiles many_ops(size_t size) {
  Members members("exported/alibi.pt2");
  json& graph = graph_of(members);
  const json meta = graph["tensor_values"]["linear_6"];
  std::string last = "linear_6";
  for (size_t i = 0; i < size; ++i) {
    const std::string name = fmt::format("relu_{}", i);
    graph["nodes"].push_back(node("relu", tensor(last), name));
    graph["tensor_values"][name] = meta;
    last = name;
  }
  graph["outputs"][0] = tensor(last);
  return archive(members);
}

// Adds one op that concatenates all of the arguments.
InputFiles many_arguments(size_t size) {
  Members members("exported/alibi.pt2");
  json& graph = graph_of(members);
  const json one = {{"name", "linear_6"}};
  json added = node("cat", {{"as_tensors", json::array()}}, "joined");
  for (size_t i = 0; i < size; ++i) added["inputs"][0]["arg"]["as_tensors"].push_back(one);
  added["inputs"][0]["name"] = "tensors";
  graph["nodes"].push_back(added);
  graph["tensor_values"]["joined"] = graph["tensor_values"]["linear_6"];
  return archive(members);
}

InputFiles many_traces(size_t size) {
  Members members("exported/alibi.pt2");
  std::string trace;
  for (size_t i = 0; i < size; ++i) {
    trace +=
        fmt::format("File \"model.py\", line {}, in forward\n    x = self.layers[{}](x)\n", i, i);
  }
  for (json& node : graph_of(members)["nodes"]) node["metadata"]["stack_trace"] = trace;
  return archive(members);
}

InputFiles many_names_of_one_weight(size_t size) {
  Members members("exported/alibi.pt2");
  json& config = members.weights["config"];
  const json one = config.begin().value();
  for (size_t i = 0; i < size; ++i) config[fmt::format("layers.{}.weight", i)] = one;
  return archive(members);
}

InputFiles many_values_nobody_reads(size_t size) {
  Members members("exported/alibi.pt2");
  json& values = graph_of(members)["tensor_values"];
  const json meta = values["linear_6"];
  for (size_t i = 0; i < size; ++i) values[fmt::format("value_{}", i)] = meta;
  return archive(members);
}

void read(const std::filesystem::path& file) { convert::read_exported(file); }

}  // namespace

std::vector<ReaderCase> exported_cases() {
  return {
      {".pt2", "many ops", 500, many_ops, read},
      {".pt2", "many arguments", 3000, many_arguments, read},
      {".pt2", "many traces", 300, many_traces, read},
      {".pt2", "many names of one weight", 500, many_names_of_one_weight, read},
      {".pt2", "many values that nobody reads", 1000, many_values_nobody_reads, read},
  };
}

}  // namespace arenite::testing
