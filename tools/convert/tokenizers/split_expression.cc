// SPDX-License-Identifier: Apache-2.0
// Parses an expression to a tree, then builds the automaton from its end to its start.
#include "convert/tokenizers/split_expression.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>

#include "convert/files/error.h"
#include "convert/tokenizers/unicode_library.h"
#include "core/utf8.h"

namespace arenite::convert {

// ---- sets of characters ----

CharacterSet::CharacterSet(std::span<const uint32_t> ranges) {
  for (size_t i = 0; i + 1 < ranges.size(); i += 2) {
    if (!ranges_.empty() && ranges_.back().second + 1 == ranges[i]) {
      ranges_.back().second = ranges[i + 1];
    } else {
      ranges_.emplace_back(ranges[i], ranges[i + 1]);
    }
  }
}

CharacterSet CharacterSet::inverse() const {
  CharacterSet others;
  uint32_t first = 0;
  for (const auto& [begin, last] : ranges_) {
    if (begin > first) others.ranges_.emplace_back(first, begin - 1);
    first = last + 1;
  }
  if (first <= kCodePointMax) others.ranges_.emplace_back(first, kCodePointMax);
  return others;
}

CharacterSet operator|(const CharacterSet& a, const CharacterSet& b) {
  auto all = a.ranges_;
  all.insert(all.end(), b.ranges_.begin(), b.ranges_.end());
  std::ranges::sort(all);
  CharacterSet both;
  for (const auto& range : all) {
    if (!both.ranges_.empty() && range.first <= both.ranges_.back().second + 1) {
      both.ranges_.back().second = std::max(both.ranges_.back().second, range.second);
    } else {
      both.ranges_.push_back(range);
    }
  }
  return both;
}

CharacterSet operator&(const CharacterSet& a, const CharacterSet& b) {
  return (a.inverse() | b.inverse()).inverse();
}

namespace {

// Ranges of Unicode 16.0's script Han.
constexpr uint32_t kHan[] = {0x2E80,  0x2E99,  0x2E9B,  0x2EF3,  0x2F00,  0x2FD5,  0x3005,  0x3005,
                             0x3007,  0x3007,  0x3021,  0x3029,  0x3038,  0x303B,  0x3400,  0x4DBF,
                             0x4E00,  0x9FFF,  0xF900,  0xFA6D,  0xFA70,  0xFAD9,  0x16FE2, 0x16FE3,
                             0x16FF0, 0x16FF1, 0x20000, 0x2A6DF, 0x2A700, 0x2B739, 0x2B740, 0x2B81D,
                             0x2B820, 0x2CEA1, 0x2CEB0, 0x2EBE0, 0x2EBF0, 0x2EE5D, 0x2F800, 0x2FA1D,
                             0x30000, 0x3134A, 0x31350, 0x323AF};

// Unicode's White_Space, as text::is_space.
constexpr uint32_t kSpaces[] = {0x09,   0x0D,   0x20,   0x20,   0x85,   0x85,   0xA0,
                                0xA0,   0x1680, 0x1680, 0x2000, 0x200A, 0x2028, 0x2029,
                                0x202F, 0x202F, 0x205F, 0x205F, 0x3000, 0x3000};

// Alphabetic characters that are no letters or marks, and what Oniguruma's \w has outside of
// brackets.
constexpr uint32_t kAlphabetic[] = {0x24B6,  0x24E9,  0x1F130, 0x1F149,
                                    0x1F150, 0x1F169, 0x1F170, 0x1F189};
constexpr const char* kBareWord = "w alone";  // \w outside of brackets
constexpr uint32_t kLatinNumbers[] = {0xB2, 0xB3, 0xB9, 0xB9, 0xBC, 0xBE};
constexpr uint32_t kJoiners[] = {0x200C, 0x200D};

constexpr std::string_view kCategories =
    " L N M P S Z C Lu Ll Lt Lm Lo Nd Nl No Mn Mc Me Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc "
    "Cf "
    "Co Cn ";

template <typename Holds>
CharacterSet all_that(const Holds& holds) {
  std::vector<uint32_t> ranges;
  for (uint32_t character = 0; character <= kCodePointMax; ++character) {
    if (holds(character)) append_to_ranges(ranges, character);
  }
  return CharacterSet(ranges);
}

struct CategoryRange {
  uint32_t first, last;
  std::string_view name;
};

const std::vector<CategoryRange>& category_ranges() {
  static const std::vector<CategoryRange> ranges = [] {
    std::vector<CategoryRange> made;
    for (uint32_t c = 0; c <= kCodePointMax; ++c) {
      const std::string_view name = pattern_category(c);
      if (made.empty() || made.back().name != name) made.push_back({c, c, name});
      made.back().last = c;
    }
    return made;
  }();
  return ranges;
}

// `names` are general categories, each with spaces around it.
CharacterSet of_categories(std::string_view names) {
  std::vector<uint32_t> ranges;
  for (const CategoryRange& range : category_ranges()) {
    const char major = range.name[0], minor = range.name[1];
    if (names.find(std::string{' ', major, ' '}) != std::string_view::npos ||
        names.find(std::string{' ', major, minor, ' '}) != std::string_view::npos) {
      ranges.insert(ranges.end(), {range.first, range.last});
    }
  }
  return CharacterSet(ranges);
}

}  // namespace

CharacterSet CharacterSets::make(const std::string& name) {
  const CharacterSet digits('0', '9');
  if (name == "L" && !letters_.empty()) {
    return CharacterSet(letters_) | CharacterSet('A', 'Z') | CharacterSet('a', 'z');
  }
  if (name == "N" && !numbers_.empty()) return CharacterSet(numbers_) | digits;
  if (kCategories.find(fmt::format(" {} ", name)) != std::string_view::npos) {
    return of_categories(fmt::format(" {} ", name));
  }
  if (name == "s") return CharacterSet(kSpaces);
  if (name == "d") return of_categories(" Nd ");
  if (name == "h") return digits | CharacterSet('A', 'F') | CharacterSet('a', 'f');
  if (name == "Han") return CharacterSet(kHan);
  if (name == "w" || name == kBareWord || name == kWhitespaceWord) {
    return of_categories(" L M Nd Nl Pc ") | CharacterSet(kAlphabetic) |
           (name == kBareWord ? CharacterSet(kLatinNumbers)
            : name == "w"     ? CharacterSet()
                              : CharacterSet(kJoiners));
  }
  if (name == kWordPunctuation) {
    return all_that([](uint32_t c) {
      return text::is_ascii_punctuation(c) || word_category(c) == WordCategory::kPunctuation;
    });
  }
  return {};
}

const CharacterSet* CharacterSets::find(const std::string& name) {
  const auto [place, is_new] = sets_.try_emplace(name);
  if (is_new) place->second = make(name);
  return place->second.ranges().empty() ? nullptr : &place->second;
}

// ---- expressions ----

namespace {

constexpr uint32_t kLongS = 0x17F, kKelvin = 0x212A;  // other cases of s and k
constexpr uint32_t kNoLimit = UINT32_MAX;
constexpr uint32_t kRepeatsMax = 256;
constexpr size_t kStatesMax = 4096;
constexpr uint32_t kDepthMax = 64;

struct Node {
  enum class Kind : uint8_t { kSet, kNextIs, kBehindIs, kSequence, kChoice, kRepeat };
  enum class Manner : uint8_t { kGreedy, kLazy, kPossessive };
  Kind kind = Kind::kSequence;
  CharacterSet set{};
  bool at_edge = false;
  std::vector<Node> parts{};
  uint32_t least = 0, most = 0;
  Manner manner = Manner::kGreedy;
};
using Kind = Node::Kind;

bool may_be_empty(const Node& node) {
  switch (node.kind) {
    case Kind::kSet:
      return false;
    case Kind::kNextIs:
    case Kind::kBehindIs:
      return true;
    case Kind::kSequence:
      return std::ranges::all_of(node.parts, may_be_empty);
    case Kind::kChoice:
      return std::ranges::any_of(node.parts, may_be_empty);
    case Kind::kRepeat:
      return node.least == 0 || may_be_empty(node.parts[0]);
  }
  return true;
}

class Parser {
 public:
  Parser(std::string_view text, CharacterSets& known, const std::string& place)
      : text_(text), known_(known), place_(place) {}

