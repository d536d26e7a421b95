// SPDX-License-Identifier: Apache-2.0
// The order of tensors in a llama2.c file, which alone determines their offsets.
#include "convert/open/opened.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "convert/files/error.h"
#include "convert/spec/model_tensors.h"
#include "convert/spec/rope_scaling.h"

namespace arenite::convert {
namespace {

constexpr uint32_t kMagic = 0x616b3432;  // "ak42"
constexpr uint64_t kHeaderBytes = 256;   // of versions 1 and 2
constexpr uint64_t kLegacyHeaderBytes = 7 * sizeof(int32_t);

template <typename Number>
Number number_at(std::span<const std::byte> file, size_t at) {
  Number value;
  std::memcpy(&value, file.data() + at, sizeof value);
  return value;
}

bool has_magic(std::span<const std::byte> file) {
  return file.size() >= sizeof kMagic && number_at<uint32_t>(file, 0) == kMagic;
}

// REQUIRES: the file has the bytes of the header.
Llama2cHeader parse_header(std::span<const std::byte> file) {
  Llama2cHeader header;
  size_t at = 0;
  if (has_magic(file)) {
    header.version = number_at<uint32_t>(file, 4);
    at = 8;
  }
  for (int64_t* size : {&header.model_dim, &header.ffn_dim, &header.layers, &header.heads,
                        &header.kv_heads, &header.vocab_size, &header.positions}) {
    *size = number_at<int32_t>(file, at);
    at += sizeof(int32_t);
  }
  if (header.version == 0) {
    header.bytes = kLegacyHeaderBytes;
    header.is_tied = header.vocab_size > 0;
    header.vocab_size = std::abs(header.vocab_size);
    return header;
  }
  header.bytes = kHeaderBytes;
  header.is_tied = number_at<uint8_t>(file, at) != 0;
  if (header.version == 2) header.group_elements = number_at<int32_t>(file, at + 1);
  return header;
}

// Returns what is wrong with the sizes, or nullopt.
std::optional<std::string> size_problem(const Llama2cHeader& header) {
  for (const int64_t size : {header.model_dim, header.ffn_dim, header.layers, header.heads,
                             header.kv_heads, header.vocab_size, header.positions}) {
    if (size < 1 || size > int64_t{kSideMax}) {
      return fmt::format("a size in the header is {}: expected 1 to {}", size, kSideMax);
    }
  }
  if (header.layers > int64_t{kLayersMax}) {
    return fmt::format("{} layers: at most {} are accepted", header.layers, kLayersMax);
  }
  if (header.model_dim % header.heads != 0 || header.head_dim() % 2 != 0 ||
      header.heads % header.kv_heads != 0) {
    return fmt::format("width {}, {} heads and {} key/value heads do not fit: expected divisors",
                       header.model_dim, header.heads, header.kv_heads);
  }
  if (header.version == 2 &&
      (header.group_elements < 1 || header.group_elements > int64_t{kSideMax})) {
    return fmt::format("groups of {} elements: expected at least 1", header.group_elements);
  }
  return std::nullopt;
}

// Consecutive tensors of one kind: a single tensor, or one for each layer.
struct Entry {
  std::string name;  // "layers.{}.attention.wq" where there is one for each layer
  uint64_t rows;     // 0: a vector
  uint64_t columns;
  bool is_per_layer;
};

const char* const kNormNames[] = {"layers.{}.attention_norm", "layers.{}.ffn_norm"};

std::vector<Entry> layer_matrices(const Llama2cHeader& header) {
  const auto dim = static_cast<uint64_t>(header.model_dim);
  const auto ffn = static_cast<uint64_t>(header.ffn_dim);
  const uint64_t kv = static_cast<uint64_t>(header.kv_heads) * header.head_dim();
  return {
      {"layers.{}.attention.wq", dim, dim, true},    {"layers.{}.attention.wk", kv, dim, true},
      {"layers.{}.attention.wv", kv, dim, true},     {"layers.{}.attention.wo", dim, dim, true},
      {"layers.{}.feed_forward.w1", ffn, dim, true}, {"layers.{}.feed_forward.w2", dim, ffn, true},
      {"layers.{}.feed_forward.w3", ffn, dim, true}};
}

// Returns all tensors in the order of the file.
std::vector<Entry> entries_of(const Llama2cHeader& header) {
  const auto dim = static_cast<uint64_t>(header.model_dim);
  const auto vocab = static_cast<uint64_t>(header.vocab_size);
  const Entry embedding{"tok_embeddings", vocab, dim, false};
  const Entry norm{"norm", 0, dim, false};
  std::vector<Entry> entries = layer_matrices(header);
  if (header.version == 0) {
    entries.insert(entries.begin(), {embedding, {kNormNames[0], 0, dim, true}});
    entries.insert(entries.begin() + 6, {kNormNames[1], 0, dim, true});  // after wo
    const uint64_t positions = static_cast<uint64_t>(header.positions);
    entries.push_back(norm);
    entries.push_back({"freq_cis_real", positions, header.head_dim() / 2, false});
    entries.push_back({"freq_cis_imag", positions, header.head_dim() / 2, false});
  } else {
    entries.insert(entries.begin(),
                   {{kNormNames[0], 0, dim, true}, {kNormNames[1], 0, dim, true}, norm, embedding});
  }
  if (!header.is_tied) entries.push_back({"output", vocab, dim, false});
  return entries;
}

// Bytes of one tensor. Sides are at most kSideMax, so nothing overflows.
uint64_t tensor_bytes(const Llama2cHeader& header, const Entry& entry) {
  if (entry.rows == 0) return entry.columns * sizeof(float);
  const uint64_t elements = entry.rows * entry.columns;
  if (header.version != 2) return elements * sizeof(float);
  return elements + elements / static_cast<uint64_t>(header.group_elements) * sizeof(float);
}

uint64_t file_bytes(const Llama2cHeader& header) {
  uint64_t total = header.bytes;
  for (const Entry& entry : entries_of(header)) {
    const uint64_t copies = entry.is_per_layer ? static_cast<uint64_t>(header.layers) : 1;
    total += copies * tensor_bytes(header, entry);
  }
  return total;
}

std::vector<float> read_floats(std::span<const std::byte> data) {
  std::vector<float> values(data.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), data.data(), values.size() * sizeof(float));
  return values;
}

// Reads version 2: an int8 for each element, then a scale for each group of elements.
std::vector<float> read_groups(std::span<const std::byte> data, size_t elements, size_t group) {
  const std::vector<float> scales = read_floats(data.subspan(elements));
  std::vector<float> values(elements);
  for (size_t i = 0; i < elements; ++i) {
    values[i] = static_cast<float>(static_cast<int8_t>(data[i])) * scales[i / group];
  }
  return values;
}

// ---- the model ----

constexpr double kTheta = 10000.0;

const LayerSettings kSettings = {.epsilon = 1e-5,  // fixed in the program, like theta
                                 .qkv_bias = Presence::kNone,
                                 .output_bias = Presence::kNone,
                                 .mlp_bias = Presence::kNone};

}  // namespace

