// SPDX-License-Identifier: Apache-2.0
// C interface: statuses, targets and models.
#include "arenite/arena_formula.h"
#include "arenite/image.h"
#include "arenite/model.h"
#include "arenite/target.h"
#include "arenite/version.h"
#include "c/interop.h"

namespace arenite::c {
namespace {

static_assert(same(ARENITE_OK, Status::kOk) &&
              same(ARENITE_INVALID_ARGUMENT, Status::kInvalidArgument) &&
              same(ARENITE_BAD_MODEL, Status::kBadModel) &&
              same(ARENITE_VERSION_MISMATCH, Status::kVersionMismatch) &&
              same(ARENITE_UNSUPPORTED, Status::kUnsupported) &&
              same(ARENITE_ARENA_TOO_SMALL, Status::kArenaTooSmall) &&
              same(ARENITE_CONTEXT_FULL, Status::kContextFull));
static_assert(same(ARENITE_TARGET_PORTABLE, Target::kPortable) &&
              same(ARENITE_TARGET_X86_64_V2, Target::kX86_64_v2) &&
              same(ARENITE_TARGET_X86_64_V3, Target::kX86_64_v3) &&
              same(ARENITE_TARGET_X86_64_V4, Target::kX86_64_v4) &&
              same(ARENITE_TARGET_ARM64, Target::kArm64) &&
              same(ARENITE_TARGET_ARM32, Target::kArm32) &&
              same(ARENITE_TARGET_X86_64_V4_VNNI, Target::kX86_64_v4_vnni) &&
              same(ARENITE_TARGET_ARM64_DOT, Target::kArm64_dot) &&
              same(ARENITE_TARGET_ARM64_I8MM, Target::kArm64_i8mm) &&
              same(ARENITE_TARGET_CORTEX_M_DSP, Target::kCortexMDsp) &&
              same(ARENITE_TARGET_CORTEX_M_MVE, Target::kCortexMMve) &&
              same(ARENITE_TARGET_RV64_V128, Target::kRv64_v128) &&
              same(ARENITE_TARGET_RV64_V256, Target::kRv64_v256) &&
              ARENITE_TARGET_RV64_V256 == kTargets - 1);
static_assert(same(ARENITE_CHECKSUMS_VERIFY, Checksums::kVerify) &&
              same(ARENITE_CHECKSUMS_SKIP, Checksums::kSkip));

const Model& model_in(const arenite_model* model) { return object_in<const Model>(model); }

// Maps a number that is no target to kTargets, which load refuses.
Target target_from(uint32_t number) {
  return static_cast<Target>(number < kTargets ? number : kTargets);
}

LoadOptions options_from(const arenite_load_options* options, Crc32c crc32c) {
  if (options == nullptr) return {.crc32c = crc32c};
  return {options->force_target, target_from(options->target),
          options->checksums == ARENITE_CHECKSUMS_SKIP ? Checksums::kSkip : Checksums::kVerify,
          crc32c};
}

}  // namespace
}  // namespace arenite::c

using arenite::Diagnostic;
using arenite::Model;
using arenite::Status;
using arenite::c::model_in;

const char* arenite_version(void) { return arenite::version(); }

const char* arenite_status_name(arenite_status status) {
  return arenite::name(static_cast<Status>(status));
}

size_t arenite_describe(arenite_status status, const arenite_diagnostic* why, char* out,
                        size_t out_bytes) {
  Diagnostic diagnostic;
  if (why != nullptr) {
    diagnostic = {why->reason,   why->field,        why->index,        why->found,
                  why->expected, why->bytes_needed, why->file_targets, why->cpu_targets};
  }
  return arenite::describe(static_cast<Status>(status), diagnostic, {out, out_bytes});
}

uint32_t arenite_cpu_targets(void) { return arenite::cpu_targets(); }

const char* arenite_target_name(arenite_target target) {
  return arenite::name(arenite::c::target_from(target));
}

const char* arenite_kernel_set_name(arenite_target target) {
  return arenite::kernel_set_name(arenite::c::target_from(target));
}

uint32_t arenite_crc32c(const void* bytes, size_t count) {
  return arenite::crc32c_of(bytes, count);
}

