// SPDX-License-Identifier: Apache-2.0
// What a person may say about an encoder that its file does not.
#pragma once

#include <cstdint>
#include <optional>

#include "convert/models/layer_parts.h"

namespace arenite::convert {

// kPooler: the first token, then a linear layer and tanh, whose weights the model must have.
enum class PoolingChoice { kNone, kFirst, kPooler, kMean };

const char* name(PoolingChoice choice);  // as options and configs write it: "pooler"

// Where the file says it, they must agree. Unsaid: what the file says, or what PyTorch's own
// modules do by default.
struct EncoderOptions {
  uint32_t heads = 0;  // 0: not said
  std::optional<Activation> activation{};
  std::optional<bool> norm_first{};
  std::optional<PoolingChoice> pooling{};
};

}  // namespace arenite::convert
