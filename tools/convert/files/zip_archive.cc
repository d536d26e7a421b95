// SPDX-License-Identifier: Apache-2.0
// Opens and reads zip archives from untrusted sources; checks limits before reading.
#ifdef ARENITE_HAVE_LIBZIP

#include "convert/files/zip_archive.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "convert/files/error.h"
#include "convert/files/input_limits.h"

namespace arenite::convert {
namespace {

// Source: the .ZIP file format specification of PKWARE, 4.3.12 to 4.3.16.
constexpr std::string_view kEntryMagic = "PK\x01\x02";
constexpr size_t kEntryBytes = 46;
constexpr std::string_view kEndMagic = "PK\x05\x06";
constexpr std::string_view kLocatorMagic = "PK\x06\x07";
constexpr std::string_view kEnd64Magic = "PK\x06\x06";
constexpr size_t kEndBytes = 22;
constexpr size_t kLocatorBytes = 20;
constexpr size_t kEnd64Bytes = 56;
constexpr size_t kCommentBytesMax = 65535;
constexpr size_t kEndsMax = 4;  // of what looks like an end; chance rarely makes a second one

template <typename Number>
Number number_at(std::string_view bytes, uint64_t at) {
  Number number;
  std::memcpy(&number, bytes.data() + at, sizeof number);
  return number;
}

// The position of the member list, and how many members the archive claims.
struct Directory {
  uint64_t members, bytes, offset;
};

// Reads the end record at `end`, or the 64-bit record that belongs to it.
Directory directory_of(std::string_view file, size_t end) {
  const Directory plain = {number_at<uint16_t>(file, end + 10), number_at<uint32_t>(file, end + 12),
                           number_at<uint32_t>(file, end + 16)};
  if (end < kLocatorBytes || !file.substr(end - kLocatorBytes).starts_with(kLocatorMagic)) {
    return plain;
  }
  const auto at = number_at<uint64_t>(file, end - kLocatorBytes + 8);
  if (at > file.size() || file.size() - at < kEnd64Bytes ||
      !file.substr(at).starts_with(kEnd64Magic)) {
    return plain;
  }
  return {number_at<uint64_t>(file, at + 32), number_at<uint64_t>(file, at + 40),
          number_at<uint64_t>(file, at + 48)};
}

// Returns the number of members claimed or listed, whichever is larger: an archive may list more
// than it claims, and libzip then reads on. Counts to just beyond the limit.
uint64_t members_of(std::string_view file, const Directory& directory) {
  uint64_t listed = 0;
  if (directory.offset > file.size()) return directory.members;
  std::string_view rest = file.substr(directory.offset, directory.bytes);
  while (listed <= kZipMembersMax && rest.size() >= kEntryBytes && rest.starts_with(kEntryMagic)) {
    ++listed;
    const size_t entry_bytes = kEntryBytes + number_at<uint16_t>(rest, 28) +
                               number_at<uint16_t>(rest, 30) + number_at<uint16_t>(rest, 32);
    rest.remove_prefix(std::min(rest.size(), entry_bytes));
  }
  return std::max(directory.members, listed);
}

// Refuses archives with too many members before libzip opens them. libzip reads the member list
// once for each end record in the last bytes, and its hash of names can be made to collide.
void check_ends(std::string_view file, const std::string& file_name) {
  if (file.size() < kEndBytes) return;  // libzip reports the reason
  size_t at = file.size() - std::min(file.size(), kEndBytes + kCommentBytesMax);
  size_t ends = 0;
  for (; (at = file.find(kEndMagic, at)) != std::string_view::npos; ++at) {
    if (file.size() - at < kEndBytes) break;
    refuse_if(++ends > kEndsMax,
              "{}: more than {} ends of a zip archive follow each other: the file is damaged; "
              "save it again with torch.save",
              quote(file_name), kEndsMax);
    const uint64_t members = members_of(file, directory_of(file, at));
    refuse_if(
        members > kZipMembersMax,
        "{}: the zip archive has {} members: at most {} are accepted; save the model in several "
        "files",
        quote(file_name), members, kZipMembersMax);
  }
}

bool is_plain_name(std::string_view name) {
  const bool has_odd_character = std::any_of(name.begin(), name.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7f || c == '\\' || c == ':';
  });
  const std::string enclosed = fmt::format("/{}/", name);
  return !name.empty() && !has_odd_character && name.front() != '/' &&
         enclosed.find("/../") == std::string::npos && enclosed.find("/./") == std::string::npos;
}

struct CloseMember {
  void operator()(zip_file_t* member) const { zip_fclose(member); }
};

}  // namespace

