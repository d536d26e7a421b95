// SPDX-License-Identifier: Apache-2.0
// The real runtime, in an arena on the heap of the converter.
#include "convert/check/check_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "convert/check/call_rows.h"
#include "convert/files/error.h"

namespace arenite::convert {
namespace {

uint64_t next(uint64_t state) { return state * 6364136223846793005u + 1442695040888963407u; }

void require_same(const std::vector<float>& found, std::span<const float> expected) {
  const bool same = found.size() == expected.size() &&
                    std::memcmp(found.data(), expected.data(), expected.size_bytes()) == 0;
  if (!same) throw std::logic_error("stepping differs from one pass: this is a bug");
}

}  // namespace

static SessionOptions options_of(uint32_t positions, Outputs outputs, KvType kv_cache) {
  SessionOptions options;
  options.positions_max = positions;
  options.outputs = outputs;
  options.kv_cache = kv_cache;
  return options;
}

CheckSession::CheckSession(const AlignedBytes& file, Target target, uint32_t positions,
                           Outputs outputs, KvType kv_cache)
    : model_(load_converted(file, target)),
      outputs_(outputs),
      session_(model_, options_of(positions, outputs, kv_cache)) {}

std::vector<float> CheckSession::rows_of(const Result<Output>& output, const Diagnostic& why,
                                         const char* call, uint64_t tokens, bool begins) const {
  if (!output.ok()) fail_as_bug(call, output.status(), why);
  return CallRows(*output, model_, rows_given(model_, outputs_, tokens, begins)).values();
}

std::vector<float> CheckSession::run(const Batch& batch) {
  Diagnostic why;
  return rows_of(session_->run(batch, &why), why, "run", batch.tokens, true);
}

std::vector<float> CheckSession::run(const TokenBatch& batch) {
  Diagnostic why;
  return rows_of(session_->run(batch, &why), why, "run", batch.tokens, true);
}

void CheckSession::step(std::span<const float> features, std::span<const float> expected) {
  const bool begins = session_->positions() == 0;
  Diagnostic why;
  require_same(rows_of(session_->step(features, &why), why, "step", 1, begins), expected);
}

void CheckSession::step(TokenId id, std::span<const float> expected) {
  const bool begins = session_->positions() == 0;
  Diagnostic why;
  require_same(rows_of(session_->step(std::span(&id, 1), &why), why, "step", 1, begins), expected);
}

// Sums of uniforms.
std::vector<float> features_to_check(size_t count) {
  std::vector<float> features(count);
  uint64_t state = 0x9E3779B97F4A7C15u;
  for (float& feature : features) {
    double sum = -6.0;
    for (int i = 0; i < 12; ++i) {
      state = next(state);
      sum += static_cast<double>(state >> 40) / static_cast<double>(1u << 24);
    }
    feature = static_cast<float>(sum);
  }
  return features;
}

uint32_t token_count_for(uint32_t wanted, const Program& program) {
  const uint32_t most = program.positions_max;
  const uint32_t prefix = program.prefix_rows();
  uint32_t rows =
      prefix + std::max(program.tokens_min, most == 0 ? wanted : std::min(wanted, most));
  for (uint32_t before = 0; before != rows;) {
    before = rows;
    for (const CompiledMask& mask : program.masks) {
      const size_t masked = std::min<size_t>(rows, mask.row_begin.size());
      for (size_t row = 0; row < masked; ++row) rows = std::max(rows, mask.row_begin[row] + 1);
    }
  }
  if (most != 0 && rows - prefix > most) {
    throw InputError("with {} tokens a row of its mask sees nothing: expected --context {} or more",
                     most, rows - prefix);
  }
  return rows - prefix;
}

std::vector<uint8_t> types_to_check(uint32_t count, uint32_t token_types) {
  std::vector<uint8_t> types;
  for (uint32_t i = 0; i < count && token_types != 0; ++i) {
    types.push_back(token_types > 1 && i >= count / 2 ? 1 : 0);
  }
  return types;
}

std::vector<TokenId> spread_tokens(uint32_t count, uint32_t vocab_size) {
  std::vector<TokenId> tokens(count);
  uint64_t state = 1;
  for (TokenId& token : tokens) {
    state = next(state);
    token = static_cast<TokenId>((state >> 33) % vocab_size);
  }
  return tokens;
}

}  // namespace arenite::convert
