// SPDX-License-Identifier: Apache-2.0
// Walks unpickled containers with limits on depth and work, so that neither deep nor shared
// containers do harm.
#include "convert/files/pickle.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "convert/files/error.h"

namespace arenite::convert {
namespace {

using Kind = PickleValue::Kind;

constexpr size_t kNameCharactersMax = 4096;
constexpr size_t kOptimizerItemsMax = 32;  // keys and values
constexpr size_t kAverageDepth = 3;        // {"ema": {"shadow": {name: tensor}}}
constexpr std::string_view kStateDictKeys[] = {"model_state_dict", "state_dict", "model"};

bool is_container(Kind kind) {
  return kind == Kind::kDict || kind == Kind::kList || kind == Kind::kTuple;
}

// Limits a walk over containers in proportion to the pickle's size, since containers may share
// parts.
class WalkBudget {
 public:
  WalkBudget(const Pickle& pickle, const std::string& where)
      : where_(where),
        values_max_(kWalkedValuesBase + kWalkedValuesPerByte * pickle.bytes),
        name_bytes_max_(kNameBytesBase + kNameBytesPerByte * pickle.bytes) {}

  void take_value() {
    if (++values_ <= values_max_) return;
    throw InputError(
        "{}: its containers hold more than {} values, as they share parts of each other: save the "
        "weights alone, with torch.save(model.state_dict(), path)",
        where_, values_max_);
  }

  void take_name(size_t bytes) {
    name_bytes_ += bytes;
    if (name_bytes_ <= name_bytes_max_) return;
    throw InputError("{}: its names have more than {} characters together", where_,
                     name_bytes_max_);
  }

 private:
  const std::string& where_;
  const uint64_t values_max_, name_bytes_max_;
  uint64_t values_ = 0;
  uint64_t name_bytes_ = 0;
};

bool is_dict_with_tensors(const Pickle& pickle, const PickleValue& value) {
  if (value.kind != Kind::kDict) return false;
  for (size_t i = 1; i < value.items.size(); i += 2) {
    if (pickle.values[value.items[i]].kind == Kind::kTensor) return true;
  }
  return false;
}

// Whether `value` is or contains a tensor, up to a few levels deep. `seen` holds the visited
// values.
bool holds_tensors(const Pickle& pickle, ValueIndex index, size_t depth,
                   std::set<ValueIndex>& seen) {
  const PickleValue& value = pickle.values[index];
  if (value.kind == Kind::kTensor) return true;
  if (depth == 0 || !is_container(value.kind) || !seen.insert(index).second) return false;
  return std::ranges::any_of(
      value.items, [&](ValueIndex item) { return holds_tensors(pickle, item, depth - 1, seen); });
}

bool has_key(const Pickle& pickle, const PickleValue& value, std::string_view key) {
  for (size_t i = 0; i < value.items.size(); i += 2) {
    const PickleValue& found = pickle.values[value.items[i]];
    if (found.kind == Kind::kString && found.text == key) return true;
  }
  return false;
}

// Whether the value is a torch.nn.Module saved by torch.save(model): its attributes without its
// code.
bool is_module(const Pickle& pickle, const PickleValue& value) {
  return value.kind == Kind::kObject && has_key(pickle, value, "_parameters");
}

bool is_optimizer(const Pickle& pickle, const PickleValue& value) {
  return value.kind == Kind::kDict && value.items.size() <= kOptimizerItemsMax &&
         has_key(pickle, value, "state") && has_key(pickle, value, "param_groups");
}

[[noreturn]] void refuse_module(const PickleValue& module, const std::string& where) {
  throw InputError("{}: it holds a pickled module, of class {}, whose code is not in the file. {}",
                   where, quote(module.text), kExportAdvice);
}

// Returns the value that names are relative to: the state dict of a training checkpoint, or the
// root.
ValueIndex find_state_dict(const Pickle& pickle, const std::string& where) {
  const PickleValue& root = pickle.values[pickle.root];
  if (is_module(pickle, root)) refuse_module(root, where);
  if (root.kind != Kind::kDict) return pickle.root;
  std::vector<ValueIndex> found;
  std::set<ValueIndex> without_tensors;  // looked through once, however often they stand there
  std::set<ValueIndex> seen;
  for (size_t i = 0; i < root.items.size() && found.size() < 2; i += 2) {
    const PickleValue& key = pickle.values[root.items[i]];
    const ValueIndex value = root.items[i + 1];
    if (key.kind != Kind::kString || without_tensors.contains(value)) continue;
    if (is_average(key.text) && holds_tensors(pickle, value, kAverageDepth, seen)) {
      return pickle.root;
    }
    if (std::ranges::count(kStateDictKeys, key.text) == 0) continue;
    if (is_module(pickle, pickle.values[value])) refuse_module(pickle.values[value], where);
    if (is_dict_with_tensors(pickle, pickle.values[value])) {
      found.push_back(value);
    } else {
      without_tensors.insert(value);
    }
  }
  return found.size() == 1 ? found[0] : pickle.root;
}

class Walk {
 public:
  Walk(const Pickle& pickle, const std::string& where)
      : pickle_(pickle), where_(where), budget_(pickle, where) {}

