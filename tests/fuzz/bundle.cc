// SPDX-License-Identifier: Apache-2.0
// Parses bundles, and writes safetensors files with made-up values for listed tensors.
#include "fuzz/bundle.h"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "convert/files/memory.h"
#include "support/byte_string.h"
#include "support/safetensors_builder.h"

namespace arenite::fuzz {
namespace {

constexpr size_t kLengthBytes = 3;
constexpr size_t kFilesMax = 32;
constexpr uint64_t kListedBytesMax = uint64_t{1} << 19;  // of all tensors

constexpr BundleName kNames[] = {
    {"options", FileKind::kBytes},
    {"tensors.txt", FileKind::kLines},
    {"config.json", FileKind::kJson},
    {"modules.json", FileKind::kJson},
    {"sentence_bert_config.json", FileKind::kJson},
    {"config_sentence_transformers.json", FileKind::kJson},
    {"1_Pooling/config.json", FileKind::kJson},
    {"2_Dense/config.json", FileKind::kJson},
    {"2_Dense/tensors.txt", FileKind::kLines},
    {"2_Normalize/config.json", FileKind::kJson},
    {"3_Dense/config.json", FileKind::kJson},
    {"3_Dense/tensors.txt", FileKind::kLines},
    {"4_Dropout/config.json", FileKind::kJson},
    {"5_Dense/config.json", FileKind::kJson},
    {"5_Dense/tensors.txt", FileKind::kLines},
    {"6_LayerNorm/config.json", FileKind::kJson},
    {"6_LayerNorm/tensors.txt", FileKind::kLines},
    {"7_Dense/config.json", FileKind::kJson},
    {"7_Dense/tensors.txt", FileKind::kLines},
    {"model.safetensors.index.json", FileKind::kJson},
    {"generation_config.json", FileKind::kJson},
    {"tokenizer_config.json", FileKind::kJson},
    {"special_tokens_map.json", FileKind::kJson},
    {"added_tokens.json", FileKind::kJson},
    {"tokenizer.json", FileKind::kJson},
    {"vocab.json", FileKind::kJson},
    {"merges.txt", FileKind::kLines},
    {"vocab.txt", FileKind::kLines},
    {"tokenizer.model", FileKind::kProto},
    {"tokenizer.bin", FileKind::kBytes},
    {"meta.pkl", FileKind::kPickle},
};

struct ListedType {
  std::string_view name;
  uint32_t bytes;
};
constexpr ListedType kTypes[] = {{"F64", 8}, {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"I64", 8},
                                 {"I32", 4}, {"I16", 2}, {"I8", 1},  {"U8", 1},   {"BOOL", 1}};

std::string_view take_word(std::string_view& line) {
  const size_t begin = std::min(line.find_first_not_of(' '), line.size());
  line.remove_prefix(begin);
  const std::string_view word = line.substr(0, line.find(' '));
  line.remove_prefix(word.size());
  return word;
}

// The element at `index`, as the type stores it.
std::string element_of(const ListedType& type, uint64_t value) {
  const auto small = static_cast<double>(static_cast<int64_t>(value));
  if (type.name == "F64") return testing::bytes_of(small);
  if (type.name == "F32") return testing::bytes_of(static_cast<float>(small));
  // The upper half of a float; a binary16 of these bits is a small number, too.
  if (type.name == "BF16" || type.name == "F16") {
    return testing::bytes_of(static_cast<float>(small)).substr(2);
  }
  return testing::bytes_of(value).substr(0, type.bytes);
}

struct Listed {
  std::string_view name, type_name, fill;
  const ListedType* type = nullptr;
  std::vector<uint64_t> shape;
  uint64_t elements = 1;
};

// False for a line that is no tensor.
bool parse_line(std::string_view line, Listed& tensor) {
  tensor.name = take_word(line);
  tensor.type_name = take_word(line);
  for (const ListedType& type : kTypes) {
    if (type.name == tensor.type_name) tensor.type = &type;
  }
  if (tensor.name.empty() || tensor.type == nullptr) return false;
  while (!line.empty()) {
    const std::string_view word = take_word(line);
    if (word.empty()) break;
    uint64_t extent = 0;
    if (word[0] < '0' || word[0] > '9') {
      tensor.fill = word;
      break;
    }
    for (const char digit : word) {
      if (digit < '0' || digit > '9' || extent > kListedBytesMax) return false;
      extent = 10 * extent + static_cast<uint64_t>(digit - '0');
    }
    tensor.shape.push_back(extent);
    if (extent > kListedBytesMax || tensor.elements * extent > kListedBytesMax) return false;
    tensor.elements *= extent;
  }
  return true;
}

// "=3,5" gives the numbers themselves, over and over.
std::vector<uint64_t> listed_numbers(std::string_view fill) {
  std::vector<uint64_t> numbers;
  if (!fill.starts_with('=')) return numbers;
  uint64_t number = 0;
  for (const char c : fill.substr(1)) {
    if (c >= '0' && c <= '9') {
      number = 10 * number + static_cast<uint64_t>(c - '0');
    } else {
      numbers.push_back(std::exchange(number, 0));
    }
  }
  numbers.push_back(number);
  return numbers;
}

std::string data_of(const Listed& tensor) {
  const std::vector<uint64_t> numbers = listed_numbers(tensor.fill);
  const uint64_t columns = tensor.shape.empty() ? 1 : std::max<uint64_t>(tensor.shape.back(), 1);
  const uint64_t rows =
      tensor.shape.size() < 2 ? 1 : std::max<uint64_t>(tensor.shape[tensor.shape.size() - 2], 1);
  std::string data;
  data.reserve(static_cast<size_t>(tensor.elements * tensor.type->bytes));
  for (uint64_t i = 0; i < tensor.elements; ++i) {
    uint64_t value = (7 * i + tensor.name.size()) % 3;
    if (tensor.fill == "iota") value = i % columns;
    if (!numbers.empty()) value = numbers[i % numbers.size()];
    if (tensor.fill == "tril") value = i % columns <= i / columns % rows ? 1 : 0;
    data += element_of(*tensor.type, value);
  }
  return data;
}

}  // namespace

std::span<const BundleName> bundle_names() { return kNames; }

std::vector<BundleFile> read_bundle(std::span<const uint8_t> input) {
  std::vector<BundleFile> files;
  while (input.size() > kLengthBytes && files.size() < kFilesMax) {
    BundleFile file;
    file.name = static_cast<uint8_t>(input[0] % std::size(kNames));
    const size_t length =
        input[1] | static_cast<size_t>(input[2]) << 8 | static_cast<size_t>(input[3]) << 16;
    input = input.subspan(1 + kLengthBytes);
    const auto bytes = input.first(std::min(length, input.size()));
    file.bytes.assign(bytes.begin(), bytes.end());
    input = input.subspan(bytes.size());
    files.push_back(std::move(file));
  }
  return files;
}

std::string write_bundle(const std::vector<BundleFile>& files) {
  std::string bytes;
  for (const BundleFile& file : files) {
    bytes += static_cast<char>(file.name);
    bytes += testing::bytes_of(static_cast<uint32_t>(file.bytes.size())).substr(0, kLengthBytes);
    bytes += file.bytes;
  }
  return bytes;
}

uint8_t bundle_name(std::string_view name) {
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if (kNames[i].name == name) return static_cast<uint8_t>(i);
  }
  throw std::invalid_argument(std::string(name));
}

