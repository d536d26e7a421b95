// SPDX-License-Identifier: Apache-2.0
// The pickle machine: a stack, marks and a memo, all bounded, without recursion and without Python.
// It implements the few Python globals that a state dict needs, and keeps only the names of all
// others.
#include "convert/files/pickle.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <utility>

#include "convert/files/error.h"
#include "convert/files/input_limits.h"

namespace arenite::convert {
namespace {

using Kind = PickleValue::Kind;

constexpr const char* kKindNames[] = {
    "None",      "a bool",   "an integer", "a float", "bytes or a large integer",
    "a string",  "a list",   "a tuple",    "a dict",  "a class or function",
    "a storage", "a tensor", "an object"};
static_assert(std::size(kKindNames) == static_cast<size_t>(Kind::kObject) + 1);

// Roles of the classes and functions that construct values, other than element types (DTypeRow).
enum class Role : uint8_t {
  kOther,  // makes an object that is only named
  kDict,   // of a class that adds nothing to the items
  kRebuildTensorV2,
  kRebuildTensorV3,
  kRebuildParameter,
  kRebuildFromType,
  kTensorClass,
  kSize,
  kUntypedStorage,
  kStorage,
  kDType,
};

constexpr std::pair<std::string_view, Role> kGlobals[] = {
    {"collections.OrderedDict", Role::kDict},
    {"collections.defaultdict", Role::kDict},
    {"torch._utils._rebuild_tensor_v2", Role::kRebuildTensorV2},
    {"torch._utils._rebuild_tensor_v3", Role::kRebuildTensorV3},
    {"torch._utils._rebuild_parameter", Role::kRebuildParameter},
    {"torch._utils._rebuild_parameter_with_state", Role::kRebuildParameter},
    {"torch._tensor._rebuild_from_type_v2", Role::kRebuildFromType},
    {"torch.Tensor", Role::kTensorClass},
    {"torch.nn.parameter.Parameter", Role::kTensorClass},
    {"torch.nn.parameter.Buffer", Role::kTensorClass},
    {"torch.Size", Role::kSize},
    {"torch.storage.UntypedStorage", Role::kUntypedStorage},
};

constexpr size_t kKeyCharactersMax = 64;
constexpr ValueIndex kNoValue = ~ValueIndex{0};  // an empty place of the memo

bool is_storage_key(std::string_view key) {
  const auto is_plain = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  return !key.empty() && key.size() <= kKeyCharactersMax && std::ranges::all_of(key, is_plain);
}

// Makes the values of calls and persistent ids. Each function returns the index of its result in
// Pickle::values, and throws InputError for unsupported values.
class TorchObjects {
 public:
  TorchObjects(Pickle& pickle, const std::string& where) : pickle_(pickle), where_(where) {}

  ValueIndex add(PickleValue value) {
    if (pickle_.values.size() == kPickleValuesMax) {
      refuse(
          "more than {} Python values: save the weights alone, with torch.save(model.state_dict(), "
          "path)",
          kPickleValuesMax);
    }
    pickle_.values.push_back(std::move(value));
    return static_cast<ValueIndex>(pickle_.values.size() - 1);
  }

  // Returns the class or function `module`.`attribute`.
  ValueIndex global(std::string_view module, std::string_view attribute) {
    const std::string name = fmt::format("{}.{}", module, attribute);
    const auto [place, is_new] = global_indexes_.emplace(name, globals_.size());
    if (is_new) globals_.push_back(known_global(name));
    return add({.kind = Kind::kGlobal, .integer = static_cast<int64_t>(place->second)});
  }

  // Returns the result of calling `function` with the tuple `arguments`. Unknown functions are not
  // called.
  ValueIndex call(const PickleValue& function, const PickleValue& arguments) {
    if (function.kind == Kind::kObject) return object(function.text);
    const Global& callee = global_of(function, "the callee of REDUCE");
    if (callee.role == Role::kOther) return object(callee.name);
    if (arguments.kind != Kind::kTuple) {
      refuse("{} is called with {}: expected a tuple", callee.name, describe(arguments.kind));
    }
    const size_t count = arguments.items.size();
    const auto begins_with = [&](Kind kind) {
      return count != 0 && item(arguments, 0).kind == kind;
    };
    switch (callee.role) {
      case Role::kDict:  // defaultdict(list): the default factory
        return add({.kind = Kind::kDict});
      case Role::kRebuildTensorV2:
        return tensor(arguments, false);
      case Role::kRebuildTensorV3:
        return tensor(arguments, true);
      case Role::kRebuildParameter:
        if (!begins_with(Kind::kTensor) && !begins_with(Kind::kObject)) break;
        return arguments.items[0];
      case Role::kRebuildFromType:  // (function, class, arguments, attributes)
        return tensor_of_class(callee, arguments);
      case Role::kSize:
        if (count != 1 || !begins_with(Kind::kTuple)) break;
        return arguments.items[0];
      case Role::kTensorClass:
      case Role::kUntypedStorage:
      case Role::kStorage:
      case Role::kDType:
      case Role::kOther:
        break;
    }
    refuse("refuses to call {} with {} arguments of this kind: the file is damaged", callee.name,
           count);
  }

