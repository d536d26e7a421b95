// SPDX-License-Identifier: Apache-2.0
// A fuzz target: reads any bytes as an archive of torch.export.save. A small program is also
// computed and compared with its graph.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "convert/exported/read/exported_program.h"
#include "fuzz/memory_folder.h"
#include "fuzz/reader_cost.h"
#include "fuzz/whole_model.h"

namespace {

constexpr arenite::fuzz::ReaderBound kReading = {
    .bytes = 24'000'000, .bytes_per_byte = 128, .seconds = 1.0, .seconds_per_megabyte = 5.0};
// While a program is traced, arrays have at most 2^24 elements and constants 2^27: SECURITY.md.
constexpr arenite::fuzz::ReaderBound kFollowing = {
    .bytes = 2'000'000'000, .bytes_per_byte = 128, .seconds = 20.0};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  bool is_sound = false;
  arenite::fuzz::read_within(kReading, size, [&] {
    is_sound = false;
    arenite::convert::read_exported(bytes, "x.pt2");
    is_sound = true;
  });
  if (!is_sound) return 0;
  arenite::fuzz::MemoryFolder& folder = arenite::fuzz::memory_folder();
  folder.clear();
  const auto file = folder.write("x.pt2", {reinterpret_cast<const char*>(data), size});
  arenite::fuzz::read_within(kFollowing, size, [&] { arenite::fuzz::use_model(file); });
  return 0;
}
