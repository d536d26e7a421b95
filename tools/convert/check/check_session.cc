// SPDX-License-Identifier: Apache-2.0
// The real runtime, in an arena on the heap of the converter.
#include "convert/check/check_session.h"

#include <fmt/format.h>
#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "convert/files/error.h"
#include "convert/program/program.h"
#include "format/schema.h"
#include "session/session_state.h"

namespace arenite::convert {
namespace {

uint64_t next(uint64_t state) { return state * 6364136223846793005u + 1442695040888963407u; }

SessionOptions options_of(uint32_t positions, Outputs outputs, KvType kv_cache) {
  SessionOptions options;
  options.positions_max = positions;
  options.outputs = outputs;
  options.kv_cache = kv_cache;
  return options;
}

Model load(const AlignedBytes& file, const LoadOptions& options) {
  Diagnostic why;
  const Result<Model> model = Model::load(file.span(), &why, options);
  if (!model.ok()) fail_as_bug("load", model.status(), why);
  return *model;
}

}  // namespace

void fail_as_bug(const char* what, Status status, const Diagnostic& why) {
  char text[256];
  describe(status, why, text);
  throw std::logic_error(
      fmt::format("the converted model does not {}: {}; this is a bug", what, text));
}

Model load_converted(const AlignedBytes& file, Target target) {
  LoadOptions options;
  options.force_target = true;
  options.target = target;
  return load(file, options);
}

Model load_best(const AlignedBytes& file) { return load(file, {}); }

ConvertedSession::ConvertedSession(const Model& model, const SessionOptions& options) {
  Diagnostic why;
  const Result<ArenaPlan> plan = plan_arena(model, options, &why);
  if (!plan.ok()) fail_as_bug("plan", plan.status(), why);
  arena_ = AlignedBytes(plan->total_bytes);
  const Result<Session*> session = Session::create(model, options, arena_.span(), &why);
  if (!session.ok()) fail_as_bug("start", session.status(), why);
  session_ = *session;
}

bool leaves_rows_open(const format::ModelReader& reader) {
  return reader.slot(reader.output_slot()).per_output != 0 && !reader.pooled();
}

uint32_t array_flags(std::span<const std::byte> file) {
  return format::GetModel(file.data())->array_flags();
}

Outputs authors_outputs(std::span<const std::byte> file) {
  return (array_flags(file) & kLastRows) != 0 ? Outputs::kLast : Outputs::kAll;
}

bool has_row_of_sequence(std::span<const std::byte> file, Outputs outputs) {
  const format::ModelReader reader(file);
  const bool is_open = leaves_rows_open(reader);
  return reader.pooled() || (is_open && outputs == Outputs::kLast);
}

uint64_t rows_given(const Model& model, Outputs outputs, uint64_t tokens, bool begins) {
  if (tokens == 0) return 0;
  if (has_row_of_sequence(model.file(), outputs)) return 1;
  return tokens + (begins ? ModelAccess::reader(model).prefix_rows() : 0);
}

CallRows::CallRows(const Output& output, const Model& model, uint64_t rows)
    : features_(model.output_features()) {
  if (output.rows != rows || output.features != features_) {
    throw std::logic_error(fmt::format("a call gave [{}, {}] where [{}, {}] was expected",
                                       output.rows, output.features, rows, features_));
  }
  values_.assign(output.data, output.data + output.rows * features_);
}

std::span<float> CallRows::rows(size_t first, size_t count) {
  if (first > size() || count > size() - first) {
    throw std::logic_error(
        fmt::format("row {} of {} was asked for: this is a bug", first + count, size()));
  }
  return std::span(values_).subspan(first * features_, count * features_);
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

std::vector<float> CheckSession::run(const ModelInput& input, uint32_t index, uint32_t tokens) {
  session_->reset();
  Diagnostic why;
  const auto call = [&] {
    if (input.ids.empty()) {
      const size_t each = input.features.size() / input.sequences;
      const size_t given = tokens == input.tokens ? each : each / input.tokens * tokens;
      const auto features = std::span(input.features).subspan(index * each, given);
      return session_->run(Batch{features, 1, tokens, {}}, &why);
    }
    const size_t first = size_t{index} * input.tokens;
    TokenBatch batch{std::span(input.ids).subspan(first, tokens), 1, tokens};
    if (!input.types.empty()) batch.types = std::span(input.types).subspan(first, tokens);
    return session_->run(batch, &why);
  };
  return rows_of(call(), why, "run", tokens, true);
}

void CheckSession::step(const ModelInput& input, uint32_t token, std::span<const float> expected) {
  const bool begins = session_->positions() == 0;
  const size_t width = input.features.size() / input.tokens;
  Diagnostic why;
  const Result<Output> output =
      input.ids.empty()
          ? session_->step(std::span(input.features).subspan(token * width, width), &why)
          : session_->step(std::span(input.ids).subspan(token, 1), &why);
  const std::vector<float> found = rows_of(output, why, "step", 1, begins);
  if (!std::ranges::equal(std::as_bytes(std::span(found)), std::as_bytes(expected))) {
    throw std::logic_error("stepping differs from one pass: this is a bug");
  }
}

ModelInput input_to_check(uint32_t tokens, uint32_t vocab_size, uint32_t token_types,
                          size_t features) {
  ModelInput input = {.tokens = tokens};
  if (vocab_size == 0) {
    input.features = features_to_check(features);
  } else {
    input.ids = spread_tokens(tokens, vocab_size);
    input.types = types_to_check(tokens, token_types);
  }
  return input;
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
  refuse_if(most != 0 && rows - prefix > most,
            "with {} tokens a row of its mask sees nothing: expected --context {} or more", most,
            rows - prefix);
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
