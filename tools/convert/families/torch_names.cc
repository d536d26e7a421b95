// SPDX-License-Identifier: Apache-2.0
// Common names, told apart by shape where one name serves for several parts.
#include "convert/families/state_dicts.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "convert/files/error.h"

namespace arenite::convert {
namespace {

using Names = std::span<const std::string_view>;

constexpr std::string_view kWeight = ".weight";

// Token embeddings without "emb" in their names; `encoder` is that of PyTorch's older tutorial.
constexpr std::string_view kTokenNames[] = {"encoder", "wte", "lut", "tokens"};
constexpr std::string_view kInputNames[] = {
    "input",        "input_proj",  "input_projection", "input_layer",    "input_linear",
    "input_fc",     "in_proj",     "proj_in",          "fc_in",          "linear_in",
    "feature_proj", "src_proj",    "embedding",        "embed",          "embedder",
    "embeddings",   "src_embed",   "src_embedding",    "encoder",        "input_emb",
    "input_embed",  "patch_embed", "value_embed",      "input_embedding"};
// These are input layers only where their shape lets them be nothing else.
constexpr std::string_view kLinearNames[] = {"linear", "proj", "projection", "fc", "fc1", "dense"};
constexpr std::string_view kNormNames[] = {"embedding_norm", "embed_norm",      "emb_norm",
                                           "input_norm",     "embeddings_norm", "norm_embedding"};
constexpr std::string_view kPoolerNames[] = {"pooler", "pooler.dense"};
constexpr std::string_view kHeadNames[] = {
    "classifier",    "head",         "fc",          "out",         "linear",
    "fc_out",        "cls_head",     "decoder",     "lm_head",     "out_proj",
    "output",        "output_layer", "output_proj", "output_fc",   "output_projection",
    "output_linear", "output_head",  "out_layer",   "out_linear",  "out_head",
    "linear_out",    "proj_out",     "to_out",      "to_logits",   "logits",
    "cls",           "class_head",   "generator",   "predictor",   "prediction_head",
    "proj",          "projection",   "final",       "final_layer", "final_linear",
    "final_fc",      "fc_final",     "head_linear", "linear_head", "classification_head",
    "mlp_head",      "fc1",          "dense",       "regressor",   "linear_layer"};

struct Part {
  std::string stored;                   // the tensor's name
  std::string name;                     // the same without ".weight"
  std::vector<std::string> components;  // of the name, without what all names begin with
  uint32_t rows = 0, columns = 0;       // 0 where it is no matrix
  bool has_bias = false;

