// SPDX-License-Identifier: Apache-2.0
// Lowers attention within windows to attention over all tokens, with a mask that hides keys outside
// a query's window. Windows are leading dimensions of the scores, like heads. The queries of all
// windows partition the tokens. A window may also have keys of other windows, and zero rows that a
// mask hides.
//
//   q, k, v [b * 4 windows, heads, 16, dim]  ->  [b, heads, 64, dim], mask [64, 64] of 4 blocks
#include <algorithm>
#include <limits>
#include <map>

#include "convert/exported/recover/row_layout.h"
#include "convert/exported/recover/row_view.h"
#include "convert/exported/recover/scores.h"

namespace arenite::convert {
namespace {

constexpr double kHidden = -std::numeric_limits<double>::infinity();
constexpr uint32_t kZeros = RowLayout::kZeros;

// The token row of each window row, and the columns of each window.
struct WindowRows {
  std::vector<uint32_t> rows;
  std::vector<std::vector<Column>> columns;
};

class WindowedAttention {
 public:
  WindowedAttention(GraphBuilder& builder, const Scores& scores)
      : builder_(builder),
        scores_(scores),
        lead_(leading(scores.shape)),
        queries_in_(static_cast<size_t>(scores.shape[scores.shape.size() - 2])),
        keys_in_(static_cast<size_t>(scores.shape.back())) {}

  std::optional<WholeAttention> build(const LinearExprRef& all_values) {
    // Windows of one token mean that sequences were taken for tokens.
    if (scores_.sink || queries_in_ < 2 || keys_in_ < 2 ||
        broadcast(lead_, leading(all_values->shape)) != lead_) {
      return std::nullopt;
    }
    const LinearExprRef values = with_leading(all_values, lead_);
    const bool has_query = scores_.query != nullptr;
    if (!has_query && queries_in_ != keys_in_) return std::nullopt;
    WindowRows others;
    if (!read(has_query ? scores_.query : values, queries_in_, query_rows_) ||
        !read(has_query ? scores_.key : values, keys_in_, key_rows_) ||
        !read(values, keys_in_, others) || others.rows != key_rows_.rows || !find_groups() ||
        !order_queries() || !have_equal_columns(key_rows_) || !have_equal_columns(others) ||
        !find_keys()) {
      return std::nullopt;
    }
    Scores whole = scores_;
    const auto n = static_cast<int64_t>(whole_tokens_);
    const Shape lead = {static_cast<int64_t>(sequences_), static_cast<int64_t>(heads())};
    whole.shape = matrices_shape(lead, n, n);
    if (has_query) {
      whole.query = in_order(scores_.query, lead, order_);
      whole.key = in_order(scores_.key, lead, key_order_);
    }
    auto added = all_added(lead);
    if (!added) return std::nullopt;
    whole.added = std::move(added);
    if (scores_.query_terms) whole.query_terms = terms_in_order(lead);
    whole.head_factors = of_heads(scores_.head_factors, lead);
    whole.sinks = of_heads(scores_.sinks, lead);
    whole.positions_max = 0;
    const int64_t width = values->shape.back();
    Movement back{.shape = matrices_shape(lead_, static_cast<int64_t>(queries_in_), width)};
    std::vector<int64_t>& sources = back.sources.emplace(elements_of(back.shape));
    for (size_t i = 0; i < order_.size(); ++i) {
      for (int64_t c = 0; c < width; ++c) {
        const auto to = static_cast<int64_t>(order_[i]) * width + c;
        sources[static_cast<size_t>(to)] = static_cast<int64_t>(i) * width + c;
      }
    }
    return WholeAttention{std::move(whole), in_order(values, lead, key_order_), std::move(back)};
  }

 private:
  // The leading indices of the windows of one head of a sequence.
  using Group = std::vector<size_t>;

  size_t heads() const { return groups_.size() / sequences_; }

