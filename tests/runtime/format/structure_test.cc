// SPDX-License-Identifier: Apache-2.0
// The rules for well-formed metadata are the schema's, and judge as FlatBuffers' own verifier does.
#include "format/structure.h"

#include <flatbuffers/reflection.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "format/file_layout.h"
#include "model_generated.h"
#include "support/decoder_factory.h"
#include "support/encoder_factory.h"
#include "support/model_factory.h"
#include "support/random.h"
#include "support/tokenizer_model.h"

namespace arenite::format {
namespace {

// An emulator takes every so many bytes only.
#if defined(__x86_64__)
constexpr size_t kStride = 1;
#else
constexpr size_t kStride = 13;
#endif

constexpr const char* kTableNames[] = {
    "Model", "Op",     "Linear", "Attention", "Embedding", "Norm",     "Rope",   "Activation",
    "Add",   "Select", "Mask",   "BandMask",  "StripMask", "TileMask", "Packed", "Tokenizer"};
static_assert(std::size(kTableNames) == kTableKinds);

std::string schema_bytes() {
  std::ifstream file(ARENITE_SCHEMA_FILE, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TableKind kind_of(const reflection::Object& object) {
  for (uint32_t i = 0; i < kTableKinds; ++i) {
    if (object.name()->str() == std::string("arenite.format.") + kTableNames[i]) {
      return static_cast<TableKind>(i);
    }
  }
  ADD_FAILURE() << object.name()->str() << " has no rules";
  return {};
}

// What the schema asks of a field.
FieldRule expected_rule(const reflection::Schema& schema, const reflection::Field& field) {
  const reflection::Type& type = *field.type();
  const auto object = [&]() -> const reflection::Object& {
    return *schema.objects()->Get(static_cast<uint32_t>(type.index()));
  };
  const auto bytes = [](size_t size) { return static_cast<uint8_t>(size); };
  FieldRule rule = {bytes(field.offset()), FieldKind::kInline};
  rule.required = field.required();
  if (type.base_type() == reflection::String) {
    rule.kind = FieldKind::kString;
  } else if (type.base_type() == reflection::Union) {
    const auto& values = *schema.enums()->Get(static_cast<uint32_t>(type.index()))->values();
    rule.kind = FieldKind::kUnion;
    rule.members = bytes(values.size() - 1);
    const int first = values.Get(1)->union_type()->index();
    rule.table = kind_of(*schema.objects()->Get(static_cast<uint32_t>(first)));
    for (uint32_t i = 1; i < values.size(); ++i) {
      const int member = values.Get(i)->union_type()->index();
      EXPECT_EQ(
          static_cast<uint32_t>(kind_of(*schema.objects()->Get(static_cast<uint32_t>(member)))),
          static_cast<uint32_t>(rule.table) + i - 1);
    }
  } else if (type.base_type() == reflection::Vector) {
    const bool objects = type.element() == reflection::Obj;
    if (type.element() == reflection::String) {
      rule.kind = FieldKind::kStrings;
    } else if (objects && !object().is_struct()) {
      rule.kind = FieldKind::kTables;
      rule.table = kind_of(object());
    } else {
      rule.kind = FieldKind::kList;
      rule.bytes = bytes(objects ? static_cast<size_t>(object().bytesize())
                                 : flatbuffers::GetTypeSize(type.element()));
    }
  } else if (type.base_type() != reflection::Obj) {
    rule.bytes = rule.alignment = bytes(flatbuffers::GetTypeSize(type.base_type()));
  } else if (object().is_struct()) {
    rule.bytes = bytes(static_cast<size_t>(object().bytesize()));
    rule.alignment = bytes(static_cast<size_t>(object().minalign()));
  } else {
    rule.kind = FieldKind::kTable;
    rule.table = kind_of(object());
  }
  return rule;
}

TEST(Structure, HasARuleForEachFieldOfTheSchema) {
  const std::string bytes = schema_bytes();
  const reflection::Schema& schema = *reflection::GetSchema(bytes.data());
  uint32_t tables = 0;
  for (const reflection::Object* object : *schema.objects()) {
    if (object->is_struct()) continue;
    ++tables;
    SCOPED_TRACE(object->name()->str());
    const auto rules = fields_of(kind_of(*object));
    EXPECT_EQ(rules.size(), object->fields()->size());
    for (const reflection::Field* field : *object->fields()) {
      SCOPED_TRACE(field->name()->str());
      const FieldRule expected = expected_rule(schema, *field);
      const auto rule = std::find_if(rules.begin(), rules.end(), [&](const FieldRule& candidate) {
        return candidate.entry == expected.entry;
      });
      ASSERT_NE(rule, rules.end());
      EXPECT_EQ(rule->kind, expected.kind);
      EXPECT_EQ(rule->bytes, expected.bytes);
      EXPECT_EQ(rule->alignment, expected.alignment);
      EXPECT_EQ(rule->table, expected.table);
      EXPECT_EQ(rule->members, expected.members);
      EXPECT_EQ(rule->required, expected.required);
    }
  }
  EXPECT_EQ(tables, kTableKinds);
}

constexpr uint32_t kTablesMax = 2000;

bool generated_code_accepts(std::span<const std::byte> bytes) {
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size(), 8,
                                 kTablesMax);
  return verifier.VerifyBuffer<Model>(nullptr);
}

std::vector<std::byte> metadata_of(std::span<const std::byte> file) {
  Footer footer;
  std::memcpy(&footer, file.data() + file.size() - sizeof(footer), sizeof(footer));
  const auto metadata = file.first(static_cast<size_t>(footer.metadata_bytes));
  return {metadata.begin(), metadata.end()};
}

std::vector<std::vector<std::byte>> metadata_of_models() {
  const std::vector<Target> portable = {Target::kPortable};
  std::vector<std::vector<std::byte>> all;
  for (const test::ModuleSpec& spec : test::all_specs()) {
    if (spec.name != "wide") all.push_back(metadata_of(make_model(spec, portable).span()));
  }
  test::EncoderShape encoder = test::all_encoders().front();
  encoder.layers = 1;
  all.push_back(metadata_of(make_encoder_model(encoder, portable).span()));
  all.push_back(metadata_of(make_decoder_model(test::smallest_decoder(), portable).span()));
  const convert::TokenizerSpec words = test::word_spec({"the", "a", "##b"});
  all.push_back(metadata_of(test::model_with(words).span()));
  return all;
}

// The rules are stricter in one thing: offsets in a list must lead forward, and within the bytes.
// FlatBuffers then finds the same in nearly all files, as what lies elsewhere is no table.
TEST(Structure, AcceptsNothingThatTheGeneratedCodeRefuses) {
  size_t files = 0;
  size_t stricter = 0;
  size_t refused = 0;
  test::Random random(7);
  for (std::vector<std::byte>& bytes : metadata_of_models()) {
    ASSERT_TRUE(is_well_formed(bytes, kTablesMax));
    for (size_t at = 0; at < bytes.size(); at += kStride) {
      const std::byte original = bytes[at];
      const std::byte drawn{static_cast<uint8_t>(random.next())};
      for (const std::byte change : {std::byte{1}, std::byte{2}, std::byte{4}, std::byte{0x80},
                                     std::byte{0xFF}, original, drawn}) {
        bytes[at] = original ^ change;
        const bool accepted = is_well_formed(bytes, kTablesMax);
        const bool generated = generated_code_accepts(bytes);
        ASSERT_TRUE(generated || !accepted) << "byte " << at;
        ++files;
        stricter += generated && !accepted;
        refused += !accepted;
      }
      bytes[at] = original;
    }
    for (size_t length = 0; length < bytes.size(); length += kStride) {
      const std::span<const std::byte> front = std::span(bytes).first(length);
      ASSERT_TRUE(generated_code_accepts(front) || !is_well_formed(front, kTablesMax)) << length;
    }
  }
  EXPECT_GT(refused, files / 20);
  EXPECT_LE(stricter, files / 1000);
}

TEST(Structure, CountsTables) {
  const std::vector<std::byte> bytes = metadata_of(make_model(test::all_specs().front()).span());
  uint32_t tables = 0;
  while (!is_well_formed(bytes, tables)) ASSERT_LT(++tables, 100u);
  flatbuffers::Verifier enough(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size(), 8,
                               tables);
  EXPECT_TRUE(enough.VerifyBuffer<Model>(nullptr));
  flatbuffers::Verifier too_few(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size(), 8,
                                tables - 1);
  EXPECT_FALSE(too_few.VerifyBuffer<Model>(nullptr));
}

}  // namespace
}  // namespace arenite::format