  std::vector<NamedTensor> run(ValueIndex start) {
    walk(pickle_.values[start]);
    return std::move(found_);
  }

 private:
  void walk(const PickleValue& container) {
    if (depth_ == kPickleDepthMax) {
      throw InputError("{}: {} is nested more than {} deep, or contains itself", where_,
                       quote(path_), kPickleDepthMax);
    }
    ++depth_;
    const size_t path_characters = path_.size();
    const bool is_dict = container.kind == Kind::kDict;
    for (size_t i = 0; i < container.items.size(); i += is_dict ? 2 : 1) {
      budget_.take_value();
      path_.resize(path_characters);
      const PickleValue& value = pickle_.values[container.items[is_dict ? i + 1 : i]];
      const bool is_unread =
          value.kind == Kind::kObject && value.text.find("_rebuild_") != std::string_view::npos;
      if (value.kind != Kind::kTensor && !is_unread && !is_container(value.kind)) continue;
      if (is_optimizer(pickle_, value)) continue;
      const PickleValue position = {.kind = Kind::kInt, .integer = static_cast<int64_t>(i)};
      extend_path(is_dict ? pickle_.values[container.items[i]] : position);
      if (is_unread) {
        throw InputError(
            "{}: tensor {} is of a kind that is not supported ({}): save it again as a plain one, "
            "as "
            "tensor.to_dense(), .dequantize() or .float() gives it",
            where_, quote(path_), value.text);
      }
      is_container(value.kind) ? walk(value) : add(value);
    }
    --depth_;
  }

  void add(const PickleValue& tensor) {
    refuse_if(found_.size() == kPickleTensorsMax, "{}: more than {} tensors", where_,
              kPickleTensorsMax);
    budget_.take_name(path_.size());
    if (!names_.insert(path_).second) {
      throw InputError("{}: the name {} stands for two tensors: expected each name once", where_,
                       quote(path_));
    }
    found_.push_back({path_, static_cast<size_t>(tensor.integer)});
  }

  void extend_path(const PickleValue& key) {
    if (key.kind != Kind::kString && key.kind != Kind::kInt) {
      throw InputError("{}: a key of the dict at {} is {}: expected a string or an integer", where_,
                       quote(path_), describe(key.kind));
    }
    const size_t key_characters = key.kind == Kind::kString ? key.text.size() : 20;
    if (path_.size() + 1 + key_characters > kNameCharactersMax) {
      throw InputError("{}: a name below {} has more than {} characters", where_, quote(path_),
                       kNameCharactersMax);
    }
    if (depth_ > 1) path_ += '.';
    if (key.kind == Kind::kString) {
      budget_.take_name(key.text.size());
      path_ += key.text;
    } else {
      path_ += fmt::format("{}", key.integer);
    }
  }

