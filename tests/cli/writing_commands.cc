// SPDX-License-Identifier: Apache-2.0
// The models are small, so that the tests spend their time on files.
#include "cli/writing_commands.h"

#include "cli/checkpoints.h"
#include "cli/token_models.h"

namespace arenite::testing {

namespace fs = std::filesystem;

void PrintTo(const WritingCommand& command, std::ostream* out) { *out << command.name; }

std::vector<WritingCommand> writing_commands() {
  return {
      {"convert",
       {"convert", "small.safetensors", "-o", "out/m.arn", "--report", "out/m.html"},
       {"m.arn", "m.html"}},
      {"strip", {"strip", "small.arn", "-o", "out/s.arn"}, {"s.arn"}},
      {"repack", {"repack", "small.arn", "-o", "out/r.arn", "--target", "portable"}, {"r.arn"}},
      {"embed", {"embed", "small.arn", "-o", "out/m.h", "--data", "out/m.S"}, {"m.h", "m.S"}},
      {"inspect", {"inspect", "small.arn", "--report", "out/r.json"}, {"r.json"}},
      {"run",
       {"run", "plain.arn", "--input", "ids.npy", "--output", "out/y.npy", "--hidden-states",
        "out/h.npy", "--trace", "out/trace.json"},
       {"y.npy", "h.npy", "trace.json"}},
      {"run_features", {"run", "small.arn", "--input", "x.npy", "--output", "out/y"}, {"y"}},
      {"generate",
       {"generate", "text.arn", "--prompt", "a", "--tokens", "2", "--trace", "out/trace.json"},
       {"trace.json"}},
      {"embed_text",
       {"embed-text", "sentences.arn", "--text", "the pump", "-o", "out/v.npy"},
       {"v.npy"}},
      {"bundle", {"bundle", "portable.arn", "-o", "out/bundle"}, {}, true, "bundle"},
      {"help", {"help", "--write-files", "out/share"}, {}, false},
  };
}

WritingCommand bench_command() {
  return {"bench",
          {"bench", "small.arn", "--tokens", "2", "--trace", "out/trace.json"},
          {"trace.json"}};
}

Contents contents_of(const fs::path& folder) {
  Contents contents;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().lexically_relative(folder).string();
    contents[name] = entry.is_directory() ? kFolder : read_bytes(entry.path());
  }
  return contents;
}

Workplace::Workplace() {
  convert_small(folder_, "portable");
  fs::rename(folder() / "small.arn", folder() / "portable.arn");
  convert_small(folder_);
  write_plain_decoder(folder_);
  write_text_decoder(folder_);
  write_sentence_encoder(folder_);
  write_text_classifier(folder_);
  write_features(folder_, "x.npy", {5, 3});
  write_ids(folder_, "4,", {1, 2, 3, 4});
  fs::create_directory(outputs());
}

void Workplace::set_outputs(const Contents& contents) const {
  for (const auto& entry : fs::directory_iterator(outputs())) fs::remove_all(entry.path());
  for (const auto& [name, bytes] : contents) {
    if (bytes == kFolder) {
      fs::create_directories(outputs() / name);
    } else {
      folder_.write("out/" + name, bytes);
    }
  }
}

ProgramResult Workplace::run(const WritingCommand& command, Command how) const {
  how.folder = folder();
  if (!command.body) return run_arenite(command.words, std::move(how));
  how.body = command.body;
  return testing::run(how);
}

}  // namespace arenite::testing
