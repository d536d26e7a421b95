// SPDX-License-Identifier: Apache-2.0
// Writes GGUF files piece by piece, valid and hostile ones.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "convert/families/tiny_models.h"
#include "convert/gguf/gguf_file.h"
#include "support/byte_string.h"

namespace arenite::testing {

inline std::string bytes_of_hex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

inline std::string gguf_text(std::string_view text) {
  return bytes_of(uint64_t{text.size()}) + std::string(text);
}

class GgufBuilder {
 public:
  uint32_t version = 3;
  uint64_t alignment = 32;
  uint64_t more_values = 0;  // added to the number of values that the header claims
  uint64_t more_tensors = 0;

  // A value whose bytes are given, of the type numbered so.
  GgufBuilder& raw(std::string_view key, uint32_t type, std::string_view bytes) {
    metadata_ += gguf_text(key) + bytes_of(type) + std::string(bytes);
    ++values_;
    return *this;
  }
  GgufBuilder& raw(std::string_view key, convert::GgufType type, std::string_view bytes) {
    return raw(key, static_cast<uint32_t>(type), bytes);
  }
  GgufBuilder& count(std::string_view key, uint32_t value) {
    return raw(key, convert::GgufType::kU32, bytes_of(value));
  }
  GgufBuilder& real(std::string_view key, float value) {
    return raw(key, convert::GgufType::kF32, bytes_of(value));
  }
  GgufBuilder& text(std::string_view key, std::string_view value) {
    return raw(key, convert::GgufType::kString, gguf_text(value));
  }
  GgufBuilder& array(std::string_view key, convert::GgufType type, uint64_t elements,
                     std::string_view bytes) {
    return raw(key, convert::GgufType::kArray,
               bytes_of(static_cast<uint32_t>(type)) + bytes_of(elements) + std::string(bytes));
  }

  // `dimensions` as the file has them, the fastest first; `offset` where it is not the true one.
  GgufBuilder& tensor(std::string_view name, const std::vector<uint64_t>& dimensions, uint32_t type,
                      std::string_view data, int64_t offset = -1) {
    data_.resize((data_.size() + alignment - 1) / alignment * alignment, '\0');
    infos_ += gguf_text(name) + bytes_of(static_cast<uint32_t>(dimensions.size())) +
              bytes_of(dimensions) + bytes_of(type) +
              bytes_of(offset >= 0 ? static_cast<uint64_t>(offset) : uint64_t{data_.size()});
    data_ += data;
    ++tensors_;
    return *this;
  }

  std::string bytes() const {
    std::string file = "GGUF" + bytes_of(version) + bytes_of(tensors_ + more_tensors) +
                       bytes_of(values_ + more_values) + metadata_ + infos_;
    if (tensors_ > 0) file.resize((file.size() + alignment - 1) / alignment * alignment, '\0');
    return file + data_;
  }

 private:
  uint64_t values_ = 0;
  uint64_t tensors_ = 0;
  std::string metadata_, infos_, data_;
};

// A format for the matrices of a file, with the values that it turns them into.
struct GgufFormat {
  const char* name;
  uint32_t type;
  std::string (*encode)(std::vector<float>& values);  // and rounds them to what it can hold
};

extern const GgufFormat kGgufFormats[5];  // F32, F16, BF16, Q8_0, Q4_0

// The model of llama_tensors as a GGUF file of `architecture`; the matrices of `tensors` become
// what `format` makes of them.
GgufBuilder gguf_of_llama(const std::string& architecture, TensorMap& tensors,
                          const GgufFormat& format = kGgufFormats[0]);

// The model of gpt2_tensors.
GgufBuilder gguf_of_gpt2(const TensorMap& tensors);

}  // namespace arenite::testing
