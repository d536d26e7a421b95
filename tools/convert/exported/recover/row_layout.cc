// SPDX-License-Identifier: Apache-2.0
// Finds the rows of nodes, and the heads, that values read.
//
//   x[:, 1:] [1, 2, 8] over node A [3, 8]  ->  one kind, rows 1 2
//   F.pad(x, (0, 0, 1, 0))                 ->  one kind, rows kZeros 0 1 2
#include "convert/exported/recover/row_layout.h"

#include <algorithm>

namespace arenite::convert {

std::optional<SourceRow> producer_row(const GraphBuilder& builder, const LinearExpr& value,
                                      size_t begin, size_t width) {
  std::optional<uint32_t> token, sequence;
  SourceRow row;
  row.columns.reserve(width);
  for (size_t i = begin; i < begin + width; ++i) {
    const int64_t number = value.at(i);
    if (number == kNoElement || builder.producer(number).kind == Producer::Kind::kTable) return {};
    const uint32_t found = builder.row_of(number);
    std::optional<uint32_t>& known = builder.is_per_sequence(number) ? sequence : token;
    if (known.value_or(found) != found) return {};
    known = found;
    row.columns.push_back(builder.column_of(number));
  }
  if (token && sequence && *token / builder.sizes.tokens != *sequence) return {};
  row.row = token ? *token : sequence.value_or(0);
  return row;
}

bool RowLayout::is_run(size_t begin, size_t count) const {
  for (size_t i = begin; i < begin + count; ++i) {
    if (kind[i] != kind[begin] || row[i] == kZeros || row[i] != row[begin] + (i - begin)) {
      return false;
    }
  }
  return true;
}

std::optional<RowLayout> row_layout(const GraphBuilder& builder, const LinearExpr& value) {
  const auto width = static_cast<size_t>(value.shape.back());
  RowLayout layout;
  std::map<std::vector<Column>, uint32_t> known;
  for (size_t i = 0, count = value.elements(); i < count; i += width) {
    const uint32_t before = layout.kind.empty() ? 0 : layout.kind.back();
    bool is_zero = true;
    for (size_t c = i; c < i + width && is_zero; ++c) is_zero = value.at(c) == kNoElement;
    if (is_zero) {
      layout.row.push_back(RowLayout::kZeros);
      layout.kind.push_back(before);
      continue;
    }
    auto found = producer_row(builder, value, i, width);
    if (!found) return std::nullopt;
    layout.row.push_back(found->row);
    if (before < layout.kinds.size() && layout.kinds[before] == found->columns) {
      layout.kind.push_back(before);
      continue;
    }
    const auto next = static_cast<uint32_t>(layout.kinds.size());
    const auto [own, is_new] = known.try_emplace(found->columns, next);
    if (is_new) layout.kinds.push_back(std::move(found->columns));
    layout.kind.push_back(own->second);
  }
  return layout;
}

bool are_per_sequence(const GraphBuilder& builder, const std::vector<Column>& columns) {
  return std::ranges::all_of(columns, [&](const Column& column) {
    return builder.is_per_sequence(builder.producer_at(column.first));
  });
}

uint32_t HeadOrder::add(uint32_t sequence) {
  const uint32_t head = of_sequences[sequence]++;
  order.emplace_back(sequence, head);
  count = std::max(count, head + 1);
  return head;
}

HeadRows head_rows(const GraphBuilder& builder, const LinearExpr& value) {
  const auto rows = static_cast<size_t>(value.shape[value.shape.size() - 2]);
  HeadRows found;
  const auto layout = row_layout(builder, value);
  if (layout && layout->has_zeros()) {
    found.why = "a head contains zero rows; expected columns of each token";
    return found;
  }
  for (size_t begin = 0; layout && begin < layout->rows(); begin += rows) {
    const std::vector<Column>& columns = layout->kinds[layout->kind[begin]];
    found.are_pooled = are_per_sequence(builder, columns);
    const auto& last = layout->kinds[layout->kind[begin + rows - 1]];
    if (found.are_pooled != are_per_sequence(builder, last)) {
      found.why = kPooledAmongTokens;
      return found;
    }
    const uint32_t places = found.are_pooled ? 1 : builder.sizes.tokens;
    if (rows != places || layout->row[begin] % places != 0 || !layout->is_run(begin, rows)) break;
    const uint32_t head = found.heads.add(layout->row[begin] / places);
    if (head == found.columns.size()) found.columns.push_back(columns);
    if (found.columns[head] != columns) {
      found.why =
          "heads read different columns in different sequences; expected the same columns for all";
      return found;
    }
  }
  if (!layout || found.heads.order.size() * rows != layout->rows()) {
    found.why =
        "a row of a head mixes elements of several tokens; expected columns of one token in each "
        "row";
  }
  return found;
}

}  // namespace arenite::convert
