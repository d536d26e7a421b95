// SPDX-License-Identifier: Apache-2.0
// No command overwrites its own input or leaves a partial output.
#include <gtest/gtest.h>

#include <map>

#include "cli/checkpoints.h"
#include "cli/printed.h"
#include "cli/token_models.h"
#include "support/test_data.h"

namespace arenite::testing {
namespace {

namespace fs = std::filesystem;

// The bytes of all files of a folder and below it, by path.
std::map<std::string, std::string> contents_of(const fs::path& folder) {
  std::map<std::string, std::string> contents;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) contents[entry.path().string()] = read_bytes(entry.path());
  }
  return contents;
}

// A folder with models and inputs of all kinds.
class OutputFiles : public ::testing::Test {
 protected:
  OutputFiles() {
    small_ = convert_small(folder_);
    decoder_ = write_plain_decoder(folder_);
    text_ = write_text_decoder(folder_);
    sentences_ = write_sentence_encoder(folder_);
    tagger_ = write_tagger(folder_);
    features_ = write_features(folder_, "x.npy", {5, 3});
    ids_ = write_ids(folder_, "4,", {1, 2, 3, 4});
    lines_ = folder_.write("lines.txt", "the\n").string();
    fs::copy(project_folder() / "models" / "home-intent", folder_.path() / "intent");
  }

  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }

  // Returns a link to the standard output like /dev/stdout, in the test's own folder: a program
  // that replaces the link does no harm.
  std::string stdout_link() const {
    std::error_code there_already;
    fs::create_symlink("/proc/self/fd/1", path("stdout"), there_already);
    return path("stdout");
  }

  // Bad usage that says `part`, and no file has changed.
  void refused(const std::vector<std::string>& words, std::string_view part, Command command = {}) {
    const auto before = contents_of(folder_.path());
    EXPECT_TRUE(ends(run_arenite(words, command), kBadUsage, {part, "expected another file"}));
    EXPECT_TRUE(contents_of(folder_.path()) == before) << words[0] << " " << words.back();
  }

  TempFolder folder_;
  std::string small_, decoder_, text_, sentences_, tagger_, features_, ids_, lines_;
};

TEST_F(OutputFiles, AConversionLeavesItsModelAlone) {
  const std::string intent = path("intent");
  for (const char* const name : {"model.safetensors", "config.json", "tokenizer.json"}) {
    refused({"convert", intent, "-o", intent + "/" + name}, "--output: ");
    fs::create_hard_link(intent + "/" + name, path("hard"));
    refused({"convert", intent, "-o", path("hard")}, "is an input of this command");
    fs::remove(path("hard"));
    fs::create_symlink("intent/" + std::string(name), path("soft"));
    refused({"convert", intent, "-o", path("soft")}, "is an input of this command");
    fs::remove(path("soft"));
  }
  Command inside;
  inside.folder = intent;
  refused({"convert", ".", "-o", "model.safetensors"}, "--output: ", inside);
  refused({"convert", path("small.safetensors"), "-o", path("small.safetensors")}, "is an input");
  refused({"convert", path("small.safetensors"), "-o", path("intent/../small.safetensors")},
          "is an input");
  fs::copy(intent + "/tokenizer.json", path("tokens.json"));
  refused({"convert", intent, "--tokenizer", path("tokens.json"), "-o", path("tokens.json")},
          "is an input");
}

// Another program's file of the same name may be a part of the model.
TEST_F(OutputFiles, AConversionKeepsUnreadFilesOfTheFolder) {
  const std::string intent = path("intent");
  folder_.write("intent/pytorch_model.bin", "the same weights");
  refused({"convert", intent, "-o", intent + "/pytorch_model.bin"}, "a file of the model's folder");
  EXPECT_TRUE(ends(run_arenite({"convert", intent, "-o", intent + "/new.arn"}), kDone));
  EXPECT_TRUE(ends(run_arenite({"convert", intent, "-o", intent + "/new.arn"}), kDone));
}

