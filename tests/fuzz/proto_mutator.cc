// SPDX-License-Identifier: Apache-2.0
// Mutates protocol buffers by field, and recomputes their lengths.
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fuzz/mutators.h"

namespace arenite::fuzz {
namespace {

constexpr uint32_t kVarint = 0;
constexpr uint32_t kFixed64 = 1;
constexpr uint32_t kBytes = 2;
constexpr uint32_t kFixed32 = 5;
constexpr int kDepthMax = 3;

struct Field {
  uint64_t tag = 0;  // number and kind
  uint64_t number = 0;
  std::string bytes;

  uint32_t kind() const { return static_cast<uint32_t>(tag & 7); }
};

bool take_varint(std::string_view& rest, uint64_t& value) {
  value = 0;
  for (uint32_t shift = 0; shift < 64 && !rest.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(rest[0]);
    rest.remove_prefix(1);
    value |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(0x80 | (value & 0x7f));
  return bytes + static_cast<char>(value);
}

// False for bytes that are no message.
bool split_fields(std::string_view rest, std::vector<Field>& fields) {
  while (!rest.empty()) {
    Field field;
    if (!take_varint(rest, field.tag)) return false;
    uint64_t length = field.kind() == kFixed64 ? 8 : field.kind() == kFixed32 ? 4 : 0;
    if (field.kind() == kVarint && !take_varint(rest, field.number)) return false;
    if (field.kind() == kBytes && !take_varint(rest, length)) return false;
    if (field.kind() > kBytes && field.kind() != kFixed32) return false;
    if (length > rest.size()) return false;
    field.bytes = rest.substr(0, static_cast<size_t>(length));
    rest.remove_prefix(static_cast<size_t>(length));
    fields.push_back(std::move(field));
  }
  return !fields.empty();
}

std::string join(const std::vector<Field>& fields) {
  std::string bytes;
  for (const Field& field : fields) {
    bytes += varint(field.tag);
    if (field.kind() == kVarint) bytes += varint(field.number);
    if (field.kind() == kBytes) bytes += varint(field.bytes.size());
    if (field.kind() != kVarint) bytes += field.bytes;
  }
  return bytes;
}

std::string mutate_message(std::string input, size_t bytes_max, Random& random, int depth);

void change_content(Field& field, Random& random, int depth) {
  if (field.kind() == kVarint) {
    field.number = interesting_number(field.number, random);
  } else if (field.kind() == kBytes) {
    field.bytes =
        mutate_message(std::move(field.bytes), field.bytes.size() + 16, random, depth + 1);
  } else {
    const size_t size = field.bytes.size();
    field.bytes = mutate_bytes(std::move(field.bytes), size, random);
    field.bytes.resize(size);
  }
}

void change_field(std::vector<Field>& fields, Random& random, int depth) {
  const size_t at = random.below(static_cast<uint32_t>(fields.size()));
  const size_t other = random.below(static_cast<uint32_t>(fields.size()));
  switch (random.below(8)) {
    case 0:
      fields.erase(fields.begin() + static_cast<std::ptrdiff_t>(at));
      return;
    case 1: {
      const Field copy = fields[other];
      fields.insert(fields.begin() + static_cast<std::ptrdiff_t>(at), copy);
      return;
    }
    case 2:
      std::swap(fields[at], fields[other]);
      return;
    case 3:
      fields[at].tag = (fields[at].tag & 7) | uint64_t{random.below(48)} << 3;
      return;
    default:
      change_content(fields[at], random, depth);
  }
}

std::string mutate_message(std::string input, size_t bytes_max, Random& random, int depth) {
  std::vector<Field> fields;
  if (depth > kDepthMax || !split_fields(input, fields)) {
    return mutate_bytes(std::move(input), bytes_max, random);
  }
  change_field(fields, random, depth);
  std::string bytes = join(fields);
  bytes.resize(std::min(bytes.size(), bytes_max));
  return bytes;
}

}  // namespace

std::string mutate_proto(std::string input, size_t bytes_max, Random& random) {
  return mutate_message(std::move(input), bytes_max, random, 0);
}

}  // namespace arenite::fuzz
