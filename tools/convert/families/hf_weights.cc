// SPDX-License-Identifier: Apache-2.0
// Finds the files of weights and checks shards against their index.
#include "convert/families/hf_weights.h"

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "convert/files/checkpoint.h"
#include "convert/files/error.h"
#include "convert/files/json_file.h"

namespace arenite::convert {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kWeightFiles[] = {"model.safetensors", "model.safetensors.index.json",
                                        "pytorch_model.bin", "pytorch_model.bin.index.json"};

fs::path find_weights(const fs::path& folder) {
  for (const char* name : kWeightFiles) {
    if (fs::exists(folder / name)) return folder / name;
  }
  throw InputError("{} has no weights: expected one of {}", quote(folder.string()),
                   fmt::join(kWeightFiles, ", "));
}

// The tensors of each shard, by the index. Shards lie beside the index, so names with a folder in
// them are refused: an index could point anywhere.
std::map<std::string, std::set<std::string>> read_index(const fs::path& index) {
  const json object = read_json_object(index);
  const auto weight_map = object.find("weight_map");
  if (weight_map == object.end() || !weight_map->is_object()) {
    throw InputError("{}: field 'weight_map' is missing: expected an object of tensor names",
                     quote(index.string()));
  }
  std::map<std::string, std::set<std::string>> shards;
  for (const auto& [tensor, file] : weight_map->items()) {
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    if (name.empty() || name == "." || name == ".." || fs::path(name).filename() != name) {
      throw InputError("{}: tensor {} is in {}: expected the name of a file beside the index",
                       quote(index.string()), quote(tensor), show(file));
    }
    shards[name].insert(tensor);
  }
  return shards;
}

void read_shard(const fs::path& index, const std::string& shard,
                const std::set<std::string>& expected, TensorStore& store) {
  const fs::path file = index.parent_path() / shard;
  if (!fs::exists(file)) {
    throw InputError("{} is missing: {} expects {} tensors in it, {} among them",
                     quote(file.string()), quote(index.string()), expected.size(),
                     quote(*expected.begin()));
  }
  const auto checkpoint = std::make_shared<const Checkpoint>(Checkpoint::read(file));
  for (const CheckpointTensor& tensor : checkpoint->tensors()) {
    if (!expected.contains(tensor.name)) {
      throw InputError("{}: {} does not list tensor {} for this file", quote(file.string()),
                       quote(index.string()), quote(tensor.name));
    }
  }
  for (const std::string& name : expected) {
    if (checkpoint->find(name) == nullptr) {
      throw InputError("{}: tensor {} is missing, which {} lists for this file",
                       quote(file.string()), quote(name), quote(index.string()));
    }
  }
  store.add(checkpoint);
}

}  // namespace

TensorStore read_hf_weights(const fs::path& folder, const fs::path& weights) {
  const fs::path file = weights.empty() ? find_weights(folder) : weights;
  TensorStore store(file.string());
  if (file.extension() == ".json") {
    for (const auto& [shard, names] : read_index(file)) read_shard(file, shard, names, store);
  } else {
    store.add(std::make_shared<const Checkpoint>(Checkpoint::read(file)));
  }
  return store;
}

}  // namespace arenite::convert