TEST_F(OutputFiles, NoCommandReplacesItsInput) {
  refused({"run", small_, "--input", features_, "--output", small_}, "is an input");
  refused({"run", small_, "--input", features_, "--output", features_}, "is an input");
  refused({"run", small_, "--input", features_, "--output", path("y"), "--trace", features_},
          "--trace: ");
  refused({"run", decoder_, "--input", ids_, "--output", path("y"), "--hidden-states", ids_},
          "--hidden-states: ");
  const auto write_four = [&](const char* name, char number) {
    const std::string data(4, number);
    return folder_.write(name, npy_bytes("|u1", "False", "4,", data)).string();
  };
  const std::string mask = write_four("mask.npy", 1);
  const std::string types = write_four("types.npy", 0);
  for (const char* const output : {"--output", "--hidden-states", "--trace"}) {
    for (const auto& [option, file] : {std::pair("--mask", mask), std::pair("--types", types)}) {
      std::vector<std::string> words = {"run",  tagger_, "--input", ids_,
                                        option, file,    output,    file};
      if (output != std::string("--output")) words.insert(words.end(), {"--output", path("y")});
      refused(words, "is an input of this command");
    }
  }
  refused({"strip", small_, "-o", small_}, "is an input");
  refused({"repack", small_, "-o", small_, "--target", "all"}, "is an input");
  refused({"embed", small_, "-o", small_}, "--output: ");
  refused({"embed", small_, "-o", path("m.h"), "--data", small_}, "--data: ");
  refused({"embed-text", sentences_, "--file", lines_, "-o", lines_}, "is an input");
  refused({"embed-text", sentences_, "--text", "the", "-o", sentences_}, "is an input");
  refused({"generate", text_, "--prompt-file", lines_, "--trace", lines_}, "--trace: ");
  refused({"generate", text_, "--prompt", "a", "--trace", text_}, "--trace: ");
  refused({"bench", small_, "--tokens", "2", "--trace", small_}, "--trace: ");
}

TEST_F(OutputFiles, TwoOutputsAreTwoFiles) {
  const std::string y = path("y");
  const std::string also_y = path("intent/../y");
  refused({"run", decoder_, "--input", ids_, "--output", y, "--hidden-states", also_y}, "--output");
  refused({"run", decoder_, "--input", ids_, "--output", y, "--trace", also_y}, "--output");
  refused(
      {"run", decoder_, "--input", ids_, "--output", path("z"), "--hidden-states", y, "--trace", y},
      "--hidden-states");
  refused({"embed", small_, "-o", y, "--data", also_y}, "--output");
}

TEST_F(OutputFiles, TheStandardOutputIsNoOtherOutputAndNoInput) {
  Command to_file;
  to_file.output_file = folder_.write("log", "lines before\n");
  refused({"strip", small_, "-o", stdout_link()}, "where the standard output goes", to_file);
  refused({"strip", small_, "-o", path("log")}, "where the standard output goes", to_file);
  to_file.output_file = small_;
  for (const char* const command : {"inspect", "verify", "bench"}) {
    const auto before = contents_of(folder_.path());
    EXPECT_TRUE(ends(run_arenite({command, small_}, to_file), kBadUsage,
                     {"is an input of this command", "the standard output goes to it"}));
    EXPECT_TRUE(contents_of(folder_.path()) == before) << command;
  }
}

TEST_F(OutputFiles, DevicesFoldersAndMissingFoldersAreRefusedFirst) {
  const auto cannot_write = [&](const std::string& output, std::string_view part) {
    return ends(run_arenite({"strip", small_, "-o", output}), kBadInput,
                {"arenite: cannot write", part});
  };
  EXPECT_TRUE(cannot_write("/dev/null", "not a regular file"));
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  EXPECT_TRUE(cannot_write(stdout_link(), "not a regular file"));
  EXPECT_TRUE(fs::is_symlink(stdout_link()));
  EXPECT_TRUE(cannot_write(path("intent"), "it is a folder"));
  EXPECT_TRUE(cannot_write(path("none/out"), "create it first"));
  EXPECT_TRUE(cannot_write(small_ + "/out", "Not a directory"));
  // Before the input is read at all.
  EXPECT_TRUE(ends(run_arenite({"convert", "missing", "-o", path("none/out")}), kBadInput,
                   {"cannot write", "none/out'"}));
}