bool is_llama2c(std::span<const std::byte> file) {
  if (has_magic(file)) return true;
  return file.size() >= kLegacyHeaderBytes && !size_problem(parse_header(file));
}

Llama2cHeader read_llama2c_header(std::span<const std::byte> file, const std::string& name) {
  const bool is_legacy = !has_magic(file);
  const uint64_t header_bytes = is_legacy ? kLegacyHeaderBytes : kHeaderBytes;
  if (file.size() < header_bytes) {
    throw InputError("{}: found {} bytes: expected at least the {} of llama2.c's header", name,
                     file.size(), header_bytes);
  }
  const Llama2cHeader header = parse_header(file);
  if (!is_legacy && header.version != 1 && header.version != 2) {
    throw InputError("{}: version {} of llama2.c's format: expected 1 or 2", name, header.version);
  }
  if (const auto problem = size_problem(header)) throw InputError("{}: {}", name, *problem);
  for (const Entry& entry : entries_of(header)) {
    if (header.version == 2 && entry.rows != 0 &&
        entry.rows * entry.columns % static_cast<uint64_t>(header.group_elements) != 0) {
      throw InputError(
          "{}: {} [{}, {}] does not split into groups of {} elements: the file is damaged", name,
          quote(entry.name), entry.rows, entry.columns, header.group_elements);
    }
  }
  if (file_bytes(header) != file.size()) {
    throw InputError(
        "{}: the sizes in the header make {} bytes, but the file has {}: it is cut short or "
        "damaged",
        name, file_bytes(header), file.size());
  }
  return header;
}

