// SPDX-License-Identifier: Apache-2.0
// The normal form of a value: the row and the columns of nodes that each of its rows reads.
// Patterns of heads, windows, interleaved rows and concatenations match only this form.
//
//   q.view(1, 3, 2, 4).transpose(1, 2), [1, 2, 3, 4] over node A [3, 8]
//     ->  kinds A0 .. A3 and A4 .. A7, rows 0 1 2 0 1 2, of the kinds 0 0 0 1 1 1
//     ->  heads (sequence 0, head 0) and (sequence 0, head 1)
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "convert/exported/recover/graph_builder.h"

namespace arenite::convert {

// The elements of one row: columns of a token's row, of the per-sequence row of its sequence, or of
// both. `row` is the token's row if there is one.
struct SourceRow {
  uint32_t row = 0;
  std::vector<Column> columns;
};
// Reads `width` elements from index `begin` on. Returns nullopt if they include constants or mix
// rows.
std::optional<SourceRow> producer_row(const GraphBuilder& builder, const LinearExpr& value,
                                      size_t begin, size_t width);

// Row i of a value [.., columns] has the columns kinds[kind[i]] of row row[i] of their nodes.
struct RowLayout {
  static constexpr uint32_t kZeros = UINT32_MAX;  // in `row`: a zero row, whose kind has no meaning

  std::vector<std::vector<Column>> kinds;  // distinct, in order of appearance
  std::vector<uint32_t> kind, row;

  size_t rows() const { return row.size(); }
  bool has_zeros() const { return std::ranges::count(row, kZeros) != 0; }
  // Whether rows begin .. begin + count - 1 have one kind, and are consecutive rows of the nodes.
  bool is_run(size_t begin, size_t count) const;
};
// Returns nullopt if a row includes constants, or mixes tokens, or elements with zeros. REQUIRES:
// at least one element.
std::optional<RowLayout> row_layout(const GraphBuilder& builder, const LinearExpr& value);
// Whether all columns belong to producers with per-sequence rows.
bool are_per_sequence(const GraphBuilder& builder, const std::vector<Column>& columns);

using HeadPlace = std::pair<uint32_t, uint32_t>;  // (sequence, head)

// Maps each leading index of a value [.., rows, columns] to (sequence, head).
struct HeadOrder {
  std::vector<HeadPlace> order{};
  uint32_t count = 0;  // heads per sequence
  std::map<uint32_t, uint32_t> of_sequences{};

  // Adds a leading index whose rows belong to `sequence`, and returns its head.
  uint32_t add(uint32_t sequence);
  bool are_complete(uint32_t sequences) const { return order.size() == size_t{count} * sequences; }

  friend bool operator==(const HeadOrder&, const HeadOrder&) = default;
};

// A value [.., rows, columns] in which each leading index is a head of a sequence. A head has all
// rows of the current row axis in order, or the per-sequence row.
struct HeadRows {
  HeadOrder heads;
  std::vector<std::vector<Column>> columns;  // [heads]
  bool are_pooled = false;                   // heads have per-sequence rows
  std::string_view why;                      // why the value has no heads; else empty
};
HeadRows head_rows(const GraphBuilder& builder, const LinearExpr& value);

}  // namespace arenite::convert