  // Returns the storage of the persistent id ('storage', class, key, location, number of elements).
  ValueIndex storage(const PickleValue& id) {
    const auto refuse_id = [&](std::string_view what) {
      refuse(
          "the persistent id of a storage has {}: expected ('storage', class, key, location, "
          "number "
          "of elements); the file is damaged",
          what);
    };
    if (id.kind != Kind::kTuple) refuse_id(describe(id.kind));
    if (id.items.size() != 5) refuse_id(fmt::format("{} fields", id.items.size()));
    if (item(id, 0).text != "storage") refuse_id("another first field");
    const Global& its_class = global_of(item(id, 1), "the storage's class");
    if (its_class.role == Role::kOther) return object(its_class.name);  // of no type of ours
    const bool is_untyped = its_class.role == Role::kUntypedStorage;
    if (!is_untyped && its_class.role != Role::kStorage) {
      refuse_id(fmt::format("the class {}", its_class.name));
    }
    const std::string_view key = item(id, 2).text;
    if (!is_storage_key(key)) refuse_id(fmt::format("the key {}", quote(key)));
    if (item(id, 3).kind != Kind::kString) refuse_id("no location");
    const PickleValue& count = item(id, 4);
    PickledStorage stored = {std::string(key), its_class.dtype, is_untyped, 0};
    if (count.kind != Kind::kInt || count.integer < 0 ||
        !multiply(static_cast<uint64_t>(count.integer), bytes(stored.dtype), stored.bytes)) {
      refuse_id("a number of elements out of range");
    }
    const auto [place, is_new] = storage_indexes_.emplace(key, pickle_.storages.size());
    if (is_new) pickle_.storages.push_back(stored);
    if (pickle_.storages[place->second] != stored) {
      refuse_id(fmt::format("the key {} with two different types or sizes", quote(key)));
    }
    return add({.kind = Kind::kStorage, .integer = static_cast<int64_t>(place->second)});
  }

 private:
  struct Global {
    std::string name;  // "torch._utils._rebuild_tensor_v2"
    Role role = Role::kOther;
    DType dtype = DType::kU8;  // of a storage or a dtype
  };

  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    throw InputError("{}: {}", where_, fmt::format(format, std::forward<Args>(args)...));
  }

  Global known_global(const std::string& name) const {
    for (const auto& [known, role] : kGlobals) {
      if (name == known) return {name, role};
    }
    if (const auto dtype = dtype_called(&DTypeRow::torch_storage, name)) {
      return {name, Role::kStorage, *dtype};
    }
    if (const auto dtype = dtype_called(&DTypeRow::torch_name, name)) {
      return {name, Role::kDType, *dtype};
    }
    return {name};
  }

  // Returns a placeholder for an object that `maker`, a class or function, would make.
  ValueIndex object(std::string_view maker) {
    return add({.kind = Kind::kObject, .text = *pickle_.classes.emplace(maker).first});
  }

  // Makes a parameter with attributes. Tensors of other classes may not hold plain numbers.
  ValueIndex tensor_of_class(const Global& callee, const PickleValue& arguments) {
    const auto role_of = [&](size_t position) {
      const PickleValue& value = item(arguments, position);
      return value.kind == Kind::kGlobal ? global_of(value, "").role : Role::kOther;
    };
    if (arguments.items.size() == 4 && role_of(1) == Role::kTensorClass &&
        role_of(0) != Role::kRebuildFromType) {
      return call(item(arguments, 0), item(arguments, 2));
    }
    return object(callee.name);
  }

  const PickleValue& item(const PickleValue& tuple, size_t position) const {
    return pickle_.values[tuple.items[position]];
  }

