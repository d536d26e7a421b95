// SPDX-License-Identifier: Apache-2.0
// What calls of a session give out: the one way in which the tools read an Output, since numbers
// beyond its rows are memory that nothing wrote.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "arenite/session.h"
#include "format/reader.h"

namespace arenite::convert {

// Whether a session chooses which rows a call gives, its last ones or all.
bool leaves_rows_open(const format::ModelReader& reader);

// What the arrays of a model's author are like, of ArrayFlag, and which rows these have.
uint32_t array_flags(std::span<const std::byte> file);
Outputs authors_outputs(std::span<const std::byte> file);

// Whether a call gives one row for each sequence, not one for each token.
bool has_row_of_sequence(std::span<const std::byte> file, Outputs outputs);

// Rows that a call gives for a sequence of which it gets `tokens`; with `begins` the first ones,
// before which rows of a prefix come.
uint64_t rows_given(const Model& model, Outputs outputs, uint64_t tokens, bool begins);

// A copy of what a call gave.
class CallRows {
 public:
  CallRows() = default;
  // Throws std::logic_error unless the output has so many rows, each as wide as the model says.
  CallRows(const arenite::Output& output, const Model& model, uint64_t rows);

  size_t size() const { return features_ == 0 ? 0 : values_.size() / features_; }
  const std::vector<float>& values() const { return values_; }  // [size(), features]
  // The same from row `first` on. REQUIRES: first + count <= size().
  std::span<float> rows(size_t first, size_t count);
  std::span<float> operator[](size_t row) { return rows(row, 1); }

 private:
  size_t features_ = 0;
  std::vector<float> values_;
};

}  // namespace arenite::convert