  const Pickle& pickle_;
  const std::string& where_;
  size_t depth_ = 0;  // of containers that are being walked
  std::string path_;
  WalkBudget budget_;
  std::set<std::string> names_;
  std::vector<NamedTensor> found_;
};

// Adds the plain values of the dict `value` to `values`, and returns the dicts in it with their
// names.
std::vector<std::pair<std::string, ValueIndex>> add_plain_values(
    const Pickle& pickle, ValueIndex dict, const std::string& prefix, WalkBudget& budget,
    std::map<std::string, std::string>& values) {
  std::vector<std::pair<std::string, ValueIndex>> inner;
  const std::vector<ValueIndex>& items = pickle.values[dict].items;
  for (size_t i = 0; i < items.size() && values.size() < kPlainValuesMax; i += 2) {
    budget.take_value();
    const PickleValue& key = pickle.values[items[i]];
    const PickleValue& value = pickle.values[items[i + 1]];
    const bool is_number = key.kind == Kind::kInt && !prefix.empty();
    if ((key.kind != Kind::kString && !is_number) || key.text.size() > kNameCharactersMax) continue;
    const bool is_plain = value.kind == Kind::kInt || value.kind == Kind::kFloat ||
                          value.kind == Kind::kBool || value.kind == Kind::kString;
    const bool has_items = value.kind == Kind::kDict || value.kind == Kind::kObject;
    if (!is_plain && !has_items) continue;
    const std::string name =
        prefix + (is_number ? fmt::format("{}", key.integer) : std::string(key.text));
    budget.take_name(name.size());
    if (value.kind == Kind::kInt) values[name] = fmt::format("{}", value.integer);
    if (value.kind == Kind::kFloat) values[name] = fmt::format("{}", value.real);
    if (value.kind == Kind::kBool) values[name] = value.integer != 0 ? "true" : "false";
    if (value.kind == Kind::kString && value.text.size() <= kNameCharactersMax) {
      budget.take_name(value.text.size());
      values[name] = value.text;
    }
    if (has_items) inner.emplace_back(name + ".", items[i + 1]);
  }
  return inner;
}

// Views may repeat elements (torch.expand, stride 0), so a few stored bytes can stand for any
// number of elements, under any number of names.
void check_named_bytes(const Pickle& pickle, const std::vector<NamedTensor>& names,
                       const std::string& where) {
  uint64_t named = 0;
  uint64_t stored = 0;
  bool fits = true;
  std::vector<bool> is_counted(pickle.storages.size());
  for (const NamedTensor& name : names) {
    const PickledTensor& tensor = pickle.tensors[name.tensor_index];
    uint64_t tensor_bytes = bytes(tensor.dtype);
    for (const uint64_t extent : tensor.shape) {
      fits = fits && multiply(tensor_bytes, extent, tensor_bytes);
    }
    fits = fits && !__builtin_add_overflow(named, tensor_bytes, &named);
    if (is_counted[tensor.storage_index]) continue;
    is_counted[tensor.storage_index] = true;
    stored += pickle.storages[tensor.storage_index].bytes;
  }
  const uint64_t bytes_max = kNamedBytesBase + kNamedPerStoredByte * stored;
  if (fits && named <= bytes_max) return;
  throw InputError(
      "{}: its tensors have {} bytes, which repeat the {} that are stored: at most {} are read; "
      "save tensor.contiguous() instead of the result of torch.expand",
      where, fits ? fmt::format("{}", named) : "more than 2^64", stored, bytes_max);
}

}  // namespace

std::map<std::string, std::string> plain_values(const Pickle& pickle, const std::string& where) {
  std::map<std::string, std::string> values;
  if (pickle.values[pickle.root].kind != Kind::kDict) return values;
  WalkBudget budget(pickle, where);
  for (const auto& [name, dict] : add_plain_values(pickle, pickle.root, "", budget, values)) {
    add_plain_values(pickle, dict, name, budget, values);
  }
  return values;
}

std::vector<NamedTensor> named_tensors(const Pickle& pickle, const std::string& where,
                                       bool is_whole) {
  std::vector<NamedTensor> found;
  const PickleValue& root = pickle.values[pickle.root];
  const ValueIndex start = is_whole ? pickle.root : find_state_dict(pickle, where);
  if (is_container(root.kind)) found = Walk(pickle, where).run(start);
  refuse_if(found.empty(),
            "{} holds {} and no named tensor: expected a dict of tensors; save one with "
            "torch.save(model.state_dict(), path)",
            where, describe(root.kind));
  check_named_bytes(pickle, found, where);
  return found;
}

}  // namespace arenite::convert
