// SPDX-License-Identifier: Apache-2.0
// Characters that no set of any step tells apart share a class. A state of a table is a list of
// states of the nondeterministic automaton, in order of priority; a match drops those after it.
#include "convert/tokenizers/split_tables.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <tuple>

#include "convert/files/error.h"
#include "convert/tokenizers/split_expression.h"
#include "core/utf8.h"

namespace arenite::convert {
namespace {

constexpr size_t kTableBytesMax = 64 << 10;
constexpr size_t kDeterministicStatesMax = 4096;
constexpr uint32_t kStart = 1;  // state 0 ends a search

using Row = std::vector<uint32_t>;  // by column; 0 is the end of the text
using Table = std::vector<Row>;     // by state

// The classes of all characters, and the sets that hold them.
struct Classes {
  std::vector<uint32_t> firsts;            // code points where the class changes
  std::vector<uint32_t> columns;           // of the characters from there on
  std::vector<std::vector<bool>> members;  // [set][column]
  uint32_t count = 1;                      // of columns, with that of the end
};

Classes classify(const std::vector<CharacterSet>& sets) {
  std::set<uint32_t> borders = {0, 0x80};
  for (const CharacterSet& set : sets) {
    for (const auto& [first, last] : set.ranges()) borders.insert({first, last + 1});
  }
  borders.erase(kCodePointMax + 1);
  Classes classes;
  classes.firsts.assign(borders.begin(), borders.end());
  std::vector<std::vector<bool>> holders(classes.firsts.size(), std::vector<bool>(sets.size()));
  for (size_t i = 0; i < sets.size(); ++i) {
    for (const auto& [first, last] : sets[i].ranges()) {
      const auto begin = std::ranges::lower_bound(classes.firsts, first);
      for (auto at = begin; at != classes.firsts.end() && *at <= last; ++at) {
        holders[static_cast<size_t>(at - classes.firsts.begin())][i] = true;
      }
    }
  }
  std::map<std::vector<bool>, uint32_t> known;
  for (const auto& holder : holders) {
    const auto [place, is_new] = known.emplace(holder, classes.count);
    if (is_new) ++classes.count;
    classes.columns.push_back(place->second);
  }
  classes.members.assign(sets.size(), std::vector<bool>(classes.count));
  for (const auto& [holder, column] : known) {
    for (size_t i = 0; i < sets.size(); ++i) classes.members[i][column] = holder[i];
  }
  return classes;
}

class Determinizer {
 public:
  // `place` begins messages.
  Determinizer(const SplitAutomaton& automaton, const Classes& classes, const std::string& place)
      : automaton_(automaton), classes_(classes), place_(place) {}

  // Throws InputError that begins with `place`. Sets `starts` to the state that a search begins in,
  // by the column of the character before.
  Table run(const std::string& place, Row& starts) {
    id_of({});
    for (uint32_t before = 0; before < classes_.count; ++before) {
      Threads first;
      start_again();
      add(automaton_.start, before, first);
      starts.push_back(id_of(first));
    }
    Table table;
    for (size_t i = 0; i < lists_.size(); ++i) {
      refuse_if(
          i == kDeterministicStatesMax,
          "{} needs a table of more than {} states: expected fewer alternatives or repetitions",
          place, kDeterministicStatesMax);
      table.emplace_back();
      for (uint32_t column = 0; column < classes_.count; ++column) {
        const Threads threads = lists_[i];
        table.back().push_back(entry(threads, column));
      }
    }
    return table;
  }

 private:
  using Threads = std::vector<uint32_t>;  // states without branches, the preferred one first

  uint32_t id_of(const Threads& threads) {
    const auto [place, is_new] = ids_.emplace(threads, static_cast<uint32_t>(lists_.size()));
    if (is_new) lists_.push_back(threads);
    return place->second;
  }

  void start_again() { seen_.assign(automaton_.states.size(), false); }

