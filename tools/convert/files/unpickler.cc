// SPDX-License-Identifier: Apache-2.0
// The pickle machine: a stack, marks and a memo, all bounded; no recursion and no Python.
#include "convert/files/pickle.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "convert/files/error.h"

namespace arenite::convert {
namespace {

using Kind = PickleValue::Kind;

constexpr ValueIndex kNoValue = ~ValueIndex{0};  // an empty place of the memo

class Unpickler {
 public:
  Unpickler(std::span<const std::byte> bytes, const std::string& where)
      : where_(where),
        bytes_(reinterpret_cast<const char*>(bytes.data()), bytes.size()),
        objects_(pickle_, where) {
    pickle_.bytes = bytes.size();
  }

  Pickle run() {
    if (take<uint8_t>() != op::kProto) fail("a pickle begins with PROTO");
    const auto protocol = take<uint8_t>();
    if (protocol < 2 || protocol > 5) fail("protocol {}: expected 2 to 5", protocol);
    while (true) {
      const auto opcode = take<uint8_t>();
      if (opcode == op::kStop) break;
      if (!push_number(opcode) && !push_text(opcode) && !use_memo(opcode) &&
          !make_container(opcode) && !fill_container(opcode) && !make_object(opcode)) {
        fail("refuses opcode {}, which torch.save does not write", opcode_name(opcode));
      }
    }
    pickle_.root = pop();
    if (!stack_.empty() || !marks_.empty()) fail("STOP with values left on the stack");
    if (position_ != bytes_.size()) fail("{} bytes follow STOP", bytes_.size() - position_);
    return std::move(pickle_);
  }

 private:
  bool push_number(uint8_t opcode) {
    switch (opcode) {
      case op::kNone:
        push({});
        return true;
      case op::kNewTrue:
        push({.kind = Kind::kBool, .integer = 1});
        return true;
      case op::kNewFalse:
        push({.kind = Kind::kBool, .integer = 0});
        return true;
      case op::kBinInt:
        push({.kind = Kind::kInt, .integer = take<int32_t>()});
        return true;
      case op::kBinInt1:
        push({.kind = Kind::kInt, .integer = take<uint8_t>()});
        return true;
      case op::kBinInt2:
        push({.kind = Kind::kInt, .integer = take<uint16_t>()});
        return true;
      case op::kLong1:
        push_long(take<uint8_t>());
        return true;
      case op::kLong4:
        push_long(take<uint32_t>());
        return true;
      case op::kBinFloat:
        push({.kind = Kind::kFloat, .real = take_real()});
        return true;
      default:
        return false;
    }
  }

  bool push_text(uint8_t opcode) {
    switch (opcode) {
      case op::kShortBinUnicode:
        push_string(take<uint8_t>());
        return true;
      case op::kBinUnicode:
        push_string(take<uint32_t>());
        return true;
      case op::kBinUnicode8:
        push_string(take<uint64_t>());
        return true;
      case op::kShortBinBytes:
        push_bytes(take<uint8_t>());
        return true;
      case op::kBinBytes:
        push_bytes(take<uint32_t>());
        return true;
      case op::kBinBytes8:
        push_bytes(take<uint64_t>());
        return true;
      default:
        return false;
    }
  }

  bool use_memo(uint8_t opcode) {
    switch (opcode) {
      case op::kBinPut:
        memoize(take<uint8_t>());
        return true;
      case op::kLongBinPut:
        memoize(take<uint32_t>());
        return true;
      case op::kMemoize:
        memoize(memo_.size());
        return true;
      case op::kBinGet:
        recall(take<uint8_t>());
        return true;
      case op::kLongBinGet:
        recall(take<uint32_t>());
        return true;
      case op::kFrame:  // only a hint for buffering
        if (take<uint64_t>() > bytes_.size() - position_) fail("a frame reaches beyond the end");
        return true;
      default:
        return false;
    }
  }

  bool make_container(uint8_t opcode) {
    switch (opcode) {
      case op::kMark:
        if (marks_.size() == kPickleDepthMax) fail("more than {} nested marks", kPickleDepthMax);
        marks_.push_back(stack_.size());
        return true;
      case op::kPop:
        pop();
        return true;
      case op::kPopMark:
        pop_to_mark();
        return true;
      case op::kEmptyDict:
        push({.kind = Kind::kDict});
        return true;
      case op::kEmptyList:
        push({.kind = Kind::kList});
        return true;
      case op::kEmptyTuple:
        push({.kind = Kind::kTuple});
        return true;
      case op::kTuple:
        push({.kind = Kind::kTuple, .items = pop_to_mark()});
        return true;
      case op::kTuple1:
        push({.kind = Kind::kTuple, .items = pop_many(1)});
        return true;
      case op::kTuple2:
        push({.kind = Kind::kTuple, .items = pop_many(2)});
        return true;
      case op::kTuple3:
        push({.kind = Kind::kTuple, .items = pop_many(3)});
        return true;
      default:
        return false;
    }
  }

  bool fill_container(uint8_t opcode) {
    switch (opcode) {
      case op::kAppend:
        append(Kind::kList, pop_many(1));
        return true;
      case op::kAppends:
        append(Kind::kList, pop_to_mark());
        return true;
      case op::kSetItem:
        append(Kind::kDict, pop_many(2));
        return true;
      case op::kSetItems:
        append(Kind::kDict, pop_to_mark());
        return true;
      default:
        return false;
    }
  }