  const Global& global_of(const PickleValue& value, std::string_view expected) const {
    if (value.kind == Kind::kGlobal) return globals_[static_cast<size_t>(value.integer)];
    refuse("{} is {}: expected a class or function; the file is damaged", expected,
           describe(value.kind));
  }

  std::vector<uint64_t> sizes(const PickleValue& tuple, std::string_view field) const {
    std::vector<uint64_t> numbers;
    bool is_valid = tuple.kind == Kind::kTuple && tuple.items.size() <= kRankMax;
    for (size_t i = 0; is_valid && i < tuple.items.size(); ++i) {
      is_valid = item(tuple, i).kind == Kind::kInt && item(tuple, i).integer >= 0;
      numbers.push_back(static_cast<uint64_t>(item(tuple, i).integer));
    }
    if (is_valid) return numbers;
    refuse(
        "the {} of a tensor is not a tuple of at most {} non-negative integers: the file is "
        "damaged",
        field, kRankMax);
  }

  // _rebuild_tensor_v2(storage, offset, size, stride, requires_grad, hooks[, metadata]);
  // v3 has the dtype before the metadata, because its storage is untyped.
  ValueIndex tensor(const PickleValue& arguments, bool is_v3) {
    const size_t required = is_v3 ? 7 : 6;
    const size_t given = arguments.items.size();
    if (given != required && given != required + 1) {
      refuse("a tensor is built from {} arguments: expected {} or {}", given, required,
             required + 1);
    }
    if (given == required + 1) {  // metadata such as a pending negation would change the values
      const PickleValue& data = item(arguments, required);
      if (data.kind != Kind::kNone && !(data.kind == Kind::kDict && data.items.empty())) {
        refuse(
            "a tensor carries metadata, which is not supported: save it again as tensor.clone()");
      }
    }
    const PickleValue& storage = item(arguments, 0);
    const PickleValue& offset = item(arguments, 1);
    if (storage.kind == Kind::kObject) {
      return object(fmt::format("{}, _rebuild_tensor_v2", storage.text));
    }
    if (storage.kind != Kind::kStorage) {
      refuse("a tensor is built from {}: expected a storage", describe(storage.kind));
    }
    if (offset.kind != Kind::kInt || offset.integer < 0) {
      refuse("the offset of a tensor is not a non-negative integer");
    }
    if (pickle_.tensors.size() == kPickleTensorsMax) {
      refuse("more than {} tensors", kPickleTensorsMax);
    }
    const auto storage_index = static_cast<size_t>(storage.integer);
    const PickledStorage& stored = pickle_.storages[storage_index];
    DType dtype = stored.dtype;
    if (is_v3) {
      const Global& named = global_of(item(arguments, 6), "the dtype of a tensor");
      if (named.role == Role::kOther)
        return object(fmt::format("{}, _rebuild_tensor_v3", named.name));
      if (named.role != Role::kDType) refuse("the dtype of a tensor is {}", named.name);
      dtype = named.dtype;
    }
    if (stored.is_untyped != is_v3) {
      refuse("the class of storage '{}' does not fit its tensor: the file is damaged", stored.key);
    }
    pickle_.tensors.push_back({storage_index, dtype, static_cast<uint64_t>(offset.integer),
                               sizes(item(arguments, 2), "size"),
                               sizes(item(arguments, 3), "stride")});
    check_inside_storage(pickle_.tensors.back());
    dimensions_ += pickle_.tensors.back().shape.size();
    if (dimensions_ > kPickleDimensionsMax) {
      refuse("its tensors have more than {} dimensions together", kPickleDimensionsMax);
    }
    return add(
        {.kind = Kind::kTensor, .integer = static_cast<int64_t>(pickle_.tensors.size() - 1)});
  }

  void check_inside_storage(const PickledTensor& tensor) const {
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
    if (fits && (elements == 0 || last < storage_elements)) return;
    refuse(
        "a tensor of size [{}], stride [{}] and offset {} reaches outside its storage '{}' of {} "
        "elements: the file is damaged",
        fmt::join(tensor.shape, ", "), fmt::join(tensor.strides, ", "), tensor.offset, storage.key,
        storage_elements);
  }

  Pickle& pickle_;
  const std::string& where_;
  std::vector<Global> globals_;  // named by values
  std::map<std::string, size_t> global_indexes_;
  std::map<std::string, size_t, std::less<>> storage_indexes_;
  size_t dimensions_ = 0;  // of all tensors
};

class Unpickler {
 public:
  Unpickler(std::span<const std::byte> bytes, const std::string& where)
      : where_(where),
        bytes_(reinterpret_cast<const char*>(bytes.data()), bytes.size()),
        objects_(pickle_, where) {
    pickle_.bytes = bytes.size();
  }

