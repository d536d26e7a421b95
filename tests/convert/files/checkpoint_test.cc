// SPDX-License-Identifier: Apache-2.0
// Tests recognition of checkpoint formats, also on the collection of real checkpoints if it is
// present.
#include "convert/files/checkpoint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "support/byte_string.h"
#include "support/refusal.h"
#include "support/safetensors_builder.h"
#include "support/temp_folder.h"
#include "support/test_data.h"

namespace arenite::convert {
namespace {

using testing::collection_folder;
using testing::refuses;

TEST(Checkpoint, RecognisesByContentNotByExtension) {
  const testing::TempFolder folder;
  const std::string bytes = testing::safetensors_file(
      R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", testing::bytes_of(1.0f));
  for (const char* name : {"w.safetensors", "w.pt", "w"}) {
    const Checkpoint file = Checkpoint::read(folder.write(name, bytes));
    EXPECT_EQ(file.tensors().size(), 1u) << name;
    EXPECT_EQ(file.file_name(), (folder.path() / name).string());
  }
}

TEST(Checkpoint, SaysWhatAnUnreadableFileIs) {
  const testing::TempFolder folder;
  const auto refuses_bytes = [&](std::string_view bytes, std::string_view why) {
    return refuses([&] { Checkpoint::read(folder.write("w.bin", bytes)); }, {"w.bin", why});
  };
  EXPECT_TRUE(refuses_bytes("", "is empty"));
  EXPECT_TRUE(refuses_bytes("hello", "neither a safetensors file nor a zip archive"));
  EXPECT_TRUE(refuses_bytes("\x80\x02}q.", "bare pickle"));
  EXPECT_TRUE(refuses_bytes("version https://git-lfs.github.com/spec/v1\n", "git lfs pull"));
}

TEST(Checkpoint, SaysWhyAFileCannotBeOpened) {
  const testing::TempFolder folder;
  EXPECT_TRUE(
      refuses([&] { Checkpoint::read(folder.path() / "none.pt"); }, {"none.pt", "No such file"}));
  EXPECT_TRUE(refuses([&] { Checkpoint::read(folder.path()); }, {"not a regular file"}));
}

// Calls `check(file)` for each collected file with this name; false if there is none.
template <typename Check>
bool for_each_collected(const char* below, std::string_view file_name, const Check& check) {
  bool found = false;
  const std::filesystem::path folder = collection_folder() / below;
  if (!std::filesystem::is_directory(folder)) return false;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::filesystem::path file = entry.path() / file_name;
    if (!std::filesystem::exists(file)) continue;
    SCOPED_TRACE(file.string());
    check(file);
    found = true;
  }
  return found;
}

TEST(Checkpoint, ReadsEveryCollectedSafetensorsFile) {
  ARENITE_NEEDS_DATA(collection_folder() / "goldens");
  const auto check = [](const std::filesystem::path& path) {
    const Checkpoint file = Checkpoint::read(path);
    EXPECT_FALSE(file.tensors().empty());
    for (const CheckpointTensor& tensor : file.tensors()) {
      EXPECT_EQ(tensor.to_f32().size(), tensor.elements()) << tensor.name;
    }
  };
  const bool found_weights = for_each_collected("goldens", "weights.safetensors", check);
  const bool found_models = for_each_collected("goldens", "model.safetensors", check);
  EXPECT_TRUE(found_weights);
  EXPECT_TRUE(found_models);
}

#ifdef ARENITE_HAVE_LIBZIP

TEST(Checkpoint, ReadsTheSameBitsFromTorchSaveAsFromSafetensors) {
  ARENITE_NEEDS_DATA(collection_folder() / "goldens");
  const auto check = [](std::filesystem::path path) {
    const Checkpoint torch = Checkpoint::read(path);
    const Checkpoint safetensors = Checkpoint::read(path.replace_extension(".safetensors"));
    ASSERT_EQ(torch.tensors().size(), safetensors.tensors().size());
    for (const CheckpointTensor& tensor : torch.tensors()) {
      const CheckpointTensor* twin = safetensors.find(tensor.name);
      ASSERT_NE(twin, nullptr) << tensor.name;
      EXPECT_EQ(tensor.dtype, twin->dtype) << tensor.name;
      EXPECT_EQ(tensor.shape, twin->shape) << tensor.name;
      EXPECT_EQ(testing::bytes_of(tensor.to_f64()), testing::bytes_of(twin->to_f64()))
          << tensor.name;
    }
  };
  EXPECT_TRUE(for_each_collected("goldens", "weights.pt", check));
}

TEST(Checkpoint, ReadsARealTrainingCheckpoint) {
  const std::filesystem::path path = collection_folder() / "real/sentiment-sst2/model.pt";
  ARENITE_NEEDS_DATA(path);
  const Checkpoint file = Checkpoint::read(path);
  ASSERT_EQ(file.tensors().size(), 30u);
  EXPECT_EQ(file.tensors()[0].name, "token_embedding.weight");
  EXPECT_EQ(file.tensors()[0].shape, (std::vector<uint64_t>{4998, 128}));
  ASSERT_NE(file.find("encoder.layers.1.self_attn.in_proj_weight"), nullptr);
  for (const CheckpointTensor& tensor : file.tensors()) {
    const std::vector<float> values = tensor.to_f32();
    EXPECT_TRUE(std::all_of(values.begin(), values.end(), [](float v) { return v * 0 == 0; }))
        << tensor.name << " is not finite";
  }
}

#endif

}  // namespace
}  // namespace arenite::convert
