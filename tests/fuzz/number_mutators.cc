// SPDX-License-Identifier: Apache-2.0
// Mutators of formats with binary fields: GGUF and llama2.c.
#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fuzz/mutators.h"
#include "support/byte_string.h"

namespace arenite::fuzz {
namespace {

using testing::bytes_of;

constexpr uint32_t kGgufString = 8;
constexpr uint32_t kGgufArray = 9;
constexpr size_t kGgufAlignment = 32;
constexpr uint64_t kPartsMax = 1 << 16;

// An integer of `bytes` bytes, or a string preceded by its length.
struct Part {
  bool is_string = false;
  std::string bytes;
};
using Entry = std::vector<Part>;  // a metadata value or a tensor

class GgufSplitter {
 public:
  explicit GgufSplitter(std::string_view file) : file_(file) {}

  // False for what is no GGUF file.
  bool run() {
    if (!take(8, magic) || !magic.starts_with("GGUF")) return false;
    uint64_t tensor_count = 0;
    uint64_t value_count = 0;
    std::string bytes;
    if (!take(8, bytes)) return false;
    std::memcpy(&tensor_count, bytes.data(), 8);
    if (!take(8, bytes)) return false;
    std::memcpy(&value_count, bytes.data(), 8);
    for (uint64_t i = 0; i < value_count; ++i) {
      values.emplace_back();
      if (!take_value(values.back())) return false;
    }
    for (uint64_t i = 0; i < tensor_count; ++i) {
      tensors.emplace_back();
      if (!take_tensor(tensors.back())) return false;
    }
    const size_t start = (at_ + kGgufAlignment - 1) / kGgufAlignment * kGgufAlignment;
    data = file_.substr(std::min(start, file_.size()));
    return true;
  }

  std::string join() const {
    std::string bytes =
        magic + bytes_of(uint64_t{tensors.size()}) + bytes_of(uint64_t{values.size()});
    for (const auto* entries : {&values, &tensors}) {
      for (const Entry& entry : *entries) {
        for (const Part& part : entry) {
          if (part.is_string) bytes += bytes_of(uint64_t{part.bytes.size()});
          bytes += part.bytes;
        }
      }
    }
    bytes.resize((bytes.size() + kGgufAlignment - 1) / kGgufAlignment * kGgufAlignment, '\0');
    return bytes + data;
  }

  std::string magic;  // and version
  std::vector<Entry> values, tensors;
  std::string data;

 private:
  bool take(uint64_t count, std::string& bytes) {
    if (count > file_.size() - at_) return false;
    bytes = file_.substr(at_, static_cast<size_t>(count));
    at_ += bytes.size();
    return true;
  }

  bool take_number(Entry& entry, uint32_t bytes, uint64_t& value) {
    Part part;
    value = 0;
    if (!take(bytes, part.bytes)) return false;
    std::memcpy(&value, part.bytes.data(), bytes);
    entry.push_back(std::move(part));
    return true;
  }

  bool take_string(Entry& entry) {
    std::string length_bytes;
    uint64_t length = 0;
    if (!take(8, length_bytes)) return false;
    std::memcpy(&length, length_bytes.data(), 8);
    entry.push_back({.is_string = true, .bytes = {}});
    return take(length, entry.back().bytes);
  }

  bool take_value(Entry& entry) {
    uint64_t type = 0;
    uint64_t count = 1;
    if (!take_string(entry) || !take_number(entry, 4, type)) return false;
    if (type == kGgufArray) {
      if (!take_number(entry, 4, type) || !take_number(entry, 8, count)) return false;
    }
    if (count > kPartsMax) return false;
    constexpr uint32_t kBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    for (uint64_t i = 0; i < count; ++i) {
      uint64_t value = 0;
      if (type >= std::size(kBytes) || type == kGgufArray) return false;
      if (type == kGgufString ? !take_string(entry) : !take_number(entry, kBytes[type], value)) {
        return false;
      }
    }
    return true;
  }

