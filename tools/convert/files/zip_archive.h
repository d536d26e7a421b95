// SPDX-License-Identifier: Apache-2.0
// Reads members of a zip archive in memory within fixed limits, on top of libzip.
#pragma once

#include <zip.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>

namespace arenite::convert {

struct ZipMember {
  uint64_t index;
  uint64_t bytes;          // uncompressed, as declared; read fails if the size differs
  uint64_t bytes_in_file;  // as declared; less than the file's size
  bool is_stored;          // not compressed
};

class ZipArchive {
 public:
  // Opens the archive and checks its members: a limited count, plain unique names, sizes within the
  // file, no encryption, no compression other than deflate. Throws InputError. `file` must outlive
  // the archive.
  ZipArchive(std::span<const std::byte> file, const std::string& file_name);

  const std::map<std::string, ZipMember>& members() const { return members_; }

  // Returns the `member.bytes` bytes of a member and verifies its checksum. Throws InputError, also
  // if the members read so far exceed the limits for an archive of this size (input_limits.h).
  std::unique_ptr<std::byte[]> read(const std::string& name, const ZipMember& member);

 private:
  void add_member(uint64_t index);

  struct Discard {
    void operator()(zip_t* archive) const { zip_discard(archive); }
  };
  const std::string& file_name_;
  uint64_t file_bytes_;
  uint64_t stored_bytes_read_ = 0;
  uint64_t inflated_bytes_read_ = 0;
  std::unique_ptr<zip_t, Discard> archive_;
  std::map<std::string, ZipMember> members_;
};

}  // namespace arenite::convert
