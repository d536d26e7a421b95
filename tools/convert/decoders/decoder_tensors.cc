// SPDX-License-Identifier: Apache-2.0
// Checks names, shapes, types and values of a decoder's tensors.
#include "convert/decoders/decoder_tensors.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "convert/decoders/weight_transforms.h"
#include "convert/error.h"

namespace arenite::convert {
namespace {

constexpr size_t kMissingListed = 30;

// Buffers that modules register beside their weights, by the end of their names.
struct Buffer {
  std::string_view suffix;
  bool is_causal_mask;  // to be checked; the others can be computed from the config
};
constexpr Buffer kBuffers[] = {
    {".attn.bias", true},               // GPT-2 and nanoGPT
    {".attn.mask", true},               // minGPT
    {".attention.bias", true},          // GPT-NeoX
    {".attn.masked_bias", false},       // GPT-2: what masked scores are set to
    {".attention.masked_bias", false},  // GPT-NeoX
    {".rotary_emb.inv_freq", false},    // Llama and GPT-NeoX
};

// The values of `tensor`, which are to be weights.
std::vector<float> load_weights(const StoredTensor& tensor) {
  std::vector<float> values = tensor.load();
  const auto bad = std::find_if_not(values.begin(), values.end(),
                                    [](float value) { return std::isfinite(value); });
  if (bad != values.end()) {
    throw InputError("{}: {} has the value {} at index {}: expected finite weights",
                     quote(tensor.file), quote(tensor.name), *bad, bad - values.begin());
  }
  return values;
}

// Throws InputError unless `tensor` is [1, 1, n, n] with ones exactly where key <= query.
void check_causal(const StoredTensor& tensor) {
  const size_t rank = tensor.shape.size();
  const uint64_t side = rank == 0 ? 0 : tensor.shape[rank - 1];
  const bool is_square = rank >= 2 && tensor.shape[rank - 2] == side &&
                         std::all_of(tensor.shape.begin(), tensor.shape.end() - 2,
                                     [](uint64_t extent) { return extent == 1; });
  if (!is_square) {
    throw InputError("{}: mask {} has shape {}: expected [1, 1, n, n]", quote(tensor.file),
                     quote(tensor.name), shape_text(tensor.shape));
  }
  const std::vector<float> values = tensor.load();
  for (size_t i = 0; i < values.size(); ++i) {
    const float expected = i % side <= i / side ? 1.0f : 0.0f;
    if (values[i] == expected) continue;
    throw InputError(
        "{}: mask {} is {} for query {} and key {}: expected a causal mask, 1 for keys up to the "
        "query and 0 behind it; decoders with other masks are not read",
        quote(tensor.file), quote(tensor.name), values[i], i / side, i % side);
  }
}

// `shape` without ones in front, as far as it has more than `rank` dimensions.
std::vector<uint64_t> squeezed(std::vector<uint64_t> shape, size_t rank) {
  while (shape.size() > rank && shape[0] == 1) shape.erase(shape.begin());
  return shape;
}

}  // namespace

DecoderTensors::Shape DecoderTensors::shape_of(const std::string& name) const {
  const StoredTensor* tensor = store_.find(name);
  if (tensor == nullptr) {
    throw InputError("{}: tensor {} is missing; the file has:\n{}", quote(source()), quote(name),
                     list_tensors(store_.tensors()));
  }
  const std::vector<uint64_t> shape = squeezed(tensor->shape, 2);
  if (shape.size() != 2 || shape[0] == 0 || shape[0] > kSideMax || shape[1] == 0 ||
      shape[1] > kSideMax) {
    throw InputError("{}: {} has shape {}: expected a matrix with sides of 1 to {}",
                     quote(tensor->file), quote(name), shape_text(tensor->shape), kSideMax);
  }
  return {static_cast<uint32_t>(shape[0]), static_cast<uint32_t>(shape[1])};
}

const StoredTensor* DecoderTensors::take(const std::string& name,
                                         const std::vector<uint64_t>& shape, Presence presence) {
  if (presence == Presence::kNone) return nullptr;
  const StoredTensor* tensor = store_.find(name);
  if (tensor == nullptr) {
    if (presence == Presence::kRequired) {
      missing_.push_back(fmt::format("{} {}", quote(name), shape_text(shape)));
    }
    return nullptr;
  }
  taken_.insert(name);
  if (squeezed(tensor->shape, shape.size()) != shape) {
    throw InputError("{}: {} has shape {}: expected {}", quote(tensor->file), quote(name),
                     shape_text(tensor->shape), shape_text(shape));
  }
  if (!tensor->is_real) {
    throw InputError("{}: {} is of type {}: expected floating-point weights", quote(tensor->file),
                     quote(name), tensor->type);
  }
  return tensor;
}

WeightRef DecoderTensors::matrix(const std::string& name, uint32_t rows, uint32_t columns) {
  const StoredTensor* tensor = take(name, {rows, columns}, Presence::kRequired);
  WeightRef weight{.name = name, .rows = rows, .columns = columns, .load = {}};
  if (tensor != nullptr) weight.load = [stored = *tensor] { return load_weights(stored); };
  return weight;
}

std::vector<float> DecoderTensors::vector(const std::string& name, uint32_t elements,
                                          Presence presence) {
  const StoredTensor* tensor = take(name, {elements}, presence);
  return tensor == nullptr ? std::vector<float>() : load_weights(*tensor);
}

LinearSpec DecoderTensors::linear(const std::string& name, uint32_t outputs, uint32_t inputs,
                                  Presence bias) {
  return {matrix(name + ".weight", outputs, inputs), vector(name + ".bias", outputs, bias)};
}

LinearSpec DecoderTensors::conv1d(const std::string& name, uint32_t outputs, uint32_t inputs,
                                  Presence bias) {
  return {transpose(matrix(name + ".weight", inputs, outputs)),
          vector(name + ".bias", outputs, bias)};
}

NormSpec DecoderTensors::layer_norm(const std::string& name, uint32_t features, double epsilon,
                                    Presence bias) {
  return {.name = name + ".weight",
          .kind = NormKind::kLayer,
          .gain = vector(name + ".weight", features),
          .bias = vector(name + ".bias", features, bias),
          .epsilon = epsilon};
}

NormSpec DecoderTensors::rms_norm(const std::string& name, uint32_t features, double epsilon) {
  return {.name = name + ".weight",
          .kind = NormKind::kRms,
          .gain = vector(name + ".weight", features),
          .bias = {},
          .epsilon = epsilon};
}

WeightRef DecoderTensors::tied_embedding(const std::string& embedding, const std::string& head,
                                         uint32_t rows, uint32_t columns) {
  if (!has(head)) return matrix(embedding, rows, columns);
  if (!has(embedding)) return matrix(head, rows, columns);
  WeightRef weight = matrix(embedding, rows, columns);
  if (weight.load() != matrix(head, rows, columns).load()) {
    throw InputError(
        "{}: {} and {} differ, though the model ties them: expected equal tensors, or "
        "tie_word_embeddings false in the config",
        quote(source()), quote(embedding), quote(head));
  }
  return weight;
}

bool DecoderTensors::is_known_buffer(const StoredTensor& tensor) const {
  for (const Buffer& buffer : kBuffers) {
    if (!tensor.name.ends_with(buffer.suffix)) continue;
    if (buffer.is_causal_mask) check_causal(tensor);
    return true;
  }
  return false;
}

void DecoderTensors::finish() {
  std::vector<StoredTensor> unknown;
  for (const StoredTensor& tensor : store_.tensors()) {
    if (!taken_.contains(tensor.name) && !is_known_buffer(tensor)) unknown.push_back(tensor);
  }
  if (missing_.empty() && unknown.empty()) return;
  std::string problem;
  if (!missing_.empty()) {
    const size_t listed = std::min(missing_.size(), kMissingListed);
    problem = fmt::format(
        "{} tensors are missing:\n  {}{}", missing_.size(),
        fmt::join(missing_.begin(), missing_.begin() + static_cast<ptrdiff_t>(listed), "\n  "),
        listed < missing_.size() ? "\n  ..." : "");
  }
  if (!unknown.empty()) {
    problem += fmt::format("{}{} tensors have no place in this model:\n{}",
                           problem.empty() ? "" : "\nand ", unknown.size(), list_tensors(unknown));
  }
  throw InputError("{}: {}", quote(source()), problem);
}

}  // namespace arenite::convert
