// SPDX-License-Identifier: Apache-2.0
// Every supported GGUF type decodes to the bits that ggml gives, for random blocks with ordinary
// and with extreme scales (tests/convert/data/make_gguf_blocks.py).
#include "convert/gguf/gguf_file.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "convert/files/json_file.h"
#include "convert/gguf/gguf_builder.h"
#include "support/refusal.h"
#include "support/test_data.h"

namespace arenite::convert {
namespace {

using namespace testing;

class GgufBlocks : public ::testing::Test {
 protected:
  const nlohmann::json cases_ = read_json_value(convert_fixture("gguf_blocks.json"));
  TempFolder folder_;
};

TEST_F(GgufBlocks, EveryTypeGivesTheBitsOfGgml) {
  std::set<std::string> names;
  for (const nlohmann::json& expected : cases_) {
    SCOPED_TRACE(expected["name"].get<std::string>());
    const GgufBlock* const block = find_gguf_block(expected["type"]);
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(block->name, expected["name"].get<std::string>());
    names.insert(block->name);
    const std::string stored = bytes_of_hex(expected["blocks"]);
    const std::string value_bytes = bytes_of_hex(expected["values"]);
    const std::vector<float> found =
        read_gguf_blocks(*block, std::as_bytes(std::span(stored.data(), stored.size())));
    ASSERT_EQ(found.size() * sizeof(float), value_bytes.size());
    for (size_t i = 0; i < found.size(); ++i) {
      uint32_t bits = 0;
      std::memcpy(&bits, value_bytes.data() + i * sizeof bits, sizeof bits);
      ASSERT_EQ(std::bit_cast<uint32_t>(found[i]), bits)
          << "element " << i << " is " << found[i] << ", not " << std::bit_cast<float>(bits);
    }
  }
  for (const char* name : {"Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K",
                           "Q6_K", "Q8_K", "IQ4_NL", "IQ4_XS", "TQ1_0", "TQ2_0", "MXFP4"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
}

TEST_F(GgufBlocks, RefusesRowsThatAreNoWholeBlocksAndTensorsCutShort) {
  for (const nlohmann::json& expected : cases_) {
    const std::string name = expected["name"];
    const GgufBlock& block = *find_gguf_block(expected["type"]);
    const std::string one(block.bytes, '\0');
    const auto read = [&](uint64_t row, const std::string& data) {
      const GgufBuilder builder =
          GgufBuilder().tensor("w", {row, 2}, block.type, data).tensor("v", {1}, 0, "1234");
      return GgufFile::read(folder_.write("m.gguf", builder.bytes()));
    };
    EXPECT_EQ(read(block.elements, one + one)->tensors()[0].block, &block);
    if (block.elements > 1) {
      EXPECT_TRUE(refuses([&] { read(block.elements + 16, one + one + one); },
                          {"'w'", name, fmt::format("rows of {} elements", block.elements + 16),
                           fmt::format("a multiple of {}", block.elements)}));
    }
    const GgufBuilder cut = GgufBuilder().tensor("w", {block.elements, 2}, block.type,
                                                 (one + one).substr(0, 2 * block.bytes - 1));
    EXPECT_TRUE(refuses([&] { GgufFile::read(folder_.write("m.gguf", cut.bytes())); },
                        {"'w'", name, "does not fit", "cut short"}));
  }
}

TEST_F(GgufBlocks, RefusesOtherTypesAndListsThoseThatAreRead) {
  const std::pair<uint32_t, const char*> others[] = {{9, "Q8_1"}, {16, "IQ2_XXS"}, {21, "IQ3_S"},
                                                     {26, "I32"}, {40, "NVFP4"},   {99, "type 99"}};
  for (const auto& [type, name] : others) {
    const GgufBuilder builder = GgufBuilder().tensor("w", {256}, type, std::string(512, '\0'));
    EXPECT_TRUE(refuses([&] { GgufFile::read(folder_.write("m.gguf", builder.bytes())); },
                        {fmt::format("'w' is stored as {}", name), "F32, F16, Q4_0, Q4_1",
                         "Q6_K, Q8_K, IQ4_NL, IQ4_XS"}));
  }
}

}  // namespace
}  // namespace arenite::convert