TEST_F(OutputFiles, AReadOnlyFolderIsRefused) {
  Command somebody;
  somebody.unprivileged = geteuid() == 0;
  fs::permissions(folder_.path(),
                  fs::perms::owner_all | fs::perms::others_read | fs::perms::others_exec);
  fs::create_directory(path("closed"));
  fs::permissions(path("closed"), fs::perms::owner_read | fs::perms::owner_exec);
  const ProgramResult result = run_arenite({"strip", small_, "-o", path("closed/out")}, somebody);
  if (result.exit_code == 126) GTEST_SKIP() << "this machine knows one user only";
  EXPECT_TRUE(ends(result, kBadInput, {"cannot write", "closed'", "Permission denied"}));
}

TEST_F(OutputFiles, ALinkIsFollowed) {
  fs::create_symlink("real.arn", path("link.arn"));
  EXPECT_TRUE(ends(run_arenite({"strip", small_, "-o", path("link.arn")}), kDone));
  EXPECT_TRUE(fs::is_symlink(path("link.arn")));
  EXPECT_TRUE(ends(run_arenite({"inspect", path("real.arn")}), kDone));
}

// If the disk holds only one of header and data, neither stays.
TEST_F(OutputFiles, AllOfSeveralFilesAppearOrNone) {
  // A sanitizer takes the small one alone.
  const std::string large = kSanitized ? "" : write_large_decoder(folder_);
  const std::string ids = write_ids(folder_, "300,", std::vector<int64_t>(300, 1));
  const std::vector<std::vector<std::string>> commands = {
      {"embed", large, "-o", path("m.h"), "--data", path("m.o"), "--abi", "arm"},
      {"embed", small_, "-o", path("m.h"), "--data", path("m.S")},
      {"run", large, "--input", ids, "--output", path("y"), "--hidden-states", path("h")},
      {"run", large, "--input", ids, "--output", path("y"), "--last", "--trace", path("t")}};
  for (const std::vector<std::string>& words : commands) {
    if (words[1].empty()) continue;
    const auto before = contents_of(folder_.path());
    Command full_disk;
    full_disk.file_bytes_max = 1000;
    if (words[1] == large) full_disk.file_bytes_max = words.back() == path("t") ? 9000 : 100'000;
    EXPECT_TRUE(ends(run_arenite(words, full_disk), kBadInput,
                     {"File too large", "nothing was left behind"}));
    EXPECT_TRUE(contents_of(folder_.path()) == before) << words[0] << " " << words.back();
    EXPECT_TRUE(ends(run_arenite(words), kDone));
    EXPECT_GE(contents_of(folder_.path()).size(), before.size() + 2);
    for (const char* const name : {"m.h", "m.o", "m.S", "y", "h", "t"}) fs::remove(path(name));
  }
}

// Repeats the test on a file system that is really full, where this user may mount one.
TEST_F(OutputFiles, AFullDiskStaysAsItWas) {
  const std::string large = write_large_decoder(folder_);
  const std::string script =
      "mount -t tmpfs -o size=400k none \"$1\" || exit 99\n"
      "\"$2\" embed \"$3\" -o \"$1/m.h\" --data \"$1/m.o\" --abi arm\n"
      "echo \"code $?, files $(ls -A \"$1\" | wc -l)\"\n";
  fs::create_directory(path("disk"));
  const ProgramResult result =
      run({"unshare", "--mount", "sh", "-c", script, "sh", path("disk"), ARENITE_PROGRAM, large});
  if (result.output.find("code ") == std::string::npos) GTEST_SKIP() << result.output;
  EXPECT_TRUE(ends(result, kDone, {"m.o'", "No space left on device", "code 1, files 0"}));
}

}  // namespace
}  // namespace arenite::testing
