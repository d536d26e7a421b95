// SPDX-License-Identifier: Apache-2.0
// A restricted reader of Python pickles: builds plain values and tensor descriptions, and calls
// nothing. An object of an unknown class is read as its class name and attributes.
//
//   const Pickle pickle = unpickle(bytes, quote(path));
//   for (const NamedTensor& tensor : named_tensors(pickle, quote(path))) ...
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "convert/files/checkpoint.h"
#include "convert/files/input_limits.h"

namespace arenite::convert {

using ValueIndex = uint32_t;  // into Pickle::values; shared values have one index, as in Python

struct PickleValue {
  enum class Kind : uint8_t {
    kNone,
    kBool,     // integer: 0 or 1
    kInt,      // integer
    kFloat,    // real
    kOpaque,   // bytes, and integers of more than 64 bits: skipped
    kString,   // text, a view of the pickle's bytes
    kList,     // items
    kTuple,    // items
    kDict,     // items: key, value, key, value, ...
    kGlobal,   // integer: a TorchGlobal
    kStorage,  // integer: index into Pickle::storages
    kTensor,   // integer: index into Pickle::tensors
    kObject,   // text: the class or function that would make it; items: attributes, as in a dict
  };
  Kind kind = Kind::kNone;
  int64_t integer = 0;
  double real = 0.0;
  std::string_view text{};
  std::vector<ValueIndex> items{};
};

struct PickledStorage {
  std::string key;  // member data/<key> of the archive
  DType dtype;      // of the storage's class; U8 for an untyped one
  bool is_untyped;
  uint64_t bytes;
  friend bool operator==(const PickledStorage&, const PickledStorage&) = default;
};

struct PickledTensor {
  size_t storage_index;
  DType dtype;
  uint64_t offset;  // in elements
  std::vector<uint64_t> shape;
  std::vector<uint64_t> strides;  // in elements; the last element lies inside the storage
};

struct Pickle {
  uint64_t bytes = 0;                    // size of the file that it was read from
  std::deque<PickleValue> values;        // a deque grows without copying
  std::vector<PickledStorage> storages;  // keys are unique
  std::vector<PickledTensor> tensors;
  std::set<std::string, std::less<>> classes;  // classes of objects
  ValueIndex root = 0;
};

// Returns "a string", for messages.
const char* describe(PickleValue::Kind kind);

// Reads one pickle (protocol 2 to 5) that torch.save wrote. Strings of the result are views of
// `bytes`. Throws InputError; `where` names the file in its messages.
Pickle unpickle(std::span<const std::byte> bytes, const std::string& where);

struct NamedTensor {
  std::string name;     // dotted path of dict keys and list positions: "encoder.0.weight"
  size_t tensor_index;  // into Pickle::tensors
};

// Returns the tensors in the order of the pickle, with unique names. If the outermost dict is a
// training checkpoint (exactly one of its keys `model_state_dict`, `state_dict` and `model` holds a
// dict with tensors), returns only that dict's tensors, with names relative to it; but not with
// `is_whole`, or if there is also an average of the same weights (is_average). Skips other values,
// and optimizer states. Containers may share parts, and tensors may share elements; the total over
// all names is bounded by the sizes of the pickle and of the storages. Throws InputError; `where`
// names the file in its messages.
std::vector<NamedTensor> named_tensors(const Pickle& pickle, const std::string& where,
                                       bool is_whole = false);

// Returns integers, floats, booleans ("true") and strings of the outermost dict by key, and those
// of dicts directly inside it as "model_args.n_head" and "itos.0": what training programs save next
// to the weights. Floats round-trip. Omits other values. Throws InputError for more values than a
// pickle of this size can hold.
std::map<std::string, std::string> plain_values(const Pickle& pickle, const std::string& where);

}  // namespace arenite::convert