ZipArchive::ZipArchive(std::span<const std::byte> file, const std::string& file_name)
    : file_name_(file_name), file_bytes_(file.size()) {
  check_ends({reinterpret_cast<const char*>(file.data()), file.size()}, file_name);
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* source = zip_source_buffer_create(file.data(), file.size(), 0, &error);
  if (source != nullptr) archive_.reset(zip_open_from_source(source, ZIP_RDONLY, &error));
  const std::string reason = archive_ ? "" : zip_error_strerror(&error);
  if (source != nullptr && !archive_) zip_source_free(source);
  zip_error_fini(&error);
  refuse_if(!archive_,
            "{} begins like a zip archive but cannot be read as one ({}): the file is cut short or "
            "damaged; fetch or save it again",
            quote(file_name), reason);
  const zip_int64_t count = zip_get_num_entries(archive_.get(), 0);
  for (zip_int64_t i = 0; i < count; ++i) add_member(static_cast<uint64_t>(i));
}

void ZipArchive::add_member(uint64_t index) {
  zip_stat_t stat;
  zip_stat_init(&stat);
  constexpr zip_uint64_t kNeeded = ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE |
                                   ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
  refuse_if(zip_stat_index(archive_.get(), index, ZIP_FL_ENC_RAW, &stat) != 0 ||
                (stat.valid & kNeeded) != kNeeded,
            "{}: member {} of the zip archive has an incomplete entry: the file is damaged",
            quote(file_name_), index);
  const std::string name = stat.name;
  const auto refuse = [&](std::string_view what) {
    throw InputError("{}, zip member {}: {}; save the file again with torch.save",
                     quote(file_name_), quote(name), what);
  };
  if (!is_plain_name(name)) refuse("its name is not a plain relative path");
  if (stat.encryption_method != ZIP_EM_NONE) refuse("it is encrypted, which is not supported");
  if (stat.comp_method != ZIP_CM_STORE && stat.comp_method != ZIP_CM_DEFLATE) {
    refuse(fmt::format("compression method {} is not supported: expected stored or deflated",
                       stat.comp_method));
  }
  const bool is_stored = stat.comp_method == ZIP_CM_STORE;
  if (stat.comp_size > file_bytes_ || (is_stored && stat.size != stat.comp_size)) {
    refuse(fmt::format("it claims {} bytes, {} in the archive, of a file of {}", stat.size,
                       stat.comp_size, file_bytes_));
  }
  if (!members_.emplace(name, ZipMember{index, stat.size, stat.comp_size, is_stored}).second) {
    refuse("the archive has two members of this name");
  }
}

std::unique_ptr<std::byte[]> ZipArchive::read(const std::string& name, const ZipMember& member) {
  const auto refuse = [&](std::string_view what) {
    throw InputError("{}, zip member {}: {}; the file is damaged", quote(file_name_), quote(name),
                     what);
  };
  // Members that share bytes, or have absurd compression ratios, would fill the memory.
  uint64_t& bytes_read = member.is_stored ? stored_bytes_read_ : inflated_bytes_read_;
  const uint64_t bytes_max =
      member.is_stored ? file_bytes_ : kInflatedBytesBase + kInflatedPerFileByte * file_bytes_;
  if (member.bytes > bytes_max - bytes_read) {
    refuse(fmt::format("up to this one, {} members hold more than {} bytes in a file of {}",
                       member.is_stored ? "stored" : "compressed", bytes_max, file_bytes_));
  }
  bytes_read += member.bytes;

  const std::unique_ptr<zip_file_t, CloseMember> open(
      zip_fopen_index(archive_.get(), member.index, 0));
  if (!open) refuse(zip_strerror(archive_.get()));
  auto buffer = std::make_unique_for_overwrite<std::byte[]>(member.bytes);
  uint64_t filled = 0;
  while (filled < member.bytes) {
    const zip_int64_t got = zip_fread(open.get(), buffer.get() + filled, member.bytes - filled);
    if (got <= 0) refuse(got < 0 ? zip_file_strerror(open.get()) : "it ends too early");
    filled += static_cast<uint64_t>(got);
  }
  std::byte beyond{};  // reading to the end makes libzip compare the checksum
  const zip_int64_t rest = zip_fread(open.get(), &beyond, 1);
  if (rest != 0) refuse(rest < 0 ? zip_file_strerror(open.get()) : "it holds more than it claims");
  return buffer;
}

}  // namespace arenite::convert

#endif  // ARENITE_HAVE_LIBZIP
