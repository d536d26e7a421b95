// SPDX-License-Identifier: Apache-2.0
// Columns of a table that would have one for each target: few targets differ in what they need.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cli/inspect_facts.h"
#include "cli/text_table.h"

namespace arenite::tool {

// A column of bytes for each target, of those that are alike one.
class TargetColumns {
 public:
  static constexpr size_t kColumnsMax = 3;

  // `bytes_of(row, target)` for rows [0, rows).
  template <typename BytesOf>
  TargetColumns(const ModelFacts& facts, size_t rows, const BytesOf& bytes_of) : facts_(facts) {
    std::map<std::vector<uint64_t>, size_t> known;
    for (size_t t = 0; t < facts.targets.size(); ++t) {
      std::vector<uint64_t> column;
      for (size_t row = 0; row < rows; ++row) column.push_back(bytes_of(row, t));
      const auto [place, is_new] = known.emplace(column, groups_.size());
      if (is_new) groups_.emplace_back();
      groups_[place->second].push_back(t);
    }
  }

  void add_titles(std::vector<std::string>& titles) const {
    for (size_t i = 0; i < shown(); ++i) {
      titles.push_back('>' + name_of(facts_.targets[groups_[i].front()]));
    }
  }

  template <typename BytesOf>
  void add_cells(std::vector<std::string>& cells, const BytesOf& bytes_of) const {
    for (size_t i = 0; i < shown(); ++i) cells.push_back(grouped(bytes_of(groups_[i].front())));
  }

  // Who shares a column, and who has none.
  std::string notes() const {
    std::string text;
    for (size_t i = 0; i < shown(); ++i) {
      if (groups_[i].size() == 1) continue;
      text += fmt::format("  as {}: {}\n", name_of(facts_.targets[groups_[i].front()]),
                          names({groups_[i].begin() + 1, groups_[i].end()}));
    }
    std::vector<size_t> others;
    for (size_t i = shown(); i < groups_.size(); ++i) {
      others.insert(others.end(), groups_[i].begin(), groups_[i].end());
    }
    if (!others.empty()) text += fmt::format("  --json has those for {}\n", names(others));
    return text;
  }

 private:
  size_t shown() const { return std::min(groups_.size(), kColumnsMax); }
  std::string name_of(const TargetFacts& target) const { return name(target.target); }
  std::string names(const std::vector<size_t>& targets) const {
    std::vector<std::string> names;
    for (const size_t t : targets) names.push_back(name_of(facts_.targets[t]));
    return fmt::format("{}", fmt::join(names, ", "));
  }

  const ModelFacts& facts_;
  std::vector<std::vector<size_t>> groups_;  // targets whose bytes are alike
};

}  // namespace arenite::tool
