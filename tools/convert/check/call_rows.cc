// SPDX-License-Identifier: Apache-2.0
#include "convert/check/call_rows.h"

#include <fmt/format.h>

#include <stdexcept>

#include "convert/program/program.h"
#include "format/schema.h"
#include "session/session_state.h"

namespace arenite::convert {

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

}  // namespace arenite::convert
