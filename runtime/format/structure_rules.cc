// SPDX-License-Identifier: Apache-2.0
// The schema as rules, in the order of model.fbs and tokenizer.fbs.
#include <iterator>

#include "format/structure.h"
#include "model_generated.h"

namespace arenite::format {
namespace {

constexpr FieldRule required(FieldRule rule) {
  rule.required = true;
  return rule;
}

template <typename T>
constexpr FieldRule field(uint8_t entry) {
  return {entry, FieldKind::kInline, sizeof(T), alignof(T)};
}

template <typename T>
constexpr FieldRule list(uint8_t entry) {
  return {entry, FieldKind::kList, sizeof(T)};
}

constexpr FieldRule string(uint8_t entry) { return {entry, FieldKind::kString}; }
constexpr FieldRule strings(uint8_t entry) { return {entry, FieldKind::kStrings}; }

constexpr FieldRule table(uint8_t entry, TableKind kind) {
  return {entry, FieldKind::kTable, 0, 1, kind};
}

constexpr FieldRule tables(uint8_t entry, TableKind kind) {
  return {entry, FieldKind::kTables, 0, 1, kind};
}

constexpr FieldRule union_of(uint8_t entry, TableKind first, TableKind last) {
  const int members = static_cast<int>(last) - static_cast<int>(first) + 1;
  return {entry, FieldKind::kUnion, 0, 1, first, static_cast<uint8_t>(members)};
}

// The schema, table by table in the order of TableKind, each in the order of its fields. A field
// that is missing here is not verified: structure_test.cc compares with the schema.
constexpr FieldRule kFields[] = {
    string(Model::VT_PRODUCER),
    string(Model::VT_NAME),
    string(Model::VT_ARCHITECTURE),
    field<uint32_t>(Model::VT_POSITIONS_MAX),
    field<uint32_t>(Model::VT_INPUT_SLOT),
    field<uint32_t>(Model::VT_OUTPUT_SLOT),
    required(list<Slot>(Model::VT_SLOTS)),
    required(tables(Model::VT_OPS, TableKind::kOp)),
    list<Tensor>(Model::VT_TENSORS),
    strings(Model::VT_TENSOR_NAMES),
    list<Cache>(Model::VT_CACHES),
    tables(Model::VT_MASKS, TableKind::kMask),
    required(tables(Model::VT_PACKED, TableKind::kPacked)),
    field<uint32_t>(Model::VT_VOCAB_SIZE),
    list<HiddenState>(Model::VT_HIDDEN_STATES),
    table(Model::VT_TOKENIZER, TableKind::kTokenizer),
    strings(Model::VT_LABELS),
    field<SelfTest>(Model::VT_SELF_TEST),

    string(Op::VT_NAME),
    field<uint8_t>(Op::VT_BODY_TYPE),
    required(union_of(Op::VT_BODY, TableKind::kLinear, TableKind::kSelect)),

    required(field<View>(Linear::VT_INPUT)),
    required(field<View>(Linear::VT_OUTPUT)),
    field<uint32_t>(Linear::VT_TENSOR),

    field<View>(Attention::VT_QUERY),
    field<View>(Attention::VT_KEY),
    required(field<View>(Attention::VT_VALUE)),
    required(field<View>(Attention::VT_OUTPUT)),
    field<uint32_t>(Attention::VT_HEADS),
    field<uint32_t>(Attention::VT_CACHE),
    field<uint32_t>(Attention::VT_MASK),

    required(field<View>(Embedding::VT_OUTPUT)),
    field<uint32_t>(Embedding::VT_TOKENS),
    field<uint32_t>(Embedding::VT_POSITIONS),
    field<uint32_t>(Embedding::VT_POSITION_OFFSET),
    field<float>(Embedding::VT_SCALE),
    field<uint32_t>(Embedding::VT_TYPES),
    field<uint32_t>(Embedding::VT_PADDING_ID),

    required(field<View>(Norm::VT_INPUT)),
    required(field<View>(Norm::VT_OUTPUT)),
    field<uint8_t>(Norm::VT_KIND),
    field<uint32_t>(Norm::VT_GROUPS),
    field<float>(Norm::VT_EPSILON),
    field<uint32_t>(Norm::VT_GAIN),
    field<uint32_t>(Norm::VT_BIAS),

    required(field<View>(Rope::VT_TARGET)),
    field<uint32_t>(Rope::VT_HEADS),
    field<uint32_t>(Rope::VT_ANGLES),

    required(field<View>(Activation::VT_TARGET)),
    field<View>(Activation::VT_FACTOR),
    field<uint8_t>(Activation::VT_KIND),
    field<float>(Activation::VT_CAP),

    required(field<View>(Add::VT_TARGET)),
    required(field<View>(Add::VT_OTHER)),

    required(field<View>(Select::VT_INPUT)),
    required(field<View>(Select::VT_OUTPUT)),
    field<uint8_t>(Select::VT_KIND),

    field<uint32_t>(Mask::VT_POSITIONS),
    field<uint8_t>(Mask::VT_BODY_TYPE),
    required(union_of(Mask::VT_BODY, TableKind::kBandMask, TableKind::kTileMask)),

    field<uint32_t>(BandMask::VT_BEHIND),
    field<uint32_t>(BandMask::VT_AHEAD),

    field<uint32_t>(StripMask::VT_BEHIND),
    field<uint32_t>(StripMask::VT_AHEAD),
    required(list<float>(StripMask::VT_VALUES)),

    required(list<uint16_t>(TileMask::VT_MAP)),
    list<uint32_t>(TileMask::VT_BITS),
    required(list<uint32_t>(TileMask::VT_ROW_BEGIN)),
    required(list<uint32_t>(TileMask::VT_ROW_END)),

    field<uint8_t>(Packed::VT_TARGET),
    field<uint8_t>(Packed::VT_NR),
    field<uint8_t>(Packed::VT_MR),
    required(field<Segment>(Packed::VT_SEGMENT)),
    required(list<uint64_t>(Packed::VT_TENSOR_OFFSETS)),
    required(field<ArenaFormula>(Packed::VT_FORMULA)),
    list<CacheGroup>(Packed::VT_CACHE_GROUPS),

    field<uint8_t>(Tokenizer::VT_KIND),
    field<uint8_t>(Tokenizer::VT_PATTERN),
    field<uint8_t>(Tokenizer::VT_PREFIX),
    field<uint8_t>(Tokenizer::VT_UNKNOWN),
    field<uint32_t>(Tokenizer::VT_FLAGS),
    field<uint32_t>(Tokenizer::VT_BOS),
    field<uint32_t>(Tokenizer::VT_UNKNOWN_TOKEN),
    list<uint32_t>(Tokenizer::VT_ENDS),
    required(list<uint32_t>(Tokenizer::VT_TOKEN_OFFSETS)),
    required(list<uint8_t>(Tokenizer::VT_TOKEN_BYTES)),
    list<uint32_t>(Tokenizer::VT_BYTE_TOKENS),
    list<uint32_t>(Tokenizer::VT_CHARACTERS),
    list<uint32_t>(Tokenizer::VT_CHARACTER_TOKENS),
    list<uint32_t>(Tokenizer::VT_MERGE_BEGIN),
    list<uint32_t>(Tokenizer::VT_MERGE_RIGHTS),
    list<uint32_t>(Tokenizer::VT_MERGE_RANKS),
    list<uint32_t>(Tokenizer::VT_MERGE_TOKENS),
    list<uint32_t>(Tokenizer::VT_WHOLE_TOKENS),
    list<uint32_t>(Tokenizer::VT_SPECIALS),
    list<uint8_t>(Tokenizer::VT_SPECIAL_FLAGS),
    list<uint32_t>(Tokenizer::VT_SPECIAL_ORDER),
    list<uint32_t>(Tokenizer::VT_LETTERS),
    list<uint32_t>(Tokenizer::VT_NUMBERS),
    field<uint32_t>(Tokenizer::VT_PAIR_SEPARATORS),
    field<uint32_t>(Tokenizer::VT_WORD_CHARACTERS_MAX),
    list<uint32_t>(Tokenizer::VT_DROPPED),
    list<uint32_t>(Tokenizer::VT_PUNCTUATION),
    list<uint32_t>(Tokenizer::VT_FOLD_FROM),
    list<uint32_t>(Tokenizer::VT_FOLD_TO),
    list<uint32_t>(Tokenizer::VT_FOLD_SEQUENCES),
};

// Where each table begins in kFields. A table's first field comes first in its vtable, or behind
// the hidden one of a union's kind.
struct Begins {
  uint8_t of[kTableKinds + 1];
};
constexpr Begins find_begins() {
  Begins begins = {};
  uint32_t count = 0;
  for (uint8_t i = 0; i < std::size(kFields); ++i) {
    if (i == 0 || kFields[i].entry <= kFields[i - 1].entry) begins.of[count++] = i;
  }
  begins.of[count] = static_cast<uint8_t>(std::size(kFields));
  return begins;
}
constexpr Begins kBegins = find_begins();
static_assert(kBegins.of[kTableKinds] == std::size(kFields));

}  // namespace

std::span<const FieldRule> fields_of(TableKind table) {
  const uint8_t* const begin = kBegins.of + static_cast<uint8_t>(table);
  return std::span(kFields).subspan(begin[0], begin[1] - begin[0]);
}

}  // namespace arenite::format
