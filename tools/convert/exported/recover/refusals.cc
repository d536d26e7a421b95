// SPDX-License-Identifier: Apache-2.0
// Finds the op at fault among the ops before a refused op, and a module that can be exported
// instead.
#include "convert/exported/recover/refusals.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

namespace arenite::convert {
namespace {

// Returns a bit mask of user inputs for each value: those that the value depends on. Leaves out
// bool masks, which are no sequences.
std::vector<uint64_t> inputs_of_values(const ExportedProgram& program) {
  std::vector<uint64_t> inputs(program.values.size(), 0);
  const std::vector<const ExportedInput*> given = program.user_inputs();
  for (size_t i = 0; i < given.size() && i < 64; ++i) {
    if (program.values[given[i]->value].type != ElementType::kBool) {
      inputs[given[i]->value] = uint64_t{1} << i;
    }
  }
  for (const Call& node : program.nodes) {
    uint64_t read = 0;
    for_each<ValueRef>(node, [&](ValueRef ref) { read |= inputs[ref.value]; });
    for (const uint32_t value : node.outputs) {
      if (program.values[value].kind == ValueKind::kTensor) inputs[value] = read;
    }
  }
  return inputs;
}

bool arranges(std::string_view op) {
  return is_one_of(op, {"view",      "reshape",  "_unsafe_view",     "transpose", "permute",
                        "unsqueeze", "squeeze",  "contiguous",       "clone",     "flatten",
                        "unflatten", "t",        "expand",           "dropout",   "to",
                        "_to_copy",  "chunk",    "split_with_sizes", "split",     "unbind",
                        "movedim",   "swapaxes", "numpy_T",          "mT",        "alias"});
}

bool takes_parts(std::string_view op) { return is_one_of(op, {"slice", "select", "narrow"}); }

bool sums(std::string_view op) {
  return is_one_of(op, {"add", "sub", "rsub", "mul", "div", "masked_fill"});
}

bool joins(std::string_view op) {
  return is_one_of(
      op, {"cat", "stack", "hstack", "pad", "constant_pad_nd", "roll", "flip", "index", "gather",
           "where", "index_select", "unfold", "repeat", "repeat_interleave"});
}

// Whether `path` is the module or one within it.
bool is_within(std::string_view path, std::string_view module) {
  return path.starts_with(module) && (path.size() == module.size() || path[module.size()] == '.');
}

constexpr size_t kLargeShare = 5;  // a suggested module has at least one in this many ops

// Whether a module is attention alone, judged by its name.
bool is_attention(const std::string& path) {
  const size_t end = path.find_last_not_of("0123456789.");
  const size_t begin = path.rfind('.', end);
  return path.substr(begin == std::string::npos ? 0 : begin).find("att") != std::string::npos;
}

struct Module {
  size_t ops = 0;
  bool attends = false;
  // Values from outside the module that its ops read, by the model inputs that the ops depend on.
  std::map<uint64_t, std::set<uint32_t>> read;

