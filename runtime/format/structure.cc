// SPDX-License-Identifier: Apache-2.0
#include "format/structure.h"

#include <cstring>

namespace arenite::format {
namespace {

// Reads by offsets from the first byte. None of the tables can hold itself, so the recursion is as
// deep as the schema.
class Structure {
 public:
  Structure(std::span<const std::byte> bytes, uint32_t tables_max)
      : bytes_(bytes), tables_left_(tables_max) {}

  bool is_model() {
    const size_t root = target(0);
    return root != 0 && is_table(root, TableKind::kModel);
  }

 private:
  template <typename T>
  T read(size_t at) const {
    T value;
    std::memcpy(&value, bytes_.data() + at, sizeof(value));
    return value;
  }

  bool holds(size_t at, size_t count, size_t alignment) const {
    return at % alignment == 0 && count < bytes_.size() && at <= bytes_.size() - count;
  }

  // Where the offset at `at` leads; 0 if it leads nowhere. Offsets lead forward, so never to 0.
  size_t target(size_t at) const {
    if (!holds(at, sizeof(uint32_t), sizeof(uint32_t))) return 0;
    const uint32_t offset = read<uint32_t>(at);
    if (offset == 0 || offset > INT32_MAX || !holds(at + offset, 1, 1)) return 0;
    return at + offset;
  }

  bool is_list(size_t at, size_t element_bytes) const {
    if (!holds(at, sizeof(uint32_t), sizeof(uint32_t))) return false;
    const uint32_t count = read<uint32_t>(at);
    return count <= kMetadataBytesMax / element_bytes &&
           holds(at, sizeof(uint32_t) + element_bytes * count, 1);
  }

  bool is_string(size_t at) const {
    if (!is_list(at, 1)) return false;
    const size_t end = at + sizeof(uint32_t) + read<uint32_t>(at);
    return holds(end, 1, 1) && read<char>(end) == '\0';
  }

  // Behind the offset at `at`.
  bool is_target(size_t at, const FieldRule& rule, TableKind kind) {
    const size_t to = target(at);
    if (to == 0) return false;
    switch (rule.kind) {
      case FieldKind::kList:
        return is_list(to, rule.bytes);
      case FieldKind::kString:
        return is_string(to);
      case FieldKind::kTable:
      case FieldKind::kUnion:
        return is_table(to, kind);
      default:
        return is_list_of_targets(to, rule);
    }
  }

  bool is_list_of_targets(size_t at, const FieldRule& rule) {
    if (!is_list(at, sizeof(uint32_t))) return false;
    FieldRule element = rule;
    element.kind = rule.kind == FieldKind::kStrings ? FieldKind::kString : FieldKind::kTable;
    const uint32_t count = read<uint32_t>(at);
    for (uint32_t i = 0; i < count; ++i) {
      at += sizeof(uint32_t);
      if (!is_target(at, element, rule.table)) return false;
    }
    return true;
  }

  bool is_table(size_t at, TableKind kind) {
    if (tables_left_-- == 0 || !holds(at, sizeof(int32_t), sizeof(int32_t))) return false;
    const size_t vtable = at - static_cast<size_t>(read<int32_t>(at));
    if (!holds(vtable, sizeof(uint16_t), sizeof(uint16_t))) return false;
    const uint16_t vtable_bytes = read<uint16_t>(vtable);
    if (vtable_bytes % 2 != 0 || !holds(vtable, vtable_bytes, 1)) return false;
    uint8_t before = 0;  // the value of the field before, where that is a byte
    for (const FieldRule& rule : fields_of(kind)) {
      const uint16_t place = rule.entry < vtable_bytes ? read<uint16_t>(vtable + rule.entry) : 0;
      if (place == 0) {
        if (rule.required) return false;
        before = 0;
        continue;
      }
      if (rule.kind == FieldKind::kInline) {
        if (!holds(at + place, rule.bytes, rule.alignment)) return false;
        before = read<uint8_t>(at + place);
        continue;
      }
      if (rule.kind == FieldKind::kUnion && (before == 0 || before > rule.members)) {
        if (target(at + place) == 0) return false;
        continue;  // a kind that this version does not know, which others refuse
      }
      const int member = rule.kind == FieldKind::kUnion ? before - 1 : 0;
      const auto target_kind = static_cast<TableKind>(static_cast<int>(rule.table) + member);
      if (!is_target(at + place, rule, target_kind)) return false;
    }
    return true;
  }

  std::span<const std::byte> bytes_;
  uint32_t tables_left_;
};

}  // namespace

bool is_well_formed(std::span<const std::byte> bytes, uint32_t tables_max) {
  return Structure(bytes, tables_max).is_model();
}

}  // namespace arenite::format