  bool any(bool (*test)(std::string_view)) const { return std::ranges::any_of(components, test); }
  bool is_matrix() const { return rows != 0; }
};

bool is_position(std::string_view part) {
  return part.starts_with("pos") || part == "pe" || part == "wpe" ||
         part.find("position") != std::string_view::npos;
}
bool is_type(std::string_view part) {
  return part.find("type") != std::string_view::npos || part.starts_with("seg");
}
bool is_embedding(std::string_view part) { return part.find("emb") != std::string_view::npos; }
bool is_number(std::string_view part) {
  return part.find_first_not_of("0123456789") == std::string_view::npos;
}

// Is `part` called `name`, maybe inside another module or at a place of a torch.nn.Sequential?
bool is_called(const Part& part, std::string_view name) {
  std::vector<std::string> components = part.components;
  if (components.size() > 1 && is_number(components.back())) components.pop_back();
  const std::string path = fmt::format("{}", fmt::join(components, "."));
  return path == name || path.ends_with("." + std::string(name));
}

std::vector<std::string> split(std::string_view path) {
  std::vector<std::string> components;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('.', begin), path.size());
    components.emplace_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  return components;
}

// The whole components that all names and `stack` begin with: "model." of "model.encoder.".
std::string common_prefix(const ModelTensors& tensors, std::string stack) {
  for (const StoredTensor& tensor : tensors.stored()) {
    const auto end = std::ranges::mismatch(stack, tensor.name).in1;
    stack.erase(end, stack.end());
  }
  return stack.substr(0, stack.rfind('.') + 1);
}

Part part_of(const ModelTensors& tensors, const StoredTensor& tensor, const std::string& root) {
  Part part{.stored = tensor.name, .name = tensor.name, .components = {}};
  if (part.name.ends_with(kWeight)) part.name.resize(part.name.size() - kWeight.size());
  part.components =
      split(std::string_view(part.name).substr(std::min(root.size(), part.name.size())));
  const auto long_sides = std::ranges::count_if(tensor.shape, [](uint64_t n) { return n != 1; });
  if (tensor.shape.size() >= 2 && long_sides <= 2) {
    const auto shape = tensors.shape_of(tensor.name);
    part.rows = shape.rows;
    part.columns = shape.columns;
  }
  part.has_bias = tensors.has(part.name + ".bias");
  return part;
}

// The tensors around the layers.
std::vector<Part> parts_around(const ModelTensors& tensors, const std::string& stack) {
  const std::string root = common_prefix(tensors, stack);
  std::vector<Part> parts;
  for (const StoredTensor& tensor : tensors.stored()) {
    const bool is_inside =
        tensor.name.starts_with(stack + "layers.") || tensor.name.starts_with(stack + "norm.");
    if (tensor.is_real && !is_inside) parts.push_back(part_of(tensors, tensor, root));
  }
  return parts;
}

// The first for which `fits`; nullptr: none.
template <typename Fits>
const Part* first(const std::vector<Part>& parts, const Fits& fits) {
  const auto found = std::ranges::find_if(parts, fits);
  return found == parts.end() ? nullptr : &*found;
}

// The first of `names`, in their order, that a part has for which `fits`.
template <typename Fits>
const Part* named(const std::vector<Part>& parts, Names names, const Fits& fits) {
  for (const std::string_view name : names) {
    const Part* part =
        first(parts, [&](const Part& one) { return is_called(one, name) && fits(one); });
    if (part != nullptr) return part;
  }
  return nullptr;
}

// nn.Embedding has no bias, nn.Linear rarely lacks one.
const Part* find_tokens(const std::vector<Part>& parts, uint32_t model_dim) {
  const auto may_be = [&](const Part& part) {
    return part.is_matrix() && part.columns == model_dim && !part.has_bias &&
           part.stored != part.name && !part.any(is_position) && !part.any(is_type);
  };
  const Part* by_name =
      first(parts, [&](const Part& part) { return may_be(part) && part.any(is_embedding); });
  return by_name != nullptr ? by_name : named(parts, kTokenNames, may_be);
}

const Part* find_input(const std::vector<Part>& parts, uint32_t model_dim) {
  const auto may_be = [&](const Part& part) {
    return part.rows == model_dim && part.has_bias && !part.any(is_position);
  };
  const Part* by_name = named(parts, kInputNames, may_be);
  if (by_name != nullptr) return by_name;
  return named(parts, kLinearNames,
               [&](const Part& part) { return may_be(part) && part.columns != model_dim; });
}

}  // namespace

bool ends_in(std::string_view name, std::string_view key) {
  return name.ends_with(key) &&
         (name.size() == key.size() || name[name.size() - key.size() - 1] == '.');
}

TorchNames find_torch_names(const ModelTensors& tensors, const std::string& stack) {
  const uint32_t model_dim = tensors.shape_of(stack + "layers.0.linear1.weight").columns;
  const std::vector<Part> parts = parts_around(tensors, stack);
  const auto is_table = [&](const Part& part) { return part.columns == model_dim; };
  const Part* const tokens = find_tokens(parts, model_dim);
  const Part* const input = find_input(parts, model_dim);
  if (tokens != nullptr && input != nullptr) {
    throw InputError("{}: both {} and {} are there: expected tokens or features",
                     quote(tensors.source()), quote(tokens->name), quote(input->name));
  }
  const auto name_of = [](const Part* part) { return part == nullptr ? "" : part->name; };
  const Part* const positions =
      first(parts, [&](const Part& part) { return is_table(part) && part.any(is_position); });
  return {
      .tokens = name_of(tokens),
      .types = name_of(first(parts,
                             [&](const Part& part) {
                               return is_table(part) && !part.has_bias && part.any(is_type) &&
                                      !part.any(is_position);
                             })),
      .input = name_of(input),
      .norm = name_of(named(parts, kNormNames, [](const Part& part) { return !part.is_matrix(); })),
      .positions = positions == nullptr ? "" : positions->stored,
      .pooler = name_of(named(parts, kPoolerNames, is_table)),
      .head = name_of(named(parts, kHeadNames, [&](const Part& part) {
        return is_table(part) && &part != tokens && &part != input;
      }))};
}

}  // namespace arenite::convert
