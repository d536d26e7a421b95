// SPDX-License-Identifier: Apache-2.0
// Repacking a model file for other targets gives the bytes of packing its program for them.
#include "convert/check/pack_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "convert/convert.h"
#include "convert/files/error.h"
#include "convert/passes/passes.h"
#include "core/crc32c.h"
#include "format/reader.h"
#include "support/decoder_factory.h"
#include "support/encoder_factory.h"
#include "support/model_factory.h"
#include "support/model_surgery.h"

namespace arenite::test {
namespace {

using convert::AlignedBytes;
using convert::Program;
using convert::RepackedModel;

bool are_same(const AlignedBytes& a, const AlignedBytes& b) {
  return std::ranges::equal(a.span(), b.span());
}

AlignedBytes pack(const Program& program, const std::vector<Target>& targets) {
  return convert::pack_model(program, targets, "test");
}

RepackedModel repack(const AlignedBytes& file, const std::vector<Target>& targets) {
  return convert::repack_model(file.span(), targets, "'m.arn'");
}

// Repacks from each target to each other one, and to and from all of them.
void expect_same_as_packed(const Program& program) {
  std::vector<AlignedBytes> packed;
  for (const Target target : all_targets()) packed.push_back(pack(program, {target}));
  const AlignedBytes all = pack(program, all_targets());
  for (size_t from = 0; from < packed.size(); ++from) {
    const char* const source = name(all_targets()[from]);
    for (size_t to = 0; to < packed.size(); ++to) {
      const Target target = all_targets()[to];
      EXPECT_TRUE(are_same(repack(packed[from], {target}).file, packed[to]))
          << program.name << " from " << source << " to " << name(target);
    }
    EXPECT_TRUE(are_same(repack(packed[from], all_targets()).file, all)) << source;
    EXPECT_TRUE(are_same(repack(all, {all_targets()[from]}).file, packed[from])) << source;
  }
}

// Two blocks of 32, so that no row falls back but those of `down`.
DecoderShape decoder_of(TensorType weights, TensorType output) {
  DecoderShape shape;
  shape.name = std::string(name(weights)) + " " + name(output);
  shape.model_dim = 64;
  shape.vocab_size = 45;
  shape.bias = true;
  shape.weights = weights;
  shape.output = output;
  return shape;
}

TEST(Repack, GivesTheBytesOfAConversionForEveryTypeOfWeights) {
  for (const TensorType type : convert::kWeightTypes) {
    expect_same_as_packed(decoder_program(decoder_of(type, type)));
  }
  expect_same_as_packed(decoder_program(decoder_of(TensorType::kQ4, TensorType::kQ8)));
}

TEST(Repack, KeepsTypesThatAreMixed) {
  convert::Graph graph =
      convert::build_graph(make_decoder(decoder_of(TensorType::kF32, TensorType::kF32)));
  choose_types(graph, {TensorType::kQ4,
                       {{"down", TensorType::kW8},
                        {"query", TensorType::kF32},
                        {"logits", TensorType::kF32},
                        {"gate", TensorType::kQ8}}});
  expect_same_as_packed(convert::lower(convert::rewrite(std::move(graph)), "mixed"));
}

TEST(Repack, GivesTheBytesOfAConversionForEveryKindOfModel) {
  const auto expect_same = [](const Program& program) {
    const AlignedBytes all = pack(program, all_targets());
    EXPECT_TRUE(are_same(repack(pack(program, {Target::kArm64}), all_targets()).file, all))
        << program.name;
    EXPECT_TRUE(
        are_same(repack(all, {Target::kX86_64_v2}).file, pack(program, {Target::kX86_64_v2})))
        << program.name;
  };
  for (const DecoderShape& shape : all_decoders()) {
    if (shape.name != "ring") expect_same(decoder_program(shape));
  }
  for (const EncoderShape& shape : all_encoders()) expect_same(encoder_program(shape));
  for (const ModuleSpec& spec : all_specs()) {
    expect_same(convert::compile(convert::build_graph(make_module(spec)), spec.name));
  }
}

TEST(Repack, KeepsAllBytesOfNames) {
  EncoderShape shape = encoder_named("bert");
  Program program = encoder_program(shape);
  const uint32_t columns = program.slots[program.functions[0].output_slot].width;
  for (uint32_t i = 0; i < columns; ++i) program.labels.push_back("a" + std::string(1, 0) + "b");
  const AlignedBytes both = pack(program, {Target::kPortable, Target::kArm64});
  EXPECT_TRUE(are_same(repack(both, {Target::kArm64}).file, pack(program, {Target::kArm64})));
}

TEST(Repack, PutsTargetsInTheRequestedOrder) {
  const Program program = decoder_program(decoder_named("llama"));
  const AlignedBytes file = pack(program, {Target::kPortable, Target::kX86_64_v3});
  const std::vector<Target> order = {Target::kArm32, Target::kX86_64_v3, Target::kPortable};
  const RepackedModel repacked = repack(file, order);
  EXPECT_TRUE(are_same(repacked.file, pack(program, order)));
  EXPECT_EQ(repacked.source, Target::kPortable);
  EXPECT_EQ(repack(file, {Target::kX86_64_v3}).source, Target::kX86_64_v3);
  EXPECT_EQ(repack(file, {Target::kArm32}).source, Target::kPortable);
}

TEST(Repack, ChangesNothingWhereNothingIsToChange) {
  const AlignedBytes file = pack(decoder_program(decoder_named("q4")), all_targets());
  const AlignedBytes once = repack(file, all_targets()).file;
  EXPECT_TRUE(are_same(once, file));
  EXPECT_TRUE(are_same(repack(once, all_targets()).file, file));
}

TEST(Repack, GivesNoSelfTestWhereThereIsNone) {
  const Program program = decoder_program(decoder_named("llama"));
  AlignedBytes stripped = pack(program, {Target::kPortable});
  convert::strip_self_test(stripped);
  AlignedBytes expected = pack(program, {Target::kArm64, Target::kPortable});
  convert::strip_self_test(expected);
  const RepackedModel repacked = repack(stripped, {Target::kArm64, Target::kPortable});
  EXPECT_TRUE(are_same(repacked.file, expected));
  EXPECT_TRUE(repacked.tested.empty());
}

// The changed producer has the same length, as another release with this file format would have.
TEST(Repack, KeepsWhoMadeTheFile) {
  const AlignedBytes file = pack(decoder_program(decoder_named("llama")), {Target::kPortable});
  ModelSurgery surgery(file.span());
  const std::string producer = surgery.model().producer()->str();
  surgery.overwrite(surgery.model().producer()->Data(), 'A');
  surgery.repair();
  AlignedBytes given(file.size());
  std::ranges::copy(surgery.file(), given.data());
  const AlignedBytes repacked = repack(given, {Target::kArm64}).file;
  EXPECT_EQ(format::ModelReader(repacked.span()).producer(), 'A' + producer.substr(1));
}

// ---- what cannot be undone ----

std::string refusal_of(std::span<const std::byte> file, const std::vector<Target>& targets) {
  try {
    convert::repack_model(file, targets, "'m.arn'");
  } catch (const convert::InputError& error) {
    return error.what();
  }
  return "accepted";
}

class RepackRefuses : public ::testing::Test {
 protected:
  // Returns the packed matrix of the logits, 37 rows of 12 in float32: 10 panels of portable, whose
  // last 3 lanes are beyond the rows, and 5 of x86-64-v2.
  std::span<std::byte> matrix(uint32_t packed_index) {
    const format::ModelReader reader(file_.file());
    uint32_t index = 0;
    while (std::string_view(reader.tensor_name(index)) != "logits") ++index;
    const auto offset =
        reader.packed(packed_index).segment.begin() + reader.tensor_offset(packed_index, index);
    const Packing packing = reader.packed(packed_index).packing(TensorType::kF32);
    return file_.file().subspan(
        static_cast<size_t>(offset),
        static_cast<size_t>(format::stored_bytes(reader.tensor(index), packing).value()));
  }
  std::string refusal(const std::vector<Target>& targets) {
    file_.repair();
    return refusal_of(file_.file(), targets);
  }