  Node parse() {
    Node node = choice();
    if (!at_end()) refuse("a ')' without '('");
    return node;
  }

  [[noreturn]] void refuse(const std::string& found) const {
    throw InputError(
        "{}: the expression {} has {}, before byte {}: a table can express sets of characters, "
        "groups, quantifiers, look-ahead and look-behind of one character",
        place_, quote(text_), found, at_);
  }

 private:
  bool at_end() const { return at_ == text_.size(); }
  bool takes(std::string_view expected) {
    if (!text_.substr(at_).starts_with(expected)) return false;
    at_ += expected.size();
    return true;
  }
  uint32_t next_character() {
    if (at_end()) refuse("no end of a group, set or escape");
    const CodePoint next = decode_utf8(text_.substr(at_));
    if (next.value == kInvalidCodePoint) refuse("bytes that are not UTF-8");
    at_ += next.bytes;
    return next.value;
  }

  Node choice() {
    if (++depth_ > kDepthMax) refuse("groups that are nested too deeply");
    const bool ignored_case = ignores_case_;
    Node all{.kind = Kind::kChoice};
    do {
      all.parts.push_back(sequence());
    } while (takes("|"));
    ignores_case_ = ignored_case;
    --depth_;
    return all.parts.size() == 1 ? std::move(all.parts[0]) : all;
  }

