// SPDX-License-Identifier: Apache-2.0
// The metadata holds offsets, checksums and arena formulas that depend on the metadata itself, but
// its size does not depend on their values. It is built as a draft to compute them, and then again
// with them.
#include "convert/program/writer.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <set>
#include <stdexcept>

#include "arenite/version.h"
#include "convert/files/error.h"
#include "convert/files/progress.h"
#include "convert/files/thread_pool.h"
#include "convert/tokenizers/tokenizer_spec.h"
#include "core/crc32c.h"
#include "format/file_layout.h"
#include "format/reader.h"
#include "format/verify.h"
#include "model_generated.h"

namespace arenite::convert {

// ---- weights: from the author's order to the order that kernels read (core/packing.h) ----

namespace {

template <typename T>
void put(std::byte* place, T value) {
  std::memcpy(place, &value, sizeof(T));
}

// REQUIRES: a bfloat16 number.
uint16_t bfloat16_bits(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  assert((bits & 0xFFFFu) == 0);
  return static_cast<uint16_t>(bits >> 16);
}

std::byte half_byte(int8_t value, bool high_half) {
  const unsigned bits = static_cast<unsigned>(value) & 0xFu;
  return static_cast<std::byte>(high_half ? bits << 4 : bits);
}

// Calls pack_row(row, its panel) for each row, in order within a panel. Panels begin as zeros.
template <typename PackRow>
void for_each_row(uint32_t rows, uint32_t columns, Packing packing, std::span<std::byte> packed,
                  const PackRow& pack_row) {
  constexpr uint32_t kPanelsAtOnce = 16;
  const size_t bytes_of_panel = panel_bytes(packing, columns).value();
  const auto panels = static_cast<uint32_t>(packed.size() / bytes_of_panel);
  on_all_cores((panels + kPanelsAtOnce - 1) / kPanelsAtOnce, [&](uint32_t task) {
    const uint32_t end = std::min(panels, (task + 1) * kPanelsAtOnce);
    for (uint32_t panel = task * kPanelsAtOnce; panel < end; ++panel) {
      const auto bytes = packed.subspan(panel * bytes_of_panel, bytes_of_panel);
      std::ranges::fill(bytes, std::byte{0});
      const uint32_t row_end = std::min(rows, (panel + 1) * packing.nr);
      for (uint32_t row = panel * packing.nr; row < row_end; ++row) pack_row(row, bytes.data());
    }
  });
}

// Packs row by row, so that a matrix much larger than the cache is read in order.
void pack_floats(const ProgramTensor& tensor, std::span<const float> weights, Packing packing,
                 std::span<std::byte> packed) {
  float* const floats = reinterpret_cast<float*>(packed.data());
  const auto index = [&](uint32_t output, uint32_t input) {
    return static_cast<size_t>(packed_weight_index(packing, tensor.inputs, output, input));
  };
  for_each_row(tensor.outputs, tensor.inputs, packing, packed, [&](uint32_t output, std::byte*) {
    if (!tensor.bias.empty()) {
      floats[index(output, kBiasRow)] = tensor.bias[output];
    }
    const float* row = weights.data() + size_t{output} * tensor.inputs;
    float* to = floats + index(output, 0);
    for (uint32_t input = 0; input < tensor.inputs; ++input) {
      to[size_t{input} * packing.nr] = row[input];
    }
  });
}

// Packs one output into its lane of a panel: weights, scales, bias and the kernels' zero point
// correction.
void pack_row(const QuantizedMatrix& matrix, uint32_t row, float bias, Packing packing,
              std::byte* panel) {
  const uint32_t lane = row % packing.nr;
  const uint32_t columns = matrix.columns;
  const int8_t* const values = matrix.values.data() + size_t{row} * columns;
  const bool has_blocks = weight_type(matrix.type).block != 0;
  for (uint32_t i = 0; i < columns; ++i) {
    const PanelPlace place = panel_place(packing, i, lane);
    std::byte& byte = panel[place.byte];
    byte = has_blocks ? byte | half_byte(values[i], place.high_half)
                      : static_cast<std::byte>(values[i]);
  }
  std::byte* const bias_place = panel + panel_bias(packing, columns, lane);
  if (!has_blocks) {
    const float scale = matrix.scales[row];
    put(panel + panel_scale(packing, columns, 0, lane), scale);
    const bool is_scaled = !weight_type(matrix.type).rounds_inputs;  // the bias, by the kernel
    put(bias_place, is_scaled ? bias / scale : bias);
    if (is_scaled) return;
    int32_t sum = 0;
    for (uint32_t i = 0; i < columns; ++i) sum -= values[i];
    put(panel + lane * sizeof(int32_t), sum);
    return;
  }
  const uint32_t blocks = columns / kQ4Block;
  double sum = 0.0;
  for (uint32_t block = 0; block < blocks; ++block) {
    const float scale = matrix.scales[size_t{row} * blocks + block];
    // Kernels read an int4 in the high half of a byte, which is 16 times its value.
    put(panel + panel_scale(packing, columns, block * kQ4Block, lane),
        bfloat16_bits(scale / 16.0f));
    int32_t sum_of_block = 0;
    for (uint32_t i = 0; i < kQ4Block; ++i) sum_of_block -= values[block * kQ4Block + i];
    sum += double{scale} * sum_of_block;
  }
  put(panel + lane * sizeof(float), static_cast<float>(sum));
  put(bias_place, bias);
}

void pack_panels(const ProgramTensor& tensor, const QuantizedMatrix& matrix, Packing packing,
                 std::span<std::byte> packed) {
  for_each_row(tensor.outputs, tensor.inputs, packing, packed, [&](uint32_t row, std::byte* panel) {
    pack_row(matrix, row, tensor.bias.empty() ? 0.0f : tensor.bias[row], packing, panel);
  });
}

void pack_rows(const QuantizedMatrix& matrix, std::span<std::byte> packed) {
  const size_t bytes = plain_row_bytes(matrix.type, matrix.columns).value();
  for (uint32_t row = 0; row < matrix.rows; ++row) {
    std::byte* to = packed.data() + row * bytes;
    const int8_t* values = matrix.values.data() + size_t{row} * matrix.columns;
    if (weight_type(matrix.type).block == 0) {
      put(to, matrix.scales[row]);
      std::memcpy(to + sizeof(float), values, matrix.columns);
      continue;
    }
    const float* scale = matrix.scales.data() + size_t{row} * matrix.columns / kQ4Block;
    for (uint32_t i = 0; i < matrix.columns; i += kQ4Block, to += kQ4BlockBytes, ++scale) {
      put(to, bfloat16_bits(*scale));
      for (uint32_t j = 0; j < kQ4Block / 2; ++j) {
        to[sizeof(uint16_t) + j] =
            half_byte(values[i + j], false) | half_byte(values[i + kQ4Block / 2 + j], true);
      }
    }
  }
}

// ---- repacking ----

// Copies one output from its lane in a source panel to its lane in `panel`: zero point correction,
// bias, scales and weights. Panels without a correction begin with the bias.
void repack_row(const WeightView& weights, uint32_t row, Packing packing, std::byte* panel) {
  const Packing source = weights.packing;
  const uint32_t columns = weights.columns;
  const uint32_t lane = row % packing.nr;
  const uint32_t source_lane = row % source.nr;
  const std::byte* const from =
      weights.data + row / source.nr * panel_bytes(source, columns).value();
  const auto copy = [&](size_t from_place, size_t to_place, size_t bytes) {
    std::memcpy(panel + to_place, from + from_place, bytes);
  };
  copy(source_lane * sizeof(float), lane * sizeof(float), sizeof(float));
  copy(panel_bias(source, columns, source_lane), panel_bias(packing, columns, lane), sizeof(float));
  const WeightType& type = weight_type(weights.type);
  const bool has_blocks = type.block != 0;
  const uint32_t scales_apart = has_blocks ? type.block : columns;
  for (uint32_t i = 0; type.scale_bytes != 0 && i < columns; i += scales_apart) {
    copy(panel_scale(source, columns, i, source_lane), panel_scale(packing, columns, i, lane),
         type.scale_bytes);
  }
  for (uint32_t i = 0; i < columns; ++i) {
    const PanelPlace at = panel_place(source, i, source_lane);
    const PanelPlace place = panel_place(packing, i, lane);
    if (has_blocks) {
      const std::byte half = at.high_half ? from[at.byte] >> 4 : from[at.byte] & std::byte{0xF};
      panel[place.byte] |= place.high_half ? half << 4 : half;
    } else {
      copy(at.byte, place.byte, type.bits / 8u);
    }
  }
}

void repack(const WeightView& weights, Packing packing, std::span<std::byte> packed) {
  if (!weights.is_packed()) {
    std::memcpy(packed.data(), weights.data, packed.size());
    return;
  }
  assert(weights.packing.type == packing.type);
  for_each_row(weights.rows, weights.columns, packing, packed,
               [&](uint32_t row, std::byte* panel) { repack_row(weights, row, packing, panel); });
}

// Checks that loaded weights have the size of the tensor, since packing relies on it.
void require_size(const ProgramTensor& tensor, uint64_t numbers) {
  if (numbers == uint64_t{tensor.outputs} * tensor.inputs) return;
  throw std::logic_error("the weights of " + tensor.name + " are of another size: this is a bug");
}

}  // namespace

WeightElements load_elements(const ProgramTensor& tensor) {
  if (tensor.packed) return *tensor.packed;
  if (tensor.type != TensorType::kF32) return tensor.load_quantized();
  return tensor.weights.empty() ? tensor.load() : Floats(tensor.weights);
}

void pack_weights(const ProgramTensor& tensor, const WeightElements& numbers, Packing packing,
                  std::span<std::byte> packed) {
  assert(packed.size() == format::stored_bytes(tensor.shape(), packing).value());
  const bool is_rows = tensor.layout == format::Layout::kPlain;
  if (const auto* matrix = std::get_if<QuantizedMatrix>(&numbers)) {
    require_size(tensor, uint64_t{matrix->rows} * matrix->columns);
    is_rows ? pack_rows(*matrix, packed) : pack_panels(tensor, *matrix, packing, packed);
    return;
  }
  if (const auto* view = std::get_if<WeightView>(&numbers)) return repack(*view, packing, packed);
  const auto& weights = std::get<Floats>(numbers);
  require_size(tensor, weights.size());
  if (is_rows) {
    std::ranges::copy(std::as_bytes(std::span(weights)), packed.begin());
  } else {
    pack_floats(tensor, weights, packing, packed);
  }
}

// ---- model files ----

namespace {

namespace fb = flatbuffers;

// Location of one target's weights in the file.
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
  std::set<std::pair<uint32_t, uint32_t>> kinds;
  for (const format::CacheView& cache : program.caches) kinds.emplace(cache.axis, cache.lookback);
  const size_t groups = kinds.size();
  refuse_if(groups > kCacheGroupsMax,
            "the layers have {} different sliding windows: a file holds at most {}", groups,
            kCacheGroupsMax);
  segment.formula.group_count = static_cast<uint32_t>(groups);  // the rest follows from the draft
  return segment;
}

// Converts plain structs with the same bytes (format/reader.h) to the schema's records.
template <typename Record, typename T>
auto write_records(fb::FlatBufferBuilder& builder, const std::vector<T>& records) {
  static_assert(sizeof(T) == sizeof(Record) && std::is_trivially_copyable_v<T>);
  // Padding between members would contain uninitialized memory. For structs of floats the trait
  // cannot tell, but they have no padding.
  static_assert(std::has_unique_object_representations_v<T> || std::is_same_v<T, format::OpView>);
  return builder.CreateVectorOfStructs(reinterpret_cast<const Record*>(records.data()),
                                       records.size());
}

// Converts bytes to units of kSegmentUnit. REQUIRES: a multiple of the unit.
uint32_t units(uint64_t bytes) {
  const uint64_t count = bytes / format::kSegmentUnit;
  refuse_if(count > UINT32_MAX, "the model takes {} bytes: a file holds at most 256 GB", bytes);
  return static_cast<uint32_t>(count);
}

void append(std::vector<uint32_t>& words, const void* values, size_t bytes) {
  const size_t begin = words.size();
  words.resize(begin + (bytes + sizeof(uint32_t) - 1) / sizeof(uint32_t));
  std::memcpy(words.data() + begin, values, bytes);
}

// Makes the headers of all masks; appends their lists to `words`.
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

// The lists of inputs and functions, and their names.
struct Calls {
  std::vector<format::InputView> inputs;
  std::vector<uint32_t> tokens_steps;  // empty where all inputs take any length
  std::vector<std::string> input_names;
  std::vector<format::FunctionView> functions;
  std::vector<std::string> function_names;

