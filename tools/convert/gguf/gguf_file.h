// SPDX-License-Identifier: Apache-2.0
// Reads GGUF version 3: metadata, mapped tensors, and the block types that store their elements
// (plain floats, or 32 or 256 quantized elements with scales). Also reads the tokenizer stored
// beside the weights; families/gguf_decoders.cc reads the model that the metadata describe.
//
//   const auto file = GgufFile::read("model.gguf");
//   const TensorStore store = tensors_of(file);
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "convert/files/checkpoint.h"
#include "convert/files/memory.h"
#include "convert/spec/config_fields.h"
#include "convert/spec/model_spec.h"
#include "convert/spec/quantized_weights.h"
#include "convert/tokenizers/tokenizer_spec.h"

namespace arenite::convert {

// A block type: `elements` consecutive elements of a row take `bytes`.
struct GgufBlock {
  uint32_t type = 0;  // the id in files
  const char* name = "";
  uint32_t elements = 1;
  uint32_t bytes = 0;
  // Writes the elements of one block; nullptr if the type is unsupported and only known by name.
  void (*expand)(const uint8_t* block, float* values) = nullptr;
};

inline constexpr uint32_t kGgufF64 = 28;  // the type that float32 may round
inline constexpr uint32_t kGgufQ4 = 2;    // Q4_0, whose integers and blocks equal those of q4

// Returns nullptr for an id without a name in the format description.
const GgufBlock* find_gguf_block(uint32_t type);

// Names of all supported types, for messages: "F32, F16, ...".
std::string readable_gguf_types();

// Expands `data`, whole blocks of a supported type. The result is bit-identical to ggml's. Floats
// and scales may be NaN or infinite.
std::vector<float> read_gguf_blocks(const GgufBlock& block, std::span<const std::byte> data);

// Reads data of type kGgufF64 without rounding.
std::vector<double> read_gguf_f64(std::span<const std::byte> data);

// Reads the integers and scales of type kGgufQ4, in rows of `columns`.
ScaledIntegers read_gguf_q4(std::span<const std::byte> data, uint32_t columns);

// Types of metadata values, with the ids of the format.
enum class GgufType : uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64,
};

// A view of a metadata value in the file.
struct GgufValue {
  GgufType type = GgufType::kU8;  // for arrays the element type, never kArray
  bool is_array = false;
  uint64_t count = 1;  // of elements
  // the elements; each string is preceded by its length, 8 bytes
  std::span<const std::byte> data{};
};

// Calls `take(text)` for each string of `value`. REQUIRES: value.type is kString.
template <typename Take>
void for_each_string(const GgufValue& value, const Take& take) {
  size_t at = 0;
  for (uint64_t i = 0; i < value.count; ++i) {
    uint64_t length = 0;
    std::memcpy(&length, value.data.data() + at, sizeof length);
    at += sizeof length;
    const auto bytes = static_cast<size_t>(length);
    take(std::string_view(reinterpret_cast<const char*>(value.data.data()) + at, bytes));
    at += bytes;
  }
}

struct GgufTensor {
  std::string name;
  const GgufBlock* block = nullptr;  // supported block type
  std::vector<uint64_t> shape;       // outermost dimension first, reversed from the file
  std::span<const std::byte> data{};
};

// Whether `file`, the bytes of a whole file, has the GGUF signature.
bool is_gguf(std::span<const std::byte> file);

class GgufFile {
 public:
  // Maps `file` and checks all of it: counts, lengths, types, alignment, and that tensors are
  // contiguous up to the end, without overlaps or gaps. Memory is proportional to the file's size.
  // Throws InputError.
  static std::shared_ptr<const GgufFile> read(const std::filesystem::path& file);
  // Reads a file that is already mapped.
  static std::shared_ptr<const GgufFile> read(const std::filesystem::path& file, FileMap map);

  const std::string& file_name() const { return file_name_; }
  const std::map<std::string, GgufValue, std::less<>>& metadata() const { return metadata_; }
  const std::vector<GgufTensor>& tensors() const { return tensors_; }

 private:
  GgufFile(const std::filesystem::path& file, FileMap map)
      : file_name_(file.string()), map_(std::move(map)) {}

  std::string file_name_;
  FileMap map_;
  std::map<std::string, GgufValue, std::less<>> metadata_;
  std::vector<GgufTensor> tensors_;

  friend class GgufParser;
};

// Returns the file's tensors, expanded to float32 on load. Matrices of Q4_0 also load their
// integers.
TensorStore tensors_of(const std::shared_ptr<const GgufFile>& file);

// ---- metadata and tokenizer ----

// Returns all metadata except the tokenizer's and the provenance in general.*;
// "general.architecture" is kept. Throws InputError for arrays longer than any architecture's
// fields.
ConfigFields gguf_fields(const GgufFile& file);

// The tokenizer as stored in the file. Without one the arrays are empty; otherwise scores and types
// correspond one to one to tokens.
struct GgufTokenizer {
  std::string model;          // tokenizer.ggml.model: "llama" (SentencePiece), "gpt2" (byte-level)
  std::string pre_tokenizer;  // tokenizer.ggml.pre: "llama-bpe", "qwen2", ...; empty: unset
  std::vector<std::string> tokens;
  std::vector<float> scores;
  std::vector<int32_t> types;       // 1 normal, 2 unknown, 3 control, 4 user-defined, 6 byte
  std::vector<std::string> merges;  // "left right", by rank
  std::optional<uint32_t> bos_id, eos_id, unknown_id, padding_id;
  std::optional<bool> add_bos, add_eos, add_space_prefix;
};

// Reads the tokenizer.ggml.* metadata; the result is empty if there is none. Throws InputError if a
// value has the wrong type, or if an array has another length than the tokens.
GgufTokenizer read_gguf_tokenizer(const GgufFile& file);

// Converts a stored tokenizer. Throws InputError that names an unsupported model or pre-tokenizer.
// `origin` is the file, for messages.
TokenizerSpec understand_gguf_tokenizer(const GgufTokenizer& tokens, const std::string& origin);

}  // namespace arenite::convert
