// SPDX-License-Identifier: Apache-2.0
// Collects tensors under unique names.
#include "convert/files/tensor_store.h"

#include <algorithm>
#include <utility>

#include "convert/files/error.h"

namespace arenite::convert {
namespace {

constexpr size_t kTensorsListed = 30;
constexpr std::string_view kWrappers[] = {"_orig_mod.", "module."};  // torch.compile, DDP

}  // namespace

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

void TensorStore::add(const std::shared_ptr<const Checkpoint>& checkpoint) {
  for (const CheckpointTensor& tensor : checkpoint->tensors()) {
    add({.name = tensor.name,
         .type = name(tensor.dtype),
         .is_real = is_real(tensor.dtype),
         .shape = tensor.shape,
         .load = [checkpoint, view = &tensor] { return view->to_f32(); },
         .file = checkpoint->file_name()});
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
