// SPDX-License-Identifier: Apache-2.0
// Loads models: verifies the file and selects the best target that the file, the build and the CPU
// share.
#include "arenite/image.h"

#include "core/message.h"
#include "format/verify.h"
#include "kernels/kernel_set.h"
#include "session/session_state.h"

namespace arenite {
namespace {

// Later targets are faster: within each architecture, speed increases with the id.
bool choose_target(const format::ModelReader& reader, const LoadOptions& options,
                   uint32_t& packed_index, Target& target) {
  bool found = false;
  for (uint32_t i = 0; i < reader.packed_count(); ++i) {
    const Target candidate = static_cast<Target>(reader.packed(i).target);
    if (kernel_set(candidate) == nullptr) continue;
    if (options.force_target ? candidate != options.target : found && candidate < target) continue;
    packed_index = i;
    target = candidate;
    found = true;
  }
  return found;
}

}  // namespace

Result<Model> Model::load(std::span<const std::byte> file, Diagnostic* why,
                          const LoadOptions& options) {
  clear(why);
  if (reinterpret_cast<uintptr_t>(file.data()) % kModelAlignment != 0) {
    return refuse(why, Status::kInvalidArgument,
                  "a model file must start at a multiple of 64 bytes", "file", 0,
                  reinterpret_cast<uintptr_t>(file.data()) % kModelAlignment);
  }
  if (file.data() == nullptr && !file.empty()) {
    return refuse(why, Status::kInvalidArgument, "the model file is null", "file");
  }
  const Status status = format::verify(file, why, options);
  if (status != Status::kOk) return status;

  const format::ModelReader reader(file);
  uint32_t packed_index = 0;
  Target target = Target::kPortable;
  if (!choose_target(reader, options, packed_index, target)) {
    explain(why, options.force_target ? Message("this file or CPU lacks the requested target")
                                      : Message("the model is packed for other CPUs"));
    if (why != nullptr) {
      why->file_targets = reader.file_targets();
      why->cpu_targets = cpu_targets();
    }
    return Status::kUnsupported;
  }
  return ModelAccess::make(file, packed_index, target);
}

Status Model::verify_checksums(Diagnostic* why, Crc32c crc32c) const {
  clear(why);
  if (file_.empty()) {
    return refuse(why, Status::kInvalidArgument, "the model was not loaded");
  }
  return format::verify_weights(file_, why, crc32c);
}

namespace {

uint32_t features_of(const format::ModelReader& reader, uint32_t input) {
  return reader.vocab_size(input) != 0 ? 0 : reader.slot(reader.input_slot(input)).width;
}

}  // namespace

uint32_t Model::inputs() const { return ModelAccess::reader(*this).inputs(); }
InputInfo Model::input(uint32_t index) const {
  const format::ModelReader reader = ModelAccess::reader(*this);
  return {reader.input_name(index),  features_of(reader, index),  reader.vocab_size(index),
          reader.token_types(index), reader.positions_max(index), reader.tokens_min(index),
          reader.tokens_step(index), reader.takes_pairs(index)};
}

uint32_t Model::functions() const { return ModelAccess::reader(*this).functions(); }
FunctionInfo Model::function(uint32_t index) const {
  const format::ModelReader reader = ModelAccess::reader(*this);
  const format::FunctionView& function = reader.function(index);
  return {reader.function_name(index),
          function.inputs,
          reader.inputs_read(index),
          reader.slot(function.output_slot).width,
          reader.kind_of_slot(function.output_slot) == AxisKind::kOne,
          reader.causal(index),
          function.first_op,
          function.ops};
}
uint32_t Model::find_function(const char* name) const {
  const format::ModelReader reader = ModelAccess::reader(*this);
  const auto is_name = [&](const char* text) {
    const char* letter = name;
    while (*letter != '\0' && *letter == *text) ++letter, ++text;
    return *letter == *text;
  };
  uint32_t index = 0;
  while (index < reader.functions() && !is_name(reader.function_name(index))) ++index;
  return index;
}

const char* Model::name() const { return ModelAccess::reader(*this).name(); }

uint32_t Model::input_features() const { return features_of(ModelAccess::reader(*this), 0); }

ImageShape image_shape(const Model& model, uint32_t input) {
  const format::ModelReader reader = ModelAccess::reader(model);
  if (!reader.reads_images(input)) return {};
  const Axis& pixels = reader.axes()[reader.axis_of_input(input)];
  return {reader.slot(reader.input_slot(input)).width, pixels.rows / pixels.other, pixels.other};
}

uint32_t Model::vocab_size() const { return ModelAccess::reader(*this).vocab_size(); }
uint32_t Model::token_types() const { return ModelAccess::reader(*this).token_types(); }
bool Model::pooled() const {
  const format::ModelReader reader = ModelAccess::reader(*this);
  return reader.kind_of_slot(reader.output_slot()) == AxisKind::kOne;
}
uint32_t Model::labels() const { return ModelAccess::reader(*this).labels(); }
const char* Model::label(uint32_t index) const { return ModelAccess::reader(*this).label(index); }
uint32_t Model::ops() const { return ModelAccess::reader(*this).ops(); }
const char* Model::op_name(uint32_t index) const {
  return ModelAccess::reader(*this).op_name(index);
}
uint32_t Model::hidden_states() const { return ModelAccess::reader(*this).hidden_states(); }

uint32_t Model::output_features() const {
  const format::ModelReader reader = ModelAccess::reader(*this);
  return reader.slot(reader.output_slot()).width;
}

TensorType Model::kv_cache() const { return ModelAccess::reader(*this).kv_cache(); }
uint32_t Model::positions_max() const { return ModelAccess::reader(*this).positions_max(); }
uint32_t Model::tokens_min() const { return ModelAccess::reader(*this).tokens_min(); }
bool Model::causal() const { return ModelAccess::reader(*this).causal(); }
uint32_t Model::self_test_tokens() const { return ModelAccess::reader(*this).self_test().tokens; }
uint32_t Model::file_targets() const { return ModelAccess::reader(*this).file_targets(); }

}  // namespace arenite
