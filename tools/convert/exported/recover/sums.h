// SPDX-License-Identifier: Apache-2.0
// Sums of elements times factors as nodes: scales, additions, tables of positions and rotations.
#pragma once

#include <optional>
#include <vector>

#include "convert/exported/recover/element_sum.h"
#include "convert/exported/recover/graph_builder.h"

namespace arenite::convert {
class SumBuilder {
 public:
  explicit SumBuilder(GraphBuilder& builder) : builder_(builder) {}

  // REQUIRES: not plain.
  ElementSumRef build(const ElementSumRef& value);

 private:
  // What one term adds to column c of each row.
  struct Summand {
    std::vector<Column> columns;  // [width]
    std::vector<double> factors;  // [width]
    bool is_embedding = false;
    ValueId node = 0;
  };

  bool split(const ElementSum& value);
  void choose_reference();
  Summand summand_of(const Term& term);
  void join_types(std::vector<Summand>& summands);
  ValueId node_of(const Summand& summand);
  ValueId scaled_columns(ValueId node, const std::vector<double>& factors);
  // The tables' rows at each position, nothing where all are zero.
  std::optional<GraphBuilder::PositionTable> table();
  GraphBuilder::TablePart part_of(const Term& term);
  bool is_of_first_sequence(const GraphBuilder::TablePart& part, const Term& term, uint32_t row,
                            uint32_t column, Array::Reals& values) const;
  void join_padded_positions(std::vector<Summand>& summands);
  ValueId with_constant_row(ValueId node, std::vector<double> row);
  void add_first_row(const GraphBuilder::PositionTable& table, std::vector<double>& row);
  ValueId with_table(const Summand* only, ValueId sum, GraphBuilder::PositionTable table);

  GraphBuilder& builder_;
  Shape shape_;
  std::vector<Term> nodes_;   // terms of the model's numbers
  std::vector<Term> tables_;  // terms of constants
  ElementSumRef reference_;   // whose elements stand for the rows and columns of the sum
  uint32_t source_ = 0;       // of the reference
  uint32_t rows_ = 0;
  uint32_t width_ = 0;
  uint32_t first_row_ = 0;       // that the value has
  std::vector<size_t> element_;  // [rows * width]: the value's element that stands there

  bool has_row(uint32_t row) const { return element_[size_t{row} * width_] != SIZE_MAX; }
};

// Queries or keys that turn with their position.
class RotationFinder {
 public:
  RotationFinder(GraphBuilder& builder, const ElementSum& value)
      : builder_(builder), value_(value) {}

  // Nothing where this is no rotation. Throws NotRecognised for one that the runtime lacks.
  std::optional<ElementSumRef> find();

 private:
  // What element i is made of: itself at position 0, and its partner.
  struct Element {
    uint32_t column = 0;
    uint32_t partner = 0;
    bool has_partner = false;
    double magnitude = 1.0;
    std::vector<double> own, other;  // factors, [positions]
  };

  bool find_axis();
  bool read_elements();
  bool read_element(size_t rest, Element& element);
  RopeSpec rope_of_head(size_t head);
  void read_frequency(const Element& element, double& frequency) const;
  ElementSumRef rotate();

  GraphBuilder& builder_;
  const ElementSum& value_;
  size_t axis_ = 0;    // of tokens
  size_t stride_ = 0;  // from token to token
  uint32_t source_ = 0;
  uint32_t head_dim_ = 0;
  std::vector<size_t> firsts_;     // the elements of token 0 of the first sequence
  std::vector<Element> elements_;  // of each of these
};

}  // namespace arenite::convert
