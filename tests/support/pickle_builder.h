// SPDX-License-Identifier: Apache-2.0
// Writes pickles opcode by opcode, valid and hostile ones.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "convert/files/pickle.h"
#include "support/byte_string.h"

namespace arenite::testing {

// Python's opcodes, those that the reader knows.
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

struct PickledView {
  std::string key = "0";
  int32_t storage_elements = 0;
  int32_t offset = 0;
  std::vector<int32_t> shape{};
  std::vector<int32_t> strides{};
  std::string storage_class = "FloatStorage";
};

class PickleBuilder {
 public:
  PickleBuilder() { code(op::kProto).raw("\x02"); }

  PickleBuilder& code(uint8_t opcode) {
    bytes_ += static_cast<char>(opcode);
    return *this;
  }
  PickleBuilder& raw(std::string_view bytes) {
    bytes_ += bytes;
    return *this;
  }
  PickleBuilder& number(int32_t value) { return code(op::kBinInt).raw(bytes_of(value)); }
  PickleBuilder& text(std::string_view value) {
    return code(op::kBinUnicode).raw(bytes_of(static_cast<uint32_t>(value.size()))).raw(value);
  }
  PickleBuilder& global(std::string_view module, std::string_view attribute) {
    return code(op::kGlobal).raw(module).raw("\n").raw(attribute).raw("\n");
  }
  PickleBuilder& numbers(const std::vector<int32_t>& values) {
    code(op::kMark);
    for (const int32_t value : values) number(value);
    return code(op::kTuple);
  }
  PickleBuilder& ordered_dict() {
    return global("collections", "OrderedDict").code(op::kEmptyTuple).code(op::kReduce);
  }
  PickleBuilder& storage(const PickledView& view) {
    code(op::kMark).text("storage").global("torch", view.storage_class).text(view.key).text("cpu");
    return number(view.storage_elements).code(op::kTuple).code(op::kBinPersId);
  }
  PickleBuilder& tensor(const PickledView& view) {
    global("torch._utils", "_rebuild_tensor_v2").code(op::kMark).storage(view);
    number(view.offset).numbers(view.shape).numbers(view.strides).code(op::kNewFalse);
    return ordered_dict().code(op::kTuple).code(op::kReduce);
  }

  // The pickle so far, ended.
  std::string stop() const { return bytes_ + static_cast<char>(op::kStop); }

 private:
  std::string bytes_;
};

// {"w": a tensor of the four floats of storage 0}
inline std::string small_state_dict_pickle() {
  return PickleBuilder()
      .code(op::kEmptyDict)
      .text("w")
      .tensor({.storage_elements = 4, .shape = {2, 2}, .strides = {2, 1}})
      .code(op::kSetItem)
      .stop();
}

}  // namespace arenite::testing
