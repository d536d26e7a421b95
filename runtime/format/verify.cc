// SPDX-License-Identifier: Apache-2.0
// The order of verification: identifier, footer, version, checksum, FlatBuffers' structure, counts,
// the parts that this build must have, then the meaning of the fields. Each step relies only on
// those before it.
#include "format/verify.h"

#include <cstring>
#include <iterator>

#include "format/file_layout.h"
#include "format/model_needs.h"
#include "format/schema.h"
#include "format/tokenizer_reader.h"

namespace arenite::format {
namespace {

// The tables are Model, Sound, Tokenizer and a NumberList for each list of the tokenizer.
constexpr uint32_t kTablesMax = 3 + kTokenizerLists;
constexpr uint32_t kDepthMax = 3;

// The content of a table's field: inline bytes (kInline), or the offset of a list, string or table.
enum class FieldKind : uint8_t {
  kInline,
  kList,
  kString,
  kStrings,
  kTokenizer,
  kNumberList,
  kNumberLists,
  kSound,
};

struct FieldRow {
  FieldKind kind;
  uint8_t bytes = sizeof(flatbuffers::uoffset_t);  // of an inline field, or of a list's element
};

// The elements of all lists have an alignment of at most 4 bytes, so lists with the alignment that
// FlatBuffers verifies can be read in place.
template <typename Element>
constexpr FieldRow list_of() {
  static_assert(alignof(Element) <= sizeof(uint32_t) && sizeof(Element) <= UINT8_MAX);
  return {FieldKind::kList, sizeof(Element)};
}
template <typename Struct>
constexpr FieldRow inline_struct() {
  static_assert(alignof(Struct) == sizeof(uint32_t) && sizeof(Struct) <= UINT8_MAX);
  return {FieldKind::kInline, sizeof(Struct)};
}

// Returns a field's offset in the vtable: 4, 6, 8, ... in the order of the schema.
constexpr flatbuffers::voffset_t number_of_field(size_t index) {
  return static_cast<flatbuffers::voffset_t>(4 + 2 * index);
}
// A build without sound does not read Model.sound. verify_packed refuses a file with sound, as its
// arena formula is larger than the formula that this build derives.
constexpr FieldKind kSoundField = linked(Need::kSound) ? FieldKind::kSound : FieldKind::kInline;
constexpr FieldRow kModelFields[] = {
    {FieldKind::kString, 1},                  // producer
    {FieldKind::kString, 1},                  // name
    {FieldKind::kString, 1},                  // architecture
    list_of<Input>(),                         // inputs
    {FieldKind::kStrings},                    // input_names
    list_of<Function>(),                      // functions
    {FieldKind::kStrings},                    // function_names
    list_of<Axis>(),                          // axes
    list_of<Slot>(),                          // slots
    list_of<Op>(),                            // ops
    {FieldKind::kStrings},                    // op_names
    list_of<Tensor>(),                        // tensors
    {FieldKind::kStrings},                    // tensor_names
    list_of<Cache>(),                         // caches
    list_of<Mask>(),                          // masks
    list_of<uint32_t>(),                      // mask_words
    list_of<HiddenState>(),                   // hidden_states
    list_of<Packed>(),                        // packed
    list_of<uint32_t>(),                      // tensor_offsets
    {FieldKind::kStrings},                    // labels
    inline_struct<SelfTest>(),                // self_test
    {FieldKind::kTokenizer, 0},               // tokenizer
    {FieldKind::kInline, sizeof(uint32_t)},   // array_flags
    {FieldKind::kInline, sizeof(uint32_t)},   // kv_cache
    {kSoundField, sizeof(uint32_t)},          // sound
    {FieldKind::kList, sizeof(uint32_t)},     // output_shape
    {FieldKind::kStrings, sizeof(uint32_t)},  // arrays
    {FieldKind::kList, sizeof(uint32_t)},     // taken_rows
    {FieldKind::kList, sizeof(uint32_t)},     // tokens_steps
    {FieldKind::kList, sizeof(uint32_t)},     // suppressed
    {FieldKind::kInline, sizeof(uint32_t)},   // samples
};
constexpr FieldRow kSoundFields[] = {
    inline_struct<SoundNumbers>(),  // numbers
    list_of<uint32_t>(),            // filters
    list_of<float>(),               // tables
};
constexpr FieldRow kTokenizerFields[] = {
    inline_struct<TokenizerChoices>(),  // choices
    list_of<uint8_t>(),                 // token_bytes
    list_of<uint8_t>(),                 // special_flags
    {FieldKind::kNumberLists},          // lists
};
constexpr FieldRow kNumberListFields[] = {list_of<uint32_t>()};  // values
// Fields of a model from this one on may be missing; the other tables have fewer, all required.
constexpr size_t kFirstOptional = 21;
static_assert(number_of_field(kFirstOptional) == Model::VT_TOKENIZER);
static_assert(number_of_field(std::size(kModelFields) - 1) == Model::VT_SAMPLES &&
              number_of_field(std::size(kSoundFields) - 1) == Sound::VT_TABLES &&
              number_of_field(std::size(kTokenizerFields) - 1) == Tokenizer::VT_LISTS &&
              number_of_field(std::size(kNumberListFields) - 1) == NumberList::VT_VALUES);

// Checks that offsets are aligned and point into the metadata, and that lists, strings and tables
// end there. The verifier that flatc generates does the same with more code: some for each field.
class Structure {
 public:
  // REQUIRES: at most kMetadataBytesMax bytes.
  explicit Structure(std::span<const std::byte> metadata)
      : bytes_(reinterpret_cast<const uint8_t*>(metadata.data())),
        verifier_(bytes_, metadata.size(), kDepthMax, kTablesMax) {}

