// SPDX-License-Identifier: Apache-2.0
// Makes tokens to feed, as ids or as features, in each form that a batch may have.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "arenite/session.h"
#include "fuzz/choices.h"

namespace arenite::test {

// An input of a model, and the sizes that its session has.
struct FedInput {
  const Model& model;
  const SessionOptions& options;
  uint32_t input = 0;

  InputSizes sizes() const;
};

struct MadeBatch {
  bool reads_ids = false;
  size_t width = 1;              // values of each token: 1 id, or so many features
  std::span<const TokenId> ids;  // one of these two
  std::span<const float> features;
  uint32_t sequences = 1;
  uint32_t tokens = 0;
  std::vector<uint32_t> lengths;
  std::vector<uint8_t> visible;
  std::vector<uint8_t> types;
  std::vector<uint8_t> outputs;
  bool back_to_back = false;

  // Converts the batch to an input of a function that is called by its number.
  Input as_input() const;
  Result<Output> run(Session& session, Diagnostic* why) const;
  Result<Output> step(Session& session, Diagnostic* why) const;
  Status begin(Session& session, bool is_run, Diagnostic* why) const;

  // Tokens [begin, end) of the values, as one sequence. REQUIRES: types are empty.
  MadeBatch part(uint32_t begin, uint32_t end) const;
  uint32_t length(uint32_t sequence) const { return lengths.empty() ? tokens : lengths[sequence]; }

 private:
  Batch of_features() const;
  TokenBatch of_ids() const;
};

// The values lie in guarded memory until the next batch of that input is made.
// Any form that a batch may have, and now and then an unsound one.
MadeBatch any_batch(const FedInput& fed, uint32_t sequences, Choices& choices);

// Makes back-to-back sequences of at least one token. With probability 1 / `wild_one_in`, a feature
// of the batch is infinite, NaN or huge; 0: never.
MadeBatch sound_batch(const FedInput& fed, uint32_t sequences, uint32_t wild_one_in,
                      Choices& choices);

}  // namespace arenite::test