  Pickle run() {
    if (number(1) != kProto) fail("a pickle begins with PROTO");
    const uint64_t protocol = number(1);
    if (protocol < 2 || protocol > 5) fail("protocol {}: expected 2 to 5", protocol);
    for (auto code = number(1); code != kStop; code = number(1)) {
      const auto opcode = std::ranges::find(opcodes(), code, &Opcode::code);
      if (opcode == opcodes().end()) {
        fail("refuses opcode 0x{:02x}, which torch.save does not write", code);
      }
      if (opcode->run == nullptr) {
        fail("refuses opcode {}, which torch.save does not write", opcode->name);
      }
      (this->*opcode->run)(opcode->bytes != 0 ? number(opcode->bytes) : opcode->argument);
    }
    pickle_.root = pop();
    if (!stack_.empty() || !marks_.empty()) fail("STOP with values left on the stack");
    if (position_ != bytes_.size()) fail("{} bytes follow STOP", bytes_.size() - position_);
    return std::move(pickle_);
  }

 private:
  static constexpr uint8_t kProto = 0x80;
  static constexpr uint8_t kStop = '.';

  struct Opcode {
    uint8_t code = 0;
    const char* name = "";
    void (Unpickler::*run)(uint64_t argument) = nullptr;  // null: refused by name
    size_t bytes = 0;                                     // of the argument that follows; 0: none,
    uint64_t argument = 0;                                // it is this
  };

  static std::span<const Opcode> opcodes() {
    using U = Unpickler;
    static constexpr auto kList = static_cast<uint64_t>(Kind::kList);
    static constexpr auto kTuple = static_cast<uint64_t>(Kind::kTuple);
    static constexpr auto kDict = static_cast<uint64_t>(Kind::kDict);
    static constexpr Opcode kOpcodes[] = {
        {'N', "NONE", &U::push_empty, 0, static_cast<uint64_t>(Kind::kNone)},
        {0x88, "NEWTRUE", &U::push_bool, 0, 1},
        {0x89, "NEWFALSE", &U::push_bool, 0, 0},
        {'J', "BININT", &U::push_int32, 4},
        {'K', "BININT1", &U::push_int, 1},
        {'M', "BININT2", &U::push_int, 2},
        {0x8a, "LONG1", &U::push_long, 1},
        {0x8b, "LONG4", &U::push_long, 4},
        {'G', "BINFLOAT", &U::push_float, 8},
        {0x8c, "SHORT_BINUNICODE", &U::push_string, 1},
        {'X', "BINUNICODE", &U::push_string, 4},
        {0x8d, "BINUNICODE8", &U::push_string, 8},
        {'C', "SHORT_BINBYTES", &U::push_bytes, 1},
        {'B', "BINBYTES", &U::push_bytes, 4},
        {0x8e, "BINBYTES8", &U::push_bytes, 8},
        {'q', "BINPUT", &U::memoize, 1},
        {'r', "LONG_BINPUT", &U::memoize, 4},
        {0x94, "MEMOIZE", &U::memoize_next},
        {'h', "BINGET", &U::recall, 1},
        {'j', "LONG_BINGET", &U::recall, 4},
        {0x95, "FRAME", &U::check_frame, 8},
        {'(', "MARK", &U::mark},
        {'0', "POP", &U::drop},
        {'1', "POP_MARK", &U::drop_to_mark},
        {'}', "EMPTY_DICT", &U::push_empty, 0, kDict},
        {']', "EMPTY_LIST", &U::push_empty, 0, kList},
        {')', "EMPTY_TUPLE", &U::push_empty, 0, kTuple},
        {'t', "TUPLE", &U::push_tuple, 0, kToMark},
        {0x85, "TUPLE1", &U::push_tuple, 0, 1},
        {0x86, "TUPLE2", &U::push_tuple, 0, 2},
        {0x87, "TUPLE3", &U::push_tuple, 0, 3},
        {'a', "APPEND", &U::append, 0, 1},
        {'e', "APPENDS", &U::append, 0, kToMark},
        {'s', "SETITEM", &U::set_items, 0, 2},
        {'u', "SETITEMS", &U::set_items, 0, kToMark},
        {'c', "GLOBAL", &U::find_global},
        {0x93, "STACK_GLOBAL", &U::find_stack_global},
        {'R', "REDUCE", &U::call},
        {'Q', "BINPERSID", &U::find_storage},
        {0x81, "NEWOBJ", &U::call},
        {0x92, "NEWOBJ_EX", &U::call_with_names},
        {'b', "BUILD", &U::build},
        {0x8f, "EMPTY_SET", &U::push_empty, 0, static_cast<uint64_t>(Kind::kOpaque)},
        {0x90, "ADDITEMS", &U::drop_to_mark},
        {0x91, "FROZENSET", &U::push_frozen_set},
        {0x96, "BYTEARRAY8", &U::push_bytes, 8},
        {'i', "INST"},
        {'o', "OBJ"},
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
        {0x97, "NEXT_BUFFER"},
        {0x98, "READONLY_BUFFER"},
        {kProto, "PROTO"},
    };
    return kOpcodes;
  }

