// SPDX-License-Identifier: Apache-2.0
// Verifies that bytes are a well-formed FlatBuffer of the schema: that whatever the generated
// accessors read lies within them. By tables, not by the code that flatc makes for each table,
// which is ten times as long.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace arenite::format {

// The tables of model.fbs and tokenizer.fbs. Members of a union follow each other in its order.
enum class TableKind : uint8_t {
  kModel,
  kOp,
  kLinear,
  kAttention,
  kEmbedding,
  kNorm,
  kRope,
  kActivation,
  kAdd,
  kSelect,
  kMask,
  kBandMask,
  kStripMask,
  kTileMask,
  kPacked,
  kTokenizer,
};
inline constexpr uint32_t kTableKinds = 16;

enum class FieldKind : uint8_t {
  kInline,   // a number or a struct, in the table itself
  kList,     // of numbers or structs
  kString,   //
  kStrings,  // a list of strings
  kTable,    //
  kTables,   // a list of tables
  kUnion,    // a table; the field before says which, counted from 1
};

// A field of a table.
struct FieldRule {
  uint8_t entry;  // place in the vtable, in bytes
  FieldKind kind;
  uint8_t bytes = 0;      // kInline: of the field; kList: of an element
  uint8_t alignment = 1;  // kInline
  TableKind table = {};   // kTable, kTables; kUnion: the first member
  uint8_t members = 0;    // kUnion
  bool required = false;
};

std::span<const FieldRule> fields_of(TableKind table);

// Offsets have 31 bits.
inline constexpr uint32_t kMetadataBytesMax = INT32_MAX - 1;

// True if the bytes hold a kModel and at most `tables_max` tables. They may begin at any address.
// REQUIRES: at most kMetadataBytesMax bytes.
bool is_well_formed(std::span<const std::byte> bytes, uint32_t tables_max);

}  // namespace arenite::format