  bool is_sound() {
    const uint32_t root = verifier_.VerifyOffset(0);
    return root != 0 && check_table(bytes_ + root, kModelFields);
  }

 private:
  bool check_table(const uint8_t* at, std::span<const FieldRow> rows) {
    if (!verifier_.VerifyTableStart(at)) return false;
    const auto& table = *reinterpret_cast<const flatbuffers::Table*>(at);
    for (size_t i = 0; i < rows.size(); ++i) {
      const flatbuffers::voffset_t offset = table.GetOptionalFieldOffset(number_of_field(i));
      const bool is_right =
          offset == 0 ? i >= kFirstOptional : check_field(at + offset, rows[i].kind, rows[i].bytes);
      if (!is_right) return false;
    }
    return verifier_.EndTable();
  }

  bool check_field(const uint8_t* field, FieldKind kind, uint32_t bytes) {
    if (kind == FieldKind::kInline) {
      return verifier_.VerifyFieldStruct(field, 0, bytes, alignof(uint32_t));
    }
    const uint32_t offset = verifier_.VerifyOffset(field, 0);
    if (offset == 0) return false;
    const uint8_t* const at = field + offset;
    switch (kind) {
      case FieldKind::kTokenizer:
        return check_table(at, kTokenizerFields);
      case FieldKind::kNumberList:
        return check_table(at, kNumberListFields);
      case FieldKind::kString:
        return verifier_.VerifyString(reinterpret_cast<const flatbuffers::String*>(at));
      case FieldKind::kStrings:
        return check_list(at, bytes) && check_each(at, FieldKind::kString);
      case FieldKind::kNumberLists:
        return check_list(at, bytes) && check_each(at, FieldKind::kNumberList);
      case FieldKind::kSound:
        return linked(Need::kSound) && check_table(at, kSoundFields);
      case FieldKind::kInline:
      case FieldKind::kList:
        break;
    }
    return check_list(at, bytes);
  }

  bool check_list(const uint8_t* at, uint32_t element_bytes) {
    return verifier_.VerifyVectorOrString(at, element_bytes);
  }

  bool check_each(const uint8_t* list, FieldKind kind) {
    const auto count = flatbuffers::ReadScalar<flatbuffers::uoffset_t>(list);
    for (uint32_t i = 1; i <= count; ++i) {
      if (!check_field(list + i * sizeof(count), kind, 0)) return false;
    }
    return true;
  }