  // Reads windows of `each` rows. Returns false if they have other rows than token rows and zero
  // rows.
  bool read(const LinearExprRef& given, size_t each, WindowRows& found) const {
    LinearExprRef value = given;
    if (value->terms.size() == 1 && !value->has_own_factors()) {
      value = make_sum({value->shape, {Term{value->terms[0].places}}});
    }
    value = builder_.materialised(value);
    auto layout = row_layout(builder_, *value);
    if (!layout) return false;
    for (const std::vector<Column>& columns : layout->kinds) {
      if (builder_.is_per_sequence(builder_.producer_at(columns[0].first)) ||
          builder_.row_axis_of_column(columns[0]) != builder_.row_axis()) {
        return false;
      }
    }
    for (size_t i = 0; i < layout->rows(); ++i) {
      if (i % each == 0) found.columns.emplace_back();
      if (layout->row[i] == kZeros) continue;
      const std::vector<Column>& columns = layout->kinds[layout->kind[i]];
      std::vector<Column>& own = found.columns.back();
      if (own.empty()) own = columns;
      if (own != columns) return false;
    }
    found.rows = std::move(layout->row);
    return true;
  }

  // Groups windows by sequence and head.
  bool find_groups() {
    const uint32_t tokens = builder_.sizes.tokens;
    std::map<std::pair<uint32_t, std::vector<Column>>, size_t> known;
    for (size_t window = 0; window < query_rows_.columns.size(); ++window) {
      for (size_t i = window * queries_in_; i < (window + 1) * queries_in_; ++i) {
        if (query_rows_.rows[i] == kZeros) return false;
      }
      const uint32_t sequence = query_rows_.rows[window * queries_in_] / tokens;
      sequences_ = std::max<size_t>(sequences_, sequence + 1);
      const auto [group, is_new] =
          known.try_emplace({sequence, query_rows_.columns[window]}, groups_.size());
      if (is_new) groups_.emplace_back();
      groups_[group->second].push_back(window);
    }
    return true;
  }

  // Sorts the heads by sequence, and finds the window row of each query. Returns false unless
  // windows partition the queries of a head.
  bool order_queries() {
    std::ranges::stable_sort(groups_, {}, [&](const Group& group) {
      return query_rows_.rows[group[0] * queries_in_] / builder_.sizes.tokens;
    });
    whole_tokens_ = groups_[0].size() * queries_in_;
    const uint32_t tokens = builder_.sizes.tokens;
    if (groups_.size() % sequences_ != 0 || whole_tokens_ > tokens) return false;
    first_ = tokens - whole_tokens_;
    constexpr size_t kNone = SIZE_MAX;
    for (size_t g = 0; g < groups_.size(); ++g) {
      std::vector<size_t> order(whole_tokens_, kNone);
      if (groups_[g].size() != groups_[0].size()) return false;
      for (const size_t window : groups_[g]) {
        for (size_t t = 0; t < queries_in_; ++t) {
          const size_t row = query_rows_.rows[window * queries_in_ + t];
          if (row / tokens != g / heads() || row % tokens < first_) return false;
          order[row % tokens - first_] = window * queries_in_ + t;
        }
      }
      if (std::ranges::count(order, kNone) != 0) return false;
      order_.insert(order_.end(), order.begin(), order.end());
    }
    // A single window in order is not windowed attention.
    return groups_[0].size() > 1 || queries_in_ != keys_in_ || !std::ranges::is_sorted(order_);
  }

  // Whether all windows of a head have the same columns.
  bool have_equal_columns(const WindowRows& found) const {
    return std::ranges::all_of(groups_, [&](const Group& group) {
      return std::ranges::all_of(
          group, [&](size_t window) { return found.columns[window] == found.columns[group[0]]; });
    });
  }

  // Finds a window row for the key of each token.
  bool find_keys() {
    constexpr size_t kNone = SIZE_MAX;
    const uint32_t tokens = builder_.sizes.tokens;
    for (size_t g = 0; g < groups_.size(); ++g) {
      std::vector<size_t> order(whole_tokens_, kNone);
      for (const size_t window : groups_[g]) {
        for (size_t i = window * keys_in_; i < (window + 1) * keys_in_; ++i) {
          const size_t row = key_rows_.rows[i];
          if (row == kZeros) continue;
          if (row / tokens != g / heads() || row % tokens < first_) return false;
          order[row % tokens - first_] = i;
        }
      }
      if (std::ranges::count(order, kNone) != 0) return false;
      key_order_.insert(key_order_.end(), order.begin(), order.end());
    }
    return true;
  }