  // Adds the states that are reached without reading, up to look-ahead, after a character of the
  // column `before`; 0: at the start of the text.
  void add(uint32_t at, uint32_t before, Threads& threads) {
    if (seen_[at]) return;
    seen_[at] = true;
    const SplitState& state = automaton_.states[at];
    if (state.kind == SplitState::Kind::kBehindIs) {
      if (before == 0 ? state.at_edge : classes_.members[state.set][before]) {
        add(state.next, before, threads);
      }
      return;
    }
    if (state.kind != SplitState::Kind::kBranch) return threads.push_back(at);
    add(state.next, before, threads);
    add(state.other, before, threads);
  }

  // Adds the sets that hold the character of `column` to `reading`. Returns false at a match, which
  // ends the list.
  bool resolve(uint32_t at, uint32_t column, std::set<uint32_t>& seen, Threads& reading) const {
    if (!seen.insert(at).second) return true;
    const SplitState& state = automaton_.states[at];
    switch (state.kind) {
      case SplitState::Kind::kMatch:
        return false;
      case SplitState::Kind::kBranch:
        return resolve(state.next, column, seen, reading) &&
               resolve(state.other, column, seen, reading);
      case SplitState::Kind::kBehindIs:
        throw InputError("{}: look-behind follows look-ahead: expected them the other way round",
                         place_);
      case SplitState::Kind::kNextIs:
        if (column == 0 ? !state.at_edge : !classes_.members[state.set][column]) return true;
        return resolve(state.next, column, seen, reading);
      case SplitState::Kind::kSet:
        if (column != 0 && classes_.members[state.set][column]) reading.push_back(state.next);
    }
    return true;
  }

  uint32_t entry(const Threads& threads, uint32_t column) {
    std::set<uint32_t> seen;
    Threads reading;
    const bool is_match = !std::ranges::all_of(
        threads, [&](uint32_t at) { return resolve(at, column, seen, reading); });
    start_again();
    Threads next;
    for (const uint32_t at : reading) add(at, column, next);
    return id_of(next) << 1 | (is_match ? 1 : 0);
  }

  const SplitAutomaton& automaton_;
  const Classes& classes_;
  const std::string& place_;
  std::map<Threads, uint32_t> ids_;
  std::vector<Threads> lists_;
  std::vector<bool> seen_;
};

// Merges states that all texts lead to the same matches. Renumbers `starts` as well.
Table minimize(const Table& table, Row& starts) {
  std::vector<uint32_t> blocks(table.size());
  for (size_t count = 1;;) {
    std::map<std::pair<uint32_t, Row>, uint32_t> known;
    std::vector<uint32_t> refined;
    for (size_t i = 0; i < table.size(); ++i) {
      Row row = table[i];
      for (uint32_t& entry : row) entry = blocks[entry >> 1] << 1 | (entry & 1);
      refined.push_back(
          known.emplace(std::pair(blocks[i], row), static_cast<uint32_t>(known.size()))
              .first->second);
    }
    blocks = refined;
    if (known.size() == count) break;
    count = known.size();
  }
  Table merged;  // the first two states stay the first
  for (size_t i = 0; i < table.size(); ++i) {
    if (blocks[i] != merged.size()) continue;
    merged.push_back(table[i]);
    for (uint32_t& entry : merged.back()) entry = blocks[entry >> 1] << 1 | (entry & 1);
  }
  for (uint32_t& start : starts) start = blocks[start];
  return merged;
}

// Whether failed searches may be skipped: before a match, all states lead to the same states as the
// start. A search that begins within a failed one then fails as well.
bool fails_as_one(const Table& table) {
  std::vector<bool> seen(table.size());
  std::vector<uint32_t> open = {kStart};
  while (!open.empty()) {
    const uint32_t state = open.back();
    open.pop_back();
    if (state == 0 || seen[state]) continue;
    seen[state] = true;
    for (size_t column = 1; column < table[state].size(); ++column) {
      const uint32_t entry = table[state][column];
      if ((entry & 1) != 0) continue;
      if (entry >> 1 != table[kStart][column] >> 1) return false;
      open.push_back(entry >> 1);
    }
  }
  return true;
}

// Proves that searches take linear time: that at most kOpenMax searches read on over one character
// after their last match, for any text. A configuration is the state of the current search and
// those of earlier ones that will find no further match; each match may turn out to be the last
// one. A configuration also has the state in which a search would begin here.
class OverreadCheck {
 public:
  OverreadCheck(const Table& table, bool looks_behind, bool skips_failures)
      : table_(table), looks_behind_(looks_behind), skips_failures_(skips_failures) {}

