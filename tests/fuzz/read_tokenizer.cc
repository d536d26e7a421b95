// SPDX-License-Identifier: Apache-2.0
// A fuzz target: a folder with the files of a tokenizer. The tokenizer goes into a model file,
// which the runtime must load; then it encodes and decodes a text.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <vector>

#include "arenite/text_stream.h"
#include "arenite/tokenizer.h"
#include "convert/check/check_session.h"
#include "convert/files/error.h"
#include "convert/tokenizers/tokenizer_source.h"
#include "fuzz/bundle.h"
#include "fuzz/memory_folder.h"
#include "fuzz/reader_cost.h"
#include "support/tokenizer_model.h"

namespace {

using namespace arenite;
using namespace arenite::fuzz;

// A pattern brings Unicode's classes with it.
constexpr ReaderBound kBound = {
    .bytes = 16'000'000, .bytes_per_byte = 160, .seconds = 1.5, .seconds_per_megabyte = 10.0};

constexpr const char* kFiles[] = {"tokenizer.json", "tokenizer.model", "vocab.json",
                                  "vocab.txt",      "tokenizer.bin",   "meta.pkl"};
constexpr std::string_view kText = "The <s> t\xc3\xa9st,  it's 12\n[MASK]</s>\xff \xe4\xb8\xad";

void check(bool is_right) {
  if (!is_right) std::abort();
}

void encode_and_decode(const Tokenizer& tokenizer) {
  for (const bool read_specials : {false, true}) {
    std::vector<TokenId> ids(encode_tokens_max(kText.size()));
    const EncodeOptions options = {.read_specials = read_specials};
    const Result<size_t> count = tokenizer.encode(kText, options, ids);
    if (!count.ok()) continue;  // a character without a token
    check(*count <= ids.size());
    ids.resize(*count);
    TextStream stream(tokenizer, {});
    for (const TokenId id : ids) {
      check(id < tokenizer.vocab_size());
      (void)stream.next(id);
    }
    (void)stream.finish();
  }
}

void read(const std::filesystem::path& file) {
  convert::TokenizerSpec spec = convert::read_tokenizer(file);
  const convert::AlignedBytes bytes = test::model_with(std::move(spec));
  const Model model = convert::load_converted(bytes, Target::kPortable);
  const Result<Tokenizer> tokenizer = Tokenizer::of(model);
  check(tokenizer.ok());
  encode_and_decode(*tokenizer);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::vector<BundleFile> files = read_bundle({data, size});
  MemoryFolder& folder = memory_folder();
  write_files(files, folder);
  for (const char* name : kFiles) {
    if (find_file(files, name).empty()) continue;
    read_within(kBound, size, [&] { read(folder.path() / name); });
  }
  return 0;
}
