// SPDX-License-Identifier: Apache-2.0
// The metadata holds offsets, checksums and arena formulas that follow from itself, and its size
// does not depend on their values: it is built as a draft to derive them, and once more with them.
#include "convert/program/writer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "arenite/version.h"
#include "convert/files/error.h"
#include "convert/files/progress.h"
#include "convert/tokenizers/tokenizer_spec.h"
#include "core/crc32c.h"
#include "format/file_layout.h"
#include "format/reader.h"
#include "format/verify.h"
#include "model_generated.h"

namespace arenite::convert {
namespace {

namespace fb = flatbuffers;

// Where the weights of one target go.
struct SegmentPlan {
  Target target = Target::kPortable;
  std::vector<uint64_t> tensor_offsets;
  uint64_t bytes = 0;
  uint64_t offset = 0;
  uint32_t crc32c = 0;
  ArenaFormula formula = {};
};

uint64_t align(uint64_t offset) { return round_up(offset, format::kSegmentUnit).value(); }

SegmentPlan plan_segment(const Program& program, Target target) {
  SegmentPlan segment;
  segment.target = target;
  for (const ProgramTensor& tensor : program.tensors) {
    const Checked bytes = format::stored_bytes(tensor.shape(), packing_of(target, tensor.type));
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
  if (program.stored_tokenizer) tokenizer = write_tokenizer(builder, *program.stored_tokenizer);
  const auto producer = builder.CreateString(
      program.producer.empty() ? std::string("arenite ") + version() : program.producer);
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
                                    program.output_slot, static_cast<uint32_t>(program.kv_cache),
                                    program.tokens_min);
  builder.Finish(format::CreateModel(builder, producer, name, architecture, &signature, slots,
                                     ops_at, op_names_at, tensors_at, tensor_names_at, caches,
                                     masks_at, mask_words_at, hidden_states, packed_at, offsets_at,
                                     labels, &self_test, tokenizer, program.array_flags),
                 format::ModelIdentifier());
  return builder.Release();
}

uint64_t numbers_of(const ProgramTensor& tensor) {
  return uint64_t{tensor.shape().outputs} * tensor.shape().inputs;
}

// Each tensor is read once and packed for every target, then forgotten.
void write_weights(const Program& program, std::vector<SegmentPlan>& segments, AlignedBytes& file) {
  uint64_t numbers_all = 0;
  uint64_t numbers_done = 0;
  for (const ProgramTensor& tensor : program.tensors) numbers_all += numbers_of(tensor);
  for (size_t i = 0; i < program.tensors.size(); ++i) {
    const ProgramTensor& tensor = program.tensors[i];
    const Numbers numbers = load_numbers(tensor);
    double targets_done = 0.0;
    for (const SegmentPlan& segment : segments) {
      const double of_tensor = targets_done++ / static_cast<double>(segments.size());
      report_progress(fmt::format("packing for {}", name(segment.target)),
                      (static_cast<double>(numbers_done) +
                       of_tensor * static_cast<double>(numbers_of(tensor))) /
                          static_cast<double>(numbers_all));
      const Packing packing = packing_of(segment.target, tensor.type);
      const uint64_t bytes = format::stored_bytes(tensor.shape(), packing).value();
      pack_weights(tensor, numbers, packing,
                   file.span().subspan(static_cast<size_t>(segment.offset) +
                                           static_cast<size_t>(segment.tensor_offsets[i]),
                                       static_cast<size_t>(bytes)));
    }
    numbers_done += numbers_of(tensor);
  }
  for (SegmentPlan& segment : segments) {
    segment.crc32c = crc32c({file.data() + segment.offset, static_cast<size_t>(segment.bytes)});
  }
}

// Where everything is.
struct FilePlan {
  std::vector<SegmentPlan> segments;
  format::SelfTest self_test;
  uint64_t end = 0;  // of all but the footer

  uint64_t bytes() const { return end + sizeof(format::Footer); }
};

FilePlan plan_file(const Program& program, const std::vector<Target>& targets,
                   uint32_t self_test_tokens) {
  FilePlan plan;
  for (const Target target : targets) plan.segments.push_back(plan_segment(program, target));
  const fb::DetachedBuffer draft = build_metadata(program, plan.segments, {});
  const format::ModelReader reader(std::as_bytes(std::span(draft.data(), draft.size())));
  plan.end = align(draft.size());
  for (SegmentPlan& segment : plan.segments) {
    segment.offset = plan.end;
    plan.end += segment.bytes;
    if (!format::derive_formula(reader, segment.target, segment.formula)) {
      throw InputError("the model is too large: its arena takes 4 GB or more for each token");
    }
  }
  if (self_test_tokens != 0) {
    const uint64_t bytes = format::self_test_layout(reader, self_test_tokens).bytes;
    const std::vector<std::byte> zeros(static_cast<size_t>(bytes));
    plan.self_test = {format::Segment(units(plan.end), units(bytes), crc32c(zeros)),
                      self_test_tokens};
    plan.end += bytes;
  }
  return plan;
}

}  // namespace

uint64_t model_bytes(const Program& program, const std::vector<Target>& targets,
                     uint32_t self_test_tokens) {
  return plan_file(program, targets, self_test_tokens).bytes();
}

AlignedBytes write_model(const Program& program, const std::vector<Target>& targets,
                         uint32_t self_test_tokens) {
  FilePlan plan = plan_file(program, targets, self_test_tokens);
  if (plan.end > PTRDIFF_MAX - sizeof(format::Footer)) {
    throw InputError(
        "the model takes {} bytes, more than this machine can address: convert it on a 64-bit "
        "machine",
        plan.end);
  }
  AlignedBytes file(static_cast<size_t>(plan.bytes()));
  write_weights(program, plan.segments, file);
  const fb::DetachedBuffer metadata = build_metadata(program, plan.segments, plan.self_test);
  std::memcpy(file.data(), metadata.data(), metadata.size());

  format::Footer footer{format::kFooterMagic,
                        format::kFormatVersion,
                        file.size(),
                        metadata.size(),
                        crc32c(std::span<const std::byte>(file.span()).first(metadata.size())),
                        0};
  std::memcpy(file.data() + plan.end, &footer, sizeof(footer));
  return file;
}

void check_format_limits(const Program& program) {
  if (program.ops.empty()) {
    throw InputError("it gives out what it is given: there is nothing to compute");
  }
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
  for (const ProgramOp& op : program.ops) {
    for (const float number : op.body.reals) {
      if (std::isfinite(number)) continue;
      throw InputError("{} computes with the number {}: expected finite ones", quote(op.name),
                       number);
    }
    if (op.body.kind != format::OpKind::kActivation) continue;
    const float parameter = op.body.reals[format::ActivationOp::kParameter];
    if (!parameter_makes_sense(op.body.choice<Activation>(format::ActivationOp::kKind),
                               parameter)) {
      throw InputError(
          "{} keeps its results within {} of 0: expected a positive number, in float32",
          quote(op.name), parameter);
    }
  }
}

}  // namespace arenite::convert
