// SPDX-License-Identifier: Apache-2.0
// Reads all archives at once, and adds weights of unusual shapes to each.
#include "fuzz/seed_programs.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "convert/exported/aten/op_rules.h"
#include "convert/files/memory.h"
#include "fuzz/require.h"

namespace arenite::fuzz {
namespace {

namespace fs = std::filesystem;
using convert::Pt2Archive;

constexpr size_t kSeedNodesMax = 50;
constexpr uint32_t kNamedOneIn = 8;   // whose nodes have metadata
constexpr const char* kOdd = "odd.";  // what the names of weights that no seed has begin with

// Returns the FNV-1a hash of the text, the same on every machine.
uint32_t hash_of(std::string_view text) {
  uint32_t hash = 2166136261u;
  for (const char character : text) {
    hash = (hash ^ static_cast<unsigned char>(character)) * 16777619u;
  }
  return hash;
}

// Rendezvous hashing: a new item takes over only few numbers of each other item.
template <typename Named>
auto& pick(Named& items, uint16_t number) {
  return std::ranges::max_element(items, {},
                                  [&](const auto& item) {
                                    const uint32_t mixed =
                                        (item.first ^ number * 0x9E3779B1u) * 0x85EBCA6Bu;
                                    return (mixed ^ mixed >> 15) * 0xC2B2AE35u;
                                  })
      ->second;
}

void add_odd_weights(Pt2Archive& archive) {
  std::set<convert::Shape> shapes;
  for (const auto& [name, tensor] : archive.by_name) shapes.insert(tensor.shape);
  std::set<convert::Shape> odd = {{}, {0}, {1}};
  for (const convert::Shape& shape : shapes) {
    for (size_t d = 0; d < shape.size(); ++d) {
      for (const int64_t by : {int64_t{-1}, int64_t{1}, -shape[d]}) {
        convert::Shape other = shape;
        other[d] += by;
        odd.insert(other);
      }
    }
    convert::Shape other = shape;
    std::ranges::reverse(other);
    odd.insert(other);
    other.insert(other.begin(), 1);
    odd.insert(other);
  }
  for (const convert::Shape& shape : odd) {
    const size_t count = convert::elements_of(shape);
    const std::string name = kOdd + std::to_string(archive.tensors->tensors().size());
    convert::Pt2Tensor tensor{.index = archive.tensors->tensors().size(),
                              .storage = static_cast<uint32_t>(1000 + archive.by_name.size()),
                              .shape = shape,
                              .type = convert::ElementType::kF32};
    const auto load = [count] {
      std::vector<float> values(count);
      for (size_t i = 0; i < count; ++i) values[i] = 0.1f * static_cast<float>(i % 7) - 0.3f;
      return values;
    };
    archive.tensors->add({.name = name,
                          .type = "F32",
                          .shape = {shape.begin(), shape.end()},
                          .load = load,
                          .file = "odd"});
    archive.by_name.emplace(name, std::move(tensor));
  }
}

}  // namespace

SeedPrograms::SeedPrograms(const fs::path& folder) {
  std::map<std::string, std::vector<json>> calls;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".pt2") continue;
    const convert::FileMap map(entry.path());
    const std::string name = entry.path().lexically_relative(folder).string();
    Pt2Archive archive = convert::read_pt2_archive(map.bytes(), name);
    json& nodes = archive.model["graph_module"]["graph"]["nodes"];
    // It is long, and says the names of modules alone.
    if (hash_of(name) % kNamedOneIn != 0) {
      for (json& node : nodes) node.erase("metadata");
    }
    for (const json& node : nodes) calls[node["target"].get<std::string>()].push_back(node);
    if (nodes.size() > kSeedNodesMax) continue;
    add_odd_weights(archive);
    programs_.emplace_back(hash_of(name), std::move(archive));
  }
  std::set<std::string> targets;
  for (auto& [target, nodes] : calls) {
    targets.insert(target);
    calls_.emplace_back(hash_of(target), std::move(nodes));
  }
  for (const auto& [op, rule] : convert::op_rules()) {
    const bool is_aten = op.find('.') == std::string_view::npos;
    targets.insert(is_aten ? "torch.ops.aten." + std::string(op) + ".default" : std::string(op));
  }
  for (const std::string& target : targets) targets_.emplace_back(hash_of(target), target);
  test::require(!programs_.empty(), "there are programs to change");
}

Pt2Archive& SeedPrograms::program(uint16_t number) { return pick(programs_, number); }

const json& SeedPrograms::call(uint16_t op, uint16_t which) const {
  const std::vector<json>& nodes = pick(calls_, op);
  return nodes[which % nodes.size()];
}

const std::string& SeedPrograms::target(uint16_t op) const { return pick(targets_, op); }

}  // namespace arenite::fuzz