  // Gathers window rows to [sequences, heads, tokens, dim].
  LinearExprRef in_order(const LinearExprRef& value, const Shape& lead,
                         const std::vector<size_t>& order) const {
    const int64_t width = value->shape.back();
    Movement movement{.shape = matrices_shape(lead, static_cast<int64_t>(whole_tokens_), width)};
    std::vector<int64_t>& sources = movement.sources.emplace();
    for (const size_t row : order) {
      for (int64_t c = 0; c < width; ++c) {
        sources.push_back(static_cast<int64_t>(row) * width + c);
      }
    }
    return moved(movement, value);
  }

  // Returns the addends of all scores, -infinity for keys outside the query's window: [tokens,
  // tokens] if all heads are equal. Returns nullopt if a query sees a zero row, or a token twice.
  std::optional<Array> all_added(const Shape& lead) {
    const size_t n = whole_tokens_;
    const auto side = static_cast<int64_t>(n);
    check_bias_size(n * n);
    std::vector<double> within;
    if (scores_.added) within = stretched_reals(*scores_.added, scores_.shape);
    if (scores_.query_terms) terms_.assign(order_.size() * n, Movement::kZero);
    std::vector<double> all;
    bool are_same = true;
    for (size_t g = 0; g < groups_.size(); ++g) {
      std::vector<double> own(n * n, kHidden);
      for (size_t q = 0; q < n; ++q) {
        const size_t row = order_[g * n + q], window = row / queries_in_;
        for (size_t k = 0; k < keys_in_; ++k) {
          const size_t key = key_rows_.rows[window * keys_in_ + k];
          const double added = within.empty() ? 0.0 : within[row * keys_in_ + k];
          if (!(added > kHiddenScoreMax)) continue;
          if (key == kZeros) return std::nullopt;
          const size_t at = q * n + key % builder_.sizes.tokens - first_;
          if (own[at] != kHidden) return std::nullopt;
          own[at] = added;
          if (!terms_.empty()) terms_[g * n * n + at] = static_cast<int64_t>(row * keys_in_ + k);
        }
      }
      are_same = are_same && (all.empty() || std::equal(own.begin(), own.end(), all.begin()));
      check_bias_size(all.size() + own.size());
      all.insert(all.end(), own.begin(), own.end());
    }
    if (are_same) all.resize(n * n);
    Shape shape = are_same ? Shape{side, side} : matrices_shape(lead, side, side);
    return Array::real(std::move(shape), std::move(all));
  }

  // Moves the query terms of windows to scores of all tokens.
  LinearExprRef terms_in_order(const Shape& lead) const {
    const auto n = static_cast<int64_t>(whole_tokens_);
    return moved(Movement{.shape = matrices_shape(lead, n, n), .sources = terms_},
                 scores_.query_terms);
  }

  // Returns the element of each head, [.., 1, 1]. Throws NotRecognised if its windows differ.
  std::optional<Array> of_heads(const std::optional<Array>& numbers, const Shape& lead) const {
    if (!numbers) return std::nullopt;
    const std::vector<double> all = stretched_reals(*numbers, matrices_shape(lead_, 1, 1));
    Array::Reals made;
    for (const Group& group : groups_) {
      made.push_back(all[group[0]]);
      for (const size_t window : group) {
        refuse_op_if(
            all[window] != made.back(),
            "factors or sinks differ between windows of a head; expected the same for all");
      }
    }
    return Array::real(matrices_shape(lead, 1, 1), std::move(made));
  }

  GraphBuilder& builder_;
  const Scores& scores_;
  const Shape lead_;
  const size_t queries_in_, keys_in_;  // per window
  WindowRows query_rows_, key_rows_;
  std::vector<Group> groups_;              // [sequences * heads]
  std::vector<size_t> order_, key_order_;  // [heads][tokens], window rows
  std::vector<int64_t> terms_;             // [heads][queries][keys], elements of the query terms
  size_t sequences_ = 0;
  size_t whole_tokens_ = 0, first_ = 0;  // tokens in windows, and the first of these
};

}  // namespace

std::optional<WholeAttention> lower_windows(GraphBuilder& builder, const Scores& scores,
                                            const LinearExprRef& values) {
  return WindowedAttention(builder, scores).build(values);
}

}  // namespace arenite::convert
