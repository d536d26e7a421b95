// SPDX-License-Identifier: Apache-2.0
// Tells checkpoint formats apart and gives access to the tensors.
#include "convert/files/checkpoint.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "convert/files/error.h"

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

constexpr size_t kTensorsListed = 30;
constexpr std::string_view kWrappers[] = {"_orig_mod.", "module."};  // torch.compile, DDP

}  // namespace

Checkpoint Checkpoint::read(const std::filesystem::path& file) { return read(file, FileMap(file)); }

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

const StoredTensor* TensorStore::find(std::string_view name) const {
  const auto found = indexes_.find(name);
  return found == indexes_.end() ? nullptr : &tensors_[found->second];
}

void TensorStore::add(StoredTensor tensor) {
  const auto [place, is_new] = indexes_.emplace(tensor.name, tensors_.size());
  if (!is_new) {
    throw InputError("{}: tensor {} is there twice, in {} and in {}: expected each name once",
                     quote(source_), quote(tensor.name), quote(tensors_[place->second].file),
                     quote(tensor.file));
  }
  tensors_.push_back(std::move(tensor));
}

void TensorStore::add(const CheckpointTensor& tensor, const std::shared_ptr<const void>& owner,
                      const std::string& file) {
  StoredTensor stored{.name = tensor.name,
                      .type = name(tensor.dtype),
                      .is_real = is_real(tensor.dtype),
                      .shape = tensor.shape,
                      .load = [owner, view = &tensor] { return view->to_f32(); },
                      .file = file};
  if (bytes(tensor.dtype) > 2 && tensor.dtype != DType::kF32) {
    stored.load_f64 = [owner, view = &tensor] { return view->to_f64(); };
  }
  add(std::move(stored));
}

void TensorStore::add(const std::shared_ptr<const Checkpoint>& checkpoint) {
  for (const CheckpointTensor& tensor : checkpoint->tensors()) {
    add(tensor, checkpoint, checkpoint->file_name());
  }
}

TensorStore TensorStore::unwrapped() const {
  for (const std::string_view wrapper : kWrappers) {
    const auto is_wrapped = [&](const StoredTensor& tensor) {
      return tensor.name.starts_with(wrapper);
    };
    if (!std::ranges::all_of(tensors_, is_wrapped)) continue;
    TensorStore store(source_);
    for (StoredTensor tensor : tensors_) {
      tensor.name.erase(0, wrapper.size());
      store.add(std::move(tensor));
    }
    return store;
  }
  return *this;
}

std::string list_tensors(const std::vector<StoredTensor>& tensors) {
  std::string text;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (i == kTensorsListed) {
      text += fmt::format("\n  ... and {} more", tensors.size() - kTensorsListed);
      break;
    }
    text += fmt::format("{}  {} {} {}", i == 0 ? "" : "\n", quote(tensors[i].name),
                        shape_text(tensors[i].shape), tensors[i].type);
  }
  return text.empty() ? "  (no tensors)" : text;
}

std::string shape_text(const std::vector<uint64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace arenite::convert
