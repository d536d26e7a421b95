// SPDX-License-Identifier: Apache-2.0
// What a restricted unpickling yields: plain values, and tensors described but not read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "convert/files/checkpoint.h"
#include "convert/files/input_limits.h"

namespace arenite::convert {

using ValueIndex = uint32_t;  // into Pickle::values; containers share values as Python does

struct PickleValue {
  enum class Kind : uint8_t {
    kNone,
    kBool,     // integer: 0 or 1
    kInt,      // integer
    kFloat,    // real
    kOpaque,   // bytes, an integer of more than 64 bits: read over, never used
    kString,   // text, a view of the pickle's bytes
    kList,     // items
    kTuple,    // items
    kDict,     // items: key, value, key, value, ...
    kGlobal,   // integer: a TorchGlobal
    kStorage,  // integer: index into Pickle::storages
    kTensor,   // integer: index into Pickle::tensors
  };
  Kind kind = Kind::kNone;
  bool is_ordered_dict = false;  // of a kDict: may carry attributes such as _metadata
  int64_t integer = 0;
  double real = 0.0;
  std::string_view text{};
  std::vector<ValueIndex> items{};
};

struct PickledStorage {
  std::string key;  // names the archive's member data/<key>
  DType dtype;      // of the storage's class; U8 for an untyped one
  bool is_untyped;
  uint64_t bytes;
};

struct PickledTensor {
  size_t storage_index;
  DType dtype;
  uint64_t offset;  // in elements
  std::vector<uint64_t> shape;
  std::vector<uint64_t> strides;  // in elements; the last element lies inside the storage
};

struct Pickle {
  uint64_t bytes = 0;                    // of the file that it was read from
  std::deque<PickleValue> values;        // grows without holding everything twice
  std::vector<PickledStorage> storages;  // keys are unique
  std::vector<PickledTensor> tensors;
  ValueIndex root = 0;
};

// Appends `value` and returns its index. Throws InputError beyond kPickleValuesMax.
ValueIndex add_value(Pickle& pickle, PickleValue value, const std::string& where);

// For messages: "a string".
const char* describe(PickleValue::Kind kind);

}  // namespace arenite::convert
