// SPDX-License-Identifier: Apache-2.0
// Walks from the root through all tables, guided by the binary schema that the build writes with
// flatc.
#include "damage/offset_places.h"

#include <flatbuffers/reflection.h>

#include <fstream>
#include <iterator>
#include <set>
#include <stdexcept>
#include <string>

namespace arenite::test {
namespace {

using flatbuffers::Table;
using flatbuffers::uoffset_t;
using flatbuffers::voffset_t;
using reflection::BaseType;

class Walk {
 public:
  Walk(std::span<const std::byte> metadata, const reflection::Schema& schema)
      : start_(reinterpret_cast<const uint8_t*>(metadata.data())), schema_(schema) {
    places_.offsets.push_back(0);
    visit(*flatbuffers::GetAnyRoot(start_), *schema.root_table());
    for (const std::vector<uint32_t>& fields : records_) places_.fields.push_back(fields);
  }

  OffsetPlaces places() && { return std::move(places_); }

 private:
  uint32_t place_of(const void* address) const {
    return static_cast<uint32_t>(static_cast<const uint8_t*>(address) - start_);
  }
  const reflection::Object& object(int32_t index) const {
    return *schema_.objects()->Get(static_cast<uoffset_t>(index));
  }
  bool is_table(BaseType type, int32_t index) const {
    return type == reflection::Obj && !object(index).is_struct();
  }

  void visit(const Table& table, const reflection::Object& type) {
    const uint8_t* const record = table.GetVTable();
    const auto record_bytes = flatbuffers::ReadScalar<voffset_t>(record);
    std::vector<uint32_t> fields;
    for (voffset_t at = 2 * sizeof(voffset_t); at < record_bytes; at += sizeof(voffset_t)) {
      fields.push_back(place_of(record + at));
    }
    records_.insert(fields);
    for (const reflection::Field* const field : *type.fields()) {
      const uint8_t* const address = table.GetAddressOf(field->offset());
      if (address != nullptr) visit_field(address, *field->type());
    }
  }

  void visit_field(const uint8_t* address, const reflection::Type& type) {
    const bool leads_to_table = is_table(type.base_type(), type.index());
    if (!leads_to_table && type.base_type() != reflection::String &&
        type.base_type() != reflection::Vector) {
      return;
    }
    const uint8_t* const target = follow(address);
    if (leads_to_table) visit(*reinterpret_cast<const Table*>(target), object(type.index()));
    const bool holds_tables = is_table(type.element(), type.index());
    if (type.base_type() != reflection::Vector ||
        (!holds_tables && type.element() != reflection::String)) {
      return;
    }
    const auto count = flatbuffers::ReadScalar<uoffset_t>(target);
    for (uoffset_t i = 1; i <= count; ++i) {
      const uint8_t* const element = follow(target + i * sizeof(uoffset_t));
      if (holds_tables) visit(*reinterpret_cast<const Table*>(element), object(type.index()));
    }
  }

  // Notes the offset, and goes where it leads.
  const uint8_t* follow(const uint8_t* address) {
    places_.offsets.push_back(place_of(address));
    return address + flatbuffers::ReadScalar<uoffset_t>(address);
  }

  const uint8_t* start_;
  const reflection::Schema& schema_;
  std::set<std::vector<uint32_t>> records_;
  OffsetPlaces places_;
};

}  // namespace

OffsetPlaces find_offsets(std::span<const std::byte> metadata) {
  std::ifstream file(ARENITE_SCHEMA_FILE, std::ios::binary);
  const std::string schema{std::istreambuf_iterator<char>(file), {}};
  if (schema.empty()) throw std::runtime_error("cannot read " ARENITE_SCHEMA_FILE);
  return Walk(metadata, *reflection::GetSchema(schema.data())).places();
}

}  // namespace arenite::test
