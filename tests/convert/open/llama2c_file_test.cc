// SPDX-License-Identifier: Apache-2.0
// Tests files of llama2.c with false headers and with sizes that do not add up.
#include "convert/open/opened.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "convert/families/other_formats.h"
#include "support/byte_string.h"
#include "support/recognised.h"
#include "support/refusal.h"

namespace arenite::convert {
namespace {

using namespace testing;

class Llama2c : public ::testing::Test {
 protected:
  std::string file(int version) {
    TensorMap tensors = llama_tensors();
    return llama2c_of_llama(tensors, version);
  }

  // `bytes` with the int32 at byte `at` replaced.
  static std::string with(std::string bytes, size_t at, int32_t value) {
    return bytes.replace(at, sizeof value, bytes_of(value));
  }

  ::testing::AssertionResult refuses(const std::string& bytes,
                                     std::initializer_list<std::string_view> parts) {
    const auto path = folder_.write("m.bin", bytes);
    const FileMap map(path);
    const auto read = [&] { read_llama2c_header(map.bytes(), quote(path.string())); };
    const auto names_file = testing::refuses(read, {"m.bin"});
    return names_file ? testing::refuses(read, parts) : names_file;
  }

  TempFolder folder_;
};

TEST_F(Llama2c, ReadsTheHeader) {
  for (const int version : {0, 1, 2}) {
    const Recognised read = model_at(folder_.write("m.bin", file(version)));
    const auto& spec = std::get<TransformerSpec>(read.facts);
    EXPECT_STREQ(read.form, "llama2.c");
    EXPECT_EQ(spec.vocab_size, kVocab);
    EXPECT_EQ(spec.positions_max, kPositions);
    EXPECT_EQ(spec.kv_heads, kKvHeads);
    EXPECT_TRUE(spec.output.has_value());
    EXPECT_EQ(spec.layers[0].attention_norm->epsilon, 1e-5);
  }
}

TEST_F(Llama2c, RefusesFilesOfAnotherSizeThanTheirHeaderSays) {
  for (const int version : {0, 1, 2}) {
    const std::string bytes = file(version);
    EXPECT_TRUE(refuses(bytes.substr(0, bytes.size() - 1), {"make", "cut short"}));
    EXPECT_TRUE(refuses(bytes + '\0', {"make", "cut short"}));
    EXPECT_TRUE(refuses(bytes.substr(0, 20), {"found 20 bytes"}));
    const size_t vocab_at = version == 0 ? 20 : 28;
    EXPECT_TRUE(refuses(with(bytes, vocab_at, 12), {"the file has"}));
  }
}

TEST_F(Llama2c, RefusesSizesThatCannotBe) {
  const std::string bytes = file(0);
  for (const size_t at : {0u, 4u, 8u, 12u, 16u, 24u}) {
    EXPECT_TRUE(refuses(with(bytes, at, 0), {"a size in the header is 0"})) << at;
    EXPECT_TRUE(refuses(with(bytes, at, -1), {"a size in the header is -1"})) << at;
    EXPECT_TRUE(refuses(with(bytes, at, 1 << 30), {"a size in the header is 1073741824"})) << at;
  }
  EXPECT_TRUE(refuses(with(bytes, 20, INT32_MIN), {"a size in the header is 2147483648"}));
  EXPECT_TRUE(refuses(with(bytes, 8, 2000), {"2000 layers"}));
  EXPECT_TRUE(refuses(with(bytes, 12, 3), {"3 heads", "do not fit"}));
  EXPECT_TRUE(refuses(with(bytes, 12, 32), {"32 heads", "do not fit"}));  // of one element
  EXPECT_TRUE(refuses(with(bytes, 16, 3), {"3 key/value heads"}));
}

TEST_F(Llama2c, RefusesOtherVersionsAndGroups) {
  EXPECT_TRUE(refuses(with(file(1), 4, 3), {"version 3", "expected 1 or 2"}));
  EXPECT_TRUE(refuses(with(file(1), 4, 0), {"version 0"}));
  const size_t group_at = 8 + 7 * 4 + 1;
  EXPECT_TRUE(refuses(with(file(2), group_at, 0), {"groups of 0 elements"}));
  EXPECT_TRUE(refuses(with(file(2), group_at, -32), {"groups of -32 elements"}));
  EXPECT_TRUE(refuses(with(file(2), group_at, 48), {"[11, 32] does not split into groups of 48"}));
}

TEST_F(Llama2c, OtherFilesAreNotTakenForLegacyOnes) {
  const auto is_taken = [](const std::string& bytes) {
    return is_llama2c(std::as_bytes(std::span(bytes)));
  };
  EXPECT_TRUE(is_taken(file(0)));
  EXPECT_FALSE(is_taken(""));
  EXPECT_FALSE(is_taken(safetensors_of(llama_tensors())));
  EXPECT_FALSE(is_taken(torch_archive(llama_tensors())));
  EXPECT_FALSE(is_taken("GGUF" + std::string(60, '\3')));
  EXPECT_FALSE(is_taken(std::string(64, '\0')));
  EXPECT_FALSE(is_taken("Once upon a time there was a file of plain text."));
}

}  // namespace
}  // namespace arenite::convert