  ModelSurgery file_{
      pack(decoder_program(decoder_named("llama")), {Target::kPortable, Target::kX86_64_v2})
          .span()};
};

TEST_F(RepackRefuses, BytesThatNoPackingHas) {
  EXPECT_EQ(refusal({Target::kArm64}), "accepted");
  matrix(0).back() = std::byte{1};
  for (const Target target : {Target::kArm64, Target::kPortable}) {
    EXPECT_EQ(refusal({target}),
              "'m.arn': tensor 'logits' of target portable: its weights cannot be unpacked: its "
              "padding has bytes other than zero, which no converter writes: convert the "
              "checkpoint again");
  }
  EXPECT_EQ(refusal({Target::kX86_64_v2, Target::kArm64}), "accepted");
}

TEST_F(RepackRefuses, TargetsThatDisagree) {
  matrix(1).front() = std::byte{1};  // a bias of 1e-45
  const std::string found = refusal({Target::kPortable, Target::kX86_64_v2});
  EXPECT_NE(found.find("'m.arn': tensor 'logits': targets portable and x86-64-v2 hold different "
                       "weights"),
            std::string::npos)
      << found;
  EXPECT_EQ(refusal({Target::kPortable}), "accepted");
  EXPECT_EQ(refusal({Target::kX86_64_v2, Target::kArm32}), "accepted");
}

TEST_F(RepackRefuses, WeightsThatTheSelfTestWasNotRecordedWith) {
  for (const uint32_t index : {0u, 1u}) {
    const float bias = 0.5f;
    std::memcpy(matrix(index).data(), &bias, sizeof(bias));
  }
  for (const Target target : {Target::kPortable, Target::kArm64}) {
    const std::string found = refusal({target});
    EXPECT_NE(found.find("the self-test of the file fails with kernels"), std::string::npos)
        << found;
    EXPECT_NE(found.find("op 'logits' of token 0 differs by 0."), std::string::npos) << found;
  }
}

TEST_F(RepackRefuses, ASelfTestThatCannotBeFed) {
  const format::SegmentView test = format::ModelReader(file_.file()).self_test().segment;
  file_.overwrite(file_.file().data() + test.begin(), uint32_t{37});  // the vocabulary ends before
  const std::string found = refusal({Target::kArm64});
  EXPECT_NE(found.find("'m.arn': the self-test of the file cannot be run: "), std::string::npos)
      << found;
}

}  // namespace
}  // namespace arenite::test
