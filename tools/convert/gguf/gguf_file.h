// SPDX-License-Identifier: Apache-2.0
// The container of GGUF version 3: metadata, tensors described and mapped, and the blocks in which
// their numbers are stored: plain floats, and 32 or 256 quantized numbers with their scales. And
// the model that a file describes by its metadata: a decoder, and the tokenizer that it carries
// beside the weights, as it lies there and understood.
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

// A block of `elements` consecutive numbers of a row takes `bytes`.
struct GgufBlock {
  uint32_t type = 0;  // as files number it
  const char* name = "";
  uint32_t elements = 1;
  uint32_t bytes = 0;
  // Writes the elements of one block; nullptr: the type is known by name only, and not read.
  void (*expand)(const uint8_t* block, float* values) = nullptr;
};

inline constexpr uint32_t kGgufF64 = 28;  // the type whose numbers float32 may round
inline constexpr uint32_t kGgufQ4 = 2;    // Q4_0, whose integers and blocks are those of kQ4

// nullptr for a number that no format description gives a name to.
const GgufBlock* find_gguf_block(uint32_t type);

// The names of all types that are read, for messages: "F32, F16, ...".
std::string readable_gguf_types();

// All numbers of `data`, whole blocks of a type that is read. The same bits as ggml's own functions
// give. Floats and scales may be NaN or infinite.
std::vector<float> read_gguf_blocks(const GgufBlock& block, std::span<const std::byte> data);

// The same of type kGgufF64, as they are.
std::vector<double> read_gguf_f64(std::span<const std::byte> data);

// The integers and scales of type kGgufQ4, in rows of `columns`.
ScaledIntegers read_gguf_q4(std::span<const std::byte> data, uint32_t columns);

// Types of metadata values, numbered as in files.
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

// A metadata value as it lies in the file.
struct GgufValue {
  GgufType type = GgufType::kU8;  // of an array: that of its elements, never kArray
  bool is_array = false;
  uint64_t count = 1;                 // of elements
  std::span<const std::byte> data{};  // the elements; strings with their 8 bytes of length each
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
  const GgufBlock* block = nullptr;  // how its numbers are stored; one that is read
  std::vector<uint64_t> shape;       // outermost dimension first, so reversed from the file
  std::span<const std::byte> data{};
};

// Whether `file`, the bytes of a whole file, begins like one.
bool is_gguf(std::span<const std::byte> file);

class GgufFile {
 public:
  // Maps and checks `file` in full: counts, lengths, types and alignment, and that tensors follow
  // one another without overlap or hole up to the end. Memory stays in proportion to what is truly
  // there. Throws InputError.
  static std::shared_ptr<const GgufFile> read(const std::filesystem::path& file);
  // The same of a file that is mapped already.
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

// Its tensors, expanded to float32 when they are read. Matrices of Q4_0 give their integers, too.
TensorStore tensors_of(const std::shared_ptr<const GgufFile>& file);

// ---- the model that metadata describe ----

// All metadata but the tokenizer's and those of general.*, which say where the file comes from;
// "general.architecture" is there. Throws InputError for arrays of more elements than any
// architecture's fields have.
ConfigFields gguf_fields(const GgufFile& file);

// Architectures llama, gpt2, qwen2 and qwen3. Throws InputError for others, for metadata about the
// computation that is not understood, and for tensors missing or left over. `store` is tensors_of
// the file.
TransformerSpec read_gguf_decoder(const GgufFile& file, const TensorStore& store);

// The tokenizer as it lies in the file. The arrays are empty where it has none; otherwise scores
// and types go with tokens one to one.
struct GgufTokenizer {
  std::string model;          // tokenizer.ggml.model: "llama" (SentencePiece), "gpt2" (byte-level)
  std::string pre_tokenizer;  // tokenizer.ggml.pre: "llama-bpe", "qwen2", ...; empty: not said
  std::vector<std::string> tokens;
  std::vector<float> scores;
  std::vector<int32_t> types;       // 1 normal, 2 unknown, 3 control, 4 user-defined, 6 byte
  std::vector<std::string> merges;  // "left right", by rank
  std::optional<uint32_t> bos_id, eos_id, unknown_id, padding_id;
  std::optional<bool> add_bos, add_eos, add_space_prefix;
};

// The tokenizer.ggml.* metadata. Throws InputError where a value has the wrong type, or an array
// another length than the tokens. Nothing there: an empty tokenizer.
GgufTokenizer read_gguf_tokenizer(const GgufFile& file);

// `origin` is the file, for messages. Throws InputError for a model or a pre-tokenizer that is not
// supported, by name.
TokenizerSpec understand_gguf_tokenizer(const GgufTokenizer& tokens, const std::string& origin);

}  // namespace arenite::convert
