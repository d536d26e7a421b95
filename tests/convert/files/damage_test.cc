// SPDX-License-Identifier: Apache-2.0
// Checkpoints that are cut short or have a flipped bit are read or refused without harm. The
// sanitizers detect harm: run this test under them.
#include <gtest/gtest.h>

#include <string>

#include "convert/files/checkpoint.h"
#include "convert/files/error.h"
#include "convert/files/npy.h"
#include "support/byte_string.h"
#include "support/pickle_builder.h"
#include "support/safetensors_builder.h"
#include "support/temp_folder.h"
#include "support/test_data.h"
#include "support/zip_builder.h"

namespace arenite::convert {
namespace {

using testing::bytes_of;

// Reads `bytes` as a checkpoint and, if that succeeds, every element.
bool is_accepted(const testing::TempFolder& folder, const std::string& bytes) {
  const auto file = folder.write("damaged", bytes);
  try {
    const Checkpoint checkpoint = Checkpoint::read(file);
    for (const CheckpointTensor& tensor : checkpoint.tensors()) {
      EXPECT_EQ(tensor.to_f32().size(), tensor.elements());
    }
    return true;
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("damaged'"), std::string::npos) << error.what();
    return false;
  }
}

void cut_everywhere(const std::string& bytes) {
  const testing::TempFolder folder;
  ASSERT_TRUE(is_accepted(folder, bytes));
  for (size_t kept = 0; kept < bytes.size(); ++kept) {
    EXPECT_FALSE(is_accepted(folder, bytes.substr(0, kept))) << "cut to " << kept << " bytes";
  }
}

void flip_everywhere(const std::string& bytes) {
  const testing::TempFolder folder;
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (const int mask : {0x01, 0x80, 0xff}) {
      std::string damaged = bytes;
      damaged[i] = static_cast<char>(damaged[i] ^ mask);
      is_accepted(folder, damaged);
    }
  }
}

const std::string kSafetensors = testing::safetensors_file(
    R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},)"
    R"("b":{"dtype":"BOOL","shape":[3],"data_offsets":[16,19]}})",
    bytes_of<float>({1, 2, 3, 4}) + std::string(3, '\1'));

TEST(Damage, SafetensorsCutAnywhereAreRefused) { cut_everywhere(kSafetensors); }

TEST(Damage, SafetensorsFlippedAnywhereDoNoHarm) { flip_everywhere(kSafetensors); }

TEST(Damage, NpyArraysCutOrFlippedAnywhereDoNoHarm) {
  const testing::TempFolder folder;
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const std::vector<uint64_t> shape = {2, 3};
  write_npy(folder.path() / "whole.npy", shape, values);
  const std::string bytes = testing::read_bytes(folder.path() / "whole.npy");
  const auto accepts = [&](const std::string& damaged) {
    try {
      const NpyArray array = NpyArray::read(folder.write("damaged.npy", damaged));
      EXPECT_EQ(array.to_f32().size(), array.elements());
      return true;
    } catch (const InputError& error) {
      return false;
    }
  };
  ASSERT_TRUE(accepts(bytes));
  for (size_t i = 0; i < bytes.size(); ++i) {
    EXPECT_FALSE(accepts(bytes.substr(0, i))) << "cut to " << i << " bytes";
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = bytes;
      damaged[i] = static_cast<char>(damaged[i] ^ (1 << bit));
      accepts(damaged);
    }
  }
}

#ifdef ARENITE_HAVE_LIBZIP

TEST(Damage, TorchArchivesCutAnywhereAreRefused) {
  cut_everywhere(testing::read_bytes(testing::convert_fixture("views.pt")));
}

TEST(Damage, TorchArchivesFlippedAnywhereDoNoHarm) {
  flip_everywhere(testing::read_bytes(testing::convert_fixture("views.pt")));
}

// The archive's checksums catch flips before the unpickler sees them, so these are flipped inside.
TEST(Damage, PicklesFlippedOrCutInsideAnIntactArchiveDoNoHarm) {
  const testing::TempFolder folder;
  const std::string pickle = testing::small_state_dict_pickle();
  const auto archive = [](const std::string& damaged_pickle) {
    return testing::ZipBuilder()
        .add("m/data.pkl", damaged_pickle)
        .add("m/version", "3\n")
        .add("m/data/0", bytes_of<float>({1, 2, 3, 4}))
        .bytes();
  };
  ASSERT_TRUE(is_accepted(folder, archive(pickle)));
  for (size_t i = 0; i < pickle.size(); ++i) {
    EXPECT_FALSE(is_accepted(folder, archive(pickle.substr(0, i))));
    for (int value = 0; value < 256; ++value) {
      std::string damaged = pickle;
      damaged[i] = static_cast<char>(value);
      is_accepted(folder, archive(damaged));
    }
  }
}

#endif

}  // namespace
}  // namespace arenite::convert
