// SPDX-License-Identifier: Apache-2.0
// Tests the GGUF container: accepted files, and every way in which a file may contradict itself.
#include "convert/gguf/gguf_file.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "convert/gguf/gguf_builder.h"
#include "convert/gguf/gguf_file.h"
#include "support/refusal.h"

namespace arenite::convert {
namespace {

using namespace testing;

constexpr uint32_t kF32 = 0;

class GgufFileTest : public ::testing::Test {
 protected:
  std::shared_ptr<const GgufFile> read(const std::string& bytes) {
    return GgufFile::read(folder_.write("m.gguf", bytes));
  }
  ::testing::AssertionResult refuses(const std::string& bytes,
                                     std::initializer_list<std::string_view> parts) {
    const auto names_file = testing::refuses([&] { read(bytes); }, {"m.gguf"});
    return names_file ? testing::refuses([&] { read(bytes); }, parts) : names_file;
  }
  ::testing::AssertionResult refuses(const GgufBuilder& builder,
                                     std::initializer_list<std::string_view> parts) {
    return refuses(builder.bytes(), parts);
  }

  TempFolder folder_;
};

TEST_F(GgufFileTest, ReadsMetadataAndTensors) {
  const auto file = read(GgufBuilder()
                             .text("name", "tiny")
                             .array("names", GgufType::kString, 2, gguf_text("a") + gguf_text(""))
                             .array("ids", GgufType::kI32, 3, bytes_of<int32_t>({1, -2, 3}))
                             .tensor("w", {3, 2}, kF32, bytes_of<float>({1, 2, 3, 4, 5, 6}))
                             .tensor("v", {2}, kF32, bytes_of<float>({7, 8}))
                             .bytes());
  EXPECT_EQ(file->metadata().size(), 3u);
  std::vector<std::string> names;
  for_each_string(file->metadata().at("names"), [&](std::string_view s) { names.emplace_back(s); });
  EXPECT_EQ(names, (std::vector<std::string>{"a", ""}));
  EXPECT_EQ(file->metadata().at("ids").count, 3u);
  ASSERT_EQ(file->tensors().size(), 2u);
  EXPECT_EQ(file->tensors()[0].shape, (std::vector<uint64_t>{2, 3}));
  EXPECT_EQ(read_gguf_blocks(*file->tensors()[0].block, file->tensors()[0].data),
            (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(read_gguf_blocks(*file->tensors()[1].block, file->tensors()[1].data),
            (std::vector<float>{7, 8}));
}

TEST_F(GgufFileTest, ReadsEveryTypeOfValue) {
  GgufBuilder builder;
  const size_t sizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  for (uint32_t type = 0; type < 13; ++type) {
    if (sizes[type] == 0) continue;
    const std::string key = "k" + std::to_string(type);
    builder.raw(key, type, std::string(sizes[type], '\1'));
    builder.array(key + "s", static_cast<GgufType>(type), 2, std::string(2 * sizes[type], '\1'));
  }
  EXPECT_EQ(read(builder.bytes())->metadata().size(), 22u);
}

TEST_F(GgufFileTest, ExpandsQuantizedBlocks) {
  // Scale 2; quants -3, 0, 1, ... and -8 and 7 as nibbles.
  std::string q8 = bytes_of(uint16_t{0x4000});
  for (int i = 0; i < 32; ++i) q8 += static_cast<char>(i - 3);
  std::string q4 = bytes_of(uint16_t{0x4000});
  for (int i = 0; i < 16; ++i) q4 += static_cast<char>(0xf0);
  const auto file =
      read(GgufBuilder().tensor("q8", {32}, 8, q8).tensor("q4", {32, 1}, 2, q4).bytes());
  const std::vector<float> from_q8 =
      read_gguf_blocks(*file->tensors()[0].block, file->tensors()[0].data);
  const std::vector<float> from_q4 =
      read_gguf_blocks(*file->tensors()[1].block, file->tensors()[1].data);
  ASSERT_EQ(from_q8.size(), 32u);
  ASSERT_EQ(from_q4.size(), 32u);
  EXPECT_EQ(from_q8[0], -6.0f);
  EXPECT_EQ(from_q8[31], 56.0f);
  EXPECT_EQ(from_q4[0], -16.0f);
  EXPECT_EQ(from_q4[15], -16.0f);
  EXPECT_EQ(from_q4[16], 14.0f);
}

TEST_F(GgufFileTest, KeepsAnotherAlignment) {
  GgufBuilder builder;
  builder.alignment = 128;
  builder.count("general.alignment", 128);
  builder.tensor("a", {1}, kF32, bytes_of(1.0f)).tensor("b", {1}, kF32, bytes_of(2.0f));
  EXPECT_EQ(read(builder.bytes())->tensors().size(), 2u);
  EXPECT_TRUE(refuses(GgufBuilder().count("general.alignment", 48), {"is 48", "power of two"}));
  EXPECT_TRUE(refuses(GgufBuilder().count("general.alignment", 0), {"is 0"}));
  EXPECT_TRUE(refuses(GgufBuilder().text("general.alignment", "32"), {"expected a U32"}));
}

TEST_F(GgufFileTest, RefusesOtherFilesAndVersions) {
  EXPECT_TRUE(refuses("GGU", {"takes 4 bytes, but 3 follow"}));
  EXPECT_TRUE(refuses("GGML" + std::string(40, '\0'), {"does not begin with GGUF"}));
  GgufBuilder builder;
  for (const uint32_t version : {0u, 1u, 2u, 4u, 0x03000000u}) {
    builder.version = version;
    EXPECT_TRUE(refuses(builder, {fmt::format("GGUF version {}", version), "expected 3"}));
  }
}

TEST_F(GgufFileTest, RefusesCountsThatLie) {
  GgufBuilder builder;
  builder.count("a", 1);
  builder.more_values = 1;
  EXPECT_TRUE(refuses(builder, {"key of metadata value 2 of 2", "cut short"}));
  builder.more_values = ~uint64_t{0} - 1;
  EXPECT_TRUE(refuses(builder, {"of 18446744073709551615"}));
  builder.more_values = 0;
  builder.more_tensors = uint64_t{1} << 60;
  EXPECT_TRUE(refuses(builder, {"name of tensor 1 of 1152921504606846976"}));
}

TEST_F(GgufFileTest, RefusesLengthsThatLie) {
  EXPECT_TRUE(refuses(GgufBuilder().raw("s", GgufType::kString, bytes_of(~uint64_t{0}) + "abc"),
                      {"metadata 's'", "takes 18446744073709551615 bytes, but 3 follow"}));
  EXPECT_TRUE(refuses(GgufBuilder().array("a", GgufType::kF64, uint64_t{1} << 61, "12345678"),
                      {"metadata 'a' has 2305843009213693952 elements"}));
  EXPECT_TRUE(refuses(GgufBuilder().array("a", GgufType::kU8, uint64_t{1} << 40, "12345678"),
                      {"takes 1099511627776 bytes, but 8 follow"}));
  EXPECT_TRUE(
      refuses(GgufBuilder().array("a", GgufType::kString, uint64_t{1} << 50, gguf_text("x")),
              {"metadata 'a'", "takes 8 bytes, but 0 follow"}));
  EXPECT_TRUE(refuses(GgufBuilder().count("", 1), {"has 0 bytes"}));
  EXPECT_TRUE(refuses(GgufBuilder().count(std::string(65536, 'k'), 1), {"has 65536 bytes"}));
}

TEST_F(GgufFileTest, RefusesArraysOfArraysAndUnknownTypes) {
  EXPECT_TRUE(refuses(GgufBuilder().array("a", GgufType::kArray, 1, std::string(12, '\0')),
                      {"'a' is an array of arrays"}));
  EXPECT_TRUE(refuses(GgufBuilder().raw("a", 13u, "1234"), {"'a' is of type 13"}));
  EXPECT_TRUE(refuses(GgufBuilder().array("a", static_cast<GgufType>(99), 1, "1234"),
                      {"'a' is of type 99"}));
}

TEST_F(GgufFileTest, RefusesNamesThatComeTwice) {
  EXPECT_TRUE(refuses(GgufBuilder().count("a", 1).count("a", 1), {"metadata 'a' occurs twice"}));
  EXPECT_TRUE(refuses(GgufBuilder().tensor("w", {1}, kF32, "1234").tensor("w", {1}, kF32, "1234"),
                      {"tensor 'w' occurs twice"}));
}

TEST_F(GgufFileTest, RefusesShapesThatCannotBe) {
  EXPECT_TRUE(refuses(GgufBuilder().tensor("w", {}, kF32, ""), {"'w' has 0 dimensions"}));
  EXPECT_TRUE(refuses(GgufBuilder().tensor("w", {1, 1, 1, 1, 1}, kF32, "1234"), {"5 dimensions"}));
  EXPECT_TRUE(refuses(GgufBuilder().tensor("w", {4, 0}, kF32, ""), {"a dimension of 0"}));
  EXPECT_TRUE(refuses(GgufBuilder().tensor("w", {1u << 31, 1u << 31, 4}, kF32, "1234"),
                      {"[4, 2147483648, 2147483648] of F32 does not fit"}));
  EXPECT_TRUE(refuses(GgufBuilder().tensor("w", {48, 2}, 8, std::string(102, '\0')),
                      {"rows of 48 elements", "multiple of 32"}));
}

TEST_F(GgufFileTest, RefusesOverlapsHolesAndMisplacedTensors) {
  const auto two = [](int64_t second_offset) {
    return GgufBuilder()
        .tensor("a", {8}, kF32, std::string(32, '\0'))
        .tensor("b", {8}, kF32, std::string(32, '\0'), second_offset);
  };
  EXPECT_EQ(read(two(32).bytes())->tensors().size(), 2u);
  EXPECT_TRUE(refuses(two(0), {"'b' begins at byte 0", "expected 32"}));
  EXPECT_TRUE(refuses(two(16), {"'b' begins at byte 16"}));
  EXPECT_TRUE(refuses(two(64), {"'b' begins at byte 64"}));
  EXPECT_TRUE(refuses(GgufBuilder().tensor("a", {8}, kF32, std::string(32, '\0'), 32),
                      {"'a' begins at byte 32 of the data: expected 0"}));
  EXPECT_TRUE(refuses(GgufBuilder().tensor("a", {9}, kF32, std::string(32, '\0')),
                      {"'a' [9] of F32 does not fit", "32 bytes of data"}));
  EXPECT_TRUE(refuses(GgufBuilder().tensor("a", {8}, kF32, std::string(33, '\0')),
                      {"end at byte 32 of the data, but it has 33"}));
}

TEST_F(GgufFileTest, BoundsMetadata) {
  GgufBuilder many;
  for (uint32_t i = 0; i <= 4096; ++i) many.count(fmt::format("{}", i), i);
  EXPECT_TRUE(refuses(many, {"4097 metadata values", "at most 4096"}));
  GgufBuilder arrays;
  const std::string zeros(4096, '\0');
  for (int i = 0; i < 17; ++i) arrays.array(fmt::format("{}", i), GgufType::kU8, 4096, zeros);
  const auto file = read(arrays.bytes());
  EXPECT_TRUE(testing::refuses([&] { gguf_fields(*file); }, {"m.gguf", "65536 elements in total"}));
}

TEST_F(GgufFileTest, BoundsTheTokensOfItsTokenizer) {
  constexpr uint64_t kCount = (uint64_t{1} << 20) + 1;
  const auto file = read(
      GgufBuilder()
          .array("tokenizer.ggml.tokens", GgufType::kString, kCount, std::string(8 * kCount, '\0'))
          .bytes());
  EXPECT_TRUE(testing::refuses([&] { read_gguf_tokenizer(*file); },
                               {"'tokenizer.ggml.tokens' has 1048577 elements"}));
}

}  // namespace
}  // namespace arenite::convert
