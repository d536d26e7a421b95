// SPDX-License-Identifier: Apache-2.0
// The .bin files of llama2.c, the legacy form and versions 1 and 2, and the one kind of model that
// they hold.
// Source: export.py and run.c of that project.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "convert/files/checkpoint.h"
#include "convert/files/memory.h"
#include "convert/spec/model_spec.h"

namespace arenite::convert {

struct Llama2cHeader {
  uint32_t version = 0;  // 0: legacy
  uint64_t bytes = 0;    // before the first tensor
  int64_t model_dim = 0, ffn_dim = 0, layers = 0, heads = 0, kv_heads = 0, vocab_size = 0,
          positions = 0;
  bool is_tied = false;
  int64_t group_elements = 0;  // of version 2: elements that share a scale

  uint64_t head_dim() const { return static_cast<uint64_t>(model_dim / heads); }
};

// Whether `file`, the bytes of a whole file, begins like one: with the magic number or, as the
// legacy form has none, with seven sizes that go together, which no other format's first bytes do.
bool is_llama2c(std::span<const std::byte> file);

// Throws InputError, also where the sizes in the header and the size of the file differ. `name` is
// the file's, in quotes.
Llama2cHeader read_llama2c_header(std::span<const std::byte> file, const std::string& name);

// All tensors, by the names of Llama's own checkpoints, but those of angles, which theta says.
// REQUIRES: `header` was read from the file that `map` holds.
TensorStore llama2c_tensors(const Llama2cHeader& header, const std::shared_ptr<const FileMap>& map,
                            const std::string& file_name);

// The Llama model whose tensors are in `store`, of llama2c_tensors.
TransformerSpec read_llama2c(const Llama2cHeader& header, const TensorStore& store);

}  // namespace arenite::convert
