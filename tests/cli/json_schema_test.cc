// SPDX-License-Identifier: Apache-2.0
// Validates the JSON of every command against its schema, with Python's jsonschema.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <set>

#include "cli/checkpoints.h"
#include "cli/printed.h"
#include "cli/token_models.h"

namespace arenite::testing {
namespace {

constexpr int kSkipped = 77;

// Runs commands with --json and keeps what they print.
class Printed {
 public:
  void add(const std::string& name, std::vector<std::string> words) {
    words.emplace_back("--json");
    Command quiet;
    quiet.errors_file = "/dev/null";
    const ProgramResult result = run_arenite(words, quiet);
    EXPECT_EQ(result.exit_code, kDone) << name;
    files_.push_back(folder_.write(name + ".json", result.output).string());
    commands_.insert(words[0]);
  }
  void add_file(const std::string& file) { files_.push_back(file); }

  const TempFolder& folder() const { return folder_; }
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  const std::set<std::string>& commands() const { return commands_; }

  ProgramResult validated() const {
    std::vector<std::string> words = {ARENITE_PYTHON, ARENITE_VALIDATE_JSON, ARENITE_PROGRAM};
    words.insert(words.end(), files_.begin(), files_.end());
    return run(words);
  }

 private:
  TempFolder folder_;
  std::vector<std::string> files_;
  std::set<std::string> commands_;
};

void add_conversions(Printed& printed) {
  const std::string checkpoint =
      printed.folder().write("in.safetensors", small_checkpoint().safetensors()).string();
  printed.add("convert", {"convert", checkpoint, "-o", printed.path("a.arn"), "--target", "all"});
  const std::string module = printed.path("a.arn");
  printed.add("inspect", {"inspect", module});
  printed.add("embed", {"embed", module, "-o", printed.path("a.h")});
  printed.add("embed.data",
              {"embed", module, "-o", printed.path("b.h"), "--data", printed.path("b.S")});
  printed.add("verify", {"verify", module});
  printed.add("strip", {"strip", module, "-o", printed.path("s.arn")});
  printed.add("repack", {"repack", module, "-o", printed.path("r.arn"), "--target", "portable"});
  printed.add("repack.new",
              {"repack", printed.path("r.arn"), "-o", printed.path("n.arn"), "--target", "all"});
  printed.add("bundle", {"bundle", printed.path("r.arn"), "-o", printed.path("bundle")});
  printed.add("bench", {"bench", module, "--tokens", "3", "--lengths", "2,3"});
  const std::string input = write_features(printed.folder(), "x.npy", {5, 3});
  printed.add("run", {"run", module, "--input", input, "--output", printed.path("y.npy")});
}

// Adds one model of each kind in the repository.
void add_models(Printed& printed) {
  const std::filesystem::path top =
      std::filesystem::path(ARENITE_INCLUDE).parent_path().parent_path();
  const std::filesystem::path own = top / "examples" / "from_pytorch";
  printed.add("convert.encoder", {"convert", (top / "models" / "vibration").string(), "-o",
                                  printed.path("e.arn"), "--weights", "q8"});
  printed.add("convert.decoder",
              {"convert", (top / "models" / "home-intent").string(), "-o", printed.path("d.arn")});
  printed.add("generate.stop", {"generate", printed.path("d.arn"), "--special", "--prompt",
                                "dim the bedroom lamp to thirty percent<|do|>", "--stop", "ness="});
  printed.add("convert.exported",
              {"convert", (own / "rhymes.pt2").string(), "-o", printed.path("p.arn"), "--tokenizer",
               (own / "vocab.json").string(), "--expect",
               (own / "x.npy").string() + "," + (own / "y.npy").string()});
}

void add_texts(Printed& printed) {
  const std::string decoder = write_text_decoder(printed.folder());
  printed.add("inspect.decoder", {"inspect", decoder});
  EXPECT_TRUE(
      ends(run_arenite({"inspect", decoder, "--report", printed.path("inspect.r.json")}), kDone));
  printed.add_file(printed.path("inspect.r.json"));
  printed.add("generate", {"generate", decoder, "--prompt", "a</s>b", "--tokens", "4"});
  printed.add("generate.ids",
              {"generate", decoder, "--prompt-ids", "3,4", "--ids", "--tokens", "0"});
  printed.add("bench.tokens", {"bench", decoder, "--prompt", "5", "--decode", "4"});
  const std::string sentences = write_sentence_encoder(printed.folder());
  printed.add("embed-text", {"embed-text", sentences, "--text", "pump", "--text", "the"});
  printed.add("embed-text.one", {"embed-text", sentences, "--text", "pump"});
  printed.add("embed-text.file",
              {"embed-text", sentences, "--text", "pump", "-o", printed.path("v.npy")});
  printed.add("classify", {"classify", write_text_classifier(printed.folder()), "--text", "pump"});
  printed.add("classify.tokens", {"classify", write_tagger(printed.folder()), "--text", "pump"});
  const std::string windows = write_features(printed.folder(), "w.npy", {2, 4, 5});
  printed.add("classify.windows",
              {"classify", write_sensor_classifier(printed.folder()), "--input", windows});
}

TEST(JsonOutput, FitsTheSchemaOfEveryCommand) {
  Printed printed;
  add_conversions(printed);
  add_models(printed);
  add_texts(printed);
  const ProgramResult result = printed.validated();
  if (result.exit_code == kSkipped) GTEST_SKIP() << result.output;
  EXPECT_EQ(result.exit_code, 0) << result.output;
  // Each command whose help has --json was asked for it.
  for (const std::string command :
       {"convert", "inspect", "verify", "strip", "repack", "embed", "bundle", "run", "generate",
        "embed-text", "classify", "bench"}) {
    EXPECT_TRUE(printed.commands().contains(command)) << command;
    EXPECT_TRUE(ends(run_arenite({"help", "json", command}), kDone, {"integer"})) << command;
  }
}

TEST(JsonOutput, ReportsAMissingSelfTest) {
  const TempFolder folder;
  const std::string model = convert_small(folder, "portable");
  const std::string stripped = (folder.path() / "s.arn").string();
  ASSERT_TRUE(ends(run_arenite({"strip", model, "-o", stripped}), kDone));
  EXPECT_TRUE(ends(run_arenite({"verify", stripped, "--json"}), kBadInput));
}

}  // namespace
}  // namespace arenite::testing
