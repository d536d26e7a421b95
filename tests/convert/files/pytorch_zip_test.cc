// SPDX-License-Identifier: Apache-2.0
// Archives of torch.save: real ones that PyTorch wrote, and hostile ones written by hand.
#include "convert/files/checkpoint.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "support/pickle_builder.h"
#include "support/refusal.h"
#include "support/temp_folder.h"
#include "support/test_data.h"
#include "support/zip_builder.h"

namespace arenite::convert {
namespace {

namespace op = testing::op;
using testing::bytes_of;
using testing::convert_fixture;
using testing::small_state_dict_pickle;
using testing::ZipBuilder;
using testing::ZipClaim;

#ifdef ARENITE_HAVE_LIBZIP

// Element i of the fixtures is i / 4 - 1.
std::vector<float> ramp(std::initializer_list<int> indexes) {
  std::vector<float> values;
  for (const int i : indexes) values.push_back(static_cast<float>(i) / 4 - 1);
  return values;
}

const std::string kFourFloats = bytes_of<float>({1, 2, 3, 4});

// An honest archive without its storage.
ZipBuilder archive_start(const std::string& pickle = small_state_dict_pickle()) {
  return ZipBuilder().add("m/data.pkl", pickle).add("m/version", "3\n");
}

// `content` as a deflate stream of one stored block.
std::string deflated(const std::string& content) {
  const auto length = static_cast<uint16_t>(content.size());
  return bytes_of(uint8_t{1}) + bytes_of(length) + bytes_of(static_cast<uint16_t>(~length)) +
         content;
}

class PytorchZip : public ::testing::Test {
 protected:
  Checkpoint read(const ZipBuilder& archive) {
    return Checkpoint::read(folder_.write("w.pt", archive.bytes()));
  }
  ::testing::AssertionResult refuses(const ZipBuilder& archive,
                                     std::initializer_list<std::string_view> parts) {
    const auto names_file = testing::refuses([&] { read(archive); }, {"w.pt'"});
    return names_file ? testing::refuses([&] { read(archive); }, parts) : names_file;
  }

