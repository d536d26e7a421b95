// SPDX-License-Identifier: Apache-2.0
// Tokenizer files that are cut short or have changed bytes are read or refused without harm. The
// sanitizers detect harm: run this test under them.
#include <gtest/gtest.h>

#include <string>

#include "convert/files/error.h"
#include "convert/tokenizers/tokenizer_builders.h"
#include "convert/tokenizers/tokenizer_source.h"
#include "convert/tokenizers/tokenizer_spec.h"
#include "support/pickle_builder.h"
#include "support/temp_folder.h"
#include "support/tokenizer_model.h"

namespace arenite::testing {
namespace {

// Reads a file, and compiles what was read into a model that the runtime must accept.
bool is_accepted(const TempFolder& folder, const std::string& name, const std::string& bytes) {
  try {
    convert::TokenizerSpec spec = convert::read_tokenizer(folder.write(name, bytes));
    if (!spec.splits.empty()) spec.letters = spec.numbers = {0xC0, 0xD6};
    const test::TestTokenizer tokenizer(spec);
    (void)tokenizer->token_bytes(0);
    return true;
  } catch (const convert::InputError& error) {
    EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
    return false;
  }
}

// Cuts and changes a file at every `stride`-th byte. Cutting ends in a refusal if `cut_is_refused`.
void damage(const std::string& name, const std::string& bytes, size_t stride, bool cut_is_refused) {
  const TempFolder folder;
  ASSERT_TRUE(is_accepted(folder, name, bytes));
  for (size_t i = 0; i < bytes.size(); i += stride) {
    const bool accepted = is_accepted(folder, name, bytes.substr(0, i));
    EXPECT_FALSE(accepted && cut_is_refused) << "cut to " << i << " bytes";
    for (const int mask : {0x01, 0x80, 0xFF}) {
      std::string damaged = bytes;
      damaged[i] = static_cast<char>(damaged[i] ^ mask);
      (void)is_accepted(folder, name, damaged);
    }
  }
}

std::vector<convert::SentencePiece> pieces() {
  return llama_pieces({"\xE2\x96\x81", "a", "ab", "b"});
}

TEST(TokenizerFileDamage, SentencePieceModelsDoNoHarm) {
  damage("tokenizer.model", SentencePieceFile{pieces()}.bytes(), 7, false);
}

TEST(TokenizerFileDamage, Llama2cFilesDoNoHarm) {
  damage("tokenizer.bin", llama2c_file(pieces()), 7, false);
}

TEST(TokenizerFileDamage, JsonFilesDoNoHarm) {
  damage("tokenizer.json", low_line_json({"\xE2\x96\x81", "a"}, {{"\xE2\x96\x81", "a"}}).dump(), 23,
         true);
  damage("tokenizer.json", byte_level_json({{"a", "b"}}).dump(), 29, true);
}

TEST(TokenizerFileDamage, CharacterPicklesDoNoHarm) {
  const std::string pickle = PickleBuilder()
                                 .code(op::kEmptyDict)
                                 .text("stoi")
                                 .code(op::kEmptyDict)
                                 .text("a")
                                 .number(0)
                                 .code(op::kSetItem)
                                 .text("\xC3\xA9")
                                 .number(1)
                                 .code(op::kSetItem)
                                 .code(op::kSetItem)
                                 .stop();
  damage("meta.pkl", pickle, 1, true);
}

}  // namespace
}  // namespace arenite::testing
