// SPDX-License-Identifier: Apache-2.0
// Tells checkpoint formats apart and gives access to the tensors.
#include "convert/files/checkpoint.h"

#include <cstring>
#include <utility>

#include "convert/files/error.h"
#include "convert/files/pytorch_zip.h"
#include "convert/files/safetensors.h"

namespace arenite::convert {
namespace {

bool starts_with(std::span<const std::byte> bytes, std::string_view magic) {
  return bytes.size() >= magic.size() && std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

// Files of before 2020 (PyTorch 1.5) begin with a bare pickle of protocol 2.
bool is_bare_pickle(std::span<const std::byte> bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x80} && bytes[1] >= std::byte{2} &&
         bytes[1] <= std::byte{5};
}

CheckpointContents read_contents(std::span<const std::byte> bytes,
                                 const std::filesystem::path& file) {
  const std::string file_name = file.string();
  if (bytes.empty()) throw InputError("{} is empty: expected a checkpoint", quote(file_name));
  if (starts_with(bytes, "PK\x03\x04") || starts_with(bytes, "PK\x05\x06")) {
    return read_pytorch_zip(bytes, file_name);
  }
  const bool has_json_header = bytes.size() > 8 && bytes[8] == std::byte{'{'};
  if (!has_json_header && is_bare_pickle(bytes)) {
    throw InputError(
        "{} is a bare pickle, the legacy form of torch.save, which is not read: load it with "
        "PyTorch and save it again with torch.save(model.state_dict(), path)",
        quote(file_name));
  }
  if (starts_with(bytes, "version https://git-lfs")) {
    throw InputError("{} is a Git LFS pointer, not the file itself: run 'git lfs pull'",
                     quote(file_name));
  }
  if (has_json_header || file.extension() == ".safetensors") {
    return read_safetensors(bytes, file_name);
  }
  throw InputError(
      "{} is neither a safetensors file nor a zip archive of torch.save: save the model in one of "
      "these, for instance with torch.save(model.state_dict(), path)",
      quote(file_name));
}

}  // namespace

Checkpoint Checkpoint::read(const std::filesystem::path& file) {
  return read(file, FileMap(file));
}

Checkpoint Checkpoint::read(const std::filesystem::path& file, FileMap map) {
  CheckpointContents contents = read_contents(map.bytes(), file);
  return Checkpoint(file.string(), std::move(map), std::move(contents));
}

Checkpoint::Checkpoint(std::string file_name, FileMap file, CheckpointContents contents)
    : file_name_(std::move(file_name)), file_(std::move(file)), contents_(std::move(contents)) {
  for (size_t i = 0; i < contents_.tensors.size(); ++i) {
    tensor_indexes_.emplace(contents_.tensors[i].name, i);
  }
}

const CheckpointTensor* Checkpoint::find(std::string_view name) const {
  const auto found = tensor_indexes_.find(name);
  return found == tensor_indexes_.end() ? nullptr : &contents_.tensors[found->second];
}

}  // namespace arenite::convert
