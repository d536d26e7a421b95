// SPDX-License-Identifier: Apache-2.0
// Any bytes are safe to load: damaged files are refused. If checksums and arena formulas are
// repaired, so that only the semantic checks remain, a file is refused or runs inside its memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <iostream>

#include "support/decoder_factory.h"
#include "support/encoder_factory.h"
#include "support/guarded_buffer.h"
#include "support/hostile_file.h"
#include "support/kernel_sets.h"
#include "support/model_factory.h"
#include "support/model_surgery.h"
#include "support/random.h"
#include "support/repair.h"
#include "support/slow_builds.h"

namespace arenite::test {
namespace {

// Emulators and sanitizers damage only every nth byte. The strides are odd, so that each byte of a
// word has its turn.
#ifdef ARENITE_DAMAGE_STRIDE
constexpr size_t kStride = ARENITE_DAMAGE_STRIDE;
#else
constexpr size_t kStride = kEmulated ? 151 : 1;
#endif

// The smallest module.
ModuleSpec smallest() {
  ModuleSpec spec;
  spec.name = "";
  spec.features = spec.heads = spec.head_dim = spec.value_dim = 1;
  spec.output_features = 0;
  spec.bias = false;
  return spec;
}

// The slowest and the fastest kernels, so that more than one target is described.
std::vector<Target> two_targets() {
  std::vector<Target> targets = {targets_here().front()};
  if (targets_here().size() > 1) targets.push_back(targets_here().back());
  return targets;
}

// Memory for damaged copies of a file, ending as near to a guard page as alignment allows.
class Copy {
 public:
  explicit Copy(std::span<const std::byte> file)
      : file_(file), memory_(file.size(), kModelAlignment) {}

  std::span<std::byte> fresh() {
    std::memcpy(memory_.data(), file_.data(), file_.size());
    return memory_.span();
  }

 private:
  std::span<const std::byte> file_;
  GuardedBuffer memory_;
};

void expect_refusal_of_each_byte(std::span<const std::byte> file, const std::string& name) {
  Copy copy(file);
  for (size_t i = 0; i < file.size(); i += kStride) {
    const std::span<std::byte> damaged = copy.fresh();
    damaged[i] ^= std::byte{0xFF};
    ASSERT_EQ(load_and_run(damaged), Fate::kRefused) << name << " byte " << i;
  }
}

TEST(Damage, AnyChangedByteIsRefused) {
  for (const ModuleSpec& spec : {smallest(), spec_named("documents"), spec_named("strip")}) {
    expect_refusal_of_each_byte(make_model(spec, two_targets()).span(), spec.name);
  }
  expect_refusal_of_each_byte(make_decoder_model(smallest_decoder(), two_targets()).span(),
                              "decoder");
  expect_refusal_of_each_byte(make_encoder_model(smallest_encoder(), two_targets()).span(),
                              "encoder");
}

TEST(Damage, AnyFlippedBitIsRefused) {
  const auto file = make_model(smallest(), two_targets());
  Copy copy(file.span());
  for (size_t i = 0; i < 8 * file.size(); i += kStride) {
    const std::span<std::byte> damaged = copy.fresh();
    damaged[i / 8] ^= static_cast<std::byte>(1u << (i % 8));
    ASSERT_EQ(load_and_run(damaged), Fate::kRefused) << "bit " << i;
  }
}

TEST(Damage, TruncationIsRefused) {
  for (const ModuleSpec& spec : {smallest(), spec_named("documents")}) {
    const auto file = make_model(spec, two_targets());
    const GuardedBuffer memory(file.size(), kModelAlignment);
    for (size_t bytes = 0; bytes < file.size(); bytes += kStride) {
      const size_t start = (file.size() - bytes) / kModelAlignment * kModelAlignment;
      const std::span<std::byte> truncated = memory.span().subspan(start, bytes);
      std::memcpy(truncated.data(), file.span().data(), bytes);
      ASSERT_EQ(load_and_run(truncated), Fate::kRefused) << bytes << " bytes";
    }
  }
}

TEST(Damage, AppendedBytesAreRefused) {
  const auto file = make_model(spec_named("causal"), two_targets());
  for (size_t bytes = 1; bytes <= 130; bytes += kEmulated ? 3 : 1) {
    convert::AlignedBytes longer(file.size() + bytes);
    for (const int fill : {0x00, 0xFF}) {
      std::memcpy(longer.data(), file.span().data(), file.size());
      std::memset(longer.data() + file.size(), fill, bytes);
      ASSERT_EQ(load_and_run(longer.span()), Fate::kRefused) << bytes;
    }
    // The footer once more, where a footer must be.
    if (bytes < sizeof(format::Footer)) continue;
    std::memcpy(longer.data() + longer.size() - sizeof(format::Footer),
                file.span().last(sizeof(format::Footer)).data(), sizeof(format::Footer));
    ASSERT_EQ(load_and_run(longer.span()), Fate::kRefused) << bytes;
  }
}

// Counts what became of the files of a sweep, and prints it: a sweep in which none runs, or none
// is refused, would prove little.
class Fates {
 public:
  void add(Fate fate) { ++counts_[static_cast<size_t>(fate)]; }
  void report(const std::string& name) const {
    std::cout << name << ": " << counts_[0] << " refused, " << counts_[1] << " too large, "
              << counts_[2] << " ran\n";
    EXPECT_GT(counts_[0], 0u);
    EXPECT_GT(counts_[2], 0u);
  }

