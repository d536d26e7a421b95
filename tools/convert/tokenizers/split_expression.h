// SPDX-License-Identifier: Apache-2.0
// Parses the regular expressions of pre-tokenizers, in Oniguruma's syntax as Hugging Face's library
// reads them, to nondeterministic automata whose states are in order of priority.
//
//   " ?\p{L}+|\s"  ->  0 split 1, 5;  1 split 2, 3;  2 " " to 3;  3 \p{L} to 4;  4 split 3, 6; ...
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "convert/tokenizers/tokenizer_spec.h"

namespace arenite::convert {

// Characters as ranges of first and last, increasing and not adjacent.
class CharacterSet {
 public:
  CharacterSet() = default;
  CharacterSet(uint32_t first, uint32_t last) : ranges_{{first, last}} {}
  // Takes first, last, first, last, ..., increasing.
  explicit CharacterSet(std::span<const uint32_t> ranges);

  const std::vector<std::pair<uint32_t, uint32_t>>& ranges() const { return ranges_; }
  CharacterSet inverse() const;
  friend CharacterSet operator|(const CharacterSet& a, const CharacterSet& b);
  friend CharacterSet operator&(const CharacterSet& a, const CharacterSet& b);

 private:
  std::vector<std::pair<uint32_t, uint32_t>> ranges_;
};

// Looks up the sets of escapes and properties such as "\s" and "L"; computes each once.
class CharacterSets {
 public:
  // `letters` and `numbers` are ranges from U+0080 on that replace utf8proc's, unless empty.
  CharacterSets(std::span<const uint32_t> letters, std::span<const uint32_t> numbers)
      : letters_(letters), numbers_(numbers) {}

  // Returns null for an unknown name.
  const CharacterSet* find(const std::string& name);

 private:
  CharacterSet make(const std::string& name);

  std::span<const uint32_t> letters_, numbers_;
  std::map<std::string, CharacterSet> sets_;
};

struct SplitState {
  enum class Kind : uint8_t { kSet, kNextIs, kBehindIs, kBranch, kMatch };
  Kind kind = Kind::kMatch;
  uint32_t set = 0;      // kSet reads one of its characters; the others need one beside them
  bool at_edge = false;  // kNextIs: the end of the text will do, too; kBehindIs: its start
  uint32_t next = 0;     // the preferred one of kBranch
  uint32_t other = 0;    // kBranch
};

struct SplitAutomaton {
  std::vector<SplitState> states;
  uint32_t start = 0;
};

// Appends the sets of the automaton to `sets`. Throws InputError that begins with `place`, quotes
// the expression and names what a table cannot express: back references, look-ahead and lookbehind
// of several characters, possessive quantifiers that differ from greedy ones, and matches of no
// characters.
SplitAutomaton parse_split(const SplitStep& step, CharacterSets& known,
                           std::vector<CharacterSet>& sets, const std::string& place);

// A set of characters, such as "[0-9]", or a run of them, "[0-9]+".
struct SetExpression {
  CharacterSet set;
  bool is_run = false;
};
// Returns nothing for other expressions. Throws InputError as above.
std::optional<SetExpression> parse_set(const std::string& expression, const std::string& place);

}  // namespace arenite::convert