TensorStore llama2c_tensors(const Llama2cHeader& header, const std::shared_ptr<const FileMap>& map,
                            const std::string& file_name) {
  TensorStore store(file_name);
  uint64_t at = header.bytes;
  for (const Entry& entry : entries_of(header)) {
    const uint64_t copies = entry.is_per_layer ? static_cast<uint64_t>(header.layers) : 1;
    const uint64_t size = tensor_bytes(header, entry);
    for (uint64_t i = 0; i < copies; ++i, at += size) {
      const std::span<const std::byte> data =
          map->bytes().subspan(static_cast<size_t>(at), static_cast<size_t>(size));
      const bool is_quantized = header.version == 2 && entry.rows != 0;
      StoredTensor tensor{.name = fmt::format(fmt::runtime(entry.name), i) + ".weight",
                          .type = is_quantized ? "Q8_0" : "F32",
                          .shape = {entry.columns},
                          .load = {},
                          .file = file_name};
      if (entry.rows != 0) tensor.shape = {entry.rows, entry.columns};
      tensor.load = [map, data, is_quantized,
                     elements = static_cast<size_t>(entry.rows * entry.columns),
                     group = static_cast<size_t>(header.group_elements)] {
        return is_quantized ? read_groups(data, elements, group) : read_floats(data);
      };
      if (!entry.name.starts_with("freq_cis")) store.add(std::move(tensor));  // theta says it all
    }
  }
  return store;
}

TransformerSpec read_llama2c(const Llama2cHeader& header, const TensorStore& store) {
  TransformerSpec spec = decoder_spec();
  spec.architecture = "llama";
  spec.vocab_size = static_cast<uint32_t>(header.vocab_size);
  spec.model_dim = static_cast<uint32_t>(header.model_dim);
  spec.heads = static_cast<uint32_t>(header.heads);
  spec.kv_heads = static_cast<uint32_t>(header.kv_heads);
  spec.head_dim = static_cast<uint32_t>(header.head_dim());
  spec.ffn_dim = static_cast<uint32_t>(header.ffn_dim);
  spec.positions_max = static_cast<uint32_t>(header.positions);
  spec.activation = Activation::kSilu;
  spec.rope = plain_rope(spec.head_dim, kTheta, quote(store.source()));
  spec.rope->turns_neighbours = true;

  ModelTensors tensors(store);
  spec.token_embedding = tensors.matrix("tok_embeddings.weight", spec.vocab_size, spec.model_dim);
  read_layers(tensors, spec, kMetaLlama, kSettings, "layers.",
              static_cast<uint32_t>(header.layers));
  spec.final_norm = read_norm(tensors, kMetaLlama, kSettings, "norm", spec.model_dim);
  if (!header.is_tied) {
    spec.output = tensors.linear("output", spec.vocab_size, spec.model_dim, Presence::kNone);
  }
  tensors.finish();
  return spec;
}

}  // namespace arenite::convert
