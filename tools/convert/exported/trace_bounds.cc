// SPDX-License-Identifier: Apache-2.0
#include "convert/exported/trace_bounds.h"
#include "convert/exported/trace/trace_program.h"

#include <bit>
#include <cstdint>
#include <map>
#include <memory>

#include "convert/files/error.h"

namespace arenite::convert {
namespace {

// Returns the nodes of one kind in execution order.
template <typename Kind>
std::vector<Kind*> nodes_of(Graph& graph) {
  std::vector<Kind*> found;
  for (const ValueId value : graph.order()) {
    if (auto* node = graph.as<Kind>(value)) found.push_back(node);
  }
  return found;
}

class TraceBounds {
 public:
  TraceBounds(TracedProgram& traced, LengthClaim& claim, const std::string& where)
      : traced_(traced), claim_(claim), where_(where) {}

  bool run() {
    bound_by_masks();
    bound_by_biases(&AttentionNode::terms);
    bound_by_biases(&AttentionNode::query_terms);
    bound_by_biases(&AttentionNode::key_terms);
    bound_by_angles();
    return has_concat_rows_;
  }

 private:
  // Converts rows of `value` to tokens of a sequence.
  int64_t tokens_of(int64_t rows, ValueId value) const {
    const GraphBuilder& builder = traced_.tracer->builder;
    const uint32_t axis = traced_.graph.axis(value);
    return builder.tokens_of_rows(rows - builder.constant_rows_of_axis(axis), axis);
  }

  // Returns the input that the rows of `value` come from; null for rows of constants, and for
  // concatenated inputs, which are only known at the example's lengths.
  InputLengths* lengths_of(ValueId value) {
    const Graph& graph = traced_.graph;
    const uint32_t inputs = graph.inputs_of(graph.axis(value));
    if (std::popcount(inputs) == 1 && !graph.joins_tokens(graph.axis(value))) {
      return &claim_.inputs[static_cast<size_t>(std::countr_zero(inputs))];
    }
    has_concat_rows_ = has_concat_rows_ || inputs != 0;
    return nullptr;
  }

  void bound_by_masks() {
    Graph& graph = traced_.graph;
    std::map<uint32_t, ValueId> readers;  // by mask
    for (const ValueId value : graph.order()) {
      const auto* attention = graph.as<AttentionNode>(value);
      if (attention != nullptr) readers[attention->mask] = value;
    }
    for (uint32_t i = 0; i < graph.masks.size(); ++i) {
      Mask& mask = graph.masks[i];
      if (const auto rule = mask_rule(mask)) {
        mask = *rule;
        continue;
      }
      const auto reader = readers.find(i);
      if (reader == readers.end()) continue;
      InputLengths* const own = lengths_of(reader->second);
      if (own == nullptr) continue;
      const int64_t rows = tokens_of(positions_of(mask), reader->second);
      if (rows < 1) throw InputError("{}: the mask has no row for a token", where_);
      if (own->positions == 0 || rows < own->positions) {
        own->positions = rows;
        claim_.ends_with_mask = true;
      }
    }
  }

  // Bounds the positions by the traced extents of the biases, and truncates the biases to the
  // needed positions.
  template <typename Table>
  void bound_by_biases(std::shared_ptr<const Table> AttentionNode::*of) {
    Graph& graph = traced_.graph;
    std::map<std::shared_ptr<const Table>, ValueId> readers;
    for (const ValueId value : graph.order()) {
      const auto* attention = graph.as<AttentionNode>(value);
      if (attention == nullptr || !(attention->*of) || graph.is_cross_attention(value)) continue;
      InputLengths* const own = lengths_of(value);
      if (own == nullptr) continue;
      const int64_t positions = tokens_of((attention->*of)->positions, value);
      if (positions < 1) throw InputError("{}: the attention bias has no row for a token", where_);
      if (own->positions == 0 || positions < own->positions) {
        own->positions = positions;
        claim_.ends_with_terms = true;
      }
      readers.emplace(attention->*of, value);
    }
    std::map<std::shared_ptr<const Table>, std::shared_ptr<const Table>> cut;
    for (const auto& [whole, reader] : readers) {
      const auto tokens = static_cast<uint32_t>(lengths_of(reader)->positions);
      const uint32_t rows = graph.rows(graph.axis(reader), tokens);
      cut[whole] = std::make_shared<const Table>(first_positions(*whole, rows));
    }
    for (AttentionNode* attention : nodes_of<AttentionNode>(graph)) {
      const auto known = cut.find(attention->*of);
      if (attention->*of && known != cut.end()) attention->*of = known->second;
    }
  }

  // Bounds the positions by tabulated angles, which are only known for traced positions.
  void bound_by_angles() {
    for (const ValueId value : traced_.graph.order()) {
      const auto* rotate = traced_.graph.as<RotateNode>(value);
      if (rotate == nullptr || rotate->rope.table.empty()) continue;
      InputLengths* const own = lengths_of(value);
      if (own == nullptr) continue;
      const auto rows = static_cast<int64_t>(rotate->rope.table.size() / rotate->rope.rotary_dim);
      const int64_t tokens = tokens_of(rows, value);
      if (own->positions != 0 && own->positions <= tokens) continue;
      own->positions = tokens;
      claim_.ends_with_angles = true;
    }
  }

  TracedProgram& traced_;
  LengthClaim& claim_;
  const std::string& where_;
  bool has_concat_rows_ = false;
};

}  // namespace

bool bound_by_trace(TracedProgram& traced, LengthClaim& claim, const std::string& where) {
  return TraceBounds(traced, claim, where).run();
}

}  // namespace arenite::convert
