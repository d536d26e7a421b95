// SPDX-License-Identifier: Apache-2.0
// Rows of constants that a program puts before those of each sequence's tokens, by whatever op.
#include <algorithm>

#include "convert/exported/graph_builder.h"

namespace arenite::convert {

// What a value has before the rows of each sequence's tokens, the same in all sequences.
struct GraphBuilder::Prefix {
  uint32_t rows = 0;                           // of each sequence, before its tokens
  std::vector<std::vector<double>> constants;  // [rows, width], or none
  std::vector<uint32_t> node_rows;             // [rows]: of the node, where it is no constant
  std::vector<Column> columns;                 // of the rows that are no constants
  std::string name;                            // of the constants
};

namespace {

enum class RowKind { kConstants, kNode, kMixed };

template <typename IsTable>
RowKind kind_of(const Places& places, size_t begin, size_t width, const IsTable& is_table) {
  size_t constants = 0;
  for (size_t i = begin; i < begin + width; ++i) {
    const int64_t number = places.at(i);
    constants += number == kNoElement || is_table(number) ? 1 : 0;
  }
  if (constants == 0) return RowKind::kNode;
  return constants == width ? RowKind::kConstants : RowKind::kMixed;
}

}  // namespace

bool GraphBuilder::has_all_tokens(const std::vector<uint32_t>& rows) const {
  if (sizes_.prefix == 0) return false;
  size_t next = 0;
  for (uint32_t row = 0; row < sizes_.rows(); ++row) {
    if (next < rows.size() && rows[next] == row) {
      ++next;
    } else if (!is_of_prefix(row)) {
      return false;
    }
  }
  return next == rows.size();
}

// False for a value that is anything else.
bool GraphBuilder::read_prefix(const AffineRef& value, Prefix& prefix) const {
  const Places& places = value->terms[0].places;
  const auto width = static_cast<size_t>(value->shape.back());
  const size_t rows = value->elements() / width;
  const size_t tokens = sizes_.tokens - sizes_.prefix;
  if (rows % sizes_.sequences != 0 || rows / sizes_.sequences <= tokens) return false;
  const size_t each = rows / sizes_.sequences;
  prefix.rows = static_cast<uint32_t>(each - tokens);
  const auto is_table = [&](int64_t number) { return source(number).kind == Source::Kind::kTable; };
  ConstantRef read;
  Array::Reals values;  // of what was read last
  for (size_t row = 0; row < rows; ++row) {
    const size_t place = row % each;
    const size_t begin = row * width;
    const RowKind kind = kind_of(places, begin, width, is_table);
    if (kind == RowKind::kMixed || (kind == RowKind::kConstants && place >= prefix.rows)) {
      return false;
    }
    std::vector<double> constants;
    uint32_t node_row = 0;
    if (kind == RowKind::kConstants) {
      for (size_t i = begin; i < begin + width; ++i) {
        const int64_t number = places.at(i);
        if (number == kNoElement) {
          constants.push_back(0.0);
          continue;
        }
        const ConstantRef& constant = source(number).table;
        if (constant != read) values = (read = constant)->array().to_reals();
        constants.push_back(values.at(static_cast<size_t>(index_of(number))));
      }
    } else {
      for (size_t i = begin; i < begin + width; ++i) {
        const int64_t number = places.at(i);
        if (source(number).kind != Source::Kind::kNode || source(number).rows != sizes_.rows()) {
          return false;
        }
        if (prefix.columns.size() < width) prefix.columns.push_back(column_of(number));
        if (i == begin) node_row = row_of(number);
        if (row_of(number) != node_row || column_of(number) != prefix.columns[i - begin]) {
          return false;
        }
      }
      const size_t first = row / each * sizes_.tokens;
      if (node_row < first || node_row >= first + sizes_.tokens) return false;
      node_row -= static_cast<uint32_t>(first);
      if (place >= prefix.rows && node_row != sizes_.prefix + place - prefix.rows) return false;
    }
    if (place >= prefix.rows) continue;
    if (row < each) {
      prefix.constants.push_back(std::move(constants));
      prefix.node_rows.push_back(node_row);
    } else if (prefix.constants[place] != constants || prefix.node_rows[place] != node_row) {
      return false;
    }
  }
  if (read) prefix.name = program_->values[read->value()].name;
  return !prefix.columns.empty();
}

AffineRef GraphBuilder::prefixed(const AffineRef& value) {
  if (!value->is_plain() || value->terms[0].places.is_whole() || value->shape.empty() ||
      value->elements() == 0) {
    return nullptr;
  }
  Prefix prefix;
  if (!read_prefix(value, prefix)) return nullptr;
  const auto is_constant = [](const std::vector<double>& row) { return !row.empty(); };
  if (std::ranges::none_of(prefix.constants, is_constant)) return nullptr;
  if (prefix.rows > sizes_.prefix) throw PrefixFound{prefix.rows};
  // Where more rows will be put later, these are the first or the last.
  const uint32_t first = sizes_.puts_last_first ? sizes_.prefix - prefix.rows : 0;
  for (uint32_t i = 0; i < prefix.rows; ++i) {
    if (!is_constant(prefix.constants[i]) && prefix.node_rows[i] != first + i) {
      throw NotRecognised("it puts rows of constants between those that were put before");
    }
  }
  const auto width = static_cast<uint32_t>(value->shape.back());
  ValueId node = gather(prefix.columns);
  for (uint32_t i = 0; i < prefix.rows; ++i) {
    if (!is_constant(prefix.constants[i])) continue;
    std::vector<double> rows;
    const uint32_t begin = i;
    for (; i < prefix.rows && is_constant(prefix.constants[i]); ++i) {
      rows.insert(rows.end(), prefix.constants[i].begin(), prefix.constants[i].end());
    }
    PrefixNode body;
    body.first_row = first + begin;
    body.rows.name = prefix.name.empty() ? name_ : prefix.name;
    body.rows.rows = i - begin;
    body.rows.columns = width;
    body.rows.load_f64 = [rows] { return rows; };
    body.rows.load = [rows] { return std::vector<float>(rows.begin(), rows.end()); };
    node = graph_.add(name_, body, {node});
  }
  const uint32_t to = source_of_node(node, sizes_.rows());
  if (prefix.rows == sizes_.prefix) return whole_source(to, value->shape);
  std::vector<int64_t> numbers;
  for (uint32_t row = 0; row < sizes_.rows(); ++row) {
    const uint32_t place = row % sizes_.tokens;
    if (place < sizes_.prefix && (place < first || place >= first + prefix.rows)) continue;
    for (uint32_t c = 0; c < width; ++c) {
      numbers.push_back(int64_t{to} * kSourceElements + int64_t{row} * width + c);
    }
  }
  return plain(value->shape, std::move(numbers));
}

}  // namespace arenite::convert
