// SPDX-License-Identifier: Apache-2.0
// Derives the tables, checks them against the format, and writes them.
#include "convert/tokenizers/tokenizer_spec.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <string_view>
#include <tuple>

#include "convert/files/error.h"
#include "convert/tokenizers/split_expression.h"
#include "convert/tokenizers/split_tables.h"
#include "convert/tokenizers/text_changes.h"
#include "convert/tokenizers/unicode_library.h"
#include "format/tokenizer_reader.h"
#include "model_generated.h"
#include "text/normalizer.h"
#include "text/pre_tokenizer.h"

namespace arenite::convert {
namespace {

namespace fb = flatbuffers;

// Sorts tokens by their bytes. Throws InputError if two of them are equal, as text would be
// ambiguous.
void sort_by_bytes(const TokenizerSpec& spec, std::vector<TokenId>& tokens, const char* what) {
  std::sort(tokens.begin(), tokens.end(),
            [&](TokenId a, TokenId b) { return spec.tokens[a] < spec.tokens[b]; });
  for (size_t i = 1; i < tokens.size(); ++i) {
    if (spec.tokens[tokens[i - 1]] == spec.tokens[tokens[i]]) {
      throw InputError("{}: {} {} and {} are both {}: expected each text once", quote(spec.origin),
                       what, tokens[i - 1], tokens[i], quote(spec.tokens[tokens[i]]));
    }
  }
}

void check_size(const TokenizerSpec& spec, size_t found, size_t most, const char* what) {
  refuse_if(found > most, "{}: {} {}: a model file holds at most {}", quote(spec.origin), found,
            what, most);
}

void check_id(const TokenizerSpec& spec, TokenId id, const char* what) {
  if (id != kNoToken && id >= spec.tokens.size()) {
    throw InputError("{}: {} is token {}: expected one of the {} tokens", quote(spec.origin), what,
                     id, spec.tokens.size());
  }
}

void check_tokens(const TokenizerSpec& spec) {
  check_size(spec, spec.tokens.size(), format::kVocabularyMax, "tokens");
  check_size(spec, spec.merges.size(), format::kMergesMax, "merges");
  check_size(spec, spec.specials.size(), format::kSpecialsMax, "special tokens");
  check_size(spec, spec.ends.size(), format::kEndsMax, "end tokens");
  if (spec.tokens.empty()) throw InputError("{}: the vocabulary is empty", quote(spec.origin));
  for (size_t i = 0; i < spec.tokens.size(); ++i) {
    if (spec.tokens[i].size() > format::kTokenBytesMax) {
      throw InputError("{}: token {} ({}) has {} bytes: a model file holds at most {}",
                       quote(spec.origin), i, quote(spec.tokens[i]), spec.tokens[i].size(),
                       format::kTokenBytesMax);
    }
  }
  check_id(spec, spec.bos, "the begin token");
  check_id(spec, spec.unknown_token, "the unknown token");
  for (const TokenId id : spec.ends) check_id(spec, id, "an end token");
  for (const auto& [id, flags] : spec.specials) {
    check_id(spec, id, "a special token");
    refuse_if(spec.tokens[id].empty() || spec.tokens[id].size() > format::kSpecialBytesMax,
              "{}: special token {} ({}) has {} bytes: expected 1 to {}", quote(spec.origin), id,
              quote(spec.tokens[id]), spec.tokens[id].size(), format::kSpecialBytesMax);
  }
}

void check_merges(const TokenizerSpec& spec) {
  for (size_t i = 0; i < spec.merges.size(); ++i) {
    const TokenMerge& merge = spec.merges[i];
    for (const TokenId id : {merge.left, merge.right, merge.token}) check_id(spec, id, "a merge");
    const std::string& left = spec.tokens[merge.left];
    const std::string& whole = spec.tokens[merge.token];
    if (!whole.starts_with(left) ||
        std::string_view(whole).substr(left.size()) != spec.tokens[merge.right]) {
      throw InputError("{}: merge {} joins {} and {} into {}: expected a token of both parts",
                       quote(spec.origin), i, quote(left), quote(spec.tokens[merge.right]),
                       quote(whole));
    }
    if (i > 0 && merge.left == spec.merges[i - 1].left && merge.right == spec.merges[i - 1].right) {
      throw InputError("{}: {} and {} are merged twice: expected each pair once",
                       quote(spec.origin), quote(spec.tokens[merge.left]),
                       quote(spec.tokens[merge.right]));
    }
  }
}

// Columns of the merge table, which is sorted by left and right.
struct MergeTable {
  std::vector<uint32_t> begin, rights, ranks, tokens;
};

MergeTable merge_table(const TokenizerSpec& spec) {
  MergeTable table;
  if (spec.merges.empty()) return table;
  table.begin.assign(spec.tokens.size() + 1, 0);
  for (const TokenMerge& merge : spec.merges) {
    ++table.begin[merge.left + 1];
    table.rights.push_back(merge.right);
    table.ranks.push_back(merge.rank);
    table.tokens.push_back(merge.token);
  }
  for (size_t i = 1; i < table.begin.size(); ++i) table.begin[i] += table.begin[i - 1];
  return table;
}

// Columns of the table of folded characters.
struct FoldTable {
  std::vector<uint32_t> from, to, sequences;