  // ---- opcodes; those without an argument ignore it ----

  void push_empty(uint64_t kind) { push({.kind = static_cast<Kind>(kind)}); }
  void push_bool(uint64_t value) {
    push({.kind = Kind::kBool, .integer = static_cast<int64_t>(value)});
  }
  void push_int(uint64_t value) {
    push({.kind = Kind::kInt, .integer = static_cast<int64_t>(value)});
  }
  void push_int32(uint64_t bits) {
    push({.kind = Kind::kInt, .integer = static_cast<int32_t>(static_cast<uint32_t>(bits))});
  }
  // Pickles store floats in big-endian order.
  void push_float(uint64_t bits) {
    push({.kind = Kind::kFloat, .real = std::bit_cast<double>(__builtin_bswap64(bits))});
  }
  void push_long(uint64_t length) {
    const std::string_view digits = text(length);  // little endian, two's complement
    if (length > sizeof(int64_t)) return push({.kind = Kind::kOpaque});
    const bool is_negative = !digits.empty() && (digits.back() & 0x80) != 0;
    int64_t value = is_negative ? -1 : 0;
    std::memcpy(&value, digits.data(), digits.size());
    push({.kind = Kind::kInt, .integer = value});
  }
  void push_string(uint64_t length) { push({.kind = Kind::kString, .text = text(length)}); }
  void push_bytes(uint64_t length) {
    text(length);
    push({.kind = Kind::kOpaque});
  }

  void memoize(uint64_t place) {
    // Python numbers memo entries consecutively, so there are fewer of them than bytes in the file.
    const size_t places_max = std::min(bytes_.size(), kPickleValuesMax);
    if (place >= places_max) fail("the memo has more than {} entries", places_max);
    if (place >= memo_.size()) memo_.resize(static_cast<size_t>(place) + 1, kNoValue);
    require(1);
    memo_[static_cast<size_t>(place)] = stack_.back();
  }
  void memoize_next(uint64_t) { memoize(memo_.size()); }
  void recall(uint64_t place) {
    if (place >= memo_.size() || memo_[static_cast<size_t>(place)] == kNoValue) {
      fail("the memo has no entry {}", place);
    }
    push_index(memo_[static_cast<size_t>(place)]);
  }
  void check_frame(uint64_t length) {  // only a hint for buffering
    if (length > bytes_.size() - position_) fail("a frame reaches beyond the end");
  }

  void mark(uint64_t) {
    if (marks_.size() == kPickleDepthMax) fail("more than {} nested marks", kPickleDepthMax);
    marks_.push_back(stack_.size());
  }
  void drop(uint64_t) { pop(); }
  void drop_to_mark(uint64_t) { pop_many(kToMark); }
  void push_tuple(uint64_t count) { push({.kind = Kind::kTuple, .items = pop_many(count)}); }
  void append(uint64_t count) { add_items(Kind::kList, pop_many(count)); }
  void set_items(uint64_t count) { add_items(Kind::kDict, pop_many(count)); }