 private:
  size_t counts_[3] = {};
};

class RepairedDamage : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Specs, RepairedDamage,
                         testing::Values("causal", "strip", "documents", "prefix", "head_masks",
                                         "mask_only", "separate_inputs", "gpt2", "gemma", "w8",
                                         "q8", "q4", "small ring", "bert", "sensor"));

// A module, a decoder or an encoder.
convert::AlignedBytes sound_file(const std::string& name) {
  const std::vector<DecoderShape> decoders = all_decoders();
  if (std::ranges::find(decoders, name, &DecoderShape::name) != decoders.end()) {
    DecoderShape shape = decoder_named(name);
    shape.windows.resize(1);
    shape.positions_max = 20;
    if (name == "q4") {  // as narrow as its blocks allow: products are most of the work
      shape.model_dim = shape.ffn_dim = 32;
      shape.heads = 2;
      shape.kv_heads = 1;
    }
    return make_decoder_model(shape, two_targets());
  }
  if (name == "bert" || name == "sensor") {
    EncoderShape shape = encoder_named(name);
    shape.layers = 1;
    shape.positions_max = 20;
    return make_encoder_model(shape, two_targets());
  }
  if (name == "small ring") {
    DecoderShape shape = smallest_decoder();
    shape.positions_max = 1200;
    return make_decoder_model(shape, {targets_here().front()});
  }
  return make_model(spec_named(name), two_targets());
}

// Limits the work per file of a sweep over thousands: a ring of windows wraps around, and a program
// equal to the undamaged one runs once.
Effort effort_of_a_sweep(std::span<const std::byte> sound) {
  return {.ring_positions = 560, .sound = sound};
}

TEST_P(RepairedDamage, OneMetadataByteIsRefusedOrHarmless) {
  const ModelSurgery sound(sound_file(GetParam()).span());
  const auto metadata_bytes = static_cast<size_t>(sound.footer().metadata_bytes);
  Copy copy(sound.file());
  ASSERT_EQ(load_and_run(copy.fresh()), Fate::kRan);
  Fates fates;
  for (size_t i = 0; i < metadata_bytes; i += kStride) {
    const std::byte old = sound.file()[i];
    for (const std::byte value : {old ^ std::byte{1}, old ^ std::byte{0x80}, std::byte{0x00},
                                  std::byte{0xFF}, std::byte{0x7F}}) {
      if (value == old) continue;
      const std::span<std::byte> damaged = copy.fresh();
      damaged[i] = value;
      repair_checksums_and_formulas(damaged);
      fates.add(load_and_run(damaged, effort_of_a_sweep(sound.file())));
    }
  }
  fates.report(GetParam());
}

// Whole words: counts, offsets and sizes that are plausible, huge, or those of another field.
TEST_P(RepairedDamage, OneMetadataWordIsRefusedOrHarmless) {
  const ModelSurgery sound(sound_file(GetParam()).span());
  const auto words = static_cast<size_t>(sound.footer().metadata_bytes) / sizeof(uint32_t);
  Copy copy(sound.file());
  const auto word_at = [&](size_t index) {
    uint32_t word;
    std::memcpy(&word, sound.file().data() + index * sizeof(word), sizeof(word));
    return word;
  };
  Random random(3);
  Fates fates;
  for (size_t i = 0; i < words; i += kStride) {
    const uint32_t old = word_at(i);
    for (const uint32_t value :
         {old + 1, old - 1, old + 4, old - 4, 2 * old, 0u, 1u, 32u, 64u, UINT32_MAX, 0x80000000u,
          0x7FFFFFFFu, 0x40000000u, word_at(random.below(static_cast<uint32_t>(words)))}) {
      if (value == old) continue;
      const std::span<std::byte> damaged = copy.fresh();
      std::memcpy(damaged.data() + i * sizeof(value), &value, sizeof(value));
      repair_checksums_and_formulas(damaged);
      fates.add(load_and_run(damaged, effort_of_a_sweep(sound.file())));
    }
  }
  fates.report(GetParam());
}

TEST_P(RepairedDamage, RandomWeightsAreHarmless) {
  ModelSurgery file(sound_file(GetParam()).span());
  Random random(4);
  for (int round = 0; round < (kEmulated ? 2 : 20); ++round) {
    const format::ModelReader reader(file.file());
    for (uint32_t p = 0; p < reader.packed_count(); ++p) {
      const format::SegmentView segment = reader.packed(p).segment;
      for (std::byte& byte : file.file().subspan(static_cast<size_t>(segment.begin()),
                                                 static_cast<size_t>(segment.bytes()))) {
        byte = round == 0 ? std::byte{0xFF} : static_cast<std::byte>(random.next());
      }
    }
    file.repair();
    ASSERT_EQ(load_and_run(file.file()), Fate::kRan);
  }
}

}  // namespace
}  // namespace arenite::test
