// SPDX-License-Identifier: Apache-2.0
// safetensors files: what is read, and how each broken rule is refused.
#include "convert/files/checkpoint.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "support/refusal.h"
#include "support/safetensors_builder.h"
#include "support/temp_folder.h"

namespace arenite::convert {
namespace {

using testing::bytes_of;
using testing::refuses;
using testing::safetensors_file;

class Safetensors : public ::testing::Test {
 protected:
  Checkpoint read(const std::string& header, const std::string& data) {
    return Checkpoint::read(folder_.write("w.safetensors", safetensors_file(header, data)));
  }

  // One tensor `t` with these fields, over `data_bytes` bytes of data.
  ::testing::AssertionResult refuses_tensor(const std::string& fields, size_t data_bytes,
                                            std::initializer_list<std::string_view> parts) {
    return refuses_header("{\"t\":{" + fields + "}}", data_bytes, parts);
  }

  ::testing::AssertionResult refuses_header(const std::string& header, size_t data_bytes,
                                            std::initializer_list<std::string_view> parts) {
    return refuses_file(safetensors_file(header, std::string(data_bytes, '\0')), parts);
  }

  ::testing::AssertionResult refuses_file(const std::string& bytes,
                                          std::initializer_list<std::string_view> parts) {
    const auto file = folder_.write("w.safetensors", bytes);
    const auto names_file = refuses([&] { Checkpoint::read(file); }, {"w.safetensors"});
    return names_file ? refuses([&] { Checkpoint::read(file); }, parts) : names_file;
  }

