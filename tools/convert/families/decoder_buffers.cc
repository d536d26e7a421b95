// SPDX-License-Identifier: Apache-2.0
// A table of the names that are known.
#include "convert/families/decoder_buffers.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "convert/files/error.h"

namespace arenite::convert {
namespace {

// Masks are to be checked; the others can be computed from the config.
struct Buffer {
  std::string_view suffix;
  enum Kind { kOnesShow, kOnesHide, kOther } kind;
};
constexpr Buffer kBuffers[] = {
    {".attn.bias", Buffer::kOnesShow},           // GPT-2 and nanoGPT
    {".attn.mask", Buffer::kOnesShow},           // minGPT
    {".att.mask", Buffer::kOnesHide},            // GPTModel
    {".attention.bias", Buffer::kOnesShow},      // GPT-NeoX
    {".attn.masked_bias", Buffer::kOther},       // GPT-2: what masked scores are set to
    {".attention.masked_bias", Buffer::kOther},  // GPT-NeoX
    {".rotary_emb.inv_freq", Buffer::kOther},    // Llama and GPT-NeoX
};

// Throws InputError unless `tensor` is [1, 1, n, n] with `shown` exactly where key <= query, and
// the other one of 0 and 1 elsewhere.
void check_causal(const StoredTensor& tensor, float shown) {
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
    const float expected = i % side <= i / side ? shown : 1.0f - shown;
    if (values[i] == expected) continue;
    throw InputError(
        "{}: mask {} is {} for query {} and key {}: expected a causal mask, {} for keys up to the "
        "query and {} for later ones; decoders with other masks are not read",
        quote(tensor.file), quote(tensor.name), values[i], i / side, i % side, shown, 1.0f - shown);
  }
}

const Buffer* buffer_of(const StoredTensor& tensor) {
  for (const Buffer& buffer : kBuffers) {
    if (tensor.name.ends_with(buffer.suffix)) return &buffer;
  }
  return nullptr;
}

}  // namespace

std::string causal_buffer(const ModelTensors& tensors) {
  for (const StoredTensor& tensor : tensors.stored()) {
    const Buffer* buffer = buffer_of(tensor);
    if (buffer == nullptr || buffer->kind == Buffer::kOther) continue;
    check_causal(tensor, buffer->kind == Buffer::kOnesShow ? 1.0f : 0.0f);
    return tensor.name;
  }
  return {};
}

void pass_over_buffers(ModelTensors& tensors) {
  for (const StoredTensor& tensor : tensors.stored()) {
    const Buffer* buffer = buffer_of(tensor);
    if (buffer == nullptr) continue;
    if (buffer->kind != Buffer::kOther) {
      check_causal(tensor, buffer->kind == Buffer::kOnesShow ? 1.0f : 0.0f);
    }
    tensors.pass_over(tensor.name);
  }
}

}  // namespace arenite::convert