  Node sequence() {
    Node all{.kind = Kind::kSequence};
    while (!at_end() && text_[at_] != '|' && text_[at_] != ')') {
      if (takes("(?i)")) {
        ignores_case_ = true;
        continue;
      }
      Node part = atom();
      while (quantify(part)) continue;
      all.parts.push_back(std::move(part));
    }
    return all.parts.size() == 1 ? std::move(all.parts[0]) : all;
  }

  // Wraps the node in a quantifier, if one follows.
  bool quantify(Node& node) {
    uint32_t least = 0, most = kNoLimit;
    const size_t begin = at_;
    bool has_braces = false;
    if (takes("?")) {
      most = 1;
    } else if (takes("+")) {
      least = 1;
    } else if (takes("{")) {
      const std::optional<uint32_t> first = number();
      least = first.value_or(0);
      const std::optional<uint32_t> last = takes(",") ? number() : first;
      most = last.value_or(kNoLimit);
      if (!takes("}")) refuse("a '{' that begins no quantifier");
      has_braces = true;
    } else if (!takes("*")) {
      return false;
    }
    if (least > most || least > kRepeatsMax || (most != kNoLimit && most > kRepeatsMax)) {
      refuse(fmt::format("the quantifier {} (at most {})", text_.substr(begin, at_ - begin),
                         kRepeatsMax));
    }
    Node repeat{.kind = Kind::kRepeat, .least = least, .most = most};
    if (takes("?")) {
      repeat.manner = Node::Manner::kLazy;
    } else if (!has_braces && takes("+")) {
      repeat.manner = Node::Manner::kPossessive;
      if (node.kind != Kind::kSet) refuse("a possessive quantifier of several characters");
    }
    if (most > 1 && may_be_empty(node)) refuse("a repetition of what may be empty");
    repeat.parts.push_back(std::move(node));
    node = std::move(repeat);
    return true;
  }

  std::optional<uint32_t> number() {
    std::optional<uint32_t> value;
    while (!at_end() && text_[at_] >= '0' && text_[at_] <= '9') {
      value = std::min(10 * value.value_or(0) + static_cast<uint32_t>(text_[at_++] - '0'), 100000u);
    }
    return value;
  }

  Node atom() {
    if (takes("(")) return group();
    if (takes("[")) return set_node(cased(bracket()));
    if (takes(".")) return set_node(CharacterSet('\n', '\n').inverse());
    if (takes("$")) return {.kind = Kind::kNextIs, .set = one('\n'), .at_edge = true};
    if (takes("^")) return {.kind = Kind::kBehindIs, .set = one('\n'), .at_edge = true};
    if (takes("\\z")) return {.kind = Kind::kNextIs, .at_edge = true};
    if (takes("\\A")) return {.kind = Kind::kBehindIs, .at_edge = true};
    if (takes("\\b")) return word_border(true);
    if (takes("\\B")) return word_border(false);
    if (takes("\\")) return set_node(cased(escape(kBareWord)));
    const uint32_t character = next_character();
    if (character == '*' || character == '+' || character == '?') refuse("nothing to repeat");
    return set_node(cased({character, character}));
  }

  static Node set_node(CharacterSet set) { return {.kind = Kind::kSet, .set = std::move(set)}; }

  // Returns the border between a word character and another one, or no such border.
  Node word_border(bool is_border) const {
    const CharacterSet word = *known_.find(kBareWord), other = word.inverse();
    const auto between = [](const CharacterSet& behind, bool at_begin, const CharacterSet& next,
                            bool at_end) {
      return Node{.kind = Kind::kSequence,
                  .parts = {{.kind = Kind::kBehindIs, .set = behind, .at_edge = at_begin},
                            {.kind = Kind::kNextIs, .set = next, .at_edge = at_end}}};
    };
    return {.kind = Kind::kChoice,
            .parts = {between(word, false, is_border ? other : word, is_border),
                      between(other, true, is_border ? word : other, !is_border)}};
  }

