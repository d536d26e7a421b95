// SPDX-License-Identifier: Apache-2.0
// Loads, plans, creates and runs; every failure becomes an exception.
#include "support/test_session.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace arenite::test {
namespace {

template <typename T>
T require(const Result<T>& result, const Diagnostic& why) {
  if (!result.ok()) throw std::runtime_error(describe(result.status(), why));
  return *result;
}

size_t planned_bytes(const Model& model, const SessionOptions& options) {
  Diagnostic why;
  return require(plan_arena(model, options, &why), why).total_bytes;
}

// Returns the results of a call, and checks the number of rows that rows_out predicts.
template <typename AnyBatch>
std::vector<float> give(Session& session, const AnyBatch& batch, bool is_run) {
  Diagnostic why;
  const uint32_t rows = require(session.rows_out(batch, is_run, &why), why);
  const Result<Output> output = is_run ? session.run(batch, &why) : session.step(batch, &why);
  if (require(output, why).rows != rows) throw std::runtime_error("rows_out says other rows");
  return values_of(output);
}

}  // namespace

std::string describe(Status status, const Diagnostic& why) {
  char text[512];
  return std::string(text, arenite::describe(status, why, text));
}

TestModel::TestModel(std::span<const std::byte> file, Target target, Guard guard)
    : memory_(file.size(), kModelAlignment, 0, guard) {
  std::memcpy(memory_.data(), file.data(), file.size());
  LoadOptions options;
  options.force_target = true;
  options.target = target;
  Diagnostic why;
  model_ = require(Model::load(memory_.span(), &why, options), why);
}

TestSession::TestSession(const Model& model, const SessionOptions& options, Guard guard,
                         uint8_t fill)
    : arena_(planned_bytes(model, options), kArenaAlignment, 0, guard),
      input_features_(model.input_features()) {
  Diagnostic why;
  std::memset(arena_.data(), fill, arena_.size());
  session_ = require(Session::create(model, options, arena_.span(), &why), why);
}

Batch TestSession::batch(std::span<const float> features, uint32_t sequences,
                         std::span<const uint32_t> lengths) const {
  const size_t rows = features.size() / input_features_;
  return {features, sequences, static_cast<uint32_t>(rows / sequences), lengths};
}

std::vector<float> TestSession::run(std::span<const float> features, uint32_t sequences,
                                    std::span<const uint32_t> lengths) const {
  return give(*session_, batch(features, sequences, lengths), true);
}

std::vector<float> TestSession::step(std::span<const float> features, uint32_t sequences,
                                     std::span<const uint32_t> lengths) const {
  return give(*session_, batch(features, sequences, lengths), false);
}

std::vector<float> TestSession::steps_of(uint32_t tokens, std::span<const float> features) const {
  std::vector<float> all;
  while (!features.empty()) {
    const size_t count = std::min(features.size(), size_t{tokens} * input_features_);
    const std::vector<float> part = step(features.first(count));
    all.insert(all.end(), part.begin(), part.end());
    features = features.subspan(count);
  }
  return all;
}

namespace {

TokenBatch token_batch(std::span<const TokenId> ids, uint32_t sequences,
                       std::span<const uint32_t> lengths) {
  return {ids, sequences, static_cast<uint32_t>(ids.size() / sequences), lengths};
}

}  // namespace

std::vector<float> TestSession::run(std::span<const TokenId> ids, uint32_t sequences,
                                    std::span<const uint32_t> lengths) const {
  return give(*session_, token_batch(ids, sequences, lengths), true);
}

std::vector<float> TestSession::step(std::span<const TokenId> ids, uint32_t sequences,
                                     std::span<const uint32_t> lengths) const {
  return give(*session_, token_batch(ids, sequences, lengths), false);
}

std::vector<float> TestSession::steps_of(uint32_t tokens, std::span<const TokenId> ids) const {
  std::vector<float> all;
  while (!ids.empty()) {
    const size_t count = std::min(ids.size(), size_t{tokens});
    const std::vector<float> part = step(ids.first(count));
    all.insert(all.end(), part.begin(), part.end());
    ids = ids.subspan(count);
  }
  return all;
}

std::vector<float> values_of(const Result<Output>& output, const Diagnostic& why) {
  const Output found = require(output, why);
  return {found.data, found.data + size_t{found.rows} * found.features};
}

SessionOptions options_for(uint32_t positions_max, uint32_t sequences_max) {
  SessionOptions options;
  options.positions_max = positions_max;
  options.sequences_max = sequences_max;
  return options;
}

}  // namespace arenite::test