std::string_view find_file(const std::vector<BundleFile>& files, std::string_view name) {
  for (const BundleFile& file : files) {
    if (kNames[file.name].name == name) return file.bytes;
  }
  return {};
}

void write_files(const std::vector<BundleFile>& files, MemoryFolder& folder) {
  folder.clear();
  for (const BundleFile& file : files) {
    std::string name = kNames[file.name].name;
    if (name == kOptions) continue;
    if (name.ends_with(kTensorList)) {
      name.replace(name.size() - kTensorList.size(), kTensorList.size(), "model.safetensors");
      folder.write(name, safetensors_of_list(file.bytes));
    } else {
      folder.write(name, file.bytes);
    }
  }
}

std::string safetensors_of_list(std::string_view list) {
  std::string header = "{";
  std::string data;
  std::string_view line;
  while (convert::take_line(list, line)) {
    Listed tensor;
    if (!parse_line(line, tensor)) continue;
    if (data.size() + tensor.elements * tensor.type->bytes > kListedBytesMax) break;
    const size_t begin = data.size();
    data += data_of(tensor);
    header += fmt::format(R"({}"{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                          header.size() == 1 ? "" : ",", tensor.name, tensor.type_name,
                          fmt::join(tensor.shape, ","), begin, data.size());
  }
  return testing::safetensors_file(header + "}", data);
}

}  // namespace arenite::fuzz
