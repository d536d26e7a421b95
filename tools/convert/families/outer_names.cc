// SPDX-License-Identifier: Apache-2.0
// Common names, told apart by shape where one name serves for several parts.
#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "convert/families/part_names.h"
#include "convert/families/words.h"
#include "convert/files/error.h"

namespace arenite::convert {
namespace {

using Names = std::span<const std::string_view>;

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

bool is_position(std::string_view part) {
  return part.starts_with("pos") || part == "pe" || part == "wpe" ||
         part.find("position") != std::string_view::npos;
}
bool is_type(std::string_view part) {
  return part.find("type") != std::string_view::npos || part.starts_with("seg");
}
bool is_embedding(std::string_view part) { return part.find("emb") != std::string_view::npos; }

bool any(const TensorName& name, bool (*test)(std::string_view)) {
  return std::ranges::any_of(name.components, test);
}

// Is `name` called `called`, maybe inside another module or at a place of a torch.nn.Sequential?
bool is_called(const TensorName& name, std::string_view called) {
  std::vector<std::string> components = name.components;
  if (components.size() > 1 && is_number(components.back())) components.pop_back();
  const std::string path = fmt::format("{}", fmt::join(components, "."));
  return path == called || path.ends_with("." + std::string(called));
}

// The whole components that all names and `list` begin with: "model." of "model.layers.".
std::string common_prefix(const TensorStore& store, std::string list) {
  for (const StoredTensor& tensor : store.tensors()) {
    const auto end = std::ranges::mismatch(list, tensor.name).in1;
    list.erase(end, list.end());
  }
  return list.substr(0, list.rfind('.') + 1);
}

class OuterFinder {
 public:
  OuterFinder(const TensorStore& store, const LayerNames& layers)
      : width_(layers.model_dim), where_(quote(store.source())) {
    root_ = common_prefix(store, layers.list);
    const size_t dot = layers.list.rfind('.', layers.list.size() - 2);
    stack_ = dot == std::string::npos ? "" : layers.list.substr(0, dot + 1);
    for (const StoredTensor& tensor : store.tensors()) {
      const bool is_inside = tensor.name.starts_with(layers.list);
      if (!tensor.is_real || is_inside || is_mask_buffer(tensor)) continue;
      TensorName name = take_apart(tensor, root_, store);
      name.part.weight = root_ + name.part.weight;
      if (!name.part.bias.empty()) name.part.bias = root_ + name.part.bias;
      (name.elements != 0 ? vectors_ : parts_).push_back(std::move(name));
    }
  }

  OuterNames run() {
    const TensorName* const tokens = find_tokens();
    const TensorName* const input = find_input();
    if (tokens != nullptr && input != nullptr) {
      throw InputError("{}: both {} and {} are there: expected tokens or features", where_,
                       quote(layer_name(tokens->part)), quote(layer_name(input->part)));
    }
    const TensorName* const positions =
        first([&](const TensorName& part) { return is_table(part) && any(part, is_position); });
    const TensorName* const types = first([&](const TensorName& part) {
      return is_table(part) && part.part.bias.empty() && any(part, is_type) &&
             !any(part, is_position);
    });
    const TensorName* const head = named(kHeadNames, [&](const TensorName& part) {
      return is_table(part) && part.is_weight && &part != tokens && &part != input;
    });
    const auto part_of = [](const TensorName* name) {
      return name == nullptr ? PartNames() : name->part;
    };
    OuterNames names = {.tokens = part_of(tokens),
                        .types = part_of(types),
                        .input = part_of(input),
                        .embedding_norm = {},
                        .final_norm = {},
                        .positions = part_of(positions).weight,
                        .pooler = part_of(named(kPoolerNames,
                                                [&](const TensorName& part) {
                                                  return is_table(part) && part.is_weight;
                                                })),
                        .head = part_of(head)};
    set_norms(names);
    return names;
  }

 private:
  bool is_table(const TensorName& part) const { return part.columns == width_; }

  // The first for which `fits`; nullptr: none.
  template <typename Fits>
  const TensorName* first(const Fits& fits) const {
    const auto found = std::ranges::find_if(parts_, fits);
    return found == parts_.end() ? nullptr : &*found;
  }

  // The first of `names`, in their order, that a part has for which `fits`.
  template <typename Fits>
  const TensorName* named(Names names, const Fits& fits) const {
    for (const std::string_view name : names) {
      const TensorName* part =
          first([&](const TensorName& one) { return fits(one) && is_called(one, name); });
      if (part != nullptr) return part;
    }
    return nullptr;
  }

  // nn.Embedding has no bias, nn.Linear rarely lacks one.
  const TensorName* find_tokens() const {
    const auto may_be = [&](const TensorName& part) {
      return is_table(part) && part.is_weight && part.part.bias.empty() &&
             !any(part, is_position) && !any(part, is_type);
    };
    const TensorName* by_name =
        first([&](const TensorName& part) { return may_be(part) && any(part, is_embedding); });
    return by_name != nullptr ? by_name : named(kTokenNames, may_be);
  }

  const TensorName* find_input() const {
    const auto may_be = [&](const TensorName& part) {
      return part.rows == width_ && !part.part.bias.empty() && !any(part, is_position);
    };
    const TensorName* by_name = named(kInputNames, may_be);
    if (by_name != nullptr) return by_name;
    return named(kLinearNames,
                 [&](const TensorName& part) { return may_be(part) && part.columns != width_; });
  }

  // One of what is embedded is called so; the other comes after the layers.
  void set_norms(OuterNames& names) const {
    for (const TensorName& part : vectors_) {
      if (!part.is_weight || part.elements != width_) continue;
      const bool is_of_input = any(part, is_embedding) || is_called(part, "input_norm");
      PartNames& place = is_of_input ? names.embedding_norm : names.final_norm;
      const bool is_of_stack = part.part.weight.starts_with(stack_) && stack_ != root_;
      if (place.empty() || is_of_stack) place = part.part;
    }
  }

  const uint32_t width_;
  const std::string where_;
  std::string root_;   // what all names begin with
  std::string stack_;  // the module that the list of layers is in
  std::vector<TensorName> parts_;
  std::vector<TensorName> vectors_;
};

}  // namespace

OuterNames find_outer_names(const TensorStore& store, const LayerNames& layers) {
  return OuterFinder(store, layers).run();
}

}  // namespace arenite::convert