  uint32_t add(const std::vector<uint32_t>& sequence) {
    sequences.insert(sequences.end(), sequence.begin(), sequence.end());
    return static_cast<uint32_t>(sequences.size() - sequence.size());
  }
  // Returns the place and the length of the list.
  std::pair<uint32_t, uint32_t> add_list(const std::vector<uint32_t>& list) {
    return {add(list), static_cast<uint32_t>(list.size())};
  }
  void add(const std::map<uint32_t, std::vector<uint32_t>>& folds) {
    for (const auto& [character, becomes] : folds) {
      const uint32_t value = becomes.size() == 1 ? becomes[0] : add(becomes);
      from.push_back(character);
      to.push_back(static_cast<uint32_t>(becomes.size()) << format::kFoldCountShift | value);
    }
  }
};

// Returns the steps of the normalizer, and adds their characters to the table.
std::vector<uint32_t> step_list(const TokenizerSpec& spec, FoldTable& table) {
  std::vector<uint32_t> steps;
  std::map<std::map<uint32_t, std::vector<uint32_t>>, size_t> known_folds;  // first in the table
  std::optional<std::pair<uint32_t, uint32_t>> classes, composed;           // first, count
  for (const TextChange& change : spec.changes) {
    const auto add = [&](size_t first, size_t second, size_t third) {
      steps.push_back(static_cast<uint32_t>(change.kind));
      for (const size_t number : {first, second, third}) {
        steps.push_back(static_cast<uint32_t>(number));
      }
    };
    switch (change.kind) {
      case format::TextStep::kFold: {
        const auto [first, is_new] = known_folds.emplace(change.folds, table.from.size());
        add(first->second, change.folds.size(), change.decomposes_hangul);
        if (is_new) table.add(change.folds);
        break;
      }
      case format::TextStep::kCharsmap:
        add(change.maps_longest, 0, 0);
        break;
      case format::TextStep::kShrink:
        add(change.of, change.least, change.becomes);
        break;
      case format::TextStep::kStrip:
        add(change.sides, 0, 0);
        break;
      case format::TextStep::kPrepend:
        add(change.becomes, 0, 0);
        break;
      case format::TextStep::kOrder:
      case format::TextStep::kCompose: {
        const bool orders = change.kind == format::TextStep::kOrder;
        auto& known = orders ? classes : composed;
        if (!known) known = table.add_list(orders ? combining_classes() : compositions());
        add(known->first, known->second, 0);
        break;
      }
      case format::TextStep::kDrop: {
        const auto [first, count] = table.add_list(change.from);
        add(first, count, 0);
        break;
      }
      case format::TextStep::kWordCharacters:
      case format::TextStep::kName:
        break;  // name_steps adds them
      case format::TextStep::kReplace:
        add(table.sequences.size(), change.from.size(), change.to.size());
        table.add(change.from);
        table.add(change.to);
        break;
    }
  }
  return steps;
}

void set_steps(format::TokenizerView& view, const FoldTable& folds,
               const std::vector<uint32_t>& steps) {
  view.fold_from = folds.from;
  view.fold_to = folds.to;
  view.fold_sequences = folds.sequences;
  view.steps = steps;
}

// The library decodes tokens that are found in normalized text by their normalized names. A special
// token whose name changes, "[MASK]" to "[mask]", is text from then on. One that only gets a prefix
// stays special, though version 0.23 of the library writes it, too.
void normalize_names(TokenizerSpec& spec) {
  FoldTable folds;
  const std::vector<uint32_t> steps = step_list(spec, folds);
  format::TokenizerView view;
  set_steps(view, folds, steps);
  view.charsmap = spec.charsmap;
  view.graphemes = spec.graphemes;
  for (auto& [token, flags] : spec.specials) {
    if ((flags & format::kNormalized) == 0) continue;
    std::vector<uint32_t> space(16 * spec.tokens[token].size() + 64);
    std::string_view normal;
    (void)text::normalize(view, spec.tokens[token], space, normal);
    refuse_if(normal.empty(), "{}: the normalizer leaves nothing of added token {}, {}",
              quote(spec.origin), token, quote(spec.tokens[token]));
    if (normal == spec.tokens[token]) continue;
    if ((flags & format::kIsText) == 0 && normal.ends_with(spec.tokens[token])) {
      spec.special_names[token] = std::string(normal);
    } else {
      spec.tokens[token] = std::string(normal);
      flags |= format::kIsText;
    }
  }
}

// Adds the tables that the search for special tokens needs: word characters, and names that are not
// the tokens' bytes.
void add_name_steps(const TokenizerSpec& spec, const format::TokenizerView& view, FoldTable& table,
                    std::vector<uint32_t>& steps) {
  const auto add_step = [&](format::TextStep kind, const std::vector<uint32_t>& list, size_t last) {
    const auto [first, count] = table.add_list(list);
    steps.insert(steps.end(),
                 {static_cast<uint32_t>(kind), first, count, static_cast<uint32_t>(last)});
  };
  const auto has_single = [&](uint8_t normalized) {
    return std::ranges::any_of(view.special_flags, [&](uint8_t flags) {
      return (flags & format::kSingleWord) != 0 && (flags & format::kNormalized) == normalized;
    });
  };
  if (has_single(0) || has_single(format::kNormalized)) {
    const bool has_ideographs =
        (spec.flags & format::kIdeographsAreWords) != 0 && has_single(format::kNormalized);
    refuse_if(has_ideographs && has_single(0),
              "{}: of added tokens with single_word some are normalized: expected all or none, "
              "beside a normalizer that puts spaces around ideographs",
              quote(spec.origin));
    CharacterSets known({}, {});
    std::vector<uint32_t> ranges;
    for (auto [first, last] : known.find(kWhitespaceWord)->ranges()) {
      // Names are sought in normalized text, where a space is between these and a name.
      for (size_t i = 0; has_ideographs && i < std::size(text::kIdeographs); i += 2) {
        if (text::kIdeographs[i + 1] < first || text::kIdeographs[i] > last) continue;
        if (text::kIdeographs[i] > first)
          ranges.insert(ranges.end(), {first, text::kIdeographs[i] - 1});
        first = text::kIdeographs[i + 1] + 1;
      }
      if (first <= last) ranges.insert(ranges.end(), {first, last});
    }
    add_step(format::TextStep::kWordCharacters, ranges, 0);
  }
  for (size_t i = 0; i < view.specials.size(); ++i) {
    const auto given = spec.special_names.find(view.specials[i]);
    const uint8_t as_written = format::kNormalized | format::kIsText;
    if (given == spec.special_names.end()) continue;
    if ((view.special_flags[i] & as_written) == as_written) continue;
    add_step(format::TextStep::kName, code_points(given->second), i);
  }
  refuse_if(steps.size() > format::kStepsMax * format::kStepNumbers,
            "{}: {} steps of the normalizer and added tokens of spaces: a model file holds at most "
            "{}",
            quote(spec.origin), steps.size() / format::kStepNumbers, format::kStepsMax);
}

// Returns the scores of whole tokens, then of an unknown character, as 64-bit doubles in two words
// each, low half first.
std::vector<uint32_t> score_list(const TokenizerSpec& spec) {
  std::vector<uint32_t> halves;
  if (spec.kind != format::TokenizerKind::kUnigram) return halves;
  const auto add = [&](double score) {
    const auto bits = std::bit_cast<uint64_t>(score);
    halves.push_back(static_cast<uint32_t>(bits));
    halves.push_back(static_cast<uint32_t>(bits >> 32));
  };
  for (const TokenId id : spec.whole_tokens) add(spec.scores[id]);
  add(spec.unknown_score);
  return halves;
}

std::string fate_of_unknown(const TokenizerSpec& spec) {
  switch (spec.unknown) {
    case format::Unknown::kRefuse:
      return "are refused";
    case format::Unknown::kDrop:
      return "are left out";
    case format::Unknown::kToken:
      if (spec.unknown_token == kNoToken) break;
      return fmt::format("become token {}, {}", spec.unknown_token,
                         quote(spec.tokens[spec.unknown_token]));
  }
  return "have none";
}

void note_unknown(TokenizerSpec& spec) {
  if (spec.kind == format::TokenizerKind::kWordPiece) return;  // words are unknown, not characters
  const auto lacking = std::count(spec.byte_tokens.begin(), spec.byte_tokens.end(), kNoToken);
  if (!spec.byte_tokens.empty() && lacking == 0) return;
  const bool is_bytes = spec.kind == format::TokenizerKind::kBytePairs;
  const std::string found = spec.byte_tokens.empty()
                                ? "no bytes have tokens"
                                : fmt::format("{} bytes have no token", lacking);
  spec.notes.push_back(fmt::format(
      "{}: {} {}", found, is_bytes ? "they" : "characters without a token", fate_of_unknown(spec)));
}

// Whether the tokenizer needs the lists added later. Earlier runtimes only read files without them.
bool has_later_lists(const format::TokenizerView& view) {
  return view.kind == format::TokenizerKind::kUnigram || view.has(format::kWordsAreParts) ||
         view.byte_tokens.size() > 256 || !view.before.empty() || !view.after.empty() ||
         !view.steps.empty() || view.flags >= format::kDropRepeats ||
         text::has_step(view, format::kPartsFollow) || text::has_step(view, format::kLooksBehind) ||
         (view.kind == format::TokenizerKind::kWordPiece && !view.splits.empty());
}

}  // namespace

void complete_tokenizer(TokenizerSpec& spec) {
  check_tokens(spec);
  normalize_names(spec);
  std::sort(spec.merges.begin(), spec.merges.end(), [](const TokenMerge& a, const TokenMerge& b) {
    return std::tie(a.left, a.right) < std::tie(b.left, b.right);
  });
  check_merges(spec);
  std::erase_if(spec.whole_tokens, [&](TokenId id) { return spec.tokens[id].empty(); });
  sort_by_bytes(spec, spec.whole_tokens, "tokens");
  if (spec.split_tables.empty()) compile_splits(spec);
  if (spec.kind == format::TokenizerKind::kWordPiece) {
    refuse_if(
        spec.word_characters_max == 0 || spec.word_characters_max > format::kWordCharactersMax,
        "{}: words have at most {} characters: expected 1 to {}", quote(spec.origin),
        spec.word_characters_max, format::kWordCharactersMax);
    if (spec.punctuation.empty() && spec.splits.empty()) fill_word_tables(spec);
  }
  add_notes(spec);
}

fb::Offset<format::Tokenizer> write_tokenizer(fb::FlatBufferBuilder& builder,
                                              const TokenizerSpec& spec) {
  std::vector<uint32_t> offsets = {0};
  std::string bytes;
  for (const std::string& token : spec.tokens) {
    bytes += token;
    offsets.push_back(static_cast<uint32_t>(bytes.size()));
  }
  std::vector<uint32_t> characters, character_tokens;
  for (const auto& [code_point, token] : spec.characters) {
    characters.push_back(code_point);
    character_tokens.push_back(token);
  }
  std::vector<TokenId> specials, by_name;
  std::vector<uint8_t> special_flags;
  for (const auto& [token, flags] : spec.specials) {
    specials.push_back(token);
    special_flags.push_back(flags);
  }
  by_name = specials;
  sort_by_bytes(spec, by_name, "special tokens");
  std::vector<uint32_t> special_order;
  for (const TokenId token : by_name) {
    const auto place = std::lower_bound(specials.begin(), specials.end(), token);
    special_order.push_back(static_cast<uint32_t>(place - specials.begin()));
  }
  const MergeTable merges = merge_table(spec);
  FoldTable folds;
  folds.add(spec.folds);
  std::vector<uint32_t> steps = step_list(spec, folds);
  const std::vector<uint32_t> scores = score_list(spec);

  format::TokenizerView view;
  view.kind = spec.kind;
  view.prefix = spec.prefix;
  view.unknown = spec.unknown;
  view.flags = spec.flags;
  view.bos = spec.bos;
  view.unknown_token = spec.unknown_token;
  view.ends = spec.ends;
  view.token_offsets = offsets;
  view.token_bytes = bytes;
  view.byte_tokens = spec.byte_tokens;
  view.characters = characters;
  view.character_tokens = character_tokens;
  view.merge_begin = merges.begin;
  view.merge_rights = merges.rights;
  view.merge_ranks = merges.ranks;
  view.merge_tokens = merges.tokens;
  view.whole_tokens = spec.whole_tokens;
  view.specials = specials;
  view.special_flags = special_flags;
  view.special_order = special_order;
  view.columns = spec.columns;
  view.splits = spec.split_tables;
  view.pair_separators = spec.pair_separators;
  view.word_characters_max = spec.word_characters_max;
  view.dropped = spec.dropped;
  view.punctuation = spec.punctuation;
  view.before = spec.before;
  view.after = spec.after;
  view.scores = scores;
  view.charsmap = spec.charsmap;
  view.graphemes = spec.graphemes;
  set_steps(view, folds, steps);
  add_name_steps(spec, format::TokenizerView(view), folds, steps);
  set_steps(view, folds, steps);
  return write_tokenizer(builder, view);
}

fb::Offset<format::Tokenizer> write_tokenizer(fb::FlatBufferBuilder& builder,
                                              const format::TokenizerView& view) {
  const std::span<const uint32_t> lists[] = {
      // In the order of format::TokenizerList.
      view.ends,           view.token_offsets,    view.byte_tokens,
      view.characters,     view.character_tokens, view.merge_begin,
      view.merge_rights,   view.merge_ranks,      view.merge_tokens,
      view.whole_tokens,   view.specials,         view.special_order,
      view.columns,        view.splits,           view.dropped,
      view.punctuation,    view.fold_from,        view.fold_to,
      view.fold_sequences, view.before,           view.after,
      view.steps,          view.scores,           view.charsmap,
      view.graphemes};
  static_assert(std::size(lists) == format::kTokenizerLists);
  std::vector<fb::Offset<format::NumberList>> lists_at;
  const size_t count =
      has_later_lists(view) ? format::kTokenizerLists : format::kFirstTokenizerLists;
  for (const std::span<const uint32_t> list : std::span(lists).first(count)) {
    lists_at.push_back(
        format::CreateNumberList(builder, builder.CreateVector(list.data(), list.size())));
  }
  const auto bytes_at = builder.CreateVector(
      reinterpret_cast<const uint8_t*>(view.token_bytes.data()), view.token_bytes.size());
  const auto special_flags_at =
      builder.CreateVector(view.special_flags.data(), view.special_flags.size());
  const auto number = [](auto choice) { return static_cast<uint32_t>(choice); };
  const format::TokenizerChoices choices(
      number(view.kind), number(view.prefix), number(view.unknown), view.flags, view.bos,
      view.unknown_token, view.pair_separators, view.word_characters_max);
  return format::CreateTokenizer(builder, &choices, bytes_at, special_flags_at,
                                 builder.CreateVector(lists_at));
}

void add_notes(TokenizerSpec& spec) {
  note_unknown(spec);
  if ((spec.flags & format::kExpectsNfc) != 0) {
    spec.notes.push_back(
        "texts must be in Unicode normalization form C: generate, embed-text and classify ensure "
        "it; a program can ask Tokenizer::expects_nfc");
  }
}

std::string describe_unicode(const TokenizerSpec& spec) {
  if (spec.kind == format::TokenizerKind::kWordPiece) {
    return fmt::format("punctuation, controls and accents of Unicode {}, case of Unicode {}",
                       kWordUnicode, kCaseUnicode);
  }
  if (spec.columns.size() < format::kRangesMax / 4) return "";  // an alphabet's, not a category's
  return fmt::format("character classes of Unicode {}", pattern_unicode());
}

}  // namespace arenite::convert