  bool take_tensor(Entry& entry) {
    uint64_t dimensions = 0;
    uint64_t value = 0;
    if (!take_string(entry) || !take_number(entry, 4, dimensions) || dimensions > 8) return false;
    for (uint64_t i = 0; i < dimensions; ++i) {
      if (!take_number(entry, 8, value)) return false;
    }
    return take_number(entry, 4, value) && take_number(entry, 8, value);
  }

  std::string_view file_;
  size_t at_ = 0;
};

void change_part(Entry& entry, Random& random) {
  Part& part = entry[random.below(static_cast<uint32_t>(entry.size()))];
  const size_t size = part.bytes.size();
  if (part.is_string) {
    part.bytes = mutate_bytes(std::move(part.bytes), size + 8, random);
    return;
  }
  uint64_t number = 0;
  std::memcpy(&number, part.bytes.data(), size);
  part.bytes = bytes_of(interesting_number(number, random)).substr(0, size);
}

void change_entries(std::vector<Entry>& entries, Random& random) {
  if (entries.empty()) return;
  const size_t at = random.below(static_cast<uint32_t>(entries.size()));
  const size_t other = random.below(static_cast<uint32_t>(entries.size()));
  switch (random.below(8)) {
    case 0:
      entries.erase(entries.begin() + static_cast<std::ptrdiff_t>(at));
      return;
    case 1:
      entries.push_back(entries[at]);
      return;
    case 2:  // the key or name of one with what another says
      std::swap(entries[at].front(), entries[other].front());
      return;
    default:
      change_part(entries[at], random);
  }
}

// Bytes of a legacy file with these sizes in its header, or 0 where they are none.
uint64_t llama2c_bytes(const int32_t (&sizes)[7]) {
  for (int i = 0; i < 7; ++i) {
    if ((i != 5 && sizes[i] < 1) || sizes[i] > 4096 || sizes[i] < -4096) return 0;
  }
  const auto dim = static_cast<uint64_t>(sizes[0]);
  const auto ffn = static_cast<uint64_t>(sizes[1]);
  const auto head_dim = dim / static_cast<uint64_t>(sizes[3]);
  const auto kv = head_dim * static_cast<uint64_t>(sizes[4]);
  const auto vocab = static_cast<uint64_t>(sizes[5] < 0 ? -sizes[5] : sizes[5]);
  const uint64_t layer = 2 * dim + 2 * dim * dim + 2 * kv * dim + 3 * dim * ffn;
  const uint64_t angles = static_cast<uint64_t>(sizes[6]) * (head_dim / 2) * 2;
  const uint64_t tables = sizes[5] < 0 ? 2 : 1;  // a head of its own
  const uint64_t floats =
      tables * vocab * dim + static_cast<uint64_t>(sizes[2]) * layer + dim + angles;
  return sizeof sizes + floats * sizeof(float);
}

}  // namespace

std::string mutate_gguf(std::string input, size_t bytes_max, Random& random) {
  GgufSplitter file(input);
  if (!file.run()) return mutate_bytes(std::move(input), bytes_max, random);
  for (uint32_t edits = 1 + random.below(3); edits > 0; --edits) {
    change_entries(random.below(3) == 0 ? file.tensors : file.values, random);
  }
  std::string bytes = file.join();
  bytes.resize(std::min(bytes.size(), bytes_max));
  return bytes;
}

std::string mutate_llama2c(std::string input, size_t bytes_max, Random& random) {
  int32_t sizes[7];
  if (input.size() < sizeof sizes || input.starts_with("24ka")) {
    return mutate_bytes(std::move(input), bytes_max, random);
  }
  std::memcpy(sizes, input.data(), sizeof sizes);
  int32_t& size = sizes[random.below(7)];
  size = static_cast<int32_t>(random.below(2) == 0
                                  ? 1 + random.below(33)
                                  : interesting_number(static_cast<uint32_t>(size), random));
  std::memcpy(input.data(), sizes, sizeof sizes);
  const uint64_t bytes = llama2c_bytes(sizes);
  if (bytes != 0 && bytes <= bytes_max) input.resize(static_cast<size_t>(bytes), '\x3c');
  return input;
}

}  // namespace arenite::fuzz
