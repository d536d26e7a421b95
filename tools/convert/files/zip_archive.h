// SPDX-License-Identifier: Apache-2.0
// Bounded reading of the members of a zip archive in memory, on top of libzip.
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
  uint64_t bytes;          // uncompressed, as declared; a read that finds another size fails
  uint64_t bytes_in_file;  // as declared; fewer than the file has
  bool is_stored;          // not compressed
};

class ZipArchive {
 public:
  // Opens the archive and checks its list of members: not too many, plain unique names, sizes
  // within the file, no encryption, no compression but deflate. Throws InputError. `file` must
  // outlive the archive.
  ZipArchive(std::span<const std::byte> file, const std::string& file_name);

  const std::map<std::string, ZipMember>& members() const { return members_; }

  // All `member.bytes` bytes of a member, with its checksum verified. Throws InputError, also when
  // the members read so far would be larger together than an archive of this size can honestly be.
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
