// SPDX-License-Identifier: Apache-2.0
// Files beyond the verifier's limits: lists of tokenizers, metadata of two gigabytes, caches beyond
// 32 bits, quantized rows.
#include <sys/mman.h>

#include "convert/program/program.h"
#include "format/tokenizer_reader.h"
#include "runtime/format/verify_fixture.h"
#include "support/decoder_factory.h"
#include "support/guarded_buffer.h"
#include "support/repair.h"
#include "support/tokenizer_model.h"

namespace arenite::test {
namespace {

using Numbers = std::span<const uint32_t> format::TokenizerView::*;

struct LongList {
  const char* name;
  std::vector<Numbers> lists;
  uint32_t count;
  Expected expected;
  bool words = false;  // of WordPiece
};

const LongList kLongLists[] = {
    {"Vocabulary",
     {&format::TokenizerView::token_offsets},
     format::kVocabularyMax + 2,
     {"tokenizer.token_offsets",
      "empty or too large",
      0,
      {{format::kVocabularyMax + 2, format::kVocabularyMax}}}},
    {"Merges",
     {&format::TokenizerView::merge_rights},
     format::kMergesMax + 1,
     {"tokenizer.merge_rights", "too long"}},
    {"Specials",
     {&format::TokenizerView::specials},
     format::kSpecialsMax + 1,
     {"tokenizer.specials", "too long"}},
    {"Ends", {&format::TokenizerView::ends}, format::kEndsMax + 1, {"tokenizer.ends", "too long"}},
    {"Columns",
     {&format::TokenizerView::columns},
     format::kColumnsMax + 1,
     {"tokenizer.columns", "too long"}},
    {"Splits",
     {&format::TokenizerView::splits},
     format::kSplitsMax + 1,
     {"tokenizer.splits", "too long"}},
    {"Folds",
     {&format::TokenizerView::fold_from, &format::TokenizerView::fold_to},
     format::kFoldsMax + 1,
     {"tokenizer.fold_from", "too long"},
     true},
};

class LongLists : public testing::TestWithParam<LongList> {};
INSTANTIATE_TEST_SUITE_P(OfTokenizers, LongLists, testing::ValuesIn(kLongLists),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(LongLists, AreRefused) {
  convert::TokenizerSpec pairs = byte_spec({"ab"}, {{convert::kGpt2Split}});
  pairs.letters = {0xC0, 0xD6, 0xE0, 0xF0};
  pairs.numbers = {0xB2, 0xB3};
  const auto sound = model_with(GetParam().words ? word_spec({"ab"}) : pairs);
  convert::Program program = sound_program();
  program.stored_tokenizer = format::tokenizer_view(sound.span());
  EXPECT_TRUE(Model::load(write_model(program, {Target::kPortable}).span()).ok());
  const std::vector<uint32_t> zeros(GetParam().count);
  for (const Numbers list : GetParam().lists) (*program.stored_tokenizer).*list = zeros;
  expect_refusal(write_model(program, {Target::kPortable}).span(), GetParam().expected);
}

// Shorter ones have no footer to look at; nothing before them may be read.
TEST(ShortFiles, AreRefusedByTheirLength) {
  const ModelSurgery sound(write_model(sound_program(), {Target::kPortable}).span());
  for (const size_t bytes : {size_t{0}, size_t{8}, 7 + sizeof(format::Footer)}) {
    GuardedBuffer file(bytes, kModelAlignment, 0, Guard::kBefore);
    std::copy_n(sound.file().begin(), bytes, file.data());
    Diagnostic why;
    EXPECT_EQ(Model::load(file.span(), &why).status(), Status::kBadModel);
    EXPECT_STREQ(why.reason, "the file is too short for a model");
    EXPECT_EQ(why.found, bytes);
    EXPECT_EQ(why.expected, 8 + sizeof(format::Footer));
  }
}

#if UINTPTR_MAX > UINT32_MAX
// Nothing of it is read but the footer.
TEST(LongFiles, AreRefusedBeyondTheMetadataOfFlatBuffers) {
  const uint64_t bytes = kModelAlignment * ((uint64_t{1} << 31) / kModelAlignment);
  void* const place = mmap(nullptr, bytes + kModelAlignment, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(place, MAP_FAILED);
  const std::span<std::byte> file(static_cast<std::byte*>(place), bytes + kModelAlignment);
  const ModelSurgery small(write_model(sound_program(), {Target::kPortable}).span());
  std::memcpy(file.data(), small.file().data(), 8);  // with the identifier
  format::Footer footer = small.footer();
  footer.file_bytes = file.size();
  footer.metadata_bytes = format::kMetadataBytesMax + 1u;
  std::memcpy(file.data() + file.size() - sizeof(footer), &footer, sizeof(footer));
  expect_refusal(file, {"footer.metadata_bytes", "does not fit"});
  munmap(place, file.size());
}
#endif

// Sets the value dimension of a program that is one attention op.
void set_value_dim(ModelSurgery& file, uint32_t value_dim) {
  const format::ModelReader reader(file.file());
  format::OpView op = reader.op(0);
  op.views[format::kValue].width = value_dim;
  op.views[format::kOutput].width = value_dim;
  format::CacheView cache = reader.cache(0);
  cache.shape.value_dim = value_dim;
  file.overwrite(&reader.op(0), op);
  file.overwrite(&reader.cache(0), cache);
  file.overwrite(&reader.slot(0), format::SlotView{8 + value_dim, 0, 0, 0});
  file.overwrite(&reader.slot(1), format::SlotView{value_dim, 8 + value_dim, 0, 0});
  repair_checksums_and_formulas(file.file());
}

// A panel of four positions has four times 5 floats of keys, and a float for each value.
TEST(LargeCaches, ExceedTheBytesOfTheFormula) {
  convert::Program program = sound_program();
  program.slots = {{12, 0, 0, 0}, {4, 12, 0, 0}};
  program.functions[0].output_slot = 1;
  program.tensors.clear();
  program.caches = {{{1, 4, 4}}};
  program.ops = {
      {"attention", convert::attention_op({{0, 0, 4}, {0, 4, 4}, {0, 8, 4}, {1, 0, 4}, 0, 0})}};
  ModelSurgery file(write_model(program, {Target::kPortable}).span());
  ASSERT_TRUE(Model::load(file.file()).ok());
  constexpr uint32_t kPanelPositions = 4;
  constexpr uint32_t kBytes = kPanelPositions * sizeof(float);
  constexpr uint32_t kMost = (UINT32_MAX / kBytes - 5) & ~(kPanelPositions - 1);
  set_value_dim(file, kMost);
  EXPECT_TRUE(Model::load(file.file()).ok());
  set_value_dim(file, kMost + 4);
  expect_refusal(file.file(), {"packed.formula", "larger than the formula"});
}

// A group for each number of positions that caches hold.
TEST(CachesOfManyLengths, ExceedTheGroupsOfTheFormula) {
  DecoderShape shape;
  shape.windows.assign(kCacheGroupsMax + 1, 20);
  ModelSurgery file(make_decoder_model(shape, {Target::kPortable}).span());
  ASSERT_TRUE(Model::load(file.file()).ok());
  const format::ModelReader reader(file.file());
  for (uint32_t i = 0; i < reader.caches(); ++i) {
    format::CacheView cache = reader.cache(i);
    cache.lookback += i;
    file.overwrite(&reader.cache(i), cache);
  }
  file.repair();
  expect_refusal(file.file(), {"packed.formula", "larger than the formula"});
}

TEST(RowsOfOutputs, MayNotExceedTheFormula) {
  ModelSurgery file(make_decoder_model({}, {Target::kPortable}).span());
  const format::ModelReader reader(file.file());
  uint32_t index = 0;
  while (reader.slot(index).axis == 0) ++index;
  format::SlotView slot = reader.slot(index);
  slot.offset = 1u << 30;
  file.overwrite(&reader.slot(index), slot);
  file.repair();
  expect_refusal(file.file(), {"packed.formula", "larger than the formula"});
}

TEST(RowsInFewBits, NeedWholeBlocksAndALimitedLength) {
  const auto refuses = [](uint32_t inputs, TensorType type, const char* words) {
    ModelSurgery file(write_model(sound_program(), all_targets()).span());
    const format::ModelReader reader(file.file());
    for (uint32_t i = 0; i < reader.tensors(); ++i) {
      format::TensorShape tensor = reader.tensor(i);
      tensor.inputs = inputs;
      tensor.type = type;
      file.overwrite(&reader.tensor(i), tensor);
    }
    repair_checksums_and_formulas(file.file());
    expect_refusal(file.file(), {"tensors.inputs", words, 0});
  };
  refuses(kQ4Block + 1, TensorType::kQ4, "whole number of blocks");
  refuses(kQ8InputsMax + 1, TensorType::kQ8, "too long");
  refuses(1u << 31, TensorType::kQ8, "too long");
  refuses(UINT32_MAX, TensorType::kQ8, "too long");
}

// Returns a max pool over windows of `rows` rows, for which a sequence keeps earlier rows.
convert::Program pool_of(uint32_t rows) {
  convert::Program program = sound_program();
  program.inputs[0].positions_max = 0;
  program.slots = {{64, 0, 0, 0}, {64, 64, 0, 0}};
  program.functions[0].output_slot = 1;
  program.tensors.clear();
  program.caches.clear();
  const Windows windows = {{rows, 1, 1, rows - 1, 0}, {}, 1};
  program.ops = {{"pool", convert::max_pool_op({0, 0, 64}, {1, 0, 64}, windows, 0)}};
  return program;
}

ModelSurgery with_channels(const convert::Program& program, uint32_t channels) {
  ModelSurgery file(write_model(program, {Target::kPortable}).span());
  const format::ModelReader reader(file.file());
  format::OpView op = reader.op(0);
  op.views[format::kInput].width = op.views[format::kOutput].width = channels;
  file.overwrite(&reader.op(0), op);
  for (uint32_t i = 0; i < 2; ++i) {
    format::SlotView slot = reader.slot(i);
    slot.width = channels;
    slot.offset = slot.axis == 0 ? i * channels : 0;
    file.overwrite(&reader.slot(i), slot);
  }
  repair_checksums_and_formulas(file.file());
  return file;
}

TEST(LargeWindows, ExceedTheBytesOfTheFormula) {
  constexpr uint32_t kRows = kWindowRowsMax, kChannels = 8192;  // 16 bytes below 2^32 - 65536
  const Expected larger = {"packed.formula", "larger than the formula"};
  EXPECT_TRUE(Model::load(with_channels(pool_of(kRows), kChannels).file()).ok());
  expect_refusal(with_channels(pool_of(kRows), 2 * kChannels).file(), larger);
  // The work space of a sound stream is added.
  convert::Program heard = pool_of(kRows);
  heard.sound = convert::make_sound_table(
      convert::parse_sound("rate=8000,window=4096,hop=9,fft=4096,mels=128,add=1"));
  expect_refusal(with_channels(heard, kChannels).file(), larger);
  // A thread's lists and rows are of one window.
  convert::Program apart = pool_of(2);
  apart.inputs[0].tokens_min = 2;
  apart.axes.push_back({.kind = AxisKind::kWindows, .stride = 1, .window = 2});
  apart.slots[1].axis = 1;
  apart.ops[0].body.numbers[format::MaxPoolOp::kBefore] = 0;
  EXPECT_TRUE(Model::load(with_channels(apart, kChannels).file()).ok());
  expect_refusal(with_channels(apart, 1u << 29).file(), larger);
}

TEST(VectorsInFewBits, AreRefused) {
  ModelSurgery file(make_decoder_model({}, {Target::kPortable}).span());
  const format::ModelReader reader(file.file());
  uint32_t op = 0;
  while (reader.op(op).kind != format::OpKind::kNorm) ++op;
  const uint32_t index = reader.op(op).numbers[format::NormOp::kGain];
  format::TensorShape tensor = reader.tensor(index);
  tensor.type = TensorType::kW8;
  file.overwrite(&reader.tensor(index), tensor);
  file.repair();
  expect_refusal(file.file(), {"ops.gain", "wrong type", op});
}

}  // namespace
}  // namespace arenite::test
