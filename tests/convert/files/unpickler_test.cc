// SPDX-License-Identifier: Apache-2.0
// Tests the pickle machine: the values that it builds, and its refusal to build anything else.
#include "convert/files/pickle.h"

#include <gtest/gtest.h>

#include <string>

#include "support/pickle_builder.h"
#include "support/refusal.h"

namespace arenite::convert {
namespace {

namespace op = testing::op;
using Kind = PickleValue::Kind;
using testing::bytes_of;
using testing::PickleBuilder;
using testing::PickledView;

Pickle unpickle_string(const std::string& pickle) {
  return unpickle(std::as_bytes(std::span(pickle)), "data.pkl");
}

::testing::AssertionResult refuses_pickle(const std::string& pickle,
                                          std::initializer_list<std::string_view> parts) {
  return testing::refuses([&] { unpickle_string(pickle); }, parts);
}

::testing::AssertionResult refuses_tensor(const PickledView& view,
                                          std::initializer_list<std::string_view> parts) {
  return refuses_pickle(PickleBuilder().tensor(view).stop(), parts);
}

TEST(Unpickler, BuildsPlainValues) {
  const std::string pickle = PickleBuilder()
                                 .code(op::kMark)
                                 .code(op::kNone)
                                 .code(op::kNewTrue)
                                 .number(-5)
                                 .code(op::kBinInt2)
                                 .raw("\x01\x02")
                                 .code(op::kLong1)
                                 .raw("\x02\xff\xfe")
                                 .text("name")
                                 .code(op::kEmptyList)
                                 .number(1)
                                 .code(op::kAppend)
                                 .code(op::kTuple)
                                 .stop();
  const Pickle result = unpickle_string(pickle);
  const std::vector<ValueIndex>& items = result.values[result.root].items;
  ASSERT_EQ(items.size(), 7u);
  EXPECT_EQ(result.values[items[0]].kind, Kind::kNone);
  EXPECT_EQ(result.values[items[1]].integer, 1);
  EXPECT_EQ(result.values[items[2]].integer, -5);
  EXPECT_EQ(result.values[items[3]].integer, 0x201);
  EXPECT_EQ(result.values[items[4]].integer, -257);
  EXPECT_EQ(result.values[items[5]].text, "name");
  EXPECT_EQ(result.values[items[6]].items.size(), 1u);
}

TEST(Unpickler, BuildsTensorsThatShareAStorage) {
  const PickledView whole{.storage_elements = 6, .shape = {2, 3}, .strides = {3, 1}};
  const PickledView column{.storage_elements = 6, .offset = 2, .shape = {2}, .strides = {3}};
  const Pickle result =
      unpickle_string(PickleBuilder().tensor(whole).tensor(column).code(op::kTuple2).stop());
  ASSERT_EQ(result.tensors.size(), 2u);
  ASSERT_EQ(result.storages.size(), 1u);
  EXPECT_EQ(result.storages[0].bytes, 24u);
  EXPECT_EQ(result.tensors[1].offset, 2u);
  EXPECT_EQ(result.tensors[1].strides, std::vector<uint64_t>{3});
}

TEST(Unpickler, BuildsTensorsOfUntypedStorages) {
  PickleBuilder pickle;
  pickle.global("torch._utils", "_rebuild_tensor_v3").code(op::kMark).code(op::kMark);
  pickle.text("storage").global("torch.storage", "UntypedStorage").text("0").text("cpu").number(8);
  pickle.code(op::kTuple).code(op::kBinPersId).number(1).numbers({1}).numbers({1});
  pickle.code(op::kNewFalse).ordered_dict().global("torch", "float32");
  const Pickle result = unpickle_string(pickle.code(op::kTuple).code(op::kReduce).stop());
  EXPECT_EQ(result.tensors.at(0).dtype, DType::kF32);
  EXPECT_EQ(result.storages.at(0).bytes, 8u);
}

// Unknown callables are recorded by name, and never called.
TEST(Unpickler, NamesObjectsOfAllOtherClasses) {
  const auto call = [](const char* module, const char* name) {
    return PickleBuilder()
        .global(module, name)
        .text("x")
        .code(op::kTuple1)
        .code(op::kReduce)
        .stop();
  };
  for (const auto& [module, name] : {std::pair("os", "system"),
                                     {"builtins", "eval"},
                                     {"torch", "load"},
                                     {"collections", "OrderedDict.fromkeys"}}) {
    const std::string pickle = call(module, name);
    const Pickle read = unpickle_string(pickle);
    EXPECT_EQ(read.values[read.root].kind, Kind::kObject);
    EXPECT_EQ(read.values[read.root].text, std::string(module) + "." + name);
    EXPECT_TRUE(read.values[read.root].items.empty());
  }
  EXPECT_TRUE(refuses_pickle(PickleBuilder().number(1).text("system").code(op::kStackGlobal).stop(),
                             {"needs two strings"}));
}

TEST(Unpickler, RefusesCallsOfAnythingElse) {
  const auto call = [](const char* name) {
    return PickleBuilder()
        .global("torch", name)
        .text("x")
        .code(op::kTuple1)
        .code(op::kReduce)
        .stop();
  };
  EXPECT_TRUE(refuses_pickle(call("FloatStorage"), {"refuses to call torch.FloatStorage"}));
  EXPECT_TRUE(refuses_pickle(call("float32"), {"refuses to call torch.float32"}));
  EXPECT_TRUE(refuses_pickle(call("Size"), {"refuses to call torch.Size"}));
  EXPECT_TRUE(
      refuses_pickle(PickleBuilder().text("f").code(op::kEmptyTuple).code(op::kReduce).stop(),
                     {"the callee of REDUCE is a string"}));
  EXPECT_TRUE(
      refuses_pickle(PickleBuilder().global("torch", "Size").number(1).code(op::kReduce).stop(),
                     {"called with an integer: expected a tuple"}));
}

TEST(Unpickler, RefusesOpcodesByName) {
  EXPECT_TRUE(refuses_pickle(PickleBuilder().code('i').stop(), {"refuses opcode INST"}));
  EXPECT_TRUE(refuses_pickle(PickleBuilder().code('o').stop(), {"refuses opcode OBJ"}));
  EXPECT_TRUE(refuses_pickle(PickleBuilder().code(0x82).stop(), {"refuses opcode EXT1"}));
  EXPECT_TRUE(refuses_pickle(PickleBuilder().code(0xff).stop(), {"refuses opcode 0xff"}));
  EXPECT_TRUE(refuses_pickle(PickleBuilder().text("x").code(op::kEmptyDict).code(op::kBuild).stop(),
                             {"refuses BUILD of a string"}));
}

TEST(Unpickler, RefusesStackUnderflow) {
  for (const uint8_t opcode : {op::kPop, op::kPopMark, op::kTuple, op::kTuple1, op::kTuple3,
                               op::kAppend, op::kAppends, op::kSetItem, op::kSetItems, op::kReduce,
                               op::kBinPersId, op::kBuild, op::kStackGlobal, op::kMemoize}) {
    EXPECT_TRUE(refuses_pickle(PickleBuilder().code(opcode).stop(), {"data.pkl, byte 3"}))
        << opcode;
  }
  EXPECT_TRUE(refuses_pickle(PickleBuilder().stop(), {"the stack is empty"}));
  // Values below a mark cannot be popped.
  EXPECT_TRUE(refuses_pickle(PickleBuilder().number(1).code(op::kMark).code(op::kTuple1).stop(),
                             {"the stack is empty"}));
}

TEST(Unpickler, RefusesValuesLeftOver) {
  EXPECT_TRUE(refuses_pickle(PickleBuilder().number(1).number(2).stop(), {"left on the stack"}));
  EXPECT_TRUE(
      refuses_pickle(PickleBuilder().code(op::kNone).stop() + "x", {"1 bytes follow STOP"}));
}

TEST(Unpickler, RefusesItemsOfTheWrongContainer) {
  EXPECT_TRUE(
      refuses_pickle(PickleBuilder().code(op::kEmptyTuple).number(1).code(op::kAppend).stop(),
                     {"adds items to a tuple"}));
  EXPECT_TRUE(
      refuses_pickle(PickleBuilder().code(op::kEmptyDict).number(1).code(op::kAppend).stop(),
                     {"adds items to a dict"}));
  EXPECT_TRUE(refuses_pickle(
      PickleBuilder().code(op::kEmptyDict).code(op::kMark).number(1).code(op::kSetItems).stop(),
      {"a key and no value"}));
}

TEST(Unpickler, BoundsMemoAndMarks) {
  EXPECT_TRUE(refuses_pickle(
      PickleBuilder().code(op::kNone).code(op::kLongBinPut).raw("\xff\xff\xff\xff").stop(),
      {"the memo has more than"}));
  EXPECT_TRUE(refuses_pickle(PickleBuilder().code(op::kBinGet).raw("\x07").stop(), {"no entry 7"}));
  EXPECT_TRUE(refuses_pickle(PickleBuilder()
                                 .code(op::kNone)
                                 .code(op::kBinPut)
                                 .raw("\x05")
                                 .code(op::kBinGet)
                                 .raw("\x04")
                                 .stop(),
                             {"no entry 4"}));
  EXPECT_TRUE(refuses_pickle(PickleBuilder().raw(std::string(1'000'000, op::kMark)).stop(),
                             {"100 nested marks"}));
}

TEST(Unpickler, BoundsTheNumberOfValues) {
  const std::string many(kPickleValuesMax + 1, static_cast<char>(op::kEmptyTuple));
  EXPECT_TRUE(
      refuses_pickle(PickleBuilder().raw(many).stop(), {"more than 4194304 Python values"}));
  const std::string copies = [] {
    std::string gets;
    for (size_t i = 0; i < kPickleValuesMax; ++i) gets += std::string("h\x00", 2);
    return gets;
  }();
  EXPECT_TRUE(refuses_pickle(PickleBuilder()
                                 .code(op::kNone)
                                 .code(op::kBinPut)
                                 .raw(std::string(1, '\0'))
                                 .raw(copies)
                                 .stop(),
                             {"4194304 values at once"}));
}

TEST(Unpickler, RefusesLengthsBeyondTheEnd) {
  EXPECT_TRUE(refuses_pickle(PickleBuilder().code(op::kBinUnicode).raw("\xff\xff\xff\xff").stop(),
                             {"in the middle of an opcode"}));
  EXPECT_TRUE(
      refuses_pickle(PickleBuilder().code(op::kBinUnicode8).raw(bytes_of(~uint64_t{0})).stop(),
                     {"in the middle of an opcode"}));
  EXPECT_TRUE(refuses_pickle(PickleBuilder().code(op::kFrame).raw(bytes_of(~uint64_t{0})).stop(),
                             {"beyond the end"}));
  EXPECT_TRUE(
      refuses_pickle(PickleBuilder().code(op::kGlobal).raw("os").stop(), {"middle of a name"}));
  EXPECT_TRUE(refuses_pickle("", {"in the middle"}));
  EXPECT_TRUE(refuses_pickle("N.", {"begins with PROTO"}));
  EXPECT_TRUE(refuses_pickle("\x80\x01N.", {"protocol 1: expected 2 to 5"}));
}

TEST(Unpickler, RefusesBadStorageIds) {
  EXPECT_TRUE(
      refuses_pickle(PickleBuilder().text("0").code(op::kBinPersId).stop(), {"has a string"}));
  EXPECT_TRUE(
      refuses_pickle(PickleBuilder().numbers({1, 2}).code(op::kBinPersId).stop(), {"2 fields"}));
  EXPECT_TRUE(refuses_pickle(PickleBuilder().numbers({1, 2, 3, 4, 5}).code(op::kBinPersId).stop(),
                             {"another first field"}));
  EXPECT_TRUE(refuses_pickle(PickleBuilder().storage({.key = "../0"}).stop(), {"the key '../0'"}));
  EXPECT_TRUE(refuses_pickle(PickleBuilder().storage({.key = ""}).stop(), {"the key ''"}));
  EXPECT_TRUE(
      refuses_pickle(PickleBuilder().storage({.storage_elements = -1}).stop(), {"out of range"}));
  EXPECT_TRUE(refuses_pickle(PickleBuilder().storage({.storage_class = "Size"}).stop(),
                             {"the class torch.Size"}));
  EXPECT_TRUE(refuses_pickle(
      PickleBuilder().storage({.storage_elements = 1}).storage({.storage_elements = 2}).stop(),
      {"key '0' with two different"}));
}

TEST(Unpickler, RefusesTensorsOutsideTheirStorage) {
  const auto outside = {std::string_view("reaches outside its storage '0' of 4 elements")};
  EXPECT_TRUE(refuses_tensor({.storage_elements = 4, .shape = {5}, .strides = {1}}, outside));
  EXPECT_TRUE(refuses_tensor({.storage_elements = 4, .shape = {2}, .strides = {4}}, outside));
  EXPECT_TRUE(
      refuses_tensor({.storage_elements = 4, .offset = 1, .shape = {4}, .strides = {1}}, outside));
  EXPECT_TRUE(
      refuses_tensor({.storage_elements = 4, .offset = 5, .shape = {0}, .strides = {1}}, outside));
  EXPECT_TRUE(refuses_tensor({.storage_elements = 4, .shape = {2, 2}, .strides = {1}}, outside));
  const int32_t large = 0x7fffffff;
  EXPECT_TRUE(refuses_tensor(
      {.storage_elements = 4, .shape = {large, large, large}, .strides = {0, 0, 0}}, outside));
  EXPECT_TRUE(refuses_tensor({.storage_elements = 4, .shape = {-1}, .strides = {1}},
                             {"the size of a tensor is not a tuple"}));
  EXPECT_TRUE(refuses_tensor({.storage_elements = 4, .shape = {1}, .strides = {-1}},
                             {"the stride of a tensor"}));
  EXPECT_TRUE(refuses_tensor({.storage_elements = 4, .offset = -1}, {"offset"}));
  EXPECT_TRUE(refuses_tensor({.shape = std::vector<int32_t>(65, 1)}, {"at most 64"}));
}

TEST(Unpickler, BoundsTheDimensionsOfAllTensors) {
  PickleBuilder pickle;
  pickle.global("torch._utils", "_rebuild_tensor_v2").code(op::kBinPut).raw(std::string(1, '\0'));
  const std::vector<int32_t> ones(64, 1);
  pickle.code(op::kMark).storage({.storage_elements = 1}).number(0).numbers(ones).numbers(ones);
  pickle.code(op::kNewFalse).ordered_dict().code(op::kTuple).code(op::kBinPut).raw("\1");
  pickle.code(op::kReduce);
  for (int i = 0; i < (1 << 19) / 64; ++i) {
    pickle.code(op::kBinGet).raw(std::string(1, '\0')).code(op::kBinGet).raw("\1");
    pickle.code(op::kReduce).code(op::kPop);
  }
  EXPECT_TRUE(refuses_pickle(pickle.stop(), {"more than 524288 dimensions together"}));
}

TEST(Unpickler, BoundsTheMemoByThePickle) {
  const auto put = [](uint32_t place) {
    return PickleBuilder().code(op::kNone).code(op::kLongBinPut).raw(bytes_of(place)).stop();
  };
  unpickle_string(put(7));
  EXPECT_TRUE(refuses_pickle(put(4'000'000), {"the memo has more than 9 entries"}));
}

TEST(Unpickler, RefusesTensorsFromOddArguments) {
  PickleBuilder few;
  few.global("torch._utils", "_rebuild_tensor_v2").numbers({1, 2}).code(op::kReduce);
  EXPECT_TRUE(refuses_pickle(few.stop(), {"built from 2 arguments"}));
  PickleBuilder numbers;
  numbers.global("torch._utils", "_rebuild_tensor_v2").numbers({1, 2, 3, 4, 5, 6});
  EXPECT_TRUE(
      refuses_pickle(numbers.code(op::kReduce).stop(), {"a tensor is built from an integer"}));
  PickleBuilder parameter;
  parameter.global("torch._utils", "_rebuild_parameter").numbers({1}).code(op::kReduce);
  EXPECT_TRUE(
      refuses_pickle(parameter.stop(), {"refuses to call torch._utils._rebuild_parameter"}));
}

TEST(Unpickler, RefusesTensorsWithMetadata) {
  PickleBuilder pickle;
  pickle.global("torch._utils", "_rebuild_tensor_v2").code(op::kMark);
  pickle.storage({.storage_elements = 1}).number(0).numbers({}).numbers({}).code(op::kNewFalse);
  pickle.ordered_dict().code(op::kEmptyDict).text("neg").code(op::kNewTrue).code(op::kSetItem);
  EXPECT_TRUE(
      refuses_pickle(pickle.code(op::kTuple).code(op::kReduce).stop(), {"carries metadata"}));
}

}  // namespace
}  // namespace arenite::convert