  // Returns what "(set)\1*" matches: a run of any one character of the set.
  Node run_of_one(const CharacterSet& set) {
    Node choice{.kind = Kind::kChoice};
    for (const auto& [first, last] : set.ranges()) {
      for (uint32_t character = first; character <= last; ++character) {
        if (choice.parts.size() == kRepeatsMax) refuse("'\\1' of too many characters");
        Node run{.kind = Kind::kRepeat, .least = 1, .most = kNoLimit};
        run.parts.push_back(set_node(one(character)));
        choice.parts.push_back(std::move(run));
      }
    }
    return choice;
  }

  Node group() {
    const bool ignored_case = ignores_case_;
    const bool is_first = !text_.substr(at_).starts_with('?') && groups_++ == 0;
    if (takes("?i:")) {
      ignores_case_ = true;
    } else if (takes("?=") || takes("?!")) {
      return look(Kind::kNextIs);
    } else if (takes("?<=") || takes("?<!")) {
      return look(Kind::kBehindIs);
    } else if (takes("?<")) {
      while (!takes(">")) (void)next_character();  // a name
    } else if (takes("?") && !takes(":")) {
      refuse(fmt::format("the group '(?{}'", text_.substr(at_, 1)));
    }
    Node inside = choice();
    if (!takes(")")) refuse("no ')'");
    ignores_case_ = ignored_case;
    if (is_first && inside.kind == Kind::kSet && takes("\\1*")) return run_of_one(inside.set);
    return inside;
  }

  // Reads what is looked at, after its '=' or '!'.
  Node look(Kind kind) {
    const bool is_negative = text_[at_ - 1] == '!';
    const Node seen = choice();
    if (!takes(")")) refuse("no ')'");
    if (seen.kind != Kind::kSet) {
      refuse("look-ahead or look-behind of more than one set of characters");
    }
    return {
        .kind = kind, .set = is_negative ? seen.set.inverse() : seen.set, .at_edge = is_negative};
  }

  // Adds the other cases of ASCII letters. Of other letters the set must have all or none.
  CharacterSet cased(CharacterSet set) const {
    if (!ignores_case_) return set;
    const CharacterSet others = *known_.find("L") & CharacterSet(0x80, kCodePointMax) &
                                (one(kLongS) | one(kKelvin)).inverse();
    const CharacterSet found = set & others;
    if (!found.ranges().empty() && found.ranges() != others.ranges()) {
      refuse("letters beyond ASCII after '(?i'");
    }
    for (uint32_t upper = 'A'; upper <= 'Z'; ++upper) {
      CharacterSet cases = one(upper) | one(upper | 0x20);
      if (upper == 'S') cases = cases | one(kLongS);
      if (upper == 'K') cases = cases | one(kKelvin);
      if (!(set & cases).ranges().empty()) set = set | cases;
    }
    return set;
  }

  // Reads a set after its '['.
  CharacterSet bracket() {
    if (++depth_ > kDepthMax) refuse("sets that are nested too deeply");
    const bool is_negative = takes("^");
    CharacterSet all, part;
    bool is_first = true, has_operand = false;
    while (is_first || !takes("]")) {
      if (takes("&&")) {
        all = has_operand ? all & part : part;
        has_operand = true;
        part = {};
        continue;
      }
      is_first = false;
      if (takes("[:")) refuse("a POSIX bracket");
      if (takes("[")) {
        part = part | bracket();
        continue;
      }
      const bool is_escape = takes("\\");
      const CharacterSet from = is_escape ? escape() : one(next_character());
      if (text_.substr(at_).starts_with('-') && !text_.substr(at_).starts_with("-]") &&
          is_one(from)) {
        ++at_;
        const CharacterSet to = takes("\\") ? escape() : one(next_character());
        const uint32_t first = from.ranges()[0].first;
        if (!is_one(to) || to.ranges()[0].first < first) refuse("a range of no characters");
        part = part | CharacterSet(first, to.ranges()[0].first);
      } else {
        part = part | from;
      }
    }
    --depth_;
    if (has_operand) part = all & part;
    return is_negative ? part.inverse() : part;
  }

  static CharacterSet one(uint32_t character) { return {character, character}; }
  static bool is_one(const CharacterSet& set) {
    return set.ranges().size() == 1 && set.ranges()[0].first == set.ranges()[0].second;
  }