  // Whether the module is large enough to suggest, and reads one tensor for each model input.
  bool reads_one_tensor(size_t all_ops) const {
    uint64_t seen = 0;
    for (const auto& [of_inputs, values] : read) {
      if ((seen & of_inputs) != 0 || values.size() > 1) return false;
      seen |= of_inputs;
    }
    return attends && ops >= all_ops / kLargeShare;
  }
};

// Returns the largest module with attention that reads one tensor for each model input.
std::optional<std::string> module_of_one_tensor(const ExportedProgram& program) {
  const std::vector<uint64_t> inputs = inputs_of_values(program);
  std::vector<std::string_view> made_in(program.values.size());
  std::vector<uint32_t> read_as(program.values.size());  // of an embedding: its ids; else the value
  std::iota(read_as.begin(), read_as.end(), 0u);
  std::map<std::string, Module> modules;
  size_t ops = 0;
  for (const Call& node : program.nodes) {
    // An in-place op has no module path, so it counts for the module of its operand.
    std::string_view place = node.module_path;
    for_each<ValueRef>(node, [&](ValueRef ref) {
      if (place.empty() && inputs[ref.value] != 0) place = made_in[ref.value];
    });
    for (const uint32_t value : node.outputs) made_in[value] = place;
    const Argument* ids = node.op == "embedding" ? node.find("indices") : nullptr;
    const ValueRef* looked_up = ids != nullptr ? ids->as<ValueRef>() : nullptr;
    if (looked_up != nullptr) read_as[node.outputs.at(0)] = looked_up->value;
    if (node.outputs.empty() || inputs[node.outputs[0]] == 0) continue;
    ++ops;
    const std::string& path = node.module_path;
    for (size_t end = 0; end != std::string::npos && !path.empty();) {
      end = path.find('.', end + 1);
      const std::string name = path.substr(0, end);
      Module& module = modules[name];
      ++module.ops;
      module.attends = module.attends || node.op.find("softmax") != std::string::npos ||
                       node.op == "scaled_dot_product_attention";
      std::set<uint32_t>& read = module.read[inputs[node.outputs[0]]];
      for_each<ValueRef>(node, [&](ValueRef ref) {
        const bool is_inside = !made_in[ref.value].empty() && is_within(made_in[ref.value], name);
        if (inputs[ref.value] != 0 && !is_inside) read.insert(read_as[ref.value]);
      });
    }
  }
  std::optional<std::string> best;
  for (const auto& [name, module] : modules) {
    if (!module.reads_one_tensor(ops) || is_attention(name)) continue;
    if (!best || module.ops > modules[*best].ops) best = name;
  }
  return best;
}

// Converts "encoder.layers.0" to the Python expression ".encoder.layers[0]".
std::string as_attribute(std::string path) {
  std::string text;
  for (size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
    end = path.find('.', begin);
    const std::string part = path.substr(begin, end - begin);
    const bool is_number = part.find_first_not_of("0123456789") == std::string::npos;
    text += is_number ? "[" + part + "]" : "." + part;
  }
  return text;
}

bool same_extent(const Extent& a, const Extent& b) {
  return a.size == b.size && a.symbol == b.symbol;
}

// Whether the value is [.., tokens, tokens], with as many tokens as the first input.
bool is_of_pairs(const ExportedValue& value, const ExportedValue& first) {
  if (value.sizes.size() < 2 || first.sizes.size() < 2) return false;
  const Extent& keys = value.sizes.back();
  return same_extent(keys, value.sizes[value.sizes.size() - 2]) &&
         (same_extent(keys, first.sizes[0]) || same_extent(keys, first.sizes[1]));
}

}  // namespace

size_t refused_op_index(const InputError& error) {
  const auto* refused = dynamic_cast<const OpRefused*>(&error);
  return refused == nullptr ? SIZE_MAX : refused->op_index;
}

const Call* maker_of(const ExportedProgram& program, const std::vector<uint32_t>& values,
                     Cause cause) {
  std::map<uint32_t, const Call*> makers;
  for (const Call& node : program.nodes) {
    for (const uint32_t value : node.outputs) makers[value] = &node;
  }
  const std::vector<uint64_t> inputs = inputs_of_values(program);
  size_t dependent = 0;
  const Call* part = nullptr;
  for (uint32_t value : values) {
    dependent += inputs[value] != 0 ? 1 : 0;
    for (auto found = makers.find(value); found != makers.end(); found = makers.find(value)) {
      const Call& node = *found->second;
      std::optional<uint32_t> read;
      for_each<ValueRef>(node, [&](ValueRef ref) {
        if (inputs[ref.value] != 0 && !read) read = ref.value;
      });
      if (!read) break;
      if (cause == Cause::kSum ? sums(node.op) : joins(node.op)) return &node;
      if (part == nullptr && takes_parts(node.op)) part = &node;
      if (!takes_parts(node.op) && !arranges(node.op)) break;
      value = *read;
    }
  }
  return dependent == 1 ? part : nullptr;
}

std::string why_not_these_inputs(const ExportedProgram& program) {
  const std::vector<const ExportedInput*> inputs = program.user_inputs();
  std::vector<std::string> names;
  for (const ExportedInput* input : inputs) names.push_back(input->name);
  std::string text = fmt::format(
      "the model has {} inputs ({}); expected token ids or features, and at most a padding mask, "
      "lengths, positions or token types for these",
      inputs.size(), fmt::join(names, ", "));
  const ExportedValue& first = program.values[inputs[0]->value];
  for (size_t i = 1; i < inputs.size(); ++i) {
    if (is_of_pairs(program.values[inputs[i]->value], first)) {
      return fmt::format(
          "{}. Compute the mask {} in forward, as "
          "nn.Transformer.generate_square_subsequent_mask({}.size(1)) does, or keep it as a "
          "buffer; then export with {} alone",
          text, quote(inputs[i]->name), inputs[0]->name, quote(inputs[0]->name));
    }
  }
  if (const auto module = module_of_one_tensor(program)) {
    text += fmt::format(
        ". A module of it reads one sequence and can be exported alone: "
        "torch.export.export(model{}.eval(), (example,)), with the input of that module as the "
        "example",
        as_attribute(*module));
  } else {
    text +=
        ". Attention between the tokens of two inputs, and KV caches as inputs, are not supported";
  }
  const bool has_columns = is_real(first.type) && first.sizes.size() == 3;
  for (size_t i = 1; i < inputs.size() && has_columns; ++i) {
    const ExportedValue& value = program.values[inputs[i]->value];
    const size_t rank = value.sizes.size();
    const bool is_of_tokens = rank >= 2 && same_extent(value.sizes[1], first.sizes[1]);
    if (!is_real(value.type) || (!is_of_tokens && rank > 2)) continue;
    return fmt::format("{}; or concatenate {} to the columns of {}, {}, and slice them in forward",
                       text, quote(inputs[i]->name), quote(inputs[0]->name),
                       is_of_tokens ? "as by torch.cat(.., -1)" : "repeated for each token");
  }
  return text;
}

}  // namespace arenite::convert
