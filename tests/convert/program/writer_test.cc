// SPDX-License-Identifier: Apache-2.0
// A model file holds the program for every target in order, and no bytes left to chance.
#include "convert/program/writer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "convert/convert.h"
#include "convert/files/error.h"
#include "core/crc32c.h"
#include "format/file_layout.h"
#include "format/verify.h"
#include "support/decoder_factory.h"
#include "support/model_factory.h"

namespace arenite::test {
namespace {

using convert::AlignedBytes;
using convert::CompiledMask;
using convert::Program;
using convert::ProgramTensor;
using format::ModelReader;

Program program_of(const ModuleSpec& spec) {
  return convert::compile(convert::build_graph(make_module(spec)), spec.name);
}

TEST(Writer, WritesTheSameBytesTwice) {
  for (const ModuleSpec& spec : all_specs()) {
    const AlignedBytes once = write_model(program_of(spec), all_targets());
    const AlignedBytes again = write_model(program_of(spec), all_targets());
    EXPECT_TRUE(std::ranges::equal(once.span(), again.span())) << spec.name;
  }
}

TEST(Writer, PassesTheVerifier) {
  for (const ModuleSpec& spec : all_specs()) {
    Diagnostic why;
    EXPECT_EQ(format::verify(write_model(program_of(spec), all_targets()).span(), &why),
              Status::kOk)
        << spec.name << ": " << why.reason;
  }
}

TEST(Writer, KeepsTheOrderOfTargets) {
  const std::vector<Target> order = {Target::kArm64, Target::kPortable, Target::kX86_64_v3};
  const AlignedBytes file = write_model(program_of(spec_named("causal")), order);
  const ModelReader reader(file.span());
  ASSERT_EQ(reader.packed_count(), 3u);
  uint64_t end = 0;
  for (uint32_t i = 0; i < 3; ++i) {
    const format::PackedView& packed = reader.packed(i);
    EXPECT_EQ(packed.target, static_cast<uint32_t>(order[i]));
    EXPECT_EQ(packed.packing(TensorType::kF32), packing_of(order[i], TensorType::kF32));
    EXPECT_GE(packed.segment.begin(), end);
    end = packed.segment.end();
  }
}

TEST(Writer, StoresThePackedWeightsOfEveryTensorAndTarget) {
  for (const ModuleSpec& spec : all_specs()) {
    const Program program = program_of(spec);
    const AlignedBytes file = write_model(program, all_targets());
    const ModelReader reader(file.span());
    ASSERT_EQ(reader.tensors(), program.tensors.size());
    for (uint32_t p = 0; p < reader.packed_count(); ++p) {
      for (uint32_t t = 0; t < program.tensors.size(); ++t) {
        const ProgramTensor& tensor = program.tensors[t];
        EXPECT_STREQ(reader.tensor_name(t), tensor.name.c_str());
        const Packing packing = reader.packed(p).packing(TensorType::kF32);
        std::vector<float> expected(
            packed_weight_bytes(packing, tensor.outputs, tensor.inputs).value() / sizeof(float));
        pack_weights(tensor, tensor.load(), packing, std::as_writable_bytes(std::span(expected)));
        const float* const found = reader.weights(p, t).f32();
        EXPECT_EQ(reinterpret_cast<uintptr_t>(found) % format::kSegmentUnit, 0u);
        EXPECT_EQ(std::memcmp(found, expected.data(), expected.size() * sizeof(float)), 0);
      }
    }
  }
}

void expect_stored(const Program& program) {
  const AlignedBytes file = write_model(program, {Target::kPortable});
  const ModelReader reader(file.span());
  EXPECT_STREQ(reader.name(), program.name.c_str());
  EXPECT_STREQ(reader.architecture(), program.architecture.c_str());
  EXPECT_EQ(reader.positions_max(), program.inputs[0].positions_max);
  EXPECT_EQ(reader.vocab_size(), program.inputs[0].vocab_size);
  EXPECT_EQ(reader.input_slot(), program.inputs[0].slot);
  EXPECT_EQ(reader.output_slot(), program.functions[0].output_slot);
  ASSERT_EQ(reader.slots(), program.slots.size());
  for (uint32_t i = 0; i < reader.slots(); ++i) {
    EXPECT_EQ(reader.slot(i).width, program.slots[i].width);
    EXPECT_EQ(reader.slot(i).offset, program.slots[i].offset);
    EXPECT_EQ(reader.slot(i).first_op, program.slots[i].first_op);
    EXPECT_EQ(reader.slot(i).last_op, program.slots[i].last_op);
    EXPECT_EQ(reader.slot(i).axis, program.slots[i].axis);
  }
  ASSERT_EQ(reader.ops(), program.ops.size());
  for (uint32_t i = 0; i < reader.ops(); ++i) {
    EXPECT_STREQ(reader.op_name(i), program.ops[i].name.c_str());
    const format::OpView& found = reader.op(i);
    const format::OpView& expected = program.ops[i].body;
    EXPECT_EQ(found.kind, expected.kind);
    EXPECT_TRUE(std::ranges::equal(found.views, expected.views));
    EXPECT_TRUE(std::ranges::equal(found.numbers, expected.numbers));
    EXPECT_TRUE(std::ranges::equal(found.reals, expected.reals));
  }
  ASSERT_EQ(reader.caches(), program.caches.size());
  for (uint32_t i = 0; i < reader.caches(); ++i) {
    EXPECT_EQ(reader.cache(i).shape.kv_heads, program.caches[i].shape.kv_heads);
    EXPECT_EQ(reader.cache(i).shape.head_dim, program.caches[i].shape.head_dim);
    EXPECT_EQ(reader.cache(i).shape.value_dim, program.caches[i].shape.value_dim);
    EXPECT_EQ(reader.cache(i).lookback, program.caches[i].lookback);
  }
  ASSERT_EQ(reader.hidden_states(), program.hidden_states.size());
  for (uint32_t i = 0; i < reader.hidden_states(); ++i) {
    EXPECT_EQ(reader.hidden_state(i).op, program.hidden_states[i].op);
    EXPECT_EQ(reader.hidden_state(i).view, program.hidden_states[i].view);
  }
  ASSERT_EQ(reader.masks(), program.masks.size());
  for (uint32_t i = 0; i < reader.masks(); ++i) {
    const MaskView found = reader.mask(i);
    const CompiledMask& expected = program.masks[i];
    EXPECT_EQ(found.kind, expected.kind);
    EXPECT_EQ(found.positions, expected.positions);
    EXPECT_EQ(found.lookback, expected.lookback);
    EXPECT_EQ(found.lookahead, expected.lookahead);
    EXPECT_TRUE(std::ranges::equal(found.values, expected.values));
    EXPECT_TRUE(std::ranges::equal(found.map, expected.map));
    EXPECT_TRUE(std::ranges::equal(found.bits, expected.bits));
    EXPECT_TRUE(std::ranges::equal(found.row_begin, expected.row_begin));
    EXPECT_TRUE(std::ranges::equal(found.row_end, expected.row_end));
  }
}

TEST(Writer, StoresSlotsOpsCachesAndMasks) {
  for (const ModuleSpec& spec : all_specs()) {
    SCOPED_TRACE(spec.name);
    ASSERT_NO_FATAL_FAILURE(expect_stored(program_of(spec)));
  }
  for (const DecoderShape& shape : all_decoders()) {
    SCOPED_TRACE(shape.name);
    ASSERT_NO_FATAL_FAILURE(expect_stored(decoder_program(shape)));
  }
}

TEST(Writer, EndsWithAFooterThatCountsAndChecksTheRest) {
  const AlignedBytes file = write_model(program_of(spec_named("causal")), all_targets());
  format::Footer footer;
  std::memcpy(&footer, file.span().last(sizeof(footer)).data(), sizeof(footer));
  EXPECT_EQ(footer.magic, format::kFooterMagic);
  EXPECT_EQ(footer.format_version, format::kFormatVersion);
  EXPECT_EQ(footer.file_bytes, file.size());
  EXPECT_EQ(footer.metadata_crc32c, crc32c(file.span().first(footer.metadata_bytes)));
  const ModelReader reader(file.span());
  for (uint32_t p = 0; p < reader.packed_count(); ++p) {
    const format::SegmentView segment = reader.packed(p).segment;
    EXPECT_EQ(segment.crc32c, crc32c(file.span().subspan(segment.begin(), segment.bytes())));
  }
}

TEST(Writer, GivesEverySegmentRoomToReadAhead) {
  const Program program = program_of(spec_named("causal"));
  const AlignedBytes file = write_model(program, all_targets());
  const ModelReader reader(file.span());
  for (uint32_t p = 0; p < reader.packed_count(); ++p) {
    const format::PackedView& packed = reader.packed(p);
    const uint32_t last = reader.tensors() - 1;
    const uint64_t bytes =
        packed_weight_bytes(packed.packing(TensorType::kF32), reader.tensor(last).outputs,
                            reader.tensor(last).inputs)
            .value();
    EXPECT_GE(packed.segment.bytes(), reader.tensor_offset(p, last) + bytes + kReadAheadBytes);
  }
}

// Each window needs a cache group; too many are refused before packing.
TEST(Writer, RefusesMoreWindowsThanAFileHoldsGroups) {
  DecoderShape shape = smallest_decoder();
  shape.positions_max = 100;
  shape.windows = {1, 2, 3, 0, 2};
  EXPECT_NO_THROW(write_model(decoder_program(shape), {Target::kPortable}));
  shape.windows.push_back(4);
  EXPECT_THROW(write_model(decoder_program(shape), {Target::kPortable}), convert::InputError);
}

TEST(Writer, RefusesProgramsBeyondTheLimitsOfTheFormat) {
  Program masks = program_of(spec_named("causal"));
  masks.masks.resize(format::kMasksMax + 1, masks.masks[0]);
  EXPECT_THROW(convert::check_format_limits(masks), convert::InputError);
  Program tensors = program_of(spec_named("causal"));
  tensors.tensors.resize(format::kTensorsMax + 1, tensors.tensors[0]);
  EXPECT_THROW(convert::check_format_limits(tensors), convert::InputError);
}

TEST(Writer, RefusesAProgramThatComputesNothing) {
  convert::Graph graph;
  graph.output = graph.add_features(8);
  EXPECT_THROW(convert::check_format_limits(convert::lower(graph, "nothing")), convert::InputError);
}

}  // namespace
}  // namespace arenite::test