  bool is_linear() {
    reach(start_after(0), Found::kUnread, {}, start_after(0));
    while (!open_.empty() && is_linear_ && seen_.size() < kConfigurationsMax) {
      const Configuration from = open_.back();
      open_.pop_back();
      for (uint32_t column = 1; column < table_[0].size(); ++column) advance(from, column);
    }
    return is_linear_ && open_.empty();
  }

 private:
  static constexpr size_t kOpenMax = 8;
  static constexpr size_t kConfigurationsMax = 100000;
  using States = std::multiset<uint32_t>;
  enum class Found : uint8_t { kUnread, kNothing, kMatch };
  using Configuration = std::tuple<uint32_t, Found, States, uint32_t>;

  // Returns the state of a search that begins after a character of the column. State 0 fails.
  uint32_t start_after(uint32_t column) const {
    return looks_behind_ ? table_[0][column] >> 1 : kStart;
  }

  void reach(uint32_t state, Found so_far, const States& ended, uint32_t start) {
    is_linear_ = is_linear_ && ended.size() <= kOpenMax;
    const Configuration found = {state, so_far, ended, start};
    if (seen_.insert(found).second) open_.push_back(found);
  }

  void advance(const Configuration& from, uint32_t column) {
    States ended;
    for (const uint32_t state : std::get<2>(from)) {
      const uint32_t entry = table_[state][column];
      if ((entry & 1) != 0) return;  // a further match
      if (entry >> 1 != 0) ended.insert(entry >> 1);
    }
    read(std::get<0>(from), std::get<1>(from), ended, std::get<3>(from), column);
  }

  void read(uint32_t state, Found so_far, const States& ended, uint32_t start, uint32_t column) {
    const uint32_t entry = state == 0 ? 0 : table_[state][column], next = entry >> 1;
    const uint32_t later = start_after(column);
    const bool is_match = (entry & 1) != 0, is_unread = so_far == Found::kUnread;
    const bool is_found = is_match || so_far == Found::kMatch;
    if (next != 0) reach(next, is_found ? Found::kMatch : Found::kNothing, ended, later);
    States with_this = ended;
    if (next != 0) with_this.insert(next);
    if (is_match || (skips_failures_ && !is_found && !is_unread && next == 0)) {
      read(start, Found::kUnread, with_this, start, column);
    } else if (is_unread && (!skips_failures_ || next == 0)) {
      reach(later, Found::kUnread, with_this, later);  // the character is part of a gap
    }
  }

