// SPDX-License-Identifier: Apache-2.0
// Softmax is blind to what all scores of a query have in common: slopes are told by differences.
#include "convert/exported/head_terms.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <set>
#include <utility>

#include "convert/exported/constant.h"
#include "convert/exported/scores.h"

namespace arenite::convert {
namespace {

constexpr double kBiasError = 1e-6;
constexpr size_t kTermsMax = size_t{1} << 27;  // that a model adds to scores

// A number for each distance, 0 where no query sees a key that far; none if the distance does not
// say the number.
std::vector<double> distances_of(const HeadTerms& terms, size_t n) {
  std::vector<double> values(2 * n - 1, 0.0);
  if (terms.slope) {
    for (size_t d = 0; d < values.size(); ++d)
      values[d] = *terms.slope * (double(d) - double(n - 1));
    return values;
  }
  std::vector<bool> is_known(values.size(), false);
  for (size_t q = 0; q < n; ++q) {
    for (size_t k = 0; k < n; ++k) {
      const double value = terms.values[q * n + k];
      const size_t d = n - 1 + k - q;
      if (std::isinf(value)) continue;
      if (!is_known[d]) values[d] = value;
      is_known[d] = true;
      if (std::fabs(value - values[d]) > kBiasError * std::max(1.0, std::fabs(value))) return {};
    }
  }
  return values;
}

// Hidden keys are the mask's.
std::vector<double> pairs_of(const HeadTerms& terms, size_t tokens) {
  std::vector<double> values = terms.values;
  for (double& value : values) value = std::isinf(value) ? 0.0 : value;
  if (!terms.slope) return values;
  for (size_t q = 0; q < tokens; ++q) {
    for (size_t k = 0; k < tokens; ++k) {
      values.push_back(*terms.slope * (double(k) - double(q)));
    }
  }
  return values;
}

// Layers often have the same table, as in T5.
void set_terms(const Graph& graph, TermTable table, AttentionNode& attention) {
  std::set<const TermTable*> tables;
  size_t numbers = table.values.size();
  for (const ValueId value : graph.order()) {
    const auto* other = graph.as<AttentionNode>(value);
    if (other == nullptr || !other->terms || !tables.insert(other->terms.get()).second) continue;
    numbers += other->terms->values.size();
    if (*other->terms != table) continue;
    attention.terms = other->terms;
    return;
  }
  check_terms(numbers);
  attention.terms = std::make_shared<const TermTable>(std::move(table));
}

}  // namespace

void check_terms(size_t numbers) {
  if (numbers <= kTermsMax) return;
  throw NotRecognised(
      fmt::format("it adds {} numbers to scores: expected at most {}; export it with fewer tokens",
                  numbers, kTermsMax));
}

HeadTerms read_terms(std::vector<double> added, DenseMask& visible) {
  const uint32_t tokens = visible.positions;
  std::optional<double> slope;
  bool has_slope = true;
  for (uint32_t q = 0; q < tokens; ++q) {
    double* row = added.data() + size_t{q} * tokens;
    const double largest = *std::max_element(row, row + tokens);
    if (!(largest > kHiddenScoreMax)) {
      throw NotRecognised(fmt::format("its mask hides all keys of token {}", q));
    }
    std::optional<uint32_t> first;
    for (uint32_t k = 0; k < tokens; ++k) {
      const bool sees = row[k] > largest + kHiddenScoreMax;
      visible.set(q, k, sees);
      if (!sees) {
        row[k] = -std::numeric_limits<double>::infinity();
        continue;
      }
      if (!first) {
        first = k;
        continue;
      }
      // Softmax is blind to what all scores of a query have in common.
      const double step = (row[k] - row[*first]) / (double(k) - double(*first));
      if (!slope) slope = step;
      has_slope =
          has_slope && std::fabs(step - *slope) <= kBiasError * std::max(1.0, std::fabs(*slope));
    }
  }
  if (!has_slope) return {std::nullopt, std::move(added)};
  return {std::fabs(slope.value_or(0.0)) <= kBiasError ? 0.0 : *slope, {}};
}

void add_terms(std::span<const HeadTerms> heads, uint32_t tokens, const Graph& graph,
               AttentionNode& attention) {
  const auto has_slope = [](const HeadTerms& terms) { return terms.slope.has_value(); };
  if (std::ranges::all_of(heads, has_slope)) {
    const bool has_slopes =
        std::ranges::any_of(heads, [](const HeadTerms& terms) { return *terms.slope != 0.0; });
    for (const HeadTerms& terms : heads) {
      if (has_slopes) attention.slopes.push_back(*terms.slope);
    }
    return;
  }
  TermTable table = {ScoreTerms::kDistances, attention.heads, tokens, {}};
  for (const HeadTerms& terms : heads) {
    const std::vector<double> values = distances_of(terms, tokens);
    table.values.insert(table.values.end(), values.begin(), values.end());
    if (values.empty()) table.by = ScoreTerms::kPairs;
  }
  if (table.by == ScoreTerms::kPairs) {
    std::vector<std::vector<double>> of_heads;
    for (const HeadTerms& terms : heads) of_heads.push_back(pairs_of(terms, tokens));
    const bool are_same =
        std::ranges::all_of(of_heads, [&](const auto& values) { return values == of_heads[0]; });
    if (are_same) of_heads.resize(1);
    table.heads = static_cast<uint32_t>(of_heads.size());
    table.values.clear();
    for (const auto& values : of_heads) {
      table.values.insert(table.values.end(), values.begin(), values.end());
    }
  }
  set_terms(graph, std::move(table), attention);
}

}  // namespace arenite::convert
