// SPDX-License-Identifier: Apache-2.0
// Replaces every file that the converter reads by a special file, or by one without an end.
#include <gtest/gtest.h>

#include <functional>

#include "convert/families/families.h"
#include "convert/files/checkpoint.h"
#include "convert/files/input_limits.h"
#include "convert/files/json_file.h"
#include "convert/files/memory.h"
#include "convert/files/npy.h"
#include "convert/gguf/gguf_file.h"
#include "convert/open/opened.h"
#include "convert/tokenizers/tokenizer_source.h"
#include "support/recognised.h"
#include "support/refusal.h"
#include "support/special_files.h"
#include "support/temp_folder.h"

namespace arenite::convert {
namespace {

namespace fs = std::filesystem;
using testing::kSpecialFiles;
using testing::make_sparse;
using testing::make_special;
using testing::SpecialFile;
using testing::TempFolder;

constexpr uint64_t kFiveGigabytes = uint64_t{5} << 30;

using Read = std::function<void(const fs::path& file)>;

// The function that reads a file of this name on its own.
struct Reader {
  const char* name;
  Read read;
};

const std::vector<Reader>& readers() {
  static const std::vector<Reader> all = {
      {"m.safetensors", [](const fs::path& file) { Checkpoint::read(file); }},
      {"m.pt", [](const fs::path& file) { Checkpoint::read(file); }},
      {"m.gguf", [](const fs::path& file) { GgufFile::read(file); }},
      {"m.bin",
       [](const fs::path& file) {
         FileMap map(file);
         open_model(file);
       }},
      {"x.npy", [](const fs::path& file) { NpyArray::read(file); }},
      {"config.json", [](const fs::path& file) { read_json_object(file); }},
      {"modules.json", [](const fs::path& file) { testing::encoder_at(file.parent_path()); }},
      {"model.safetensors.index.json",
       [](const fs::path& file) { open_model(file.parent_path()); }},
      {"model.safetensors", [](const fs::path& file) { open_model(file.parent_path()); }},
      {"tokenizer.json", [](const fs::path& file) { read_tokenizer(file); }},
      {"tokenizer.model", [](const fs::path& file) { read_tokenizer(file); }},
      {"tokenizer.bin", [](const fs::path& file) { read_tokenizer(file); }},
      {"vocab.json", [](const fs::path& file) { read_tokenizer(file); }},
      {"vocab.txt", [](const fs::path& file) { read_tokenizer(file); }},
      {"meta.pkl", [](const fs::path& file) { read_tokenizer(file); }},
  };
  return all;
}

// A file that is read together with a tokenizer's main file.
struct Beside {
  const char* name;
  const char* main_name;
};

constexpr Beside kBeside[] = {
    {"merges.txt", "vocab.json"},           {"tokenizer_config.json", "vocab.json"},
    {"tokenizer_config.json", "vocab.txt"}, {"special_tokens_map.json", "vocab.txt"},
    {"added_tokens.json", "vocab.txt"},
};

TEST(SpecialFiles, AreRefusedInPlaceOfAnyFile) {
  for (const Reader& reader : readers()) {
    for (const SpecialFile kind : kSpecialFiles) {
      const TempFolder folder;
      const fs::path file = folder.path() / reader.name;
      make_special(kind, file);
      EXPECT_TRUE(testing::refuses([&] { reader.read(file); }, {reader.name, name(kind)}))
          << reader.name;
    }
  }
}

TEST(SpecialFiles, AreRefusedBesideATokenizer) {
  for (const Beside& beside : kBeside) {
    for (const SpecialFile kind : kSpecialFiles) {
      const TempFolder folder;
      folder.write("vocab.json", R"({"a":0,"b":1,"ab":2})");
      folder.write("vocab.txt", "[UNK]\n[CLS]\n[SEP]\na\n");
      folder.write("merges.txt", "a b\n");
      make_special(kind, folder.path() / beside.name);
      EXPECT_TRUE(testing::refuses([&] { read_tokenizer(folder.path() / beside.main_name); },
                                   {beside.name, name(kind)}));
    }
  }
}

TEST(SpecialFiles, LargeOnesAreRefusedByTheirSize) {
  for (const char* name : {"vocab.txt", "tokenizer.json", "vocab.json"}) {
    const TempFolder folder;
    make_sparse(folder.path() / name, kFiveGigabytes);
    if (std::string_view(name) == "vocab.txt") {
      EXPECT_TRUE(testing::refuses([&] { read_tokenizer(folder.path() / name); },
                                   {name, "5368709120 bytes", "at most 16777216"}));
    } else {
      EXPECT_TRUE(testing::refuses([&] { read_json_object(folder.path() / name); },
                                   {name, "5368709120 bytes", "at most 67108864"}));
    }
  }
  const TempFolder folder;
  folder.write("vocab.json", R"({"a":0,"b":1,"ab":2})");
  make_sparse(folder.path() / "merges.txt", kFiveGigabytes);
  EXPECT_TRUE(testing::refuses([&] { read_tokenizer(folder.path() / "vocab.json"); },
                               {"merges.txt", "at most 16777216"}));
}

// The first bytes already show that this is no checkpoint.
TEST(SpecialFiles, ZerosWithoutEndAreNoCheckpoint) {
  for (const char* name : {"m.safetensors", "m.pt", "m.gguf", "m.bin", "x.npy"}) {
    for (const Reader& reader : readers()) {
      if (std::string_view(reader.name) != name) continue;
      const TempFolder folder;
      make_sparse(folder.path() / name, kFiveGigabytes);
      EXPECT_TRUE(testing::refuses([&] { reader.read(folder.path() / name); }, {name}));
    }
  }
}

TEST(FileMap, SaysWhyAFileCannotBeOpened) {
  const TempFolder folder;
  EXPECT_TRUE(
      testing::refuses([&] { FileMap(folder.path() / "none"); }, {"cannot open", "No such file"}));
  const fs::path file = folder.write("ten", "0123456789");
  EXPECT_TRUE(testing::refuses([&] { FileMap(file, 9); }, {"it has 10 bytes: at most 9"}));
  EXPECT_EQ(FileMap(file, 10).text(), "0123456789");
  EXPECT_EQ(FileMap(folder.write("empty", ""), 0).text(), "");
}

TEST(FileMap, FollowsLinks) {
  const TempFolder folder;
  fs::create_symlink(folder.write("file", "text"), folder.path() / "link");
  EXPECT_EQ(FileMap(folder.path() / "link").text(), "text");
  fs::create_symlink(folder.path() / "ring", folder.path() / "ring");
  EXPECT_TRUE(testing::refuses([&] { FileMap(folder.path() / "ring"); }, {"cannot open"}));
}

TEST(Lines, EndInEitherWayOrWithTheFile) {
  const auto lines_of = [](std::string_view text) {
    std::vector<std::string> lines;
    for (std::string_view line; take_line(text, line);) lines.emplace_back(line);
    return lines;
  };
  EXPECT_EQ(lines_of("a\nb\r\n\nc"), (std::vector<std::string>{"a", "b", "", "c"}));
  EXPECT_EQ(lines_of("a\n"), std::vector<std::string>{"a"});
  EXPECT_EQ(lines_of("\n\r"), (std::vector<std::string>{"", ""}));
  EXPECT_TRUE(lines_of("").empty());
}

}  // namespace
}  // namespace arenite::convert
