// SPDX-License-Identifier: Apache-2.0
// A fuzz target: a folder with a config.json, a modules.json, an index of shards and a list of
// tensors, and the user's options.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "fuzz/bundle.h"
#include "fuzz/memory_folder.h"
#include "fuzz/reader_cost.h"
#include "fuzz/whole_model.h"

namespace {

using namespace arenite::fuzz;

// Tensors are only listed, so that a few bytes stand for up to half a megabyte.
constexpr ReaderBound kBound = {
    .bytes = 48'000'000, .bytes_per_byte = 128, .seconds = 2.0, .seconds_per_megabyte = 5.0};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::vector<BundleFile> files = read_bundle({data, size});
  MemoryFolder& folder = memory_folder();
  write_files(files, folder);
  read_within(kBound, size,
              [&] { use_model(folder.path(), options_of(find_file(files, kOptions))); });
  return 0;
}
