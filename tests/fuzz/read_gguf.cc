// SPDX-License-Identifier: Apache-2.0
// A fuzz target: reads any bytes as a GGUF file, including its tokenizer.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "fuzz/memory_folder.h"
#include "fuzz/reader_cost.h"
#include "fuzz/whole_model.h"

namespace {

// The bound of runtime/format/SECURITY.md, plus the elements of all tensors once more.
constexpr arenite::fuzz::ReaderBound kBound = {
    .bytes = 24'000'000, .bytes_per_byte = 48, .seconds = 1.0, .seconds_per_megabyte = 5.0};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  arenite::fuzz::MemoryFolder& folder = arenite::fuzz::memory_folder();
  folder.clear();
  const auto file = folder.write("x.gguf", {reinterpret_cast<const char*>(data), size});
  arenite::fuzz::read_within(kBound, size, [&] { arenite::fuzz::use_model(file); });
  return 0;
}
