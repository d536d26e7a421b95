// SPDX-License-Identifier: Apache-2.0
// A fuzz target: reads any bytes as a .npy file.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "convert/files/error.h"
#include "convert/files/npy.h"
#include "fuzz/memory_folder.h"
#include "fuzz/reader_cost.h"

namespace {

using arenite::convert::InputError;
using arenite::convert::NpyArray;

// Numbers become eight bytes each.
constexpr arenite::fuzz::ReaderBound kBound = {.bytes_per_byte = 24, .seconds = 0.5};

void read(const std::filesystem::path& file) {
  const NpyArray array = NpyArray::read(file);
  array.to_f32();
  array.to_f64();
  array.to_i64();  // last, as it refuses floats
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  arenite::fuzz::MemoryFolder& folder = arenite::fuzz::memory_folder();
  folder.clear();
  const auto file = folder.write("x.npy", {reinterpret_cast<const char*>(data), size});
  arenite::fuzz::read_within(kBound, size, [&] { read(file); });
  return 0;
}