  const Table& table_;
  const bool looks_behind_;
  const bool skips_failures_;
  std::set<Configuration> seen_;
  std::vector<Configuration> open_;
  bool is_linear_ = true;
};

// Merges columns that are equal in all tables. Returns the new column of each.
std::vector<uint32_t> merge_columns(std::vector<Table>& tables, uint32_t& count) {
  std::vector<uint32_t> merged;
  std::map<Row, uint32_t> known;
  std::vector<uint32_t> kept;
  for (uint32_t column = 0; column < count; ++column) {
    Row all = {column == 0 ? 1u : 0u};  // the end stays apart
    for (const Table& table : tables) {
      for (const Row& row : table) all.push_back(row[column]);
    }
    const auto [place, is_new] = known.emplace(all, static_cast<uint32_t>(known.size()));
    if (is_new) kept.push_back(column);
    merged.push_back(place->second);
  }
  for (Table& table : tables) {
    for (Row& row : table) {
      Row short_row;
      for (const uint32_t column : kept) short_row.push_back(row[column]);
      row = short_row;
    }
  }
  count = static_cast<uint32_t>(kept.size());
  return merged;
}

std::vector<uint32_t> column_list(const Classes& classes, const std::vector<uint32_t>& merged) {
  std::vector<uint32_t> list(format::kAsciiElements);
  const auto column_of = [&](uint32_t character) {
    const auto after = std::ranges::upper_bound(classes.firsts, character);
    return merged[classes.columns[static_cast<size_t>(after - classes.firsts.begin()) - 1]];
  };
  for (uint32_t c = 0; c < 0x80; ++c) list[c / 4] |= column_of(c) << c % 4 * format::kColumnBits;
  uint32_t before = 0;
  for (const uint32_t first : classes.firsts) {
    const uint32_t column = column_of(first);
    if (first < 0x80 || (first > 0x80 && column == before)) continue;
    list.push_back(first << format::kColumnBits | column);
    before = column;
  }
  return list;
}

}  // namespace

void compile_splits(TokenizerSpec& spec) {
  if (spec.splits.empty()) return;
  refuse_if(spec.splits.size() > format::kSplitStepsMax,
            "{}: the pre-tokenizer has {} steps: a model file holds at most {}", quote(spec.origin),
            spec.splits.size(), format::kSplitStepsMax);
  const std::string place = quote(spec.origin) + ", pre-tokenizer";
  CharacterSets known(spec.letters, spec.numbers);
  std::vector<CharacterSet> sets;
  std::vector<SplitAutomaton> automata;
  for (const SplitStep& step : spec.splits) {
    automata.push_back(parse_split(step, known, sets, place));
  }
  Classes classes = classify(sets);
  std::vector<Table> tables;
  std::vector<Row> starts(automata.size());
  for (size_t i = 0; i < automata.size(); ++i) {
    const std::string what =
        fmt::format("{}: the expression {}", place, quote(spec.splits[i].expression));
    const Table table = Determinizer(automata[i], classes, what).run(what, starts[i]);
    tables.push_back(minimize(table, starts[i]));
    refuse_if(tables.back().size() < 2, "{} matches no text", what);
    const bool looks_behind =
        std::ranges::adjacent_find(starts[i], std::not_equal_to()) != starts[i].end();
    if (!looks_behind) continue;
    spec.splits[i].flags |= format::kLooksBehind;
    std::ranges::transform(starts[i], tables[i][0].begin(), [](uint32_t to) { return to << 1; });
  }
  const std::vector<uint32_t> merged = merge_columns(tables, classes.count);
  spec.columns = column_list(classes, merged);
  spec.split_tables = {classes.count};
  for (size_t i = 0; i < tables.size(); ++i) {
    const size_t bytes = sizeof(uint32_t) * tables[i].size() * classes.count;
    refuse_if(bytes > kTableBytesMax || classes.count > 1u << format::kColumnBits,
              "{}: the expression {} needs a table of {} bytes for {} classes of characters: "
              "expected at most {} and {}",
              place, quote(spec.splits[i].expression), bytes, classes.count, kTableBytesMax,
              1u << format::kColumnBits);
    const bool looks_behind = (spec.splits[i].flags & format::kLooksBehind) != 0;
    const bool skips_failures = !looks_behind && fails_as_one(tables[i]);
    refuse_if(!OverreadCheck(tables[i], looks_behind, skips_failures).is_linear(),
              "{}: the expression {} may read a text many times: expected one whose matches end "
              "near where they are found",
              place, quote(spec.splits[i].expression));
    const uint32_t flags =
        spec.splits[i].flags | (skips_failures ? uint32_t{format::kSkipFailures} : 0);
    spec.split_tables.insert(spec.split_tables.end(),
                             {flags, static_cast<uint32_t>(tables[i].size())});
    for (const Row& row : tables[i]) {
      spec.split_tables.insert(spec.split_tables.end(), row.begin(), row.end());
    }
  }
}

}  // namespace arenite::convert
