// SPDX-License-Identifier: Apache-2.0
// Tests of `arenite inspect --json` against the runtime's own reader and planner.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/program.h"
#include "convert/masks/masks.h"
#include "format/reader.h"
#include "session/session_state.h"
#include "support/decoder_factory.h"
#include "support/kernel_sets.h"
#include "support/model_factory.h"

namespace arenite::testing {
namespace {

using format::AttentionOp;
using nlohmann::json;
using test::ModuleSpec;

json inspect(const TempFolder& folder, std::span<const std::byte> model) {
  const ProgramResult result =
      run_arenite({"inspect", write_file(folder, "m.arn", model), "--json", "--positions", "60",
                   "--tokens", "9", "--sequences", "3", "--threads", "2"});
  EXPECT_EQ(result.exit_code, 0) << result.output;
  return json::parse(result.output, nullptr, false);
}

ArenaPlan plan_of(std::span<const std::byte> model, uint32_t packed_index, Target target) {
  SessionOptions options;
  options.positions_max = 60;
  options.tokens_max = 9;
  options.sequences_max = 3;
  options.parallel.threads = 2;
  options.parallel.run = [](void*, uint32_t, ParallelFor::Task, void*) {};
  const Result<ArenaPlan> plan =
      plan_arena(ModelAccess::make(model, packed_index, target), options);
  EXPECT_TRUE(plan.ok());
  return plan.ok() ? *plan : ArenaPlan{};
}

uint64_t pass_multiply_adds(const format::ModelReader& reader, const format::OpView& op) {
  if (op.kind == format::OpKind::kLinear) {
    return uint64_t{60} * op.views[format::kInput].width * op.views[format::kOutput].width;
  }
  const CacheShape& cache = reader.cache(op.numbers[AttentionOp::kCache]).shape;
  uint64_t pairs = 0;
  const convert::DenseMask mask =
      convert::expand_mask(reader.mask(op.numbers[AttentionOp::kMask]), 60);
  for (const bool visible : mask.visible) pairs += visible ? 1 : 0;
  return pairs * reader.heads_of(op) * (cache.head_dim + cache.value_dim);
}

// Bytes of a pass over 60 tokens, for the target that runs here.
void check_traffic(const format::ModelReader& reader, const format::OpView& op, const json& found) {
  constexpr uint64_t kRow = 60 * sizeof(float);
  if (op.kind == format::OpKind::kLinear) {
    const Target best = test::targets_here().back();
    uint64_t weights = 0;
    for (uint32_t i = 0; i < reader.packed_count(); ++i) {
      const format::PackedView packed = reader.packed(i);
      if (packed.target != static_cast<uint32_t>(best)) continue;
      weights = format::stored_bytes(reader.tensor(op.numbers[format::LinearOp::kTensor]),
                                     packed.packing(TensorType::kF32))
                    .value();
    }
    EXPECT_EQ(found["bytes_read_per_pass"], weights + kRow * op.views[format::kInput].width);
    EXPECT_EQ(found["bytes_written_per_pass"], kRow * op.views[format::kOutput].width);
    return;
  }
  const CacheShape& cache = reader.cache(op.numbers[AttentionOp::kCache]).shape;
  const uint64_t entry = uint64_t{cache.head_dim} + cache.value_dim;
  EXPECT_EQ(found["bytes_written_per_pass"],
            kRow * (cache.kv_heads * entry + op.views[format::kOutput].width));
  // Every query reads its own key and value at least, and no block reads more than all of them.
  const uint64_t rows = kRow * (op.views[format::kQuery].width + op.views[format::kKey].width +
                                op.views[format::kValue].width);
  const uint64_t read = found["bytes_read_per_pass"];
  EXPECT_GE(read, rows + 60 / 8 * reader.heads_of(op) * entry * sizeof(float));
  EXPECT_LE(read, rows + 60 * 60 * reader.heads_of(op) * entry * sizeof(float));
}

TEST(InspectJson, AgreesWithTheReader) {
  const TempFolder folder;
  for (const ModuleSpec& spec : test::all_specs()) {
    SCOPED_TRACE(spec.name);
    const convert::AlignedBytes bytes = test::make_model(spec);
    const format::ModelReader reader(bytes.span());
    const json facts = inspect(folder, bytes.span());
    ASSERT_TRUE(facts.is_object());
    EXPECT_EQ(facts["file"]["bytes"], bytes.size());
    EXPECT_EQ(facts["model"]["name"], spec.name);
    EXPECT_EQ(facts["model"]["positions_max"], reader.positions_max());
    EXPECT_EQ(facts["model"]["causal"], reader.causal());
    EXPECT_EQ(facts["model"]["input_features"], reader.slot(reader.input_slot()).width);
    EXPECT_EQ(facts["sizes"], json({{"positions", 60},
                                    {"tokens", 9},
                                    {"sequences", 3},
                                    {"threads", 2},
                                    {"kv_cache", "f32"}}));
    ASSERT_EQ(facts["ops"].size(), reader.ops());
    for (uint32_t i = 0; i < reader.ops(); ++i) {
      const json& op = facts["ops"][i];
      EXPECT_EQ(op["name"], reader.op_name(i));
      EXPECT_EQ(op["writes_slot"], reader.op(i).views[format::kOutput].slot);
      EXPECT_EQ(op["multiply_adds_per_pass"], pass_multiply_adds(reader, reader.op(i)));
      check_traffic(reader, reader.op(i), op);
    }
    ASSERT_EQ(facts["slots"].size(), reader.slots());
    for (uint32_t i = 0; i < reader.slots(); ++i) {
      EXPECT_EQ(facts["slots"][i]["width"], reader.slot(i).width);
      EXPECT_EQ(facts["slots"][i]["column"], reader.slot(i).offset);
      EXPECT_EQ(facts["slots"][i]["last_op"], reader.slot(i).last_op);
    }
    EXPECT_EQ(facts["tensors"].size(), reader.tensors());
    ASSERT_EQ(facts["masks"].size(), reader.masks());
    for (uint32_t i = 0; i < reader.masks(); ++i) {
      EXPECT_EQ(facts["masks"][i]["positions"], reader.mask(i).positions);
      EXPECT_EQ(facts["masks"][i]["bytes"], convert::mask_bytes(reader.mask(i)));
    }
  }
}

// ARENITE_MODEL links what is named here, and nothing else.
TEST(InspectJson, NamesTheNeededPartsOfTheRuntime) {
  const TempFolder folder;
  const auto needs = [&](const convert::AlignedBytes& bytes) {
    return inspect(folder, bytes.span())["needs"];
  };
  EXPECT_EQ(needs(test::make_model(test::spec_named("causal"))),
            json({"op linear", "op attention"}));
  EXPECT_EQ(needs(test::make_model(test::spec_named("documents"))),
            json({"op linear", "op attention", "mask tiles"}));
  EXPECT_EQ(needs(test::make_model(test::spec_named("strip"))).back(), "mask strip");
}

void expect_plans(const TempFolder& folder, const convert::AlignedBytes& bytes) {
  const Result<Model> model = Model::load(bytes.span());
  ASSERT_TRUE(model.ok());
  const json facts = inspect(folder, bytes.span());
  ASSERT_EQ(facts["targets"].size(), kTargets);
  for (uint32_t i = 0; i < kTargets; ++i) {
    const json& target = facts["targets"][i];
    const Target id = static_cast<Target>(format::ModelReader(bytes.span()).packed(i).target);
    EXPECT_EQ(target["name"], name(id));
    EXPECT_FALSE(target["cpus"].get<std::string>().empty());
    EXPECT_EQ(target["runs_here"], (cpu_targets() & bit(id)) != 0);
    EXPECT_EQ(target["chosen"], model->target() == id);
    const ArenaPlan plan = plan_of(bytes.span(), i, id);
    EXPECT_EQ(target["arena"]["session_bytes"], plan.session_bytes);
    EXPECT_EQ(target["arena"]["kv_cache_bytes"], plan.kv_cache_bytes);
    EXPECT_EQ(target["arena"]["activation_bytes"], plan.activation_bytes);
    EXPECT_EQ(target["arena"]["scratch_bytes"], plan.scratch_bytes);
    EXPECT_EQ(target["arena"]["total_bytes"], plan.total_bytes);
    uint64_t caches = 0;
    for (const json& cache : facts["caches"]) {
      caches += cache["bytes"][name(id)].get<uint64_t>();
    }
    EXPECT_EQ((caches + 63) / 64 * 64, plan.kv_cache_bytes);
  }
}

TEST(InspectJson, AgreesWithThePlannerForEveryTarget) {
  const TempFolder folder;
  for (const ModuleSpec& spec : test::all_specs()) {
    SCOPED_TRACE(spec.name);
    expect_plans(folder, test::make_model(spec));
  }
  for (const test::DecoderShape& shape : test::all_decoders()) {
    SCOPED_TRACE(shape.name);
    expect_plans(folder, test::make_decoder_model(shape));
  }
}

TEST(InspectJson, BoundsTheCostOfACall) {
  const TempFolder folder;
  for (const test::DecoderShape& shape : {test::DecoderShape{}, test::ring_decoder()}) {
    const json facts = inspect(folder, test::make_decoder_model(shape).span());
    const json& bounds = facts["bounds"];
    EXPECT_EQ(bounds["flash_bytes"], facts["file"]["bytes"]);
    EXPECT_EQ(bounds["stack_bytes"]["cortex-m"], 2432);
    EXPECT_EQ(bounds["stack_bytes"]["cortex-m without an FPU"], 2624);
    for (const json& target : facts["targets"]) {
      if (!target["chosen"]) continue;
      EXPECT_EQ(bounds["arena_bytes"], target["arena"]["total_bytes"]);
    }
    EXPECT_EQ(bounds["run"]["rows"], 9);
    EXPECT_EQ(bounds["step"]["held"], 59);
    for (const char* const name : {"run", "step"}) {
      const json& call = bounds[name];
      EXPECT_GT(call["multiply_adds_not_finite"], call["multiply_adds"]);
      EXPECT_GT(call["bytes_read_not_finite"], call["bytes_read"]);
    }
    EXPECT_GT(bounds["load_steps"], facts["file"]["bytes"]);
  }
}

TEST(InspectJson, StaysJsonWhateverTheNamesAre) {
  const TempFolder folder;
  ModuleSpec spec = test::spec_named("causal");
  spec.name = "quote \" newline \n no text \xff";
  const json facts = inspect(folder, test::make_model(spec).span());
  ASSERT_TRUE(facts.is_object());
  EXPECT_EQ(facts["model"]["name"], "quote \" newline \n no text \xef\xbf\xbd");
}

}  // namespace
}  // namespace arenite::testing
