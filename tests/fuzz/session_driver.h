// SPDX-License-Identifier: Apache-2.0
// Calls a session in an order that the input chooses, and checks the promises of every call. Keeps
// all results, to compare them with those in an arena that held other bytes before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "arenite/session.h"
#include "fuzz/choices.h"
#include "fuzz/made_batch.h"

namespace arenite::test {

class SessionDriver {
 public:
  static constexpr size_t kArenaBytesMax = size_t{1} << 20;

  // The model and the choices must outlive it. The arena is full of `fill` before it is used.
  SessionDriver(const Model& model, Choices& choices, uint32_t fill = UINT32_MAX)
      : model_(model), choices_(choices), fill_(fill) {}

  // Plans and creates, with options that the input chooses. False if the model cannot serve them,
  // or needs more than kArenaBytesMax. An arena of a byte less must be refused.
  bool create();

  // A call, sound or not: what fails changes nothing. REQUIRES: create() was true, also below.
  void call();

  // Runs a batch in one pass, in pieces, in slices, and each sequence alone; the results must have
  // the same bits.
  void compare_ways();

  // Runs all functions in order on ordinary numbers and returns their results; empty if the session
  // has no room for them.
  std::vector<float> run_ordinary();
  const SessionOptions& options() const { return options_; }
  // Statuses, tokens held, and the bits of results and of hidden states; any NaN is the same.
  const std::vector<uint32_t>& given() const { return given_; }

  // Ends the process if anything was written beside the arena, where it lies now.
  void check_memory() const;

 private:
  void choose_options();
  void keep(std::span<const float> values);
  void keep(const Output& output);
  void keep(Status status, const Diagnostic& why);
  static void keep_state(void* driver, uint32_t index, const float* data, uint32_t rows,
                         uint32_t features);
  void run_or_step(bool is_run);
  bool has_functions() const { return model_.inputs() > 1 || model_.functions() > 1; }
  // One function by its number, at once or in slices.
  void call_function();
  void run_functions(std::vector<float>& all);
  void slices();
  void rewind();
  void copy();
  void self_test();
  void move();
  void expect_held(const std::vector<uint32_t>& held);
  // Positions of each sequence in the first input, then in the second, and so on.
  std::vector<uint32_t> held() const;
  std::vector<uint32_t> none_held() const;
  void append(const Output& output, std::vector<float>& all);
  bool in_slices(const MadeBatch& batch, std::vector<float>& all);
  bool alone(const MadeBatch& batch, std::vector<float>& all);
  bool in_pieces(const MadeBatch& batch, std::vector<float>& all);

  const Model& model_;
  Choices& choices_;
  const uint32_t fill_;
  std::vector<uint32_t> given_;
  SessionOptions options_;
  Session* session_ = nullptr;
  std::span<std::byte> arena_;
  bool is_moved_ = false;  // to the second of two places
};

// Whether all elements have the same bits, or both are NaN.
bool same_bits(std::span<const float> a, std::span<const float> b);

}  // namespace arenite::test