  // Reads what follows a backslash.
  CharacterSet escape(const char* word = "w") {
    constexpr std::pair<char, char> kControls[] = {{'n', '\n'},  {'r', '\r'}, {'t', '\t'},
                                                   {'f', '\f'},  {'v', '\v'}, {'a', '\a'},
                                                   {'e', '\x1B'}};
    const uint32_t character = next_character();
    for (const auto& [letter, control] : kControls) {
      if (character == static_cast<uint8_t>(letter)) return one(static_cast<uint8_t>(control));
    }
    if (character == 'x' || character == 'u') return one(hexadecimal(character == 'x' ? 2 : 4));
    if (character == 'p' || character == 'P') return property(character == 'P');
    const bool is_letter =
        (character | 0x20) >= 'a' && (character | 0x20) <= 'z' && character < 0x80;
    const bool is_digit = character >= '0' && character <= '9';
    if (!is_letter && !is_digit) return one(character);
    const std::string name(1, static_cast<char>(character | 0x20));
    if (name != "s" && name != "d" && name != "w" && name != "h") {
      refuse(fmt::format("the escape \\{}", static_cast<char>(character)));
    }
    const CharacterSet& set = *known_.find(name == "w" ? word : name);
    return character < 'a' ? set.inverse() : set;
  }

  uint32_t hexadecimal(size_t digits) {
    const bool has_braces = takes("{");
    uint32_t value = 0;
    for (size_t i = 0; has_braces ? !takes("}") : i < digits; ++i) {
      const uint32_t digit = next_character();
      const uint32_t lower = digit | 0x20;
      if (!((digit >= '0' && digit <= '9') || (lower >= 'a' && lower <= 'f')) || i >= 8) {
        refuse("a number that is not hexadecimal");
      }
      value = value << 4 | (digit <= '9' ? digit - '0' : lower - 'a' + 10);
    }
    if (value > kCodePointMax) refuse("a character above U+10FFFF");
    return value;
  }

  CharacterSet property(bool is_inverse) {
    std::string name;
    if (!takes("{")) refuse("a property without braces");
    if (takes("^")) is_inverse = !is_inverse;
    while (!takes("}")) name += static_cast<char>(next_character());
    const CharacterSet* const set = known_.find(name);
    if (set == nullptr || (name[0] >= 'a' && name[0] <= 'z')) {
      refuse(fmt::format("the property {} (known are general categories and Han)", quote(name)));
    }
    return is_inverse ? set->inverse() : *set;
  }

  std::string_view text_;
  CharacterSets& known_;
  const std::string& place_;
  size_t at_ = 0;
  uint32_t depth_ = 0;
  bool ignores_case_ = false;
  uint32_t groups_ = 0;  // that capture, so far
};

class Builder {
 public:
  Builder(std::vector<CharacterSet>& sets, const Parser& parser) : sets_(sets), parser_(parser) {}

  SplitAutomaton build(const Node& root) {
    automaton_.start = build(root, add({}));
    for (const auto& [set, next] : possessives_) check_possessive(sets_[set], next);
    return std::move(automaton_);
  }

 private:
  uint32_t add(const SplitState& state) {
    if (automaton_.states.size() == kStatesMax) parser_.refuse("too many states");
    automaton_.states.push_back(state);
    return static_cast<uint32_t>(automaton_.states.size() - 1);
  }

  uint32_t add_set(const CharacterSet& set) {
    const auto found = std::ranges::find(sets_, set.ranges(), &CharacterSet::ranges);
    if (found == sets_.end()) return sets_.push_back(set), static_cast<uint32_t>(sets_.size() - 1);
    return static_cast<uint32_t>(found - sets_.begin());
  }

  // Returns the state that begins `node`, with `next` after it.
  uint32_t build(const Node& node, uint32_t next) {
    switch (node.kind) {
      case Kind::kSet:
        return add({SplitState::Kind::kSet, add_set(node.set), false, next});
      case Kind::kNextIs:
        return add({SplitState::Kind::kNextIs, add_set(node.set), node.at_edge, next});
      case Kind::kBehindIs:
        return add({SplitState::Kind::kBehindIs, add_set(node.set), node.at_edge, next});
      case Kind::kSequence:
        for (size_t i = node.parts.size(); i > 0; --i) next = build(node.parts[i - 1], next);
        return next;
      case Kind::kChoice: {
        uint32_t begin = build(node.parts.back(), next);
        for (size_t i = node.parts.size() - 1; i > 0; --i) {
          begin = branch(build(node.parts[i - 1], next), begin);
        }
        return begin;
      }
      case Kind::kRepeat:
        return repeat(node, next);
    }
    return next;
  }