  testing::TempFolder folder_;
};

TEST_F(PytorchZip, ReadsEveryType) {
  const Checkpoint file = Checkpoint::read(convert_fixture("all_types.pt"));
  EXPECT_EQ(file.tensors().size(), 10u);
  for (const char* name : {"float64", "float32", "float16", "bfloat16"}) {
    EXPECT_EQ(file.find(name)->to_f32(), ramp({0, 1, 2, 3, 4, 5})) << name;
  }
  for (const char* name : {"int64", "int32", "int16", "int8"}) {
    EXPECT_EQ(file.find(name)->to_i64(), (std::vector<int64_t>{-3, -2, -1, 0, 1, 2})) << name;
  }
  EXPECT_EQ(file.find("uint8")->to_i64(), (std::vector<int64_t>{250, 251, 252, 253, 254, 255}));
  EXPECT_EQ(file.find("bool")->dtype, DType::kBool);
  EXPECT_EQ(file.find("bool")->to_f32(), (std::vector<float>{1, 0, 0, 1, 1, 0, 1, 1, 1}));
}

TEST_F(PytorchZip, ReadsViewsThatShareAStorage) {
  const Checkpoint file = Checkpoint::read(convert_fixture("views.pt"));
  EXPECT_EQ(file.find("whole")->shape, (std::vector<uint64_t>{4, 3}));
  EXPECT_EQ(file.find("transposed")->to_f32(), ramp({0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11}));
  EXPECT_EQ(file.find("row")->to_f32(), ramp({6, 7, 8}));
  EXPECT_EQ(file.find("column")->to_f32(), ramp({1, 4, 7, 10}));
  EXPECT_EQ(file.find("column")->data.data(), file.find("whole")->data.data() + sizeof(float));
  EXPECT_EQ(file.find("expanded")->to_f32(), ramp({0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(file.find("scalar")->to_f32(), std::vector<float>{0.5f});
  EXPECT_EQ(file.find("empty")->shape, (std::vector<uint64_t>{0, 3}));
  EXPECT_TRUE(file.find("empty")->to_f32().empty());
  EXPECT_EQ(file.find("parameter")->to_f32(), ramp({0, 1}));
}

TEST_F(PytorchZip, ReadsTheStateDictOfATrainingCheckpoint) {
  const Checkpoint file = Checkpoint::read(convert_fixture("training.pt"));
  ASSERT_EQ(file.tensors().size(), 4u);
  EXPECT_EQ(file.tensors()[0].name, "0.weight");
  EXPECT_EQ(file.tensors()[3].name, "1.bias");
  EXPECT_EQ(file.find("0.weight")->to_f32(), ramp({0, 1, 2, 3, 4, 5}));
}

TEST_F(PytorchZip, ReadsLaterPickleProtocols) {
  const Checkpoint file = Checkpoint::read(convert_fixture("protocol4.pt"));
  EXPECT_EQ(file.find("w")->to_f32(), ramp({0, 1, 2, 3}));
}

TEST_F(PytorchZip, UnreadableFilesAreRefusedWithTheCallThatSavesThemAnew) {
  const auto refuses_fixture = [](const char* name, std::string_view why) {
    return testing::refuses([&] { Checkpoint::read(convert_fixture(name)); },
                            {name, why, "torch.save(model.state_dict(), path)"});
  };
  EXPECT_TRUE(refuses_fixture("legacy.pt", "bare pickle"));
  EXPECT_TRUE(refuses(ZipBuilder().add("a.txt", "text"), {"torch.save(model.state_dict(), path)"}));
}

TEST_F(PytorchZip, ReadsHandMadeArchivesStoredAndDeflated) {
  const Checkpoint stored = read(archive_start().add("m/data/0", kFourFloats));
  EXPECT_EQ(stored.find("w")->to_f32(), (std::vector<float>{1, 2, 3, 4}));
  const ZipClaim claim{.method = 8, .bytes = 16, .crc = testing::crc32(kFourFloats)};
  const Checkpoint inflated = read(archive_start().add("m/data/0", deflated(kFourFloats), claim));
  EXPECT_EQ(inflated.find("w")->to_f32(), (std::vector<float>{1, 2, 3, 4}));
}

TEST_F(PytorchZip, RefusesBigEndianData) {
  EXPECT_TRUE(refuses(archive_start().add("m/byteorder", "big").add("m/data/0", kFourFloats),
                      {"'byteorder'", "'big'", "expected 'little'"}));
  read(archive_start().add("m/byteorder", "little").add("m/data/0", kFourFloats));
}

TEST_F(PytorchZip, RefusesUnknownFormatVersions) {
  const ZipBuilder none = ZipBuilder().add("m/data.pkl", small_state_dict_pickle());
  EXPECT_TRUE(refuses(none, {"'version'", "no such member"}));
  EXPECT_TRUE(refuses(ZipBuilder(none).add("m/version", "11\n"), {"1 to 10"}));
  EXPECT_TRUE(refuses(ZipBuilder(none).add("m/version", "x"), {"'x'"}));
  EXPECT_TRUE(refuses(ZipBuilder(none).add("m/version", std::string(100, '3')), {"100 bytes"}));
}

TEST_F(PytorchZip, RefusesStoragesOfTheWrongSize) {
  EXPECT_TRUE(refuses(archive_start(), {"tensor 'w'", "no member 'm/data/0'"}));
  EXPECT_TRUE(refuses(archive_start().add("m/data/0", kFourFloats.substr(1)),
                      {"tensor 'w'", "has 15 bytes: expected 16"}));
  EXPECT_TRUE(refuses(archive_start().add("m/data/0", kFourFloats + "x"), {"has 17 bytes"}));
}

TEST_F(PytorchZip, RefusesDuplicateMembers) {
  EXPECT_TRUE(refuses(archive_start().add("m/data/0", kFourFloats).add("m/data/0", kFourFloats),
                      {"zip member 'm/data/0'", "two members"}));
  EXPECT_TRUE(refuses(archive_start().add("n/data.pkl", "N."), {"two members are named data.pkl"}));
}

TEST_F(PytorchZip, RefusesOddMemberNames) {
  for (const char* name : {"/m/a", "m/../a", "../a", "m\\a", "C:a", "m/a\x1b[2J", "./a"}) {
    EXPECT_TRUE(refuses(archive_start().add(name, ""), {"not a plain relative path"})) << name;
  }
}

TEST_F(PytorchZip, RefusesEncryptionAndOtherCompression) {
  EXPECT_TRUE(refuses(archive_start().add("m/data/0", kFourFloats, {.flags = 1}), {"encrypted"}));
  EXPECT_TRUE(refuses(archive_start().add("m/data/0", kFourFloats, {.method = 12}),
                      {"compression method 12"}));
}

TEST_F(PytorchZip, RefusesSizesThatCannotBe) {
  EXPECT_TRUE(refuses(archive_start().add("m/data/0", kFourFloats, {.bytes = 1 << 30}),
                      {"claims 1073741824 bytes, 16 in the archive"}));
  EXPECT_TRUE(refuses(archive_start().add("m/data/0", kFourFloats, {.crc = 1}), {"CRC error"}));
  const std::string stream = deflated(kFourFloats);
  EXPECT_TRUE(
      refuses(archive_start().add("m/data/0", deflated(kFourFloats + "x"),
                                  {.method = 8, .bytes = 16, .crc = testing::crc32(kFourFloats)}),
              {"zip member 'm/data/0'"}));
  EXPECT_TRUE(
      refuses(archive_start().add("m/data/0", stream.substr(0, 9), {.method = 8, .bytes = 16}),
              {"zip member 'm/data/0'"}));
}

TEST_F(PytorchZip, RefusesMembersThatInflateBeyondReason) {
  const auto bomb = [](int32_t floats, int32_t used) {
    const std::string pickle =
        testing::PickleBuilder()
            .code(testing::op::kEmptyDict)
            .text("w")
            .tensor({.storage_elements = floats, .shape = {used}, .strides = {1}})
            .code(testing::op::kSetItem)
            .stop();
    return archive_start(pickle).add("m/data/0", deflated("x"),
                                     {.method = 8, .bytes = static_cast<uint32_t>(floats) * 4});
  };
  EXPECT_TRUE(refuses(bomb(1 << 21, 1), {"inflates to 8388608 bytes, of which tensors use 4"}));
  EXPECT_TRUE(refuses(bomb(1 << 29, 1 << 29), {"compressed members hold more than"}));
  EXPECT_TRUE(refuses(ZipBuilder()
                          .add("m/version", "3")
                          .add("m/data.pkl", deflated("x"), {.method = 8, .bytes = 1 << 30}),
                      {"data.pkl", "at most 67108864"}));
}

TEST_F(PytorchZip, RefusesADirectoryThatPointsAtTheSameBytesManyTimes) {
  // Twenty directory entries for one stored member: together larger than the file.
  testing::PickleBuilder pickle;
  pickle.code(testing::op::kEmptyDict);
  for (int i = 0; i < 20; ++i) {
    pickle.text(fmt::format("w{}", i));
    pickle.tensor(
        {.key = fmt::format("{}", i), .storage_elements = 1000, .shape = {1000}, .strides = {1}});
    pickle.code(testing::op::kSetItem);
  }
  ZipBuilder archive = archive_start(pickle.stop());
  archive.add("m/data/0", std::string(4000, 'x'));
  for (int i = 1; i < 20; ++i) archive.add_again(fmt::format("m/data/{}", i));
  EXPECT_TRUE(refuses(archive, {"zip member 'm/data/"}));
}

TEST_F(PytorchZip, BoundsThePickleByItsCompressedSize) {
  const auto pickle_of = [](uint32_t bytes) {
    return ZipBuilder()
        .add("m/version", "3")
        .add("m/data.pkl", deflated("x"), {.method = 8, .bytes = bytes});
  };
  EXPECT_TRUE(refuses(pickle_of(1 << 20), {"data.pkl", "inflates from 6 bytes to 1048576"}));
  EXPECT_TRUE(refuses(pickle_of(1 << 18), {"zip member 'm/data.pkl'", "CRC error"}));
}

TEST_F(PytorchZip, BoundsTheNumberOfMembers) {
  ZipBuilder archive = archive_start().add("m/data/0", kFourFloats);
  for (int i = 0; i < (1 << 14) - 3; ++i) archive.add(fmt::format("m/{}", i), "");
  EXPECT_EQ(read(archive).tensors().size(), 1u);
  EXPECT_TRUE(refuses(archive.add("m/more", ""), {"has 16385 members", "at most 16384"}));
}

TEST_F(PytorchZip, BoundsTheNumberOfMembersOf64BitArchives) {
  // The 32-bit end says 1; the record before it, which counts, says a million.
  const std::string honest = archive_start().add("m/data/0", kFourFloats).bytes();
  const size_t end = honest.size() - 22;
  const uint64_t million = 1'000'000;
  const std::string record = "PK\x06\x06" + bytes_of(uint64_t{44}) + bytes_of(uint32_t{45}) +
                             bytes_of(uint64_t{0}) + bytes_of(million) + bytes_of(million) +
                             bytes_of(uint64_t{0}) + bytes_of(uint64_t{0});
  const std::string locator =
      "PK\x06\x07" + bytes_of(uint32_t{0}) + bytes_of(uint64_t{end}) + bytes_of(uint32_t{1});
  const std::string file = honest.substr(0, end) + record + locator + honest.substr(end);
  EXPECT_TRUE(testing::refuses([&] { Checkpoint::read(folder_.write("w.pt", file)); },
                               {"w.pt'", "has 1000000 members"}));
}

TEST_F(PytorchZip, CountsMembersThatTheEndDoesNotClaim) {
  ZipBuilder archive;
  for (int i = 0; i < (1 << 14) + 1; ++i) archive.add(fmt::format("m/{}", i), "");
  std::string file = archive.bytes();
  file.replace(file.size() - 14, 4, bytes_of(uint16_t{1}) + bytes_of(uint16_t{1}));
  EXPECT_TRUE(testing::refuses([&] { Checkpoint::read(folder_.write("w.pt", file)); },
                               {"w.pt'", "has 16385 members"}));
}

TEST_F(PytorchZip, RefusesManyConsecutiveEnds) {
  std::string file = archive_start().add("m/data/0", kFourFloats).bytes();
  const std::string end = file.substr(file.size() - 22);
  for (int i = 0; i < 4; ++i) file += end;
  EXPECT_TRUE(testing::refuses([&] { Checkpoint::read(folder_.write("w.pt", file)); },
                               {"w.pt'", "more than 4 ends"}));
}

TEST_F(PytorchZip, RunsNoCode) {
  const std::filesystem::path made = folder_.path() / "made";
  const std::string pickle = testing::PickleBuilder()
                                 .global("os", "system")
                                 .text("touch " + made.string())
                                 .code(testing::op::kTuple1)
                                 .code(testing::op::kReduce)
                                 .stop();
  EXPECT_TRUE(refuses(archive_start(pickle), {"w.pt', data.pkl", "an object and no named tensor"}));
  EXPECT_FALSE(std::filesystem::exists(made));
}

#else

TEST(PytorchZip, SaysThatThisBuildLacksLibzip) {
  EXPECT_TRUE(testing::refuses([] { Checkpoint::read(convert_fixture("views.pt")); },
                               {"views.pt", "lacks libzip", "safetensors"}));
}

#endif

}  // namespace
}  // namespace arenite::convert
