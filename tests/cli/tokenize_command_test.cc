// SPDX-License-Identifier: Apache-2.0
// Tests of `arenite tokenize`: the ids that the library gives for a trained tokenizer, the tokens
// around a text, and what is refused.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/printed.h"
#include "cli/token_models.h"
#include "convert/files/json_file.h"
#include "support/test_data.h"

namespace arenite::testing {
namespace {

using nlohmann::json;

class Tokenize : public ::testing::Test {
 protected:
  static json first_text(std::vector<std::string> options) {
    options.insert(options.begin(), "tokenize");
    options.emplace_back("--json");
    const ProgramResult result = run_arenite(options);
    EXPECT_EQ(result.exit_code, kDone) << result.errors;
    return json::parse(result.output).at("texts").at(0);
  }

  TempFolder folder_;
};

TEST_F(Tokenize, TrainedTokenizer_AnyText_HasTheIdsAndTheTextOfTheLibrary) {
  const std::filesystem::path story = collection_folder() / "real" / "story-656k";
  ARENITE_NEEDS_DATA(story);
  const std::string model = (folder_.path() / "m.arn").string();
  ASSERT_TRUE(ends(run_arenite({"convert", story.string(), "-o", model}), kDone));
  for (const json& one : arenite::convert::read_json_object(story / "expected.json")["tokenizer"]) {
    const json found = first_text({model, "--text", one["text"]});
    EXPECT_EQ(found["ids"], one["ids"]) << one["text"];
    EXPECT_EQ(found["decoded"], one["decoded"]) << one["text"];
  }
}

TEST_F(Tokenize, Encoder_TokensAroundAText_AreThereUnlessBare) {
  const std::string model = write_sentence_encoder(folder_);
  const json whole = first_text({model, "--text", "the pump"});
  const json bare = first_text({model, "--text", "the pump", "--bare"});
  ASSERT_EQ(whole["ids"].size(), bare["ids"].size() + 2);
  EXPECT_EQ(whole["tokens"].front(), "[CLS]");
  EXPECT_EQ(whole["tokens"][1], bare["tokens"][0]);
  const std::string file = folder_.write("t.txt", "the pump\nthe pump\n").string();
  EXPECT_TRUE(ends(run_arenite({"tokenize", model, "--file", file}), kDone, {"\n"}));
}

TEST_F(Tokenize, NothingToTokenize_IsRefused) {
  const std::string model = write_sentence_encoder(folder_);
  EXPECT_TRUE(ends(run_arenite({"tokenize", model}), kBadInput, {"--text TEXT or --file"}));
  EXPECT_TRUE(
      ends(run_arenite({"tokenize", model, "--file", "none.txt"}), kBadInput, {"none.txt"}));
}

}  // namespace
}  // namespace arenite::testing
