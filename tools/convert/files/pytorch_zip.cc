// SPDX-License-Identifier: Apache-2.0
// Reads what torch.save wrote: <prefix>/data.pkl describes tensors, <prefix>/data/<key> are
// storages.
#include "convert/files/checkpoint.h"

#include "convert/files/error.h"
#include "convert/files/input_limits.h"

#ifdef ARENITE_HAVE_LIBZIP

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "convert/files/pickle.h"
#include "convert/files/zip_archive.h"

namespace arenite::convert {
namespace {

constexpr int kFormatVersionMax = 10;  // of the member `version`; torch.save has written 3 so far
constexpr uint64_t kSmallMemberBytesMax = 64;  // of the members `version` and `byteorder`

// Limits how much larger a compressed storage may be than the parts of it that tensors view.
constexpr uint64_t kUnusedFactorMax = 4;
constexpr uint64_t kUnusedBytesMax = uint64_t{1} << 20;

class ArchiveReader {
 public:
  ArchiveReader(std::span<const std::byte> file, const std::string& file_name, bool is_whole)
      : file_name_(file_name),
        is_whole_(is_whole),
        archive_(file, file_name),
        prefix_(find_prefix()) {}

  CheckpointContents run() {
    check_format();
    const std::string pickle_name = prefix_ + "data.pkl";
    const ZipMember& member = archive_.members().at(pickle_name);
    refuse_if(member.bytes > kPickleBytesMax,
              "{}, data.pkl: it has {} bytes: at most {} are accepted", quote(file_name_),
              member.bytes, kPickleBytesMax);
    const uint64_t inflated_max =
        kInflatedPickleBase + kInflatedPicklePerByte * member.bytes_in_file;
    refuse_if(
        !member.is_stored && member.bytes > inflated_max,
        "{}, data.pkl: it inflates from {} bytes to {}: at most {} are accepted; save the file "
        "again with torch.save, which does not compress",
        quote(file_name_), member.bytes_in_file, member.bytes, inflated_max);
    const std::unique_ptr<std::byte[]> bytes = archive_.read(pickle_name, member);
    const std::string where = fmt::format("{}, data.pkl", quote(file_name_));
    const Pickle pickle = unpickle({bytes.get(), member.bytes}, where);
    const std::vector<NamedTensor> names = named_tensors(pickle, where, is_whole_);
    CheckpointContents contents = read_tensors(pickle, names);
    contents.metadata = plain_values(pickle, where);
    return contents;
  }

 private:
  // Returns "<prefix>/" of the only data.pkl in a top-level folder. TorchScript archives look
  // alike, but contain code.
  std::string find_prefix() const {
    std::string prefix;
    for (const auto& [name, member] : archive_.members()) {
      const size_t slash = name.find('/');
      const std::string_view inner = slash == std::string::npos
                                         ? std::string_view(name)
                                         : std::string_view(name).substr(slash + 1);
      refuse_if(inner == "constants.pkl" || inner.starts_with("code/"),
                "{} is a TorchScript archive, whose code is not read: export the model that it was "
                "made of. {}",
                quote(file_name_), kExportAdvice);
      if (inner != "data.pkl" || slash == std::string::npos) continue;
      refuse_if(!prefix.empty(), "{}: two members are named data.pkl: expected one",
                quote(file_name_));
      prefix = name.substr(0, slash + 1);
    }
    refuse_if(
        prefix.empty(),
        "{} is a zip archive without <name>/data.pkl, so torch.save did not write it: save the "
        "model with torch.save(model.state_dict(), path)",
        quote(file_name_));
    return prefix;
  }

  void check_format() {
    const auto version = small_member("version");
    int number = 0;
    if (version) std::from_chars(version->data(), version->data() + version->size(), number);
    refuse_if(number < 1 || number > kFormatVersionMax,
              "{}, zip member 'version': found {}: expected a format version of 1 to {}",
              quote(file_name_), version ? quote(*version) : "no such member", kFormatVersionMax);
    const auto order = small_member("byteorder");  // absent before PyTorch 2.1
    if (order && *order != "little") {
      throw InputError(
          "{}, zip member 'byteorder': found {}: expected 'little'; save the file again on a "
          "little-endian machine",
          quote(file_name_), quote(*order));
    }
  }