  testing::TempFolder folder_;
};

TEST_F(Safetensors, ReadsTensorsInTheOrderOfTheirData) {
  const Checkpoint file = read(R"({"__metadata__":{"format":"pt"},)"
                               R"("b":{"dtype":"F32","shape":[2,2],"data_offsets":[4,20]},)"
                               R"("a":{"dtype":"I16","shape":[2],"data_offsets":[0,4]}}   )",
                               bytes_of<int16_t>({-1, 7}) + bytes_of<float>({1, 2, 3, 4}));
  ASSERT_EQ(file.tensors().size(), 2u);
  EXPECT_EQ(file.tensors()[1].name, "b");
  EXPECT_EQ(file.tensors()[1].shape, (std::vector<uint64_t>{2, 2}));
  EXPECT_EQ(file.tensors()[1].strides, (std::vector<uint64_t>{2, 1}));
  EXPECT_EQ(file.tensors()[1].to_f32(), (std::vector<float>{1, 2, 3, 4}));
  ASSERT_NE(file.find("a"), nullptr);
  EXPECT_EQ(file.find("a")->to_f32(), (std::vector<float>{-1, 7}));
  EXPECT_EQ(file.find("c"), nullptr);
  EXPECT_EQ(file.metadata().at("format"), "pt");
}

TEST_F(Safetensors, ReadsScalarsAndEmptyTensors) {
  const Checkpoint file = read(R"({"scalar":{"dtype":"F64","shape":[],"data_offsets":[0,8]},)"
                               R"("empty":{"dtype":"F32","shape":[3,0,2],"data_offsets":[8,8]},)"
                               R"("first":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
                               bytes_of(2.5));
  EXPECT_EQ(file.find("scalar")->to_f64(), std::vector<double>{2.5});
  EXPECT_EQ(file.find("empty")->elements(), 0u);
  EXPECT_TRUE(file.find("empty")->to_f32().empty());
}

TEST_F(Safetensors, ReadsAFileWithoutTensors) { EXPECT_TRUE(read("{}", "").tensors().empty()); }

TEST_F(Safetensors, StaysReadableWhenMoved) {
  Checkpoint first =
      read(R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", bytes_of(3.0f));
  Checkpoint second = std::move(first);
  EXPECT_EQ(second.find("t")->to_f32(), std::vector<float>{3});
}

TEST_F(Safetensors, RefusesHeaderLengthsThatCannotBe) {
  EXPECT_TRUE(refuses_file("abc", {"3 bytes", "8 bytes of header length"}));
  EXPECT_TRUE(refuses_file(bytes_of(uint64_t{1000}) + "{}", {"1000 bytes, but only 2 follow"}));
  EXPECT_TRUE(refuses_file(bytes_of(uint64_t{100'000'001}) + "{}", {"at most 100000000"}));
  EXPECT_TRUE(refuses_file(bytes_of(~uint64_t{0}) + "{}", {"18446744073709551615"}));
  EXPECT_TRUE(refuses_file(bytes_of(uint64_t{0}), {"does not start with '{'"}));
}

TEST_F(Safetensors, RefusesWhatIsNotAJsonObject) {
  EXPECT_TRUE(refuses_header(" {}", 0, {"does not start with '{'"}));
  EXPECT_TRUE(refuses_header("[1]", 0, {"does not start with '{'"}));
  EXPECT_TRUE(refuses_header("{\"t\":", 0, {"not valid JSON at its byte"}));
  EXPECT_TRUE(refuses_header("{} {}", 0, {"not valid JSON"}));
  EXPECT_TRUE(refuses_header("{\"t\xff\":1}", 0, {"not valid JSON"}));
  EXPECT_TRUE(refuses_header(std::string("{}\0", 3), 0, {"not valid JSON"}));
  EXPECT_TRUE(refuses_header("{\"t\":[]}", 0, {"'t': it is []: expected an object"}));
  EXPECT_TRUE(refuses_header("{\"t\":7}", 0, {"'t': it is 7"}));
}

TEST_F(Safetensors, RefusesDeepNestingWithoutRecursion) {
  EXPECT_TRUE(
      refuses_header("{\"t\":" + std::string(5'000'000, '['), 0, {"nested more than 32 deep"}));
  EXPECT_TRUE(
      refuses_tensor("\"shape\":" + std::string(5'000'000, '['), 0, {"nested more than 32 deep"}));
}

TEST_F(Safetensors, RefusesNamesAndFieldsGivenTwice) {
  const std::string entry = R"({"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  EXPECT_TRUE(
      refuses_header("{\"t\":" + entry + ",\"t\":" + entry + "}", 1, {"key 't' occurs twice"}));
  EXPECT_TRUE(refuses_header(R"({"__metadata__":{"a":"1","a":"2"}})", 0, {"'a' occurs twice"}));
  EXPECT_TRUE(refuses_header(R"({"__metadata__":{},"__metadata__":{}})", 0, {"twice"}));
  EXPECT_TRUE(refuses_tensor(R"("dtype":"U8","dtype":"U8")", 0, {"'dtype' occurs twice"}));
  EXPECT_TRUE(refuses_tensor(R"("shape":[],"shape":[])", 0, {"'shape' occurs twice"}));
  EXPECT_TRUE(refuses_tensor(R"("data_offsets":[],"data_offsets":[])", 0, {"twice"}));
}

TEST_F(Safetensors, RefusesMissingAndUnknownFields) {
  EXPECT_TRUE(
      refuses_tensor(R"("shape":[1],"data_offsets":[0,1])", 1, {"'t'", "'dtype' is missing"}));
  EXPECT_TRUE(refuses_tensor(R"("dtype":"U8","data_offsets":[0,1])", 1, {"'shape' is missing"}));
  EXPECT_TRUE(refuses_tensor(R"("dtype":"U8","shape":[1])", 1, {"'data_offsets' is missing"}));
  EXPECT_TRUE(refuses_tensor(R"("dtype":"U8","strides":[1])", 1, {"'strides' is not known"}));
  EXPECT_TRUE(refuses_tensor(R"("dtype":"U8","shape":[1],"data_offsets":[0])", 1, {"1 values"}));
  EXPECT_TRUE(
      refuses_tensor(R"("dtype":"U8","shape":[1],"data_offsets":[0,1,2])", 1, {"3 values"}));
}

TEST_F(Safetensors, RefusesFieldsOfTheWrongType) {
  const auto with_dtype = [](const std::string& value) {
    return "\"dtype\":" + value + R"(,"shape":[],"data_offsets":[0,0])";
  };
  EXPECT_TRUE(refuses_tensor(with_dtype("4"), 0, {"'dtype' holds 4: expected a string"}));
  EXPECT_TRUE(refuses_tensor(with_dtype("null"), 0, {"'dtype' holds null"}));
  EXPECT_TRUE(refuses_tensor(with_dtype("[\"U8\"]"), 0, {"'dtype' holds [\"U8\"]"}));
  const auto with_shape = [](const std::string& value) {
    return "\"dtype\":\"U8\",\"data_offsets\":[0,0],\"shape\":" + value;
  };
  for (const char* const value : {"3", "{}", "\"3\"", "[-1]", "[true]", "[[1]]", "[1.0]"}) {
    EXPECT_TRUE(
        refuses_tensor(with_shape(value), 0,
                       {"'shape' holds", value, "expected an array of non-negative integers"}));
  }
  EXPECT_TRUE(refuses_tensor(with_shape("[18446744073709551616]"), 0, {"'shape' holds [1.8"}));
  EXPECT_TRUE(refuses_tensor(R"("dtype":"U8","shape":[],"data_offsets":[0,"1"])", 0,
                             {"'data_offsets' holds [0,\"1\"]"}));
  EXPECT_TRUE(refuses_header(R"({"__metadata__":{"a":1}})", 0, {"'a' is 1: expected a string"}));
  EXPECT_TRUE(refuses_header(R"({"__metadata__":"a"})", 0, {"__metadata__: it is \"a\""}));
}

TEST_F(Safetensors, NamesAnUnknownDtype) {
  EXPECT_TRUE(refuses_tensor(R"("dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1])", 1,
                             {"tensor 't'", "'F8_E4M3' is not supported", "BF16"}));
}

TEST_F(Safetensors, RefusesShapesThatDoNotFitTheirBytes) {
  EXPECT_TRUE(refuses_tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])", 4,
                             {"[2] of F32 takes 8 bytes", "0 to 4 hold 4"}));
  EXPECT_TRUE(refuses_tensor(
      R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0])", 0, {"overflows"}));
  EXPECT_TRUE(refuses_tensor(R"("dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0])",
                             0, {"overflows"}));
  std::string ones = "1";
  for (int i = 0; i < 64; ++i) ones += ",1";
  EXPECT_TRUE(refuses_tensor("\"dtype\":\"U8\",\"shape\":[" + ones + "],\"data_offsets\":[0,1]", 1,
                             {"'shape' has more than 64 values"}));
}

