// SPDX-License-Identifier: Apache-2.0
// The metadata holds offsets, checksums and arena formulas that follow from itself, and its size
// does not depend on their values: it is built as a draft to derive them, and once more with them.
#include "convert/program/writer.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <set>

#include "arenite/version.h"
#include "convert/files/error.h"
#include "convert/tokenizers/tokenizer_spec.h"
#include "core/crc32c.h"
#include "format/file_layout.h"
#include "format/self_test_layout.h"
#include "format/verify.h"
#include "model_generated.h"

namespace arenite::convert {
namespace {

namespace fb = flatbuffers;

// Where the weights of one target go.
struct SegmentPlan {
  Target target;
  Packing packing;
  std::vector<uint64_t> tensor_offsets;
  uint64_t bytes = 0;
  uint64_t offset = 0;
  uint32_t crc32c = 0;
  ArenaFormula formula = {};
};

uint64_t align(uint64_t offset) { return round_up(offset, format::kSegmentUnit).value(); }

SegmentPlan plan_segment(const Program& program, Target target) {
  SegmentPlan segment{target, packing_of(target, TensorType::kF32), {}};
  for (const ProgramTensor& tensor : program.tensors) {
    const Checked bytes = format::stored_bytes(tensor.shape(), segment.packing);
    if (!bytes.ok()) throw InputError("tensor {} is too large to pack", quote(tensor.name));
    segment.tensor_offsets.push_back(segment.bytes);
    segment.bytes = align(segment.bytes + bytes.value());
  }
  segment.bytes = align(segment.bytes + kReadAheadBytes);
  std::set<uint32_t> lookbacks;
  for (const format::CacheView& cache : program.caches) lookbacks.insert(cache.lookback);
  const size_t groups = lookbacks.size();
  if (groups > kCacheGroupsMax) {
    throw InputError("the layers have {} different sliding windows: a file holds at most {}",
                     groups, kCacheGroupsMax);
  }
  segment.formula.group_count = static_cast<uint32_t>(groups);  // the rest follows from the draft
  return segment;
}

// The list of the schema's records that plain structs of the same bytes (format/reader.h) make.
template <typename Record, typename T>
auto write_records(fb::FlatBufferBuilder& builder, const std::vector<T>& records) {
  static_assert(sizeof(T) == sizeof(Record) && std::is_trivially_copyable_v<T>);
  // Bytes between members would be whatever was in memory; floats alone hide that there are none.
  static_assert(std::has_unique_object_representations_v<T> || std::is_same_v<T, format::OpView>);
  return builder.CreateVectorOfStructs(reinterpret_cast<const Record*>(records.data()),
                                       records.size());
}

// A count of kSegmentUnit bytes. REQUIRES: a multiple of it.
uint32_t units(uint64_t bytes) {
  const uint64_t count = bytes / format::kSegmentUnit;
  if (count > UINT32_MAX) {
    throw InputError("the model takes {} bytes: a file holds at most 256 GB", bytes);
  }
  return static_cast<uint32_t>(count);
}

void append(std::vector<uint32_t>& words, const void* values, size_t bytes) {
  const size_t begin = words.size();
  words.resize(begin + (bytes + sizeof(uint32_t) - 1) / sizeof(uint32_t));
  std::memcpy(words.data() + begin, values, bytes);
}

// The headers of all masks; their lists follow each other in `words`.
std::vector<format::MaskRecord> mask_records(const std::vector<CompiledMask>& masks,
                                             std::vector<uint32_t>& words) {
  std::vector<format::MaskRecord> records;
  for (const CompiledMask& mask : masks) {
    const size_t begin = words.size();
    const auto add = [&](const auto& list) {
      if (!list.empty()) append(words, list.data(), list.size() * sizeof(list[0]));
    };
    add(mask.values);
    add(mask.map);
    add(mask.row_begin);
    add(mask.row_end);
    add(mask.bits);
    records.push_back({static_cast<uint32_t>(mask.kind), mask.positions, mask.lookback,
                       mask.lookahead, static_cast<uint32_t>(begin),
                       static_cast<uint32_t>(words.size() - begin)});
  }
  return records;
}

fb::DetachedBuffer build_metadata(const Program& program, const std::vector<SegmentPlan>& segments,
                                  const format::SelfTest& self_test) {
  fb::FlatBufferBuilder builder;
  builder.ForceDefaults(true);  // the size must not depend on values being zero
  std::vector<format::OpView> ops;
  std::vector<std::string> op_names;
  for (const ProgramOp& op : program.ops) {
    ops.push_back(op.body);
    op_names.push_back(op.name);
  }
  std::vector<format::TensorShape> tensors;
  std::vector<std::string> tensor_names;
  for (const ProgramTensor& tensor : program.tensors) {
    tensors.push_back(tensor.shape());
    tensor_names.push_back(tensor.name);
  }
  std::vector<uint32_t> mask_words;
  const std::vector<format::MaskRecord> masks = mask_records(program.masks, mask_words);
  std::vector<format::PackedView> packed;
  std::vector<uint32_t> offsets;  // of all targets
  for (const SegmentPlan& segment : segments) {
    packed.push_back({static_cast<uint32_t>(segment.target),
                      {units(segment.offset), units(segment.bytes), segment.crc32c},
                      segment.formula});
    for (const uint64_t offset : segment.tensor_offsets) offsets.push_back(units(offset));
  }

  fb::Offset<format::Tokenizer> tokenizer;
  if (program.tokenizer) tokenizer = write_tokenizer(builder, *program.tokenizer);
  const auto producer = builder.CreateString(std::string("arenite ") + version());
  const auto name = builder.CreateString(program.name);
  const auto architecture = builder.CreateString(program.architecture);
  const auto slots = write_records<format::Slot>(builder, program.slots);
  const auto ops_at = write_records<format::Op>(builder, ops);
  const auto op_names_at = builder.CreateVectorOfStrings(op_names);
  const auto tensors_at = write_records<format::Tensor>(builder, tensors);
  const auto tensor_names_at = builder.CreateVectorOfStrings(tensor_names);
  const auto caches = write_records<format::Cache>(builder, program.caches);
  const auto masks_at = write_records<format::Mask>(builder, masks);
  const auto mask_words_at = builder.CreateVector(mask_words);
  const auto hidden_states = write_records<format::HiddenState>(builder, program.hidden_states);
  const auto packed_at = write_records<format::Packed>(builder, packed);
  const auto offsets_at = builder.CreateVector(offsets);
  const auto labels = builder.CreateVectorOfStrings(program.labels);
  const format::Signature signature(program.positions_max, program.vocab_size, program.input_slot,
                                    program.output_slot);
  builder.Finish(
      format::CreateModel(builder, producer, name, architecture, &signature, slots, ops_at,
                          op_names_at, tensors_at, tensor_names_at, caches, masks_at, mask_words_at,
                          hidden_states, packed_at, offsets_at, labels, &self_test, tokenizer),
      format::ModelIdentifier());
  return builder.Release();
}

// Each tensor is read once and packed for every target, then forgotten.
void write_weights(const Program& program, std::vector<SegmentPlan>& segments, AlignedBytes& file) {
  for (size_t i = 0; i < program.tensors.size(); ++i) {
    const ProgramTensor& tensor = program.tensors[i];
    const std::vector<float> loaded = tensor.weights.empty() ? tensor.load() : std::vector<float>();
    const std::span<const float> weights = tensor.weights.empty() ? loaded : tensor.weights;
    for (const SegmentPlan& segment : segments) {
      const uint64_t bytes = format::stored_bytes(tensor.shape(), segment.packing).value();
      float* const packed =
          reinterpret_cast<float*>(file.data() + segment.offset + segment.tensor_offsets[i]);
      pack_weights(tensor, weights, segment.packing,
                   {packed, static_cast<size_t>(bytes / sizeof(float))});
    }
  }
  for (SegmentPlan& segment : segments) {
    segment.crc32c = crc32c({file.data() + segment.offset, static_cast<size_t>(segment.bytes)});
  }
}

}  // namespace

// Panel by panel, so that a matrix much larger than the cache is read and written in order.
void pack_weights(const ProgramTensor& tensor, std::span<const float> weights, Packing packing,
                  std::span<float> packed) {
  assert(packed.size_bytes() == format::stored_bytes(tensor.shape(), packing).value());
  assert(weights.size() == size_t{tensor.outputs} * tensor.inputs);
  if (tensor.layout == format::Layout::kRows) {
    std::copy(weights.begin(), weights.end(), packed.begin());
    return;
  }
  std::fill(packed.begin(), packed.end(), 0.0f);
  const auto index = [&](uint32_t output, uint32_t input) {
    return static_cast<size_t>(packed_weight_index(packing, tensor.inputs, output, input));
  };
  for (uint32_t output = 0; output < tensor.outputs; ++output) {
    if (!tensor.bias.empty()) {
      packed[index(output, kBiasRow)] = tensor.bias[output];
    }
    const float* row = weights.data() + size_t{output} * tensor.inputs;
    float* to = packed.data() + index(output, 0);
    for (uint32_t input = 0; input < tensor.inputs; ++input) {
      to[size_t{input} * packing.nr] = row[input];
    }
  }
}

AlignedBytes write_model(const Program& program, const std::vector<Target>& targets,
                         uint32_t self_test_tokens) {
  std::vector<SegmentPlan> segments;
  for (const Target target : targets) segments.push_back(plan_segment(program, target));
  const fb::DetachedBuffer draft = build_metadata(program, segments, {});
  const size_t metadata_bytes = draft.size();
  const format::ModelReader reader(std::as_bytes(std::span(draft.data(), draft.size())));
  uint64_t end = align(metadata_bytes);
  for (SegmentPlan& segment : segments) {
    segment.offset = end;
    end += segment.bytes;
    if (!format::derive_formula(reader, segment.target, segment.formula)) {
      throw InputError("the model is too large: its arena takes 4 GB or more for each token");
    }
  }
  format::SelfTest self_test;
  if (self_test_tokens != 0) {
    const uint64_t bytes = format::self_test_layout(reader, self_test_tokens).bytes;
    const std::vector<std::byte> zeros(static_cast<size_t>(bytes));
    self_test = {format::Segment(units(end), units(bytes), crc32c(zeros)), self_test_tokens};
    end += bytes;
  }

  if (end > PTRDIFF_MAX - sizeof(format::Footer)) {
    throw InputError(
        "the model takes {} bytes, more than this machine can address: convert it on a 64-bit "
        "machine",
        end);
  }
  AlignedBytes file(static_cast<size_t>(end) + sizeof(format::Footer));
  write_weights(program, segments, file);
  const fb::DetachedBuffer metadata = build_metadata(program, segments, self_test);
  std::memcpy(file.data(), metadata.data(), metadata.size());

  format::Footer footer{format::kFooterMagic,
                        format::kFormatVersion,
                        file.size(),
                        metadata_bytes,
                        crc32c(std::span<const std::byte>(file.span()).first(metadata_bytes)),
                        0};
  std::memcpy(file.data() + end, &footer, sizeof(footer));
  return file;
}

void check_format_limits(const Program& program) {
  const struct {
    const char* what;
    size_t count;
    size_t count_max;
  } lists[] = {{"masks", program.masks.size(), format::kMasksMax},
               {"ops", program.ops.size(), format::kOpsMax},
               {"slots", program.slots.size(), format::kSlotsMax},
               {"tensors", program.tensors.size(), format::kTensorsMax}};
  for (const auto& list : lists) {
    if (list.count > list.count_max) {
      throw InputError("the model needs {} {}: a file holds at most {}", list.count, list.what,
                       list.count_max);
    }
  }
}

}  // namespace arenite::convert
