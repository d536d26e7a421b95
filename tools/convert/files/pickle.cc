// SPDX-License-Identifier: Apache-2.0
// The values of a pickle, and the few Python globals that a state dict needs.
#include "convert/files/pickle.h"

#include <fmt/format.h>
#include <algorithm>
#include <iterator>
#include <utility>

#include "convert/files/error.h"

namespace arenite::convert {
namespace {

struct OpcodeName {
  uint8_t opcode;
  const char* name;
};

constexpr OpcodeName kRefused[] = {
    {'i', "INST"},
    {'o', "OBJ"},
    {0x81, "NEWOBJ"},
    {0x92, "NEWOBJ_EX"},
    {0x82, "EXT1"},
    {0x83, "EXT2"},
    {0x84, "EXT4"},
    {'P', "PERSID"},
    {'g', "GET"},
    {'p', "PUT"},
    {'2', "DUP"},
    {'I', "INT"},
    {'L', "LONG"},
    {'F', "FLOAT"},
    {'S', "STRING"},
    {'T', "BINSTRING"},
    {'U', "SHORT_BINSTRING"},
    {'V', "UNICODE"},
    {'d', "DICT"},
    {'l', "LIST"},
    {0x8f, "EMPTY_SET"},
    {0x90, "ADDITEMS"},
    {0x91, "FROZENSET"},
    {0x96, "BYTEARRAY8"},
    {0x97, "NEXT_BUFFER"},
    {0x98, "READONLY_BUFFER"},
    {0x80, "PROTO"},
};

using Kind = PickleValue::Kind;
using Role = TorchGlobal::Role;

constexpr TorchGlobal kGlobals[] = {
    {"collections.OrderedDict", Role::kOrderedDict},
    {"torch._utils._rebuild_tensor_v2", Role::kRebuildTensorV2},
    {"torch._utils._rebuild_tensor_v3", Role::kRebuildTensorV3},
    {"torch._utils._rebuild_parameter", Role::kRebuildParameter},
    {"torch.Size", Role::kSize},
    {"torch.storage.UntypedStorage", Role::kUntypedStorage},
    {"torch.DoubleStorage", Role::kStorageClass, DType::kF64},
    {"torch.FloatStorage", Role::kStorageClass, DType::kF32},
    {"torch.HalfStorage", Role::kStorageClass, DType::kF16},
    {"torch.BFloat16Storage", Role::kStorageClass, DType::kBF16},
    {"torch.LongStorage", Role::kStorageClass, DType::kI64},
    {"torch.IntStorage", Role::kStorageClass, DType::kI32},
    {"torch.ShortStorage", Role::kStorageClass, DType::kI16},
    {"torch.CharStorage", Role::kStorageClass, DType::kI8},
    {"torch.ByteStorage", Role::kStorageClass, DType::kU8},
    {"torch.BoolStorage", Role::kStorageClass, DType::kBool},
    {"torch.float64", Role::kDType, DType::kF64},
    {"torch.float32", Role::kDType, DType::kF32},
    {"torch.float16", Role::kDType, DType::kF16},
    {"torch.bfloat16", Role::kDType, DType::kBF16},
    {"torch.int64", Role::kDType, DType::kI64},
    {"torch.int32", Role::kDType, DType::kI32},
    {"torch.int16", Role::kDType, DType::kI16},
    {"torch.int8", Role::kDType, DType::kI8},
    {"torch.uint8", Role::kDType, DType::kU8},
    {"torch.bool", Role::kDType, DType::kBool},
};

constexpr size_t kKeyCharactersMax = 64;

bool is_storage_key(std::string_view key) {
  const auto is_plain = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  return !key.empty() && key.size() <= kKeyCharactersMax &&
         std::all_of(key.begin(), key.end(), is_plain);
}

}  // namespace

ValueIndex add_value(Pickle& pickle, PickleValue value, const std::string& where) {
  if (pickle.values.size() == kPickleValuesMax) {
    throw InputError(
        "{}: more than {} Python values: save the weights alone, with "
        "torch.save(model.state_dict(), path)",
        where, kPickleValuesMax);
  }
  pickle.values.push_back(std::move(value));
  return static_cast<ValueIndex>(pickle.values.size() - 1);
}

const char* describe(PickleValue::Kind kind) {
  using Kind = PickleValue::Kind;
  switch (kind) {
    case Kind::kNone:
      return "None";
    case Kind::kBool:
      return "a bool";
    case Kind::kInt:
      return "an integer";
    case Kind::kFloat:
      return "a float";
    case Kind::kOpaque:
      return "bytes or a large integer";
    case Kind::kString:
      return "a string";
    case Kind::kList:
      return "a list";
    case Kind::kTuple:
      return "a tuple";
    case Kind::kDict:
      return "a dict";
    case Kind::kGlobal:
      return "a class or function";
    case Kind::kStorage:
      return "a storage";
    case Kind::kTensor:
      return "a tensor";
  }
  return "unknown";
}

std::string opcode_name(uint8_t opcode) {
  for (const OpcodeName& refused : kRefused) {
    if (refused.opcode == opcode) return refused.name;
  }
  return fmt::format("0x{:02x}", opcode);
}

ValueIndex TorchObjects::global(std::string_view module, std::string_view attribute) {
  const std::string name = fmt::format("{}.{}", module, attribute);
  const auto found = std::find_if(std::begin(kGlobals), std::end(kGlobals),
                                  [&](const TorchGlobal& known) { return known.name == name; });
  if (found == std::end(kGlobals)) {
    throw InputError(
        "{}: refuses global {}: only tensors and plain Python values are read, and no code is run; "
        "load the file with PyTorch and save it again with torch.save(model.state_dict(), path)",
        where_, quote(name));
  }
  return add({.kind = Kind::kGlobal, .integer = found - std::begin(kGlobals)});
}

ValueIndex TorchObjects::call(const PickleValue& function, const PickleValue& arguments) {
  const TorchGlobal& callee = global_of(function, "the callee of REDUCE");
  if (arguments.kind != Kind::kTuple) {
    throw InputError("{}: {} is called with {}: expected a tuple", where_, callee.name,
                     describe(arguments.kind));
  }
  switch (callee.role) {
    case Role::kOrderedDict:
      if (!arguments.items.empty()) break;
      return add({.kind = Kind::kDict, .is_ordered_dict = true});
    case Role::kRebuildTensorV2:
      return tensor(arguments, false);
    case Role::kRebuildTensorV3:
      return tensor(arguments, true);
    case Role::kRebuildParameter:
      if (arguments.items.empty() || item(arguments, 0).kind != Kind::kTensor) break;
      return arguments.items[0];
    case Role::kSize:
      if (arguments.items.size() != 1 || item(arguments, 0).kind != Kind::kTuple) break;
      return arguments.items[0];
    case Role::kStorageClass:
    case Role::kUntypedStorage:
    case Role::kDType:
      break;
  }
  throw InputError("{}: refuses to call {} with {} arguments of this kind: the file is damaged",
                   where_, callee.name, arguments.items.size());
}

ValueIndex TorchObjects::storage(const PickleValue& persistent_id) {
  const auto refuse = [&](std::string_view what) {
    throw InputError(
        "{}: the persistent id of a storage has {}: expected ('storage', class, key, location, "
        "number of elements); the file is damaged",
        where_, what);
  };
  if (persistent_id.kind != Kind::kTuple) refuse(describe(persistent_id.kind));
  if (persistent_id.items.size() != 5) {
    refuse(fmt::format("{} fields", persistent_id.items.size()));
  }
  if (item(persistent_id, 0).text != "storage") refuse("another first field");
  const TorchGlobal& storage_class = global_of(item(persistent_id, 1), "the storage's class");
  const bool is_untyped = storage_class.role == Role::kUntypedStorage;
  if (!is_untyped && storage_class.role != Role::kStorageClass) {
    refuse(fmt::format("the class {}", storage_class.name));
  }
  const std::string_view key = item(persistent_id, 2).text;
  if (!is_storage_key(key)) refuse(fmt::format("the key {}", quote(key)));
  if (item(persistent_id, 3).kind != Kind::kString) refuse("no location");
  const PickleValue& count = item(persistent_id, 4);
  uint64_t storage_bytes = 0;
  if (count.kind != Kind::kInt || count.integer < 0 ||
      !multiply(static_cast<uint64_t>(count.integer), bytes(storage_class.dtype), storage_bytes)) {
    refuse("a number of elements out of range");
  }
  const auto [place, is_new] = storage_indexes_.emplace(std::string(key), pickle_.storages.size());
  if (is_new) {
    pickle_.storages.push_back({place->first, storage_class.dtype, is_untyped, storage_bytes});
  }
  const PickledStorage& known = pickle_.storages[place->second];
  if (known.dtype != storage_class.dtype || known.is_untyped != is_untyped ||
      known.bytes != storage_bytes) {
    refuse(fmt::format("the key {} with two different types or sizes", quote(key)));
  }
  return add({.kind = Kind::kStorage, .integer = static_cast<int64_t>(place->second)});
}

const PickleValue& TorchObjects::item(const PickleValue& tuple, size_t position) const {
  return pickle_.values[tuple.items[position]];
}

const TorchGlobal& TorchObjects::global_of(const PickleValue& value,
                                           std::string_view expected) const {
  if (value.kind != Kind::kGlobal) {
    throw InputError("{}: {} is {}: expected a class or function; the file is damaged", where_,
                     expected, describe(value.kind));
  }
  return kGlobals[value.integer];
}

std::vector<uint64_t> TorchObjects::sizes(const PickleValue& tuple, std::string_view field) const {
  std::vector<uint64_t> numbers;
  bool is_valid = tuple.kind == Kind::kTuple && tuple.items.size() <= kRankMax;
  for (size_t i = 0; is_valid && i < tuple.items.size(); ++i) {
    is_valid = item(tuple, i).kind == Kind::kInt && item(tuple, i).integer >= 0;
    numbers.push_back(static_cast<uint64_t>(item(tuple, i).integer));
  }
  if (!is_valid) {
    throw InputError(
        "{}: the {} of a tensor is not a tuple of at most {} integers from 0: the file is damaged",
        where_, field, kRankMax);
  }
  return numbers;
}

// _rebuild_tensor_v2(storage, offset, size, stride, requires_grad, hooks[, metadata]);
// v3 has the dtype before the metadata, because its storage is untyped.
ValueIndex TorchObjects::tensor(const PickleValue& arguments, bool is_v3) {
  const size_t required = is_v3 ? 7 : 6;
  const size_t given = arguments.items.size();
  if (given != required && given != required + 1) {
    throw InputError("{}: a tensor is built from {} arguments: expected {} or {}", where_, given,
                     required, required + 1);
  }
  if (given == required + 1) {  // metadata such as a pending negation would change the values
    const PickleValue& metadata = item(arguments, required);
    if (metadata.kind != Kind::kNone && !(metadata.kind == Kind::kDict && metadata.items.empty())) {
      throw InputError(
          "{}: a tensor carries metadata, which is not read: save it again as tensor.clone()",
          where_);
    }
  }
  const PickleValue& storage = item(arguments, 0);
  const PickleValue& offset = item(arguments, 1);
  if (storage.kind != Kind::kStorage) {
    throw InputError("{}: a tensor is built from {}: expected a storage", where_,
                     describe(storage.kind));
  }
  if (offset.kind != Kind::kInt || offset.integer < 0) {
    throw InputError("{}: the offset of a tensor is not an integer from 0", where_);
  }
  if (pickle_.tensors.size() == kPickleTensorsMax) {
    throw InputError("{}: more than {} tensors", where_, kPickleTensorsMax);
  }
  PickledTensor tensor;
  tensor.storage_index = static_cast<size_t>(storage.integer);
  const PickledStorage& stored = pickle_.storages[tensor.storage_index];
  tensor.dtype = stored.dtype;
  if (is_v3) {
    const TorchGlobal& dtype = global_of(item(arguments, 6), "the dtype of a tensor");
    if (dtype.role != Role::kDType) {
      throw InputError("{}: the dtype of a tensor is {}", where_, dtype.name);
    }
    tensor.dtype = dtype.dtype;
  }
  if (stored.is_untyped != is_v3) {
    throw InputError("{}: the class of storage '{}' does not fit its tensor: the file is damaged",
                     where_, stored.key);
  }
  tensor.offset = static_cast<uint64_t>(offset.integer);
  tensor.shape = sizes(item(arguments, 2), "size");
  tensor.strides = sizes(item(arguments, 3), "stride");
  check_inside_storage(tensor);
  dimensions_ += tensor.shape.size();
  if (dimensions_ > kPickleDimensionsMax) {
    throw InputError("{}: its tensors have more than {} dimensions together", where_,
                     kPickleDimensionsMax);
  }
  pickle_.tensors.push_back(std::move(tensor));
  return add({.kind = Kind::kTensor, .integer = static_cast<int64_t>(pickle_.tensors.size() - 1)});
}

void TorchObjects::check_inside_storage(const PickledTensor& tensor) const {
  const PickledStorage& storage = pickle_.storages[tensor.storage_index];
  const uint64_t storage_elements = storage.bytes / bytes(tensor.dtype);
  bool fits = tensor.shape.size() == tensor.strides.size() && tensor.offset <= storage_elements;
  uint64_t elements = 1;
  for (const uint64_t extent : tensor.shape) fits = fits && multiply(elements, extent, elements);
  uint64_t last = tensor.offset;  // the index of the last element in the storage
  for (size_t i = 0; fits && elements > 0 && i < tensor.shape.size(); ++i) {
    uint64_t reach = 0;
    fits = multiply(tensor.shape[i] - 1, tensor.strides[i], reach) &&
           !__builtin_add_overflow(last, reach, &last);
  }
  if (!fits || (elements > 0 && last >= storage_elements)) {
    throw InputError(
        "{}: a tensor of size [{}], stride [{}] and offset {} reaches outside its storage '{}' of "
        "{} elements: the file is damaged",
        where_, fmt::join(tensor.shape, ", "), fmt::join(tensor.strides, ", "), tensor.offset,
        storage.key, storage_elements);
  }
}

}  // namespace arenite::convert
