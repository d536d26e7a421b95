// SPDX-License-Identifier: Apache-2.0
// The verifier's rules about the ops of encoders, each violated alone in a file with valid
// checksums.
#include "runtime/format/verify_fixture.h"
#include "support/encoder_factory.h"

namespace arenite::test {
namespace {

using convert::Program;
using format::Layout;

format::OpView& op(Program& program, const std::string& name) {
  for (convert::ProgramOp& each : program.ops) {
    if (each.name == name) return each.body;
  }
  throw std::logic_error("no op is called " + name);
}

uint32_t index_of(const std::string& encoder, const std::string& name) {
  const Program program = encoder_program(encoder_named(encoder));
  uint32_t index = 0;
  while (program.ops.at(index).name != name) ++index;
  return index;
}

convert::ProgramTensor& tensor(Program& program, const std::string& name) {
  for (convert::ProgramTensor& each : program.tensors) {
    if (each.name == name) return each;
  }
  throw std::logic_error("no tensor is called " + name);
}

void resize(Program& program, const std::string& name, uint32_t outputs, uint32_t inputs,
            Layout layout = Layout::kPlain) {
  convert::ProgramTensor& changed = tensor(program, name);
  changed.outputs = outputs;
  changed.inputs = inputs;
  changed.layout = layout;
  changed.weights.assign(size_t{outputs} * inputs, 1.0f);
  changed.load = [] { return std::vector<float>(); };  // of no rows
}

// `encoder`, changed in one place, is refused at `op_name`.
void refuses(const std::string& encoder, const std::string& op_name, const char* field,
             const char* words, const std::function<void(Program&)>& break_it) {
  Program program = encoder_program(encoder_named(encoder));
  break_it(program);
  const uint32_t index = op_name.empty() ? 0 : index_of(encoder, op_name);
  expect_refusal(write_model(program, {Target::kPortable, Target::kArm64}).span(),
                 {field, words, index});
}

TEST(VerifyEncoder, RefusesTypesThatDoNotFit) {
  const char* const field = "ops.types";
  refuses("bert", "embedding", field, "does not exist",
          [](Program& p) { op(p, "embedding").numbers[format::EmbeddingOp::kTypes] = 99; });
  refuses("bert", "embedding", field, "wrong layout",
          [](Program& p) { resize(p, "types", 2, 12, Layout::kGemm); });
  Program without_rows = encoder_program(encoder_named("bert"));
  resize(without_rows, "types", 0, 12);
  expect_refusal(write_model(without_rows, {Target::kPortable}).span(), {"tensors", "empty", 2});
  refuses("bert", "embedding", "ops.output", "wrong width",
          [](Program& p) { resize(p, "types", 2, 11); });
}

TEST(VerifyEncoder, RefusesEmbeddingsOfNothing) {
  refuses("sensor", "positions", "ops.tokens", "needs positions", [](Program& p) {
    op(p, "positions").numbers[format::EmbeddingOp::kPositions] = format::kAbsent;
  });
  refuses("sensor", "positions", "ops.tokens", "needs positions", [](Program& p) {
    uint32_t* const numbers = op(p, "positions").numbers;
    numbers[format::EmbeddingOp::kTypes] = numbers[format::EmbeddingOp::kPositions];
  });
}

TEST(VerifyEncoder, RefusesPositionsThatDoNotReachToTheContext) {
  refuses("sensor", "positions", "ops.positions", "shorter than the context",
          [](Program& p) { ++p.inputs[0].positions_max; });
  refuses("sentences", "embedding", "ops.positions", "shorter than the context",
          [](Program& p) { ++op(p, "embedding").numbers[format::EmbeddingOp::kPositionOffset]; });
}

TEST(VerifyEncoder, RefusesAPaddingThatPositionsCannotLeaveOut) {
  const char* const field = "ops.padding_id";
  refuses("mixture", "embedding", field, "positions and its own row", [](Program& p) {
    op(p, "embedding").numbers[format::EmbeddingOp::kPaddingId] = p.inputs[0].vocab_size;
  });
  refuses("mixture", "embedding", field, "positions and its own row",
          [](Program& p) { op(p, "embedding").numbers[format::EmbeddingOp::kPositionOffset] = 0; });
  refuses("mixture", "embedding", field, "positions and its own row", [](Program& p) {
    op(p, "embedding").numbers[format::EmbeddingOp::kPositions] = format::kAbsent;
  });
  refuses("sensor", "positions", field, "positions and its own row",
          [](Program& p) { op(p, "positions").numbers[format::EmbeddingOp::kPaddingId] = 0; });
  EncoderShape causal = encoder_named("mixture");
  causal.pooling = SelectKind::kAsAsked;  // one that pools takes whole sequences
  causal.more_pooling.clear();
  causal.causal = true;
  expect_refusal(make_encoder_model(causal, {Target::kPortable}).span(), {field, "causal", 0});
}

// Ids of types are those that every table has.
TEST(VerifyEncoder, TakesAsManyTypesAsTheSmallestTableHas) {
  for (const uint32_t rows : {1u, 5u}) {
    Program program = encoder_program(encoder_named("bert"));
    EXPECT_EQ(tensor(program, "types").outputs, 2u);
    const uint32_t last = static_cast<uint32_t>(program.ops.size());
    format::OpView second = op(program, "embedding");
    second.numbers[format::EmbeddingOp::kTypes] = static_cast<uint32_t>(program.tensors.size());
    program.tensors.push_back(
        {"more types", rows, 12, std::vector<float>(rows * 12), {}, Layout::kPlain});
    second.views[format::kOutput].slot = static_cast<uint32_t>(program.slots.size());
    program.slots.push_back({12, 500, last, last});
    program.slots[program.functions[0].output_slot].last_op = last;
    program.ops.push_back({"second", second});
    const auto file = write_model(program, {Target::kPortable});
    EXPECT_TRUE(Model::load(file.span()).ok());
    EXPECT_EQ(format::ModelReader(file.span()).token_types(), std::min(rows, 2u));
  }
}

TEST(VerifyEncoder, RefusesSelectionsOfUnknownOrMixedKinds) {
  refuses("sentences", "pooling", "ops.rows", "unknown", [](Program& p) {
    op(p, "pooling").numbers[format::SelectOp::kKind] = std::size(kSelectNames);
  });
  // A second selection in place of the norm at the end.
  Program program = encoder_program(encoder_named("sentences"));
  convert::ProgramOp second = program.ops[index_of("sentences", "pooling")];
  program.slots.push_back(program.slots[second.body.views[format::kOutput].slot]);
  format::SlotView& slot = program.slots.back();
  const uint32_t last = static_cast<uint32_t>(program.ops.size()) - 1;
  slot.first_op = last;
  slot.last_op = last;
  slot.offset = slot.width;
  program.slots[second.body.views[format::kInput].slot].last_op = last;
  second.body.views[format::kOutput].slot = static_cast<uint32_t>(program.slots.size()) - 1;
  second.body.numbers[format::SelectOp::kKind] = static_cast<uint32_t>(SelectKind::kAsAsked);
  program.ops.back() = second;
  expect_refusal(write_model(program, {Target::kPortable}).span(),
                 {"ops.rows", "does not fit its kind", last});
}

TEST(VerifyEncoder, RefusesANormByLengthWithGainOrBias) {
  refuses("sentences", "normalize", "ops.gain", "a gain or a bias",
          [](Program& p) { op(p, "normalize").numbers[format::NormOp::kGain] = 0; });
  refuses("sentences", "normalize", "ops.gain", "a gain or a bias",
          [](Program& p) { op(p, "normalize").numbers[format::NormOp::kBias] = 0; });
  refuses("sentences", "normalize", "ops.gain", "a gain or a bias", [](Program& p) {
    op(p, "normalize").numbers[format::NormOp::kKind] = static_cast<uint32_t>(NormKind::kSoftmax);
    op(p, "normalize").numbers[format::NormOp::kGain] = 0;
  });
  refuses("sentences", "normalize", "ops.norm", "unknown",
          [](Program& p) { op(p, "normalize").numbers[format::NormOp::kKind] = 7; });
  refuses("sentences", "normalize", "ops.epsilon", "out of range",
          [](Program& p) { op(p, "normalize").reals[format::NormOp::kEpsilon] = 0.0f; });
}

TEST(VerifyEncoder, RefusesLabelsThatAreNotThoseOfTheColumns) {
  refuses("classifier", "", "labels", "label for each output column",
          [](Program& p) { p.labels.pop_back(); });
  refuses("classifier", "", "labels", "label for each output column",
          [](Program& p) { p.labels.push_back("one more"); });
}

// The cache of a causal op must not be shared with another op.
TEST(VerifyEncoder, RefusesSharedCachesOfCausalModels) {
  refuses("bert", "1.attention", "ops.cache", "do not take the caches in order",
          [](Program& p) { p.masks[0].lookahead = 0; });
  refuses("bert", "0.attention", "ops.cache", "do not take the caches in order",
          [](Program& p) { op(p, "0.attention").numbers[format::AttentionOp::kCache] = 1; });
}

TEST(VerifyEncoder, RefusesACacheThatNoOpUses) {
  Program program = encoder_program(encoder_named("bert"));
  program.caches.push_back(program.caches[0]);
  expect_refusal(write_model(program, {Target::kPortable}).span(),
                 {"caches", "no attention op", 1});
}

TEST(VerifyEncoder, TakesEveryEncoder) {
  for (const EncoderShape& shape : all_encoders()) {
    Diagnostic why;
    const convert::AlignedBytes file = make_encoder_model(shape);
    EXPECT_EQ(Model::load(file.span(), &why).status(), Status::kOk) << shape.name << why.reason;
  }
}

}  // namespace
}  // namespace arenite::test