  const uint8_t* bytes_;
  flatbuffers::Verifier verifier_;
};

Status verify_footer(std::span<const std::byte> file, Diagnostic* why, Footer& footer) {
  constexpr Status kBad = Status::kBadModel;
  constexpr size_t kIdentifierEnd = 8;
  if (file.size() < kIdentifierEnd + sizeof(Footer)) {
    return refuse(why, kBad, "the file is too short for a model", "file", 0, file.size(),
                  kIdentifierEnd + sizeof(Footer));
  }
  if (std::memcmp(file.data() + 4, kFileIdentifier, 4) != 0) {
    return refuse(why, kBad, "this is not an Arenite model file", "identifier", 0, 0, 0);
  }
  std::memcpy(&footer, file.data() + file.size() - sizeof(Footer), sizeof(Footer));
  if (footer.magic != kFooterMagic) {
    return refuse(why, kBad, "the file is truncated, or has bytes appended", "footer.magic", 0,
                  footer.magic, kFooterMagic);
  }
  if (footer.format_version != kFormatVersion) {
    return refuse(why, Status::kVersionMismatch,
                  "the model has another format version: convert it again", "footer.version", 0,
                  footer.format_version, kFormatVersion);
  }
  if (footer.file_bytes != file.size()) {
    return refuse(why, kBad, "the file is not as long as it says", "footer.file_bytes", 0,
                  footer.file_bytes, file.size());
  }
  if (footer.metadata_bytes < kIdentifierEnd ||
      footer.metadata_bytes > file.size() - sizeof(Footer) ||
      footer.metadata_bytes > kMetadataBytesMax) {
    return refuse(why, kBad, "the metadata does not fit the file", "footer.metadata_bytes", 0,
                  footer.metadata_bytes, file.size() - sizeof(Footer));
  }
  if (footer.reserved != 0) {
    return refuse(why, kBad, "a reserved field is not zero", "footer.reserved", 0, footer.reserved,
                  0);
  }
  return Status::kOk;
}

// Returns the field of the file that causes a need, for diagnostics. Names of needs would take more
// flash with each new need, whereas names of fields are in the program anyway.
constexpr const char* field_of(Need need) {
  if (need < Need::kSelectAsAsked) return "ops.kind";
  if (need < Need::kLayerNorm) return "ops.rows";
  if (need < Need::kRelu) return "ops.norm";
  if (need < Need::kStripMask) return "ops.function";
  if (need < Need::kW8) return "masks.kind";
  if (need < Need::kInt8Cache) return "tensors.type";
  if (need < Need::kBytePairs) return "kv_cache";
  if (need < Need::kScoreCap) return "tokenizer.kind";
  if (need < Need::kFunctions) return "ops.terms";
  if (linked(Need::kSound) && need == Need::kSound) return "sound";
  if (need == Need::kLengthSteps) return "inputs.tokens_min";
  return need == Need::kFunctions ? "functions" : "axes.kind";
}

// Refuses models that need a part of the runtime that a build with ARENITE_MODEL left out.
bool verify_needs(std::span<const std::byte> file, const Refusal& refuse) {
  if constexpr (kEverythingLinked) return true;
  return for_each_need(file, [&](Need need, uint32_t index) {
    if (linked(need)) return true;
    return refuse("this build has only what its ARENITE_MODEL needs: name this model there, too",
                  Message::of(field_of(need)), index);
  });
}

struct Limit {
  Message field;
  uint32_t found, least, most;
};

bool verify_limits(std::span<const Limit> limits, const Refusal& refuse) {
  for (const Limit& limit : limits) {
    if (limit.found < limit.least) {
      return refuse("a list is too short", limit.field, 0, limit.found, limit.least);
    }
    if (limit.found > limit.most) {
      return refuse("a list is too long", limit.field, 0, limit.found, limit.most);
    }
  }
  return true;
}

// Builds without kFunctionsLinked do not check inputs and functions here: verify_needs refuses
// files that do not have one of each.
bool verify_counts(const ModelReader& model, const Refusal& refuse) {
  if constexpr (kFunctionsLinked) {
    const Limit limits[] = {{"inputs", model.stored_inputs(), 1, kInputsMax},
                            {"functions", model.stored_functions(), 1, kFunctionsMax}};
    if (!verify_limits(limits, refuse)) return false;
  }
  const Limit limits[] = {
      {"axes", static_cast<uint32_t>(model.axes().size()), 1, kAxesMax},
      {"slots", model.slots(), 1, kSlotsMax},
      {"ops", model.ops(), 1, kOpsMax},
      {"tensors", model.tensors(), 0, kTensorsMax},
      {"caches", model.caches(), 0, kOpsMax},
      {"masks", model.masks(), 0, kMasksMax},
      {"packed", model.packed_count(), 1, kTargets},
      {"hidden_states", model.hidden_states(), 0, kHiddenStatesMax},
  };
  return verify_limits(limits, refuse);
}

}  // namespace

// A weak symbol, null in a program that does not use SoundStream: SoundStream links the definition,
// and nothing else relies on the fields that it verifies.
[[gnu::weak]] bool verify_sound(const ModelReader& model, const Refusal& refuse);

bool is_well_formed(std::span<const std::byte> metadata) { return Structure(metadata).is_sound(); }

Status verify(std::span<const std::byte> file, Diagnostic* why, const LoadOptions& options) {
  Footer footer;
  const Status status = verify_footer(file, why, footer);
  if (status != Status::kOk) return status;

  const std::span<const std::byte> metadata =
      file.first(static_cast<size_t>(footer.metadata_bytes));
  const uint32_t crc = options.crc32c(metadata.data(), metadata.size());
  if (crc != footer.metadata_crc32c) {
    return refuse(why, Status::kBadModel, "the metadata is damaged: its CRC-32C differs",
                  "footer.metadata_crc32c", 0, crc, footer.metadata_crc32c);
  }
  if (!is_well_formed(metadata)) {
    return refuse(why, Status::kBadModel, "the metadata is not a well-formed FlatBuffer",
                  "metadata");
  }
  const ModelReader model(file);
  const Refusal refuse(why);
  if (!verify_counts(model, refuse)) return Status::kBadModel;
  if (!verify_needs(file, refuse)) return Status::kUnsupported;
  const bool sound =
      (!kFunctionsLinked || verify_functions(model, refuse)) && verify_axes(model, refuse) &&
      verify_masks(model, refuse) && verify_tensors(model, refuse) && verify_slots(model, refuse) &&
      verify_flow(model, refuse) && verify_ops(model, refuse) &&
      (!linked(Need::kSound) || verify_sound == nullptr || verify_sound(model, refuse)) &&
      verify_packed(model, file, metadata.size(), refuse) && verify_tokenizer(file, refuse);
  if (!sound) return Status::kBadModel;
  if (options.checksums == Checksums::kSkip) return Status::kOk;
  return verify_weights(file, why, options.crc32c);
}

Status verify_weights(std::span<const std::byte> file, Diagnostic* why, Crc32c crc32c) {
  const bool whole = verify_segment_checksums(ModelReader(file), file, crc32c, Refusal(why));
  return whole ? Status::kOk : Status::kBadModel;
}

}  // namespace arenite::format
