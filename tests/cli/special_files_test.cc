// SPDX-License-Identifier: Apache-2.0
// Messages about inputs that are not regular files or have no end.
#include "support/special_files.h"

#include <gtest/gtest.h>

#include "cli/checkpoints.h"
#include "cli/printed.h"
#include "cli/token_models.h"

namespace arenite::testing {
namespace {

constexpr uint64_t kFiveGigabytes = uint64_t{5} << 30;

class SpecialInputs : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }

  TempFolder folder_;
};

TEST_F(SpecialInputs, AreRefusedByEveryCommand) {
  const std::string decoder = write_text_decoder(folder_);
  const std::string encoder = write_sentence_encoder(folder_);
  const std::string small = convert_small(folder_);
  const std::string input = path("input");
  const std::vector<std::vector<std::string>> commands = {
      {"convert", input, "-o", path("y.arn")},
      {"convert", path("small.safetensors"), "-o", path("y.arn"), "--tokenizer", input},
      {"inspect", input},
      {"verify", input},
      {"strip", input, "-o", path("y.arn")},
      {"repack", input, "-o", path("y.arn"), "--target", "all"},
      {"embed", input, "-o", path("y.h")},
      {"bench", input},
      {"run", input, "--input", path("x.npy"), "--output", path("y.npy")},
      {"run", small, "--input", input, "--output", path("y.npy")},
      {"generate", input, "--prompt", "a"},
      {"generate", decoder, "--prompt-file", input},
      {"embed-text", encoder, "--file", input},
      {"classify", encoder, "--file", input},
  };
  for (const SpecialFile kind : kSpecialFiles) {
    make_special(kind, input);
    for (const std::vector<std::string>& command : commands) {
      const ProgramResult result = run_arenite(command);
      EXPECT_TRUE(result.exit_code == kBadInput || result.exit_code == kBadUsage)
          << command[0] << " of " << name(kind) << "\n"
          << result.output;
      EXPECT_FALSE(std::filesystem::exists(path("y.arn"))) << command[0];
    }
  }
}

TEST_F(SpecialInputs, ErrorsNameTheirKind) {
  const std::string decoder = write_text_decoder(folder_);
  const std::string encoder = write_sentence_encoder(folder_);
  const std::string input = path("input");
  for (const SpecialFile kind : kSpecialFiles) {
    make_special(kind, input);
    EXPECT_TRUE(ends(run_arenite({"generate", decoder, "--prompt-file", input}), kBadInput,
                     {"cannot read", "input", name(kind)}));
    EXPECT_TRUE(ends(run_arenite({"embed-text", encoder, "--file", input}), kBadInput,
                     {"cannot read", "input", name(kind)}));
    EXPECT_TRUE(ends(run_arenite({"inspect", input}), kBadInput, {"cannot read", name(kind)}));
  }
}

TEST_F(SpecialInputs, TextsAreRefusedByTheirSizeBeforeTheyAreRead) {
  const std::string decoder = write_text_decoder(folder_);
  const std::string encoder = write_sentence_encoder(folder_);
  const std::string input = path("input");
  make_sparse(input, kFiveGigabytes);
  EXPECT_TRUE(ends(run_arenite({"generate", decoder, "--prompt-file", input}), kBadInput,
                   {"5368709120 bytes", "at most 8388608"}));
  EXPECT_TRUE(ends(run_arenite({"embed-text", encoder, "--file", input}), kBadInput,
                   {"5368709120 bytes", "at most 67108864"}));
}

TEST_F(SpecialInputs, TheFirstLineThatCannotBeEncodedEndsIt) {
  const std::string encoder = write_sentence_encoder(folder_);
  const std::string lines = "the pump\n" + std::string(100, ' ') + "\n";
  const std::string file = folder_.write("lines.txt", "the pump is loud a a a a a a\n" + lines);
  EXPECT_TRUE(ends(run_arenite({"embed-text", encoder, "--file", file}), kBadInput,
                   {"lines.txt', line 1", "found 12 tokens"}));
}

}  // namespace
}  // namespace arenite::testing
