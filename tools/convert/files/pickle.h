// SPDX-License-Identifier: Apache-2.0
// A restricted reader of Python pickles: it builds plain values and tensor descriptions and nothing
// else, calls nothing, and refuses by name whatever would need more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
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

namespace op {
constexpr uint8_t kProto = 0x80;
constexpr uint8_t kStop = '.';
constexpr uint8_t kFrame = 0x95;

constexpr uint8_t kNone = 'N';
constexpr uint8_t kNewTrue = 0x88;
constexpr uint8_t kNewFalse = 0x89;
constexpr uint8_t kBinInt = 'J';
constexpr uint8_t kBinInt1 = 'K';
constexpr uint8_t kBinInt2 = 'M';
constexpr uint8_t kLong1 = 0x8a;
constexpr uint8_t kLong4 = 0x8b;
constexpr uint8_t kBinFloat = 'G';

constexpr uint8_t kShortBinUnicode = 0x8c;
constexpr uint8_t kBinUnicode = 'X';
constexpr uint8_t kBinUnicode8 = 0x8d;
constexpr uint8_t kShortBinBytes = 'C';
constexpr uint8_t kBinBytes = 'B';
constexpr uint8_t kBinBytes8 = 0x8e;

constexpr uint8_t kBinPut = 'q';
constexpr uint8_t kLongBinPut = 'r';
constexpr uint8_t kMemoize = 0x94;
constexpr uint8_t kBinGet = 'h';
constexpr uint8_t kLongBinGet = 'j';

constexpr uint8_t kMark = '(';
constexpr uint8_t kPop = '0';
constexpr uint8_t kPopMark = '1';
constexpr uint8_t kEmptyDict = '}';
constexpr uint8_t kEmptyList = ']';
constexpr uint8_t kEmptyTuple = ')';
constexpr uint8_t kTuple = 't';
constexpr uint8_t kTuple1 = 0x85;
constexpr uint8_t kTuple2 = 0x86;
constexpr uint8_t kTuple3 = 0x87;
constexpr uint8_t kAppend = 'a';
constexpr uint8_t kAppends = 'e';
constexpr uint8_t kSetItem = 's';
constexpr uint8_t kSetItems = 'u';

constexpr uint8_t kGlobal = 'c';
constexpr uint8_t kStackGlobal = 0x93;
constexpr uint8_t kReduce = 'R';
constexpr uint8_t kBinPersId = 'Q';
constexpr uint8_t kBuild = 'b';
}  // namespace op

// For messages: the name of an opcode that is not read, such as "NEWOBJ", or its number.
std::string opcode_name(uint8_t opcode);

// A class or function that a pickle may name; the DType of storages and dtypes is in the table.
struct TorchGlobal {
  enum class Role {
    kOrderedDict,
    kRebuildTensorV2,
    kRebuildTensorV3,
    kRebuildParameter,
    kSize,
    kStorageClass,
    kUntypedStorage,
    kDType,
  };
  std::string_view name;  // "torch._utils._rebuild_tensor_v2"
  Role role;
  DType dtype = DType::kU8;
};

// Makes the values of calls and persistent ids. Keeps a reference to `pickle` and `where`.
class TorchObjects {
 public:
  TorchObjects(Pickle& pickle, const std::string& where) : pickle_(pickle), where_(where) {}

  // Each returns the index of its result in Pickle::values and throws InputError when refused.

  // The class or function `module`.`attribute`, refused by name unless it is one of the few known.
  ValueIndex global(std::string_view module, std::string_view attribute);

  // The result of calling `function` with the tuple `arguments`.
  ValueIndex call(const PickleValue& function, const PickleValue& arguments);

  // The storage of the persistent id ('storage', class, key, location, number of elements).
  ValueIndex storage(const PickleValue& persistent_id);

 private:
  ValueIndex add(PickleValue value) { return add_value(pickle_, std::move(value), where_); }
  const PickleValue& item(const PickleValue& tuple, size_t position) const;
  const TorchGlobal& global_of(const PickleValue& value, std::string_view expected) const;
  std::vector<uint64_t> sizes(const PickleValue& tuple, std::string_view field) const;
  ValueIndex tensor(const PickleValue& arguments, bool is_v3);
  void check_inside_storage(const PickledTensor& tensor) const;

  Pickle& pickle_;
  const std::string& where_;
  std::map<std::string, size_t> storage_indexes_;
  size_t dimensions_ = 0;  // of all tensors
};

// Reads one pickle (protocol 2 to 5) that torch.save wrote. The strings of the result view `bytes`.
// Throws InputError; `where` says in its messages which file this is.
Pickle unpickle(std::span<const std::byte> bytes, const std::string& where);

struct NamedTensor {
  std::string name;     // dotted path of dict keys and list positions: "encoder.0.weight"
  size_t tensor_index;  // into Pickle::tensors
};

// The tensors in the order of the pickle, with unique names. Where the outermost dict is a training
// checkpoint, that is, exactly one of its keys `model_state_dict`, `state_dict` and `model` holds a
// dict with tensors, only that dict counts and names start there. Other values are passed over.
// Containers may share parts, and tensors elements; what all names together stand for is bounded by
// the size of the pickle and of the storages. Throws InputError; `where` says in its messages which
// file this is.
std::vector<NamedTensor> named_tensors(const Pickle& pickle, const std::string& where);

// Integers, floats, booleans ("true") and strings of the outermost dict by their key, and those of
// the dicts directly inside it as "model_args.n_head" and "itos.0": what training programs keep
// beside the weights. Floats are written so that they read back the same. Other values are left
// out. Throws InputError for more of them than a pickle of this size can hold.
std::map<std::string, std::string> plain_values(const Pickle& pickle, const std::string& where);

}  // namespace arenite::convert