  uint32_t branch(uint32_t next, uint32_t other) {
    return add({SplitState::Kind::kBranch, 0, false, next, other});
  }

  uint32_t repeat(const Node& node, uint32_t next) {
    const Node& part = node.parts[0];
    const bool is_lazy = node.manner == Node::Manner::kLazy;
    if (node.manner == Node::Manner::kPossessive) {
      possessives_.emplace_back(add_set(part.set), next);
    }
    const auto either = [&](uint32_t more, uint32_t done) {
      return is_lazy ? branch(done, more) : branch(more, done);
    };
    uint32_t begin = next;
    if (node.most == kNoLimit) {
      begin = either(0, next);
      const uint32_t body = build(part, begin);
      (is_lazy ? automaton_.states[begin].other : automaton_.states[begin].next) = body;
    } else {
      for (uint32_t i = node.least; i < node.most; ++i) begin = either(build(part, begin), next);
    }
    for (uint32_t i = 0; i < node.least; ++i) begin = build(part, begin);
    return begin;
  }

  // A possessive quantifier equals a greedy one if the rest of the expression cannot begin with a
  // repeated character.
  void check_possessive(const CharacterSet& repeated, uint32_t next) {
    std::set<uint32_t> seen;
    std::vector<uint32_t> open = {next};
    while (!open.empty()) {
      const uint32_t at = open.back();
      open.pop_back();
      if (!seen.insert(at).second) continue;
      const SplitState& state = automaton_.states[at];
      const auto is_repeated = [&] { return !(sets_[state.set] & repeated).ranges().empty(); };
      if (state.kind == SplitState::Kind::kBranch) {
        open.insert(open.end(), {state.next, state.other});
      } else if (state.kind == SplitState::Kind::kBehindIs) {
        if (is_repeated()) open.push_back(state.next);
      } else if (state.kind != SplitState::Kind::kMatch && is_repeated()) {
        parser_.refuse("a possessive quantifier, and after it what it may repeat");
      }
    }
  }

  std::vector<CharacterSet>& sets_;
  const Parser& parser_;
  SplitAutomaton automaton_;
  std::vector<std::pair<uint32_t, uint32_t>> possessives_;  // set, state after it
};

// Whether the node is a set, once or more.
bool is_run_of_set(const Node& node) {
  return node.kind == Kind::kRepeat && node.parts[0].kind == Kind::kSet && node.least == 1 &&
         node.most == kNoLimit && node.manner != Node::Manner::kLazy;
}

}  // namespace

std::optional<SetExpression> parse_set(const std::string& expression, const std::string& place) {
  CharacterSets known({}, {});
  const Node root = Parser(expression, known, place).parse();
  if (root.kind == Kind::kSet) return SetExpression{root.set, false};
  if (is_run_of_set(root)) return SetExpression{root.parts[0].set, true};
  return std::nullopt;
}

SplitAutomaton parse_split(const SplitStep& step, CharacterSets& known,
                           std::vector<CharacterSet>& sets, const std::string& place) {
  Parser parser(step.expression, known, place);
  Node root = parser.parse();
  if (may_be_empty(root)) parser.refuse("a match of no characters");
  const bool is_run = is_run_of_set(root);
  if (step.manner != SplitManner::kAlone && root.kind != Kind::kSet && !is_run) {
    parser.refuse("several characters, to be joined with what is beside them");
  }
  const auto repeated = [](const CharacterSet& set, uint32_t least) {
    Node some{.kind = Kind::kRepeat, .least = least, .most = kNoLimit};
    some.parts.push_back({.kind = Kind::kSet, .set = set});
    return some;
  };
  const Node one = root;
  const CharacterSet others = (is_run ? one.parts[0] : one).set.inverse();
  if (step.manner == SplitManner::kRuns) root = repeated(others.inverse(), 1);
  if (step.manner == SplitManner::kWithNext || step.manner == SplitManner::kWithPrevious) {
    const bool is_next = step.manner == SplitManner::kWithNext;
    root = {.kind = Kind::kSequence, .parts = {one, repeated(others, 0)}};
    if (!is_next) std::swap(root.parts[0], root.parts[1]);
  }
  return Builder(sets, parser).build(root);
}

}  // namespace arenite::convert
