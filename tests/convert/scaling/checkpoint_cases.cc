// SPDX-License-Identifier: Apache-2.0
// Inputs for the readers of tensors: safetensors, GGUF, llama2.c and .npy, and modules recognised
// in them.
#include <fmt/format.h>

#include <cmath>

#include "convert/families/families.h"
#include "convert/files/checkpoint.h"
#include "convert/files/npy.h"
#include "convert/gguf/gguf_builder.h"
#include "convert/gguf/gguf_file.h"
#include "convert/modules/attention_modules.h"
#include "convert/open/opened.h"
#include "convert/scaling/reader_cases.h"
#include "convert/spec/model_tensors.h"
#include "support/byte_string.h"
#include "support/safetensors_builder.h"

namespace arenite::testing {
namespace {

using convert::Checkpoint;
using convert::GgufType;

std::string entry(std::string_view name, size_t begin, size_t bytes, std::string_view extent) {
  return fmt::format(R"("{}":{{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}})", name, extent,
                     begin, begin + bytes);
}

// `count` tensors of one byte; `name_of` gives each its name.
template <typename NameOf>
InputFiles safetensors_of(size_t count, const NameOf& name_of) {
  std::string header = "{";
  for (size_t i = 0; i < count; ++i) {
    header += (i == 0 ? "" : ",") + entry(name_of(i), i, 1, "1");
  }
  return {{"x.safetensors", safetensors_file(header + "}", std::string(count, '\1'))}};
}

InputFiles many_tensors(size_t size) {
  return safetensors_of(size, [](size_t i) { return fmt::format("model.layers.{}.weight", i); });
}

InputFiles empty_tensors(size_t size) {
  std::string header = "{";
  for (size_t i = 0; i < size; ++i) {
    header += (i == 0 ? "" : ",") + entry(fmt::format("{}", i), 0, 0, "0");
  }
  return {{"x.safetensors", safetensors_file(header + "}", "")}};
}

InputFiles near_names(size_t size) {
  const std::string beginning(400, 'a');
  return safetensors_of(size, [&](size_t i) { return fmt::format("{}{}", beginning, i); });
}

InputFiles long_name(size_t size) {
  return safetensors_of(3, [&](size_t i) { return std::string(size, static_cast<char>('a' + i)); });
}

InputFiles metadata(size_t size) {
  std::string header = R"({"__metadata__":{)";
  for (size_t i = 0; i < size; ++i) header += fmt::format("{}\"{}\":\"\"", i == 0 ? "" : ",", i);
  return {{"x.safetensors", safetensors_file(header + "}}", "")}};
}

InputFiles long_shape(size_t size) {
  std::string extents = "1";
  for (size_t i = 0; i < size; ++i) extents += ",1";
  return {{"x.safetensors", safetensors_file("{" + entry("a", 0, 1, extents) + "}", "\1")}};
}

// These names look like masks of modules, but none stands alone.
InputFiles many_masks(size_t size) {
  return safetensors_of(2 * size, [](size_t i) {
    return fmt::format("m{}.{}", i / 2, i % 2 == 0 ? "tril" : "other");
  });
}

InputFiles many_modules(size_t size) {
  return safetensors_of(size, [](size_t i) { return fmt::format("m{}.W_query.weight", i); });
}

// Each module is nested in the one before, so the total length of names is quadratic in their
// number.
InputFiles nested_prefixes(size_t size) {
  std::string prefix;
  return safetensors_of(static_cast<size_t>(std::sqrt(static_cast<double>(size))),
                        [&](size_t) { return (prefix += "a.") + "linear_q.weight"; });
}

// Each head has its own mask.
InputFiles many_heads(size_t size) {
  std::string header = "{";
  std::string data;
  const auto add = [&](const std::string& name, const std::string& shape,
                       std::vector<float> values) {
    header += fmt::format(R"({}"{}":{{"dtype":"F32","shape":[{}],"data_offsets":[{},{}]}})",
                          data.empty() ? "" : ",", name, shape, data.size(),
                          data.size() + 4 * values.size());
    data += bytes_of(values);
  };
  for (size_t i = 0; i < size; ++i) {
    for (const char* part : {"query", "key", "value"}) {
      add(fmt::format("heads.{}.W_{}.weight", i, part), "1,1", {1});
    }
    std::vector<float> mask(16 * 16, 0);
    for (size_t row = 0; row < 16; ++row) mask[17 * row] = 1;
    for (size_t bit = 0; bit < 15; ++bit) mask[16 * 15 + bit] = static_cast<float>(i >> bit & 1);
    add(fmt::format("heads.{}.mask", i), "16,16", mask);
  }
  return {{"x.safetensors", safetensors_file(header + "}", data)}};
}

void read_tensors(const std::filesystem::path& file) {
  const convert::Opened model = convert::open_model(file);
  for (const convert::StoredTensor& tensor : model.tensors.tensors()) tensor.load();
  convert::ModelTensors(model.tensors).finish();  // throws, as nobody took any
}

void read_llama2c(const std::filesystem::path& file) {
  const convert::Opened opened = convert::open_model(file);
  convert::read_llama2c(*opened.llama2c, opened.tensors);
}

void read_module(const std::filesystem::path& file) {
  convert::read_attention_module(convert::open_model(file), {});
}

InputFiles gguf_tensors(size_t size) {
  GgufBuilder file;
  for (size_t i = 0; i < size; ++i) file.tensor(fmt::format("blk.{}.w", i), {1}, 0, bytes_of(1.0f));
  return {{"x.gguf", file.bytes()}};
}

InputFiles gguf_metadata(size_t size) {
  GgufBuilder file;
  for (size_t i = 0; i < size; ++i) file.count(fmt::format("{}", i), 1);
  return {{"x.gguf", file.bytes()}};
}

InputFiles gguf_arrays(size_t size) {
  GgufBuilder file;
  for (size_t i = 0; i < size; ++i) {
    file.array(fmt::format("{}", i), GgufType::kU8, 4096, std::string(4096, '\1'));
  }
  return {{"x.gguf", file.bytes()}};
}

InputFiles gguf_strings(size_t size) {
  std::string strings;
  for (size_t i = 0; i < size; ++i) strings += gguf_text("");
  return {{"x.gguf", GgufBuilder()
                         .array("tokenizer.ggml.tokens", GgufType::kString, size, strings)
                         .array("tokenizer.ggml.merges", GgufType::kString, size, strings)
                         .bytes()}};
}

void read_gguf(const std::filesystem::path& file) {
  const auto gguf = convert::GgufFile::read(file);
  for (const convert::GgufTensor& tensor : gguf->tensors()) {
    convert::read_gguf_blocks(*tensor.block, tensor.data);
  }
  convert::read_gguf_tokenizer(*gguf);
  convert::gguf_fields(*gguf).finish();  // throws, as nobody took any
}

// A legacy file of tiny layers, or of one layer with a large vocabulary.
InputFiles llama2c(int32_t layers, int32_t vocab) {
  const std::string header = bytes_of(std::vector<int32_t>{2, 2, layers, 1, 1, vocab, 2});
  // Norms, query, key, value, output and three of the MLP for each layer; the final norm, and two
  // tables of one frequency for two positions.
  const auto floats =
      static_cast<size_t>(layers) * (4 + 7 * 4) + 2 + 4 + 2 * static_cast<size_t>(vocab);
  return {{"x.bin", header + bytes_of(std::vector<float>(floats, 1.0f))}};
}

InputFiles npy(size_t size) {
  std::string header =
      fmt::format("{{'descr': '|u1', 'fortran_order': False, 'shape': ({},), }}", size);
  header.resize(118, ' ');
  return {{"x.npy", "\x93NUMPY" + std::string("\x01\x00v\x00", 4) + header + std::string(size, 1)}};
}

InputFiles npy_header(size_t size) {
  std::string header = "{'descr': '|u1', 'shape': (0" + std::string(size, ' ') + ",), ";
  header += "'fortran_order': " + std::string(size, ' ') + "False, }";
  return {{"x.npy", "\x93NUMPY" + std::string("\x01\x00", 2) +
                        bytes_of(static_cast<uint16_t>(header.size())) + header}};
}

// Shards of one tensor each.
InputFiles index_of_shards(size_t size) {
  InputFiles files = {{"model.safetensors.index.json", R"({"weight_map":{)"}};
  for (size_t i = 0; i < size; ++i) {
    files[0].second += fmt::format(R"({}"t{}":"s{}.safetensors")", i == 0 ? "" : ",", i, i);
    files.emplace_back(fmt::format("s{}.safetensors", i),
                       safetensors_file("{" + entry(fmt::format("t{}", i), 0, 1, "1") + "}", "\1"));
  }
  files[0].second += "}}";
  return files;
}

// One shard, with an index of many tensors.
InputFiles index_of_tensors(size_t size) {
  InputFiles files = many_tensors(size);
  std::string index = R"({"weight_map":{)";
  for (size_t i = 0; i < size; ++i) {
    index += fmt::format(R"({}"model.layers.{}.weight":"x.safetensors")", i == 0 ? "" : ",", i);
  }
  files.insert(files.begin(), {"model.safetensors.index.json", index + "}}"});
  return files;
}

}  // namespace

std::vector<ReaderCase> checkpoint_cases() {
  const auto read_npy = [](const std::filesystem::path& file) {
    convert::NpyArray::read(file).to_f32();
  };
  const auto read_index = [](const std::filesystem::path& file) { convert::open_model(file); };
  return {
      {"safetensors", "many tensors", 2000, many_tensors, read_tensors},
      {"safetensors", "many empty tensors", 2000, empty_tensors, read_tensors},
      {"safetensors", "many long near-equal names", 500, near_names, read_tensors},
      {"safetensors", "long names", 200'000, long_name, read_tensors},
      {"safetensors", "many metadata", 2000, metadata, read_tensors},
      {"safetensors", "metadata over the limit", 20'000, metadata, read_tensors},
      {"safetensors", "a long shape", 20'000, long_shape, read_tensors},
      {"module recognition", "masks that do not stand alone", 1000, many_masks, read_module},
      {"module recognition", "many modules", 1000, many_modules, read_module},
      {"module recognition", "modules in modules", 40'000, nested_prefixes, read_module},
      {"module recognition", "many heads, each with its mask", 300, many_heads, read_module},
      {"GGUF", "many tensors", 2000, gguf_tensors, read_gguf},
      {"GGUF", "many metadata", 1000, gguf_metadata, read_gguf},
      {"GGUF", "many arrays", 50, gguf_arrays, read_gguf},
      {"GGUF", "many empty strings", 20'000, gguf_strings, read_gguf},
      {"llama2.c", "many layers", 200,
       [](size_t size) { return llama2c(static_cast<int32_t>(size), 1); }, read_llama2c},
      {"llama2.c", "a large vocabulary", 50'000,
       [](size_t size) { return llama2c(1, static_cast<int32_t>(size)); }, read_llama2c},
      {".npy", "many bytes", 100'000, npy, read_npy},
      {".npy", "a long header", 10'000, npy_header, read_npy},
      {"model index", "many shards", 100, index_of_shards, read_index},
      {"model index", "many tensors", 1000, index_of_tensors, read_index},
  };
}

}  // namespace arenite::testing