  bool make_object(uint8_t opcode) {
    switch (opcode) {
      case op::kGlobal: {
        const std::string_view module = take_line();
        const std::string_view attribute = take_line();
        push_index(objects_.global(module, attribute));
        return true;
      }
      case op::kStackGlobal: {
        const std::vector<ValueIndex> names = pop_many(2);
        const PickleValue& module = pickle_.values[names[0]];
        const PickleValue& attribute = pickle_.values[names[1]];
        if (module.kind != Kind::kString || attribute.kind != Kind::kString) {
          fail("STACK_GLOBAL needs two strings");
        }
        push_index(objects_.global(module.text, attribute.text));
        return true;
      }
      case op::kReduce: {
        const std::vector<ValueIndex> call = pop_many(2);
        push_index(objects_.call(pickle_.values[call[0]], pickle_.values[call[1]]));
        return true;
      }
      case op::kBinPersId:
        push_index(objects_.storage(pickle_.values[pop()]));
        return true;
      case op::kBuild: {
        // The only objects with attributes here are state dicts; what they carry (_metadata: module
        // versions) does not matter.
        const ValueIndex state = pop();
        if (!top().is_ordered_dict || pickle_.values[state].kind != Kind::kDict) {
          fail("refuses BUILD of {} with {}", describe(top().kind),
               describe(pickle_.values[state].kind));
        }
        return true;
      }
      default:
        return false;
    }
  }

  void push_long(uint64_t length) {
    const std::string_view digits = take_text(length);  // little endian, two's complement
    if (length > sizeof(int64_t)) return push({.kind = Kind::kOpaque});
    const bool is_negative = !digits.empty() && (digits.back() & 0x80) != 0;
    int64_t number = is_negative ? -1 : 0;
    std::memcpy(&number, digits.data(), digits.size());
    push({.kind = Kind::kInt, .integer = number});
  }

  void push_string(uint64_t length) { push({.kind = Kind::kString, .text = take_text(length)}); }

  void push_bytes(uint64_t length) {
    take_text(length);
    push({.kind = Kind::kOpaque});
  }

  void memoize(size_t place) {
    // Python counts places up, so there are fewer of them than bytes that fill them.
    const size_t places_max = std::min(bytes_.size(), kPickleValuesMax);
    if (place >= places_max) fail("the memo has more than {} places", places_max);
    if (place >= memo_.size()) memo_.resize(place + 1, kNoValue);
    require(1);
    memo_[place] = stack_.back();
  }

  void recall(size_t place) {
    if (place >= memo_.size() || memo_[place] == kNoValue) fail("the memo has no entry {}", place);
    push_index(memo_[place]);
  }

  void append(Kind kind, const std::vector<ValueIndex>& items) {
    require(1);
    PickleValue& container = top();
    if (container.kind != kind) fail("adds items to {}", describe(container.kind));
    if (kind == Kind::kDict && items.size() % 2 != 0) fail("a dict item has a key and no value");
    container.items.insert(container.items.end(), items.begin(), items.end());
  }

  void push(PickleValue value) { push_index(add_value(pickle_, std::move(value), where_)); }

  void push_index(ValueIndex index) {
    if (stack_.size() == kPickleValuesMax) fail("more than {} values at once", kPickleValuesMax);
    stack_.push_back(index);
  }

  // Values below the last mark belong to whoever set it.
  void require(size_t count) const {
    const size_t floor = marks_.empty() ? 0 : marks_.back();
    if (stack_.size() - floor < count) fail("the stack is empty where a value is needed");
  }

  PickleValue& top() {
    require(1);
    return pickle_.values[stack_.back()];
  }

  ValueIndex pop() {
    require(1);
    const ValueIndex index = stack_.back();
    stack_.pop_back();
    return index;
  }

  std::vector<ValueIndex> pop_many(size_t count) {
    require(count);
    std::vector<ValueIndex> items(stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end());
    stack_.resize(stack_.size() - count);
    return items;
  }

  std::vector<ValueIndex> pop_to_mark() {
    if (marks_.empty()) fail("no mark where one is needed");
    std::vector<ValueIndex> items = pop_many(stack_.size() - marks_.back());
    marks_.pop_back();
    return items;
  }

  std::string_view take_text(uint64_t length) {
    if (length > bytes_.size() - position_) fail("ends in the middle of an opcode");
    const std::string_view text = bytes_.substr(position_, static_cast<size_t>(length));
    position_ += text.size();
    return text;
  }

  std::string_view take_line() {
    const size_t end = bytes_.find('\n', position_);
    if (end == std::string_view::npos) fail("ends in the middle of a name");
    const std::string_view line = bytes_.substr(position_, end - position_);
    position_ = end + 1;
    return line;
  }

  template <typename Number>
  Number take() {
    Number number;
    std::memcpy(&number, take_text(sizeof number).data(), sizeof number);
    return number;
  }

  // Pickles keep floats with the most significant byte first.
  double take_real() {
    uint64_t bits = 0;
    for (const char byte : take_text(sizeof bits)) {
      bits = bits << 8 | static_cast<unsigned char>(byte);
    }
    return std::bit_cast<double>(bits);
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

Pickle unpickle(std::span<const std::byte> bytes, const std::string& where) {
  if (bytes.size() > kPickleBytesMax) {
    throw InputError("{} has {} bytes: at most {} are accepted", where, bytes.size(),
                     kPickleBytesMax);
  }
  return Unpickler(bytes, where).run();
}

}  // namespace arenite::convert
