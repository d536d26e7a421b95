// SPDX-License-Identifier: Apache-2.0
// A table of the names that are known.
#include "convert/decoders/decoder_buffers.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "convert/error.h"

namespace arenite::convert {
namespace {

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

}  // namespace

void pass_over_buffers(ModelTensors& tensors) {
  for (const StoredTensor& tensor : tensors.stored()) {
    for (const Buffer& buffer : kBuffers) {
      if (!tensor.name.ends_with(buffer.suffix)) continue;
      if (buffer.is_causal_mask) check_causal(tensor);
      tensors.pass_over(tensor.name);
    }
  }
}

}  // namespace arenite::convert