TEST_F(Safetensors, RefusesOffsetsOutsideTheData) {
  EXPECT_TRUE(refuses_tensor(R"("dtype":"U8","shape":[2],"data_offsets":[0,2])", 1,
                             {"data_offsets are 0 to 2", "<= 1"}));
  EXPECT_TRUE(refuses_tensor(R"("dtype":"U8","shape":[1],"data_offsets":[1,0])", 1, {"1 to 0"}));
  EXPECT_TRUE(refuses_tensor(R"("dtype":"U8","shape":[1],"data_offsets":[18446744073709551615,0])",
                             1, {"begin <= end"}));
}

TEST_F(Safetensors, RefusesOverlapsHolesAndTrailingBytes) {
  const auto two = [](const char* a, const char* b) {
    return fmt::format(R"({{"a":{{"dtype":"U8","shape":[2],"data_offsets":{}}},)"
                       R"("b":{{"dtype":"U8","shape":[2],"data_offsets":{}}}}})",
                       a, b);
  };
  EXPECT_TRUE(refuses_header(two("[0,2]", "[1,3]"), 3, {"'b'", "begins at byte 1", "overlap"}));
  EXPECT_TRUE(refuses_header(two("[0,2]", "[0,2]"), 2, {"overlap"}));
  EXPECT_TRUE(refuses_header(two("[3,5]", "[0,2]"), 5, {"'a'", "begins at byte 3", "gap"}));
  EXPECT_TRUE(refuses_header(two("[1,3]", "[3,5]"), 5, {"'a'", "gap"}));
  EXPECT_TRUE(refuses_header(two("[0,2]", "[2,4]"), 7, {"end at byte 4", "7 bytes follow"}));
  EXPECT_TRUE(refuses_header("{}", 1, {"end at byte 0"}));
}

TEST_F(Safetensors, KeepsControlCharactersOfNamesOutOfMessages) {
  EXPECT_TRUE(refuses_header(R"({"\u001b[2J":{}})", 0, {"tensor '?[2J'"}));
}

TEST_F(Safetensors, BoundsWhatAHeaderHolds) {
  std::string extents = "1";
  for (int i = 0; i < 100; ++i) extents += ",1";
  EXPECT_TRUE(refuses_tensor(R"("dtype":"U8","data_offsets":[0,1],"shape":[)" + extents + "]", 1,
                             {"tensor 't'", "'shape' has more than 64 values"}));
  std::string metadata;
  for (int i = 0; i < 4097; ++i) metadata += fmt::format("{}\"{}\":\"\"", i == 0 ? "" : ",", i);
  EXPECT_TRUE(refuses_header("{\"__metadata__\":{" + metadata + "}}", 0, {"more than 4096 keys"}));
  std::string tensors;
  for (int i = 0; i <= 1 << 18; ++i) {
    tensors += fmt::format(R"({}"{}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
                           i == 0 ? "" : ",", i);
  }
  EXPECT_TRUE(refuses_header("{" + tensors + "}", 0, {"more than 262144 tensors"}));
}

}  // namespace
}  // namespace arenite::convert