  explicit Calls(const Program& program) {
    for (const ProgramInput& input : program.inputs) {
      inputs.push_back(input);
      tokens_steps.push_back(input.tokens_step);
      input_names.push_back(input.name);
    }
    const auto is_any = [](uint32_t step) { return step <= 1; };
    if (std::ranges::all_of(tokens_steps, is_any)) tokens_steps.clear();
    for (uint32_t i = 0; i < program.functions.size(); ++i) {
      const ProgramFunction& function = program.functions[i];
      functions.push_back({function.first_op, program.end_of(i) - function.first_op,
                           function.inputs, function.output_slot});
      function_names.push_back(function.name);
    }
  }
};

fb::Offset<fb::Vector<uint32_t>> list_unless_empty(fb::FlatBufferBuilder& builder,
                                                   const std::vector<uint32_t>& list) {
  if (list.empty()) return 0;
  return builder.CreateVector(list);
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
  fb::Offset<format::Sound> sound;
  if (program.sound) {
    static_assert(sizeof(SoundNumbers) == sizeof(format::SoundNumbers));
    const auto filters = builder.CreateVector(program.sound->filters);
    const auto tables = builder.CreateVector(program.sound->tables);
    const auto* const numbers =
        reinterpret_cast<const format::SoundNumbers*>(&program.sound->numbers);
    sound = format::CreateSound(builder, numbers, filters, tables);
  }
  const auto producer = builder.CreateString(
      program.producer.empty() ? std::string("arenite ") + version() : program.producer);
  const auto name = builder.CreateString(program.name);
  const auto architecture = builder.CreateString(program.architecture);
  const auto axes = write_records<format::Axis>(builder, program.axes);
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
  const auto output_shape = list_unless_empty(builder, program.output_shape);
  const Calls calls(program);
  const auto inputs = write_records<format::Input>(builder, calls.inputs);
  const auto input_names = builder.CreateVectorOfStrings(calls.input_names);
  const auto functions = write_records<format::Function>(builder, calls.functions);
  const auto function_names = builder.CreateVectorOfStrings(calls.function_names);
  flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>> arrays;
  if (!program.arrays.empty()) arrays = builder.CreateVectorOfStrings(program.arrays);
  const auto taken_rows = list_unless_empty(builder, program.taken_rows);
  const auto tokens_steps = list_unless_empty(builder, calls.tokens_steps);
  const auto suppressed = list_unless_empty(builder, program.suppressed);
  builder.Finish(
      format::CreateModel(builder, producer, name, architecture, inputs, input_names, functions,
                          function_names, axes, slots, ops_at, op_names_at, tensors_at,
                          tensor_names_at, caches, masks_at, mask_words_at, hidden_states,
                          packed_at, offsets_at, labels, &self_test, tokenizer, program.array_flags,
                          static_cast<uint32_t>(program.kv_cache), sound, output_shape, arrays,
                          taken_rows, tokens_steps, suppressed, program.samples),
      format::ModelIdentifier());
  return builder.Release();
}

uint64_t numbers_of(const ProgramTensor& tensor) {
  return uint64_t{tensor.shape().outputs} * tensor.shape().inputs;
}

// Loads each tensor once, packs it for every target, and releases it.
void write_weights(const Program& program, std::vector<SegmentPlan>& segments, AlignedBytes& file) {
  uint64_t numbers_all = 0;
  uint64_t numbers_done = 0;
  for (const ProgramTensor& tensor : program.tensors) numbers_all += numbers_of(tensor);
  for (size_t i = 0; i < program.tensors.size(); ++i) {
    const ProgramTensor& tensor = program.tensors[i];
    const WeightElements numbers = load_elements(tensor);
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

// The location of each part of the file.
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
    refuse_if(!format::derive_formula(reader, segment.target, segment.formula),
              "the model is too large: its arena takes 4 GB or more for each token");
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
  refuse_if(plan.end > PTRDIFF_MAX - sizeof(format::Footer),
            "the model takes {} bytes, more than this machine can address: convert it on a 64-bit "
            "machine",
            plan.end);
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
  refuse_if(program.ops.empty(), "its output is its input: there is nothing to compute");
  const struct {
    const char* what;
    size_t count;
    size_t count_max;
  } lists[] = {{"masks", program.masks.size(), format::kMasksMax},
               {"ops", program.ops.size(), format::kOpsMax},
               {"slots", program.slots.size(), format::kSlotsMax},
               {"tensors", program.tensors.size(), format::kTensorsMax}};
  for (const auto& list : lists) {
    refuse_if(list.count > list.count_max, "the model needs {} {}: a file holds at most {}",
              list.count, list.what, list.count_max);
  }
  for (const ProgramOp& op : program.ops) {
    for (uint32_t i = 0; i < format::kOpReals; ++i) {
      const format::RealRow& row = format::row_of(op.body.kind).reals[i];
      const float number = op.body.reals[i];
      const bool is_positive = row.type == format::RealType::kPositive;
      const bool is_cap = op.body.kind == format::OpKind::kAttention;
      // Denormal numbers are refused, since not all CPUs support them.
      if (!is_positive && number == 0.0f) continue;
      if (std::isnormal(number) && (number > 0.0f || !is_positive) &&
          (!is_cap || is_soft_cap(number))) {
        continue;
      }
      throw InputError("{} has the parameter {} ({}): expected {}{:.3g} to {:.3g}", quote(op.name),
                       number, static_cast<const char*>(row.field), is_positive ? "" : "0, or ",
                       FLT_MIN, FLT_MAX);
    }
    if (op.body.kind != format::OpKind::kActivation) continue;
    const float parameter = op.body.reals[format::ActivationOp::kParameter];
    refuse_if(
        !parameter_makes_sense(op.body.choice<Activation>(format::ActivationOp::kKind), parameter),
        "{} keeps its results within {} of 0: expected a positive number, in float32",
        quote(op.name), parameter);
  }
}

// ---- reading back everything but target-specific offsets and the arena formula ----

namespace {

// Returns a name with all its bytes, although the reader ends it at the first zero. `Names` may be
// shorter than the list.
template <typename Names>
std::string name_at(const Names& names, uint32_t index) {
  return index < names.size() ? names.Get(index)->str() : "";
}

template <typename T>
std::vector<T> copy_of(std::span<const T> list) {
  return {list.begin(), list.end()};
}

CompiledMask copy_of(const MaskView& view) {
  CompiledMask mask;
  mask.kind = view.kind;
  mask.positions = view.positions;
  mask.lookback = view.lookback;
  mask.lookahead = view.lookahead;
  mask.values = copy_of(view.values);
  mask.map = copy_of(view.map);
  mask.bits = copy_of(view.bits);
  mask.row_begin = copy_of(view.row_begin);
  mask.row_end = copy_of(view.row_end);
  return mask;
}

ProgramTensor tensor_at(const format::ModelReader& reader, uint32_t packed_index, uint32_t index) {
  const format::TensorShape& shape = reader.tensor(index);
  ProgramTensor tensor;
  tensor.outputs = shape.outputs;
  tensor.inputs = shape.inputs;
  tensor.layout = shape.layout;
  tensor.type = shape.type;
  tensor.packed = reader.weights(packed_index, index);
  return tensor;
}

}  // namespace

Program read_model(std::span<const std::byte> file, uint32_t packed_index) {
  const format::ModelReader reader(file);
  const format::Model& model = *format::GetModel(file.data());
  Program program;
  program.producer = model.producer()->str();
  program.name = model.name()->str();
  program.architecture = model.architecture()->str();
  program.inputs.clear();
  for (uint32_t i = 0; i < reader.inputs(); ++i) {
    const std::string name = name_at(*model.input_names(), i);
    program.inputs.push_back({reader.input(i), name, reader.tokens_step(i)});
  }
  program.functions.clear();
  for (uint32_t i = 0; i < reader.functions(); ++i) {
    const format::FunctionView& function = reader.function(i);
    program.functions.push_back({name_at(*model.function_names(), i), function.first_op,
                                 function.inputs, function.output_slot});
  }
  program.kv_cache = reader.kv_cache();
  program.array_flags = model.array_flags();
  if (model.output_shape() != nullptr) {
    program.output_shape.assign(model.output_shape()->begin(), model.output_shape()->end());
  }
  if (model.arrays() != nullptr) {
    for (const auto* array : *model.arrays()) program.arrays.push_back(array->str());
  }
  if (model.suppressed() != nullptr) {
    program.suppressed.assign(model.suppressed()->begin(), model.suppressed()->end());
  }
  program.samples = model.samples();
  program.axes = copy_of(reader.axes());
  for (uint32_t i = 0; i < reader.slots(); ++i) program.slots.push_back(reader.slot(i));
  for (uint32_t i = 0; i < reader.ops(); ++i) {
    program.ops.push_back({name_at(*model.op_names(), i), reader.op(i)});
  }
  for (uint32_t i = 0; i < reader.tensors(); ++i) {
    program.tensors.push_back(tensor_at(reader, packed_index, i));
    program.tensors.back().name = name_at(*model.tensor_names(), i);
  }
  for (uint32_t i = 0; i < reader.caches(); ++i) program.caches.push_back(reader.cache(i));
  for (uint32_t i = 0; i < reader.masks(); ++i) program.masks.push_back(copy_of(reader.mask(i)));
  const std::span<const uint32_t> taken = reader.taken_rows(0);
  program.taken_rows.assign(taken.begin(), taken.end());
  for (uint32_t i = 0; i < reader.hidden_states(); ++i) {
    program.hidden_states.push_back(reader.hidden_state(i));
  }
  for (const auto* label : *model.labels()) program.labels.push_back(label->str());
  if (const SoundView sound = reader.sound(); sound.numbers != nullptr) {
    program.sound = SoundTable{*sound.numbers,
                               {sound.filters.begin(), sound.filters.end()},
                               {sound.tables.begin(), sound.tables.end()}};
  }
  if (format::has_tokenizer(file)) program.stored_tokenizer = format::tokenizer_view(file);
  return program;
}

}  // namespace arenite::convert
