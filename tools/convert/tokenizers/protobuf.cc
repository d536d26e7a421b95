// SPDX-License-Identifier: Apache-2.0
// Numbers of seven bits a byte, and lengths that are checked before they are believed.
#include "convert/tokenizers/protobuf.h"

#include <bit>

#include "convert/files/error.h"

namespace arenite::convert {

float ProtobufField::as_float() const {
  return std::bit_cast<float>(static_cast<uint32_t>(integer));
}

bool ProtobufReader::next(ProtobufField& field) {
  if (position_ == message_.size()) return false;
  const uint64_t key = varint();
  field = {};
  field.number = static_cast<uint32_t>(key >> 3);
  field.type = static_cast<ProtobufField::Type>(key & 7);
  if (key >> 32 != 0 || field.number == 0) {
    throw InputError("{}: no field can have the number {}: the file is damaged", where_, key >> 3);
  }
  switch (field.type) {
    case ProtobufField::Type::kVarint:
      field.integer = varint();
      return true;
    case ProtobufField::Type::kFixed64:
      field.integer = fixed(8);
      return true;
    case ProtobufField::Type::kFixed32:
      field.integer = fixed(4);
      return true;
    case ProtobufField::Type::kBytes: {
      const uint64_t given = varint();
      if (given > message_.size() - position_) {
        throw InputError("{}: field {} has {} bytes and {} are left: the file is damaged", where_,
                         field.number, given, message_.size() - position_);
      }
      const auto length = static_cast<size_t>(given);
      field.bytes = message_.substr(position_, length);
      position_ += length;
      return true;
    }
  }
  throw InputError("{}: field {} is of wire type {}: expected 0, 1, 2 or 5", where_, field.number,
                   key & 7);
}

uint64_t ProtobufReader::varint() {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (position_ == message_.size()) {
      throw InputError("{}: ends in the middle of a number: the file is truncated", where_);
    }
    const auto byte = static_cast<uint8_t>(message_[position_++]);
    value |= uint64_t{byte & 0x7Fu} << shift;
    if (byte < 0x80) return value;
  }
  throw InputError("{}: a number has more than ten bytes: the file is damaged", where_);
}

uint64_t ProtobufReader::fixed(size_t bytes) {
  if (bytes > message_.size() - position_) {
    throw InputError("{}: ends in the middle of a number: the file is truncated", where_);
  }
  uint64_t value = 0;
  for (size_t i = 0; i < bytes; ++i) {
    value |= uint64_t{static_cast<uint8_t>(message_[position_ + i])} << (8 * i);
  }
  position_ += bytes;
  return value;
}

}  // namespace arenite::convert