  void find_global(uint64_t) {
    const std::string_view module = line();
    push_index(objects_.global(module, line()));
  }
  void find_stack_global(uint64_t) {
    const std::vector<ValueIndex> names = pop_many(2);
    const PickleValue& module = pickle_.values[names[0]];
    const PickleValue& attribute = pickle_.values[names[1]];
    if (module.kind != Kind::kString || attribute.kind != Kind::kString) {
      fail("STACK_GLOBAL needs two strings");
    }
    push_index(objects_.global(module.text, attribute.text));
  }
  void call(uint64_t) {
    const std::vector<ValueIndex> call = pop_many(2);
    push_index(objects_.call(pickle_.values[call[0]], pickle_.values[call[1]]));
  }
  void find_storage(uint64_t) { push_index(objects_.storage(pickle_.values[pop()])); }
  void call_with_names(uint64_t) {
    pop();
    call(0);
  }
  void push_frozen_set(uint64_t) {
    drop_to_mark(0);
    push({.kind = Kind::kOpaque});
  }
  // Ignores extra state of containers, such as _metadata. The state of an object is a dict of
  // attributes, or a pair of that and a dict for __slots__.
  void build(uint64_t) {
    const PickleValue& state = pickle_.values[pop()];
    PickleValue& target = top();
    if (target.kind != Kind::kObject) {
      if (target.kind == Kind::kDict || target.kind == Kind::kList) return;
      fail("refuses BUILD of {} with {}", describe(target.kind), describe(state.kind));
    }
    if (state.kind == Kind::kDict) target.items = state.items;
  }

  // ---- the stack ----

  void add_items(Kind kind, const std::vector<ValueIndex>& items) {
    PickleValue& container = top();
    if (container.kind == Kind::kObject) container = {.kind = kind};  // of a class made of this one
    if (container.kind != kind) fail("adds items to {}", describe(container.kind));
    if (kind == Kind::kDict && items.size() % 2 != 0) fail("a dict item has a key and no value");
    container.items.insert(container.items.end(), items.begin(), items.end());
  }

  void push(PickleValue value) { push_index(objects_.add(std::move(value))); }

  void push_index(ValueIndex index) {
    if (stack_.size() == kPickleValuesMax) fail("more than {} values at once", kPickleValuesMax);
    stack_.push_back(index);
  }

  // Values below the last mark belong to an enclosing container.
  void require(uint64_t count) const {
    const size_t floor = marks_.empty() ? 0 : marks_.back();
    if (stack_.size() - floor < count) fail("the stack is empty where a value is needed");
  }

  PickleValue& top() {
    require(1);
    return pickle_.values[stack_.back()];
  }

  ValueIndex pop() { return pop_many(1)[0]; }

  static constexpr uint64_t kToMark = UINT64_MAX;

  // Pops `count` values, or all above the last mark and the mark itself.
  std::vector<ValueIndex> pop_many(uint64_t count) {
    if (count == kToMark && marks_.empty()) fail("no mark where one is needed");
    if (count == kToMark) {
      count = stack_.size() - marks_.back();
      marks_.pop_back();
    } else {
      require(count);
    }
    const auto first = stack_.end() - static_cast<ptrdiff_t>(count);
    std::vector<ValueIndex> items(first, stack_.end());
    stack_.erase(first, stack_.end());
    return items;
  }

  // ---- reading bytes ----

  std::string_view text(uint64_t length) {
    if (length > bytes_.size() - position_) fail("ends in the middle of an opcode");
    const std::string_view found = bytes_.substr(position_, static_cast<size_t>(length));
    position_ += found.size();
    return found;
  }

  std::string_view line() {
    const size_t end = bytes_.find('\n', position_);
    if (end == std::string_view::npos) fail("ends in the middle of a name");
    const std::string_view found = text(end - position_);
    ++position_;
    return found;
  }

  uint64_t number(size_t length) {  // little endian
    uint64_t value = 0;
    std::memcpy(&value, text(length).data(), length);
    return value;
  }

  template <typename... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    throw InputError(
        "{}, byte {}: {}; save the file again with torch.save(model.state_dict(), path)", where_,
        position_, fmt::format(format, std::forward<Args>(args)...));
  }

  const std::string& where_;
  std::string_view bytes_;
  size_t position_ = 0;
  Pickle pickle_;
  TorchObjects objects_;
  std::vector<ValueIndex> stack_;
  std::vector<size_t> marks_;  // heights of the stack
  std::vector<ValueIndex> memo_;
};

}  // namespace

const char* describe(PickleValue::Kind kind) { return kKindNames[static_cast<size_t>(kind)]; }

Pickle unpickle(std::span<const std::byte> bytes, const std::string& where) {
  refuse_if(bytes.size() > kPickleBytesMax, "{} has {} bytes: at most {} are accepted", where,
            bytes.size(), kPickleBytesMax);
  return Unpickler(bytes, where).run();
}

}  // namespace arenite::convert
