// SPDX-License-Identifier: Apache-2.0
// Reads the wire format of protocol buffers field by field, and no further than the bytes go.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace arenite::convert {

struct ProtobufField {
  enum class Type : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
  uint32_t number = 0;
  Type type = Type::kVarint;
  uint64_t integer = 0;      // of kVarint, kFixed64, kFixed32
  std::string_view bytes{};  // of kBytes: text, or another message

  float as_float() const;  // of kFixed32
};

class ProtobufReader {
 public:
  // `where` says in error messages which message this is.
  ProtobufReader(std::string_view message, std::string where)
      : message_(message), where_(std::move(where)) {}

  // The next field. False at the end. Throws InputError for what is no message.
  bool next(ProtobufField& field);

  const std::string& where() const { return where_; }

 private:
  uint64_t varint();
  uint64_t fixed(size_t bytes);

  std::string_view message_;
  std::string where_;
  size_t position_ = 0;
};

}  // namespace arenite::convert
