// SPDX-License-Identifier: Apache-2.0
// Writes zip archives by hand, also ones that no tool would write.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "support/byte_string.h"

namespace arenite::testing {

inline uint32_t crc32(std::string_view bytes) {
  uint32_t crc = ~uint32_t{0};
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0u);
  }
  return ~crc;
}

// Values that an archive claims about a member, if they differ from the truth about stored bytes.
struct ZipClaim {
  uint16_t flags = 0;
  uint16_t method = 0;
  uint32_t bytes = 0;  // uncompressed; 0: that of the content
  uint32_t crc = 0;    // 0: that of the content
};

class ZipBuilder {
 public:
  ZipBuilder& add(std::string_view name, std::string_view content, const ZipClaim& claim = {}) {
    description_ = bytes_of(uint16_t{20}) + bytes_of(claim.flags) + bytes_of(claim.method) +
                   bytes_of(uint32_t{0}) + bytes_of(claim.crc != 0 ? claim.crc : crc32(content)) +
                   size(content.size()) +
                   (claim.bytes != 0 ? bytes_of(claim.bytes) : size(content.size()));
    member_offset_ = members_.size();
    members_ += "PK\x03\x04" + description_ + lengths(name) + std::string(name);
    members_ += content;
    return add_again(name);
  }

  // Lists the last member a second time, under another name.
  ZipBuilder& add_again(std::string_view name) {
    directory_ += "PK\x01\x02" + bytes_of(uint16_t{20}) + description_ + lengths(name) +
                  std::string(10, '\0') + size(member_offset_) + std::string(name);
    ++count_;
    return *this;
  }

  std::string bytes() const {
    return members_ + directory_ + "PK\x05\x06" + std::string(4, '\0') + bytes_of(count_) +
           bytes_of(count_) + size(directory_.size()) + size(members_.size()) +
           bytes_of(uint16_t{0});
  }

 private:
  static std::string lengths(std::string_view name) {  // of the name and of the extra field
    return bytes_of(static_cast<uint16_t>(name.size())) + bytes_of(uint16_t{0});
  }
  static std::string size(size_t bytes) { return bytes_of(static_cast<uint32_t>(bytes)); }

  std::string members_;
  std::string directory_;
  std::string description_;  // of the last member: what its two headers have in common
  size_t member_offset_ = 0;
  uint16_t count_ = 0;
};

}  // namespace arenite::testing
