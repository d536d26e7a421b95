// SPDX-License-Identifier: Apache-2.0
// The data of the tests: models, inputs and expected results, which make_vectors.cc writes on the
// build machine as one C++ file.
#ifndef ARENITE_TESTS_DEVICE_VECTORS_H_
#define ARENITE_TESTS_DEVICE_VECTORS_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "arenite/session.h"
#include "arenite/sound.h"
#include "arenite/token.h"

namespace arenite::device {

// A model file, at a multiple of kModelAlignment.
struct EmbeddedFile {
  const std::byte* data = nullptr;
  size_t bytes = 0;

  std::span<const std::byte> span() const { return {data, bytes}; }
};

// A batch for a model, and the expected results.
struct ModelCase {
  const char* name;
  EmbeddedFile file;
  Outputs outputs;
  uint32_t sequences;
  uint32_t tokens;                    // of the longest sequence
  std::span<const uint32_t> lengths;  // [sequences]; empty: all are `tokens` long
  std::span<const float> features;    // [sequences, tokens, features], or
  std::span<const TokenId> ids;       // [sequences, tokens]
  std::span<const float> expected;    // [rows, features], from double precision
  float tolerance;                    // largest absolute error
  size_t portable_arena_bytes;        // for positions_max = tokens, all tokens in one call
  uint64_t portable_digest;           // of the bits that x86-64 gives with scalar kernels
  uint64_t int8_digest;               // the same with keys and values in int8
  bool rounds_rows;                   // all products are of integers where caches are in int8
};
std::span<const ModelCase> model_cases();

// A tokenizer, a text, its tokens without those around it, and the text that they stand for.
struct TextCase {
  EmbeddedFile file;
  const char* text;
  std::span<const TokenId> ids;
  const char* decoded;
};
std::span<const TextCase> text_cases();

// A language model, a prompt with the names of special tokens, and the most probable answer, whose
// last token ends the text.
struct CommandCase {
  EmbeddedFile file;
  const char* prompt;
  std::span<const TokenId> prompt_ids;
  std::span<const TokenId> answer_ids;
  const char* answer;
};
std::span<const CommandCase> command_cases();
inline constexpr uint32_t kCommandPositions = 64;
inline constexpr uint32_t kCommandTokens = 16;  // in one call

// Functions of one number, from double precision.
struct FunctionPoint {
  float x;
  float exp;  // of -|x|
  float gelu;
  float sigmoid;
  float tanh;
};
std::span<const FunctionPoint> function_points();

// A small model to damage, and room for a copy of it.
EmbeddedFile model_to_damage();
std::span<std::byte> copy_memory();

// Room for the arena of every case, and kNeighbourBytes more; aligned for the runtime.
inline constexpr size_t kNeighbourBytes = 64;
std::span<std::byte> arena_memory();

// FNV-1a of the bits of numbers, which may come in several parts.
inline constexpr uint64_t kDigestOfNothing = 0xCBF29CE484222325u;
inline uint64_t digest(std::span<const float> values, uint64_t before = kDigestOfNothing) {
  for (const float value : values) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    for (uint32_t shift = 0; shift < 32; shift += 8) {
      before = (before ^ (bits >> shift & 0xFF)) * 0x100000001B3u;
    }
  }
  return before;
}

// Feeds one second of sound and returns a digest of the model's outputs, or 0 if a call fails. The
// samples are computed with integers only: a sawtooth of gliding pitch and changing loudness, with
// noise.
inline constexpr uint32_t kSoundRate = 16000;
inline constexpr const char* kSoundName = "sound";

inline uint64_t digest_of_sound(Session* session) {
  Result<SoundStream> stream = SoundStream::of(session, kSoundRate);
  uint64_t made = kDigestOfNothing;
  for (uint32_t begin = 0; begin < kSoundRate; begin += 100) {
    int16_t samples[100];
    for (uint32_t i = 0; i < 100; ++i) {
      const uint32_t at = begin + i;
      const auto saw = static_cast<int16_t>(at * (at / 16 + 400));
      const auto noise = static_cast<int16_t>(at * 2654435761u >> 16);
      samples[i] = static_cast<int16_t>(saw / static_cast<int>(2 + at / 1600 % 4) + noise / 64);
    }
    for (std::span<const int16_t> rest(samples); stream.ok() && !rest.empty();) {
      const Result<Output> output = stream->step(rest);
      if (!output.ok()) return 0;
      made = digest({output->data, size_t{output->rows} * output->features}, made);
    }
  }
  return stream.ok() ? made : 0;
}
uint64_t sound_digest();  // of the model that is called so, as x86-64 gives it with scalar kernels

}  // namespace arenite::device

#endif  // ARENITE_TESTS_DEVICE_VECTORS_H_