  std::optional<std::string> small_member(const char* name) {
    const auto found = archive_.members().find(prefix_ + name);
    if (found == archive_.members().end()) return std::nullopt;
    refuse_if(found->second.bytes > kSmallMemberBytesMax,
              "{}, zip member '{}': it has {} bytes: expected a few", quote(file_name_), name,
              found->second.bytes);
    const auto bytes = archive_.read(found->first, found->second);
    return std::string(reinterpret_cast<const char*>(bytes.get()), found->second.bytes);
  }

  // Reads each storage once, even if several tensors share it.
  CheckpointContents read_tensors(const Pickle& pickle, const std::vector<NamedTensor>& names) {
    std::vector<uint64_t> used_bytes(pickle.storages.size(), 0);
    for (const NamedTensor& named : names) {
      const PickledTensor& tensor = pickle.tensors[named.tensor_index];
      uint64_t& used = used_bytes[tensor.storage_index];
      used = std::max(used, end_byte(tensor));
    }
    CheckpointContents contents;
    std::vector<std::span<const std::byte>> storages(pickle.storages.size());
    for (const NamedTensor& named : names) {
      const PickledTensor& tensor = pickle.tensors[named.tensor_index];
      auto& storage = storages[tensor.storage_index];
      if (storage.data() == nullptr) {
        const PickledStorage& described = pickle.storages[tensor.storage_index];
        contents.buffers.push_back(
            read_storage(described, used_bytes[tensor.storage_index], named.name));
        storage = {contents.buffers.back().get(), described.bytes};
      }
      contents.tensors.push_back({.name = named.name,
                                  .dtype = tensor.dtype,
                                  .shape = tensor.shape,
                                  .strides = tensor.strides,
                                  .data = storage.subspan(tensor.offset * bytes(tensor.dtype))});
    }
    return contents;
  }

  // Returns the end offset of the storage bytes that the tensor views.
  static uint64_t end_byte(const PickledTensor& tensor) {
    uint64_t end = tensor.offset + 1;
    for (size_t i = 0; i < tensor.shape.size(); ++i) {
      if (tensor.shape[i] == 0) return 0;
      end += (tensor.shape[i] - 1) * tensor.strides[i];
    }
    return end * bytes(tensor.dtype);
  }

  std::unique_ptr<std::byte[]> read_storage(const PickledStorage& storage, uint64_t used_bytes,
                                            const std::string& tensor_name) {
    const std::string member_name = fmt::format("{}data/{}", prefix_, storage.key);
    const auto found = archive_.members().find(member_name);
    refuse_if(found == archive_.members().end(),
              "{}, tensor {}: the zip archive has no member '{}': the file is damaged",
              quote(file_name_), quote(tensor_name), member_name);
    const ZipMember& member = found->second;
    refuse_if(
        member.bytes != storage.bytes,
        "{}, tensor {}: zip member '{}' has {} bytes: expected {}, the size of its storage; the "
        "file is damaged",
        quote(file_name_), quote(tensor_name), member_name, member.bytes, storage.bytes);
    refuse_if(
        !member.is_stored && member.bytes / kUnusedFactorMax > used_bytes + kUnusedBytesMax,
        "{}, tensor {}: zip member '{}' inflates to {} bytes, of which tensors use {}: save the "
        "file again with torch.save, which does not compress",
        quote(file_name_), quote(tensor_name), member_name, member.bytes, used_bytes);
    return archive_.read(member_name, member);
  }

  const std::string& file_name_;
  const bool is_whole_;
  ZipArchive archive_;
  std::string prefix_;
};

}  // namespace

CheckpointContents read_pytorch_zip(std::span<const std::byte> file, const std::string& file_name,
                                    bool is_whole) {
  return ArchiveReader(file, file_name, is_whole).run();
}

}  // namespace arenite::convert

#else

namespace arenite::convert {

CheckpointContents read_pytorch_zip(std::span<const std::byte>, const std::string& file_name,
                                    bool) {
  throw InputError(
      "{} is a zip archive of torch.save, and this build lacks libzip: convert the file to "
      "safetensors, or build the converter with libzip",
      quote(file_name));
}

}  // namespace arenite::convert

#endif  // ARENITE_HAVE_LIBZIP