arenite_status arenite_model_load(arenite_model* model, const void* file, size_t file_bytes,
                                  const arenite_load_options* options, arenite_diagnostic* why) {
  return arenite_model_load_crc32c(model, file, file_bytes, options, arenite::crc32c_of, why);
}

arenite_status arenite_model_load_crc32c(arenite_model* model, const void* file, size_t file_bytes,
                                         const arenite_load_options* options,
                                         arenite_crc32c_function crc32c, arenite_diagnostic* why) {
  Diagnostic from;
  const auto loaded = Model::load({static_cast<const std::byte*>(file), file_bytes}, &from,
                                  arenite::c::options_from(options, crc32c));
  return arenite::c::finish(loaded, from, why,
                            [&](const Model& value) { arenite::c::place(value, model); });
}

arenite_status arenite_model_verify_checksums(const arenite_model* model, arenite_diagnostic* why) {
  Diagnostic from;
  const Status status = model_in(model).verify_checksums(&from);
  return arenite::c::report(status, from, why);
}

const char* arenite_model_name(const arenite_model* model) { return model_in(model).name(); }
uint32_t arenite_model_vocab_size(const arenite_model* model) {
  return model_in(model).vocab_size();
}
uint32_t arenite_model_token_types(const arenite_model* model) {
  return model_in(model).token_types();
}
uint32_t arenite_model_input_features(const arenite_model* model) {
  return model_in(model).input_features();
}
static_assert(ARENITE_INPUTS_MAX == arenite::kInputsMax);

uint32_t arenite_model_inputs(const arenite_model* model) { return model_in(model).inputs(); }
uint32_t arenite_model_functions(const arenite_model* model) { return model_in(model).functions(); }
arenite_input_info arenite_model_input(const arenite_model* model, uint32_t index) {
  const arenite::InputInfo info = model_in(model).input(index);
  return {info.name,          info.features,   info.vocab_size,  info.token_types,
          info.positions_max, info.tokens_min, info.tokens_step, info.takes_pairs};
}
arenite_function_info arenite_model_function(const arenite_model* model, uint32_t index) {
  const arenite::FunctionInfo info = model_in(model).function(index);
  return {info.name,   info.inputs, info.inputs_read, info.output_features,
          info.pooled, info.causal, info.first_op,    info.ops};
}
uint32_t arenite_model_find_function(const arenite_model* model, const char* name) {
  return model_in(model).find_function(name);
}
arenite_image_shape arenite_model_image_shape(const arenite_model* model) {
  return arenite_model_image_shape_of(model, 0);
}
arenite_image_shape arenite_model_image_shape_of(const arenite_model* model, uint32_t index) {
  const arenite::ImageShape image = arenite::image_shape(model_in(model), index);
  return {image.channels, image.height, image.width};
}
uint32_t arenite_model_output_features(const arenite_model* model) {
  return model_in(model).output_features();
}
uint32_t arenite_model_positions_max(const arenite_model* model) {
  return model_in(model).positions_max();
}
arenite_kv_type arenite_model_kv_cache(const arenite_model* model) {
  return model_in(model).kv_cache() == arenite::TensorType::kInt8 ? ARENITE_KV_INT8
                                                                  : ARENITE_KV_F32;
}
uint32_t arenite_model_ops(const arenite_model* model) { return model_in(model).ops(); }
const char* arenite_model_op_name(const arenite_model* model, uint32_t index) {
  return model_in(model).op_name(index);
}
uint32_t arenite_model_hidden_states(const arenite_model* model) {
  return model_in(model).hidden_states();
}
bool arenite_model_causal(const arenite_model* model) { return model_in(model).causal(); }
bool arenite_model_pooled(const arenite_model* model) { return model_in(model).pooled(); }
uint32_t arenite_model_labels(const arenite_model* model) { return model_in(model).labels(); }
const char* arenite_model_label(const arenite_model* model, uint32_t index) {
  return model_in(model).label(index);
}
uint32_t arenite_model_self_test_tokens(const arenite_model* model) {
  return model_in(model).self_test_tokens();
}
arenite_target arenite_model_target(const arenite_model* model) {
  return static_cast<arenite_target>(model_in(model).target());
}
uint32_t arenite_model_file_targets(const arenite_model* model) {
  return model_in(model).file_targets();
}
