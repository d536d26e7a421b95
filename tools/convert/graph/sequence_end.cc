// SPDX-License-Identifier: Apache-2.0
// Sequences that a program ends by token ids: how many tokens count, and the names of the rules in
// files and reports.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>

#include "convert/graph/graph.h"

namespace arenite::convert {
namespace {

// Names of the rules, indexed by SequenceEnd::Rule.
constexpr std::string_view kEndRoles[] = {"", "largest", "first", "before", "last", "count"};

}  // namespace

size_t SequenceEnd::tokens(std::span<const int64_t> ids) const {
  const auto is_id = [&](int64_t other) { return other == int64_t{id}; };
  const auto first = static_cast<size_t>(std::ranges::find_if(ids, is_id) - ids.begin());
  size_t end = ids.size();
  switch (rule) {
    case Rule::kNone:
      return end;
    case Rule::kLargest:
      return static_cast<size_t>(std::ranges::max_element(ids) - ids.begin()) + 1;
    case Rule::kFirst:
      return first == end ? 1 : first + 1;
    case Rule::kBefore:
      return first == 0 ? end : first;
    case Rule::kLast:
      while (end > 1 && is_id(ids[end - 1])) --end;
      return end;
    case Rule::kCount:
      end -= static_cast<size_t>(std::ranges::count_if(ids, is_id));
      return end == 0 ? ids.size() : end;
  }
  return end;
}

void SequenceEnd::put(std::span<int64_t> ids, size_t count, uint32_t vocab_size) const {
  const bool is_largest = rule == Rule::kLargest;
  const int64_t of_rule = is_largest ? int64_t{vocab_size} - 1 : int64_t{id};
  const int64_t other = is_largest ? 0 : (of_rule + 1) % vocab_size;
  for (size_t i = 0; i < ids.size(); ++i) {
    const bool ends = (rule == Rule::kLargest || rule == Rule::kFirst) && i + 1 == count;
    const bool follows = rule == Rule::kBefore ? i == count : i >= count;
    const bool is_padding = rule == Rule::kLast || rule == Rule::kCount || rule == Rule::kBefore;
    if (ends || (follows && is_padding)) {
      ids[i] = of_rule;
    } else if (ids[i] == of_rule && i < count) {
      ids[i] = other;
    }
  }
}

std::string SequenceEnd::role() const {
  std::string role(kEndRoles[static_cast<size_t>(rule)]);
  if (rule != Rule::kLargest && rule != Rule::kNone) role += std::to_string(id);
  return role;
}

std::string SequenceEnd::text() const {
  constexpr const char* kTexts[] = {"",
                                    "at its largest id",
                                    "at the first id {}",
                                    "before the first id {}",
                                    "at its last token that is not {}",
                                    "after as many tokens as are not {}"};
  return fmt::format(fmt::runtime(kTexts[static_cast<size_t>(rule)]), id);
}

SequenceEnd sequence_end(std::string_view role) {
  const size_t digits = std::min(role.find_first_of("0123456789"), role.size());
  const auto* const found = std::ranges::find(kEndRoles, role.substr(0, digits));
  if (role.empty() || found == std::end(kEndRoles)) return {};
  SequenceEnd end = {static_cast<SequenceEnd::Rule>(found - kEndRoles)};
  std::from_chars(role.data() + digits, role.data() + role.size(), end.id);
  return end;
}

}  // namespace arenite::convert
