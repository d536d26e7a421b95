// SPDX-License-Identifier: Apache-2.0
// What reference forward passes are made of, in double precision and as in a textbook: loops over
// rows, no blocking, nothing folded.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "convert/families/layer_parts.h"

namespace arenite::convert::reference {

using Rows = std::vector<double>;  // [tokens, width], row-major

// x weight^T + bias. Reads the weight.
Rows linear(const LinearSpec& spec, const Rows& x);

// Normalises each run of gain.size() elements: a token's row, or one head of it.
Rows norm(const NormSpec& spec, Rows x);

double activate(Activation activation, double x, double parameter = 0.0);

void add(Rows& x, const Rows& y);  // x += y

struct Qkv {
  Rows query;       // [tokens, heads * head_dim]
  Rows key, value;  // [tokens, kv_heads * head_dim]
};

struct HeadCounts {
  size_t heads, kv_heads, head_dim;
  std::optional<double> score_scale = {};  // absent: 1/sqrt(head_dim)
};

// The keys [begin, end) that a query sees.
struct KeyRange {
  size_t begin, end;
};

// softmax(score_scale q k^T) v of each head: [tokens, heads * head_dim].
Rows attention(const Qkv& qkv, const HeadCounts& counts,
               const std::function<KeyRange(size_t row)>& seen_by);

}  // namespace arenite::convert::reference
