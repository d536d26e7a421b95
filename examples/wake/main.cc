// SPDX-License-Identifier: Apache-2.0
// Spoken commands, from samples to words, in static memory and without heap: one program for a
// microcontroller without an operating system and for a PC. The model is models/wake.
#include <bit>

#include "arenite/sound.h"
#include "board.h"
#include "console.h"
#include "samples.h"
#include "wake.h"  // made by `arenite embed`: the model, and the size of its arena

// The classes, in the order of the logits. Silence and other words are no commands.
constexpr const char* kNames[] = {"silence", "unknown", "yes", "no",  "up",   "down",
                                  "left",    "right",   "on",  "off", "stop", "go"};
constexpr size_t kFirstCommand = 2;
constexpr uint32_t kTokensMax = 1u << 31;  // of a stream: 994 days
constexpr uint64_t kSliceMax = 60'000;  // multiply-adds; arenite inspect --positions says the least
constexpr uint32_t kTokensInARow = 3;   // that say a command, each by so much more than others:
constexpr float kMargin = 1.0f;

// All the memory there is, but for the stack. The last samples lie in the arena, too.
alignas(arenite::kArenaAlignment) static std::byte arena[wake_arena_bytes(kTokensMax, 1, 1, 1)];
static constinit Samples input;

// Hears a command when enough tokens in a row say it.
class Ear {
 public:
  // The class of the command that is heard with this token; 0: none.
  size_t next(std::span<const float> logits) {
    size_t best = 0;
    for (size_t i = 1; i < logits.size(); ++i) best = logits[i] > logits[best] ? i : best;
    bool is_sure = true;
    for (size_t i = 0; i < logits.size(); ++i) {
      is_sure = is_sure && (i == best || logits[best] - logits[i] >= kMargin);
    }
    in_a_row_ = !is_sure ? 0 : best == before_ ? in_a_row_ + 1 : 1;
    before_ = best;
    return best >= kFirstCommand && in_a_row_ == kTokensInARow ? best : 0;
  }

 private:
  size_t before_ = 0;
  uint32_t in_a_row_ = 0;
};

// CRC-32 of all logits, so that two machines can be compared.
class Digest {
 public:
  void add(std::span<const float> numbers) {
    for (const float number : numbers) {
      const auto bits = std::bit_cast<uint32_t>(number);
      for (uint32_t i = 0; i < 32; ++i) {
        const uint32_t differs = (crc_ ^ bits >> i) & 1;
        crc_ = crc_ >> 1 ^ (differs != 0 ? 0xEDB88320u : 0);
      }
    }
  }
  void print_hex() const {
    for (uint32_t shift = 32; shift != 0; shift -= 4) {
      print({&"0123456789abcdef"[~crc_ >> (shift - 4) & 15], 1});
    }
  }

 private:
  uint32_t crc_ = UINT32_MAX;
};

// Counts all slices, and the longest one.
struct Clock {
  uint64_t ticks = 0;
  uint32_t most_ticks = 0;

  template <typename Slice>
  auto time(const Slice& slice) {
    const uint32_t begin = board::ticks();
    const auto result = slice();
    const uint32_t taken = board::ticks() - begin;
    ticks += taken;
    most_ticks = taken > most_ticks ? taken : most_ticks;
    return result;
  }
};

static void print_seconds(uint64_t samples, uint32_t rate) {
  const uint64_t hundredths = samples * 100 / rate;
  print(hundredths / 100, 4);
  print(hundredths % 100 < 10 ? ".0" : ".");
  print(hundredths % 100);
  print(" s  ");
}

int main() {
  arenite::Diagnostic why;
  const auto model = arenite::Model::load(wake_model(), &why);
  if (!model.ok()) return fail(model.status(), why);
  arenite::SessionOptions options;
  options.positions_max = kTokensMax;
  options.tokens_max = 1;
  const auto session = arenite::Session::create(*model, options, arena, &why);
  if (!session.ok()) return fail(session.status(), why);

  uint32_t rate = arenite::sound_info(*model).rate;
  if (!input.begin(rate)) {
    print("error: samples of a WAV file must have 16 bits, and one channel\n");
    return 1;
  }
  auto stream = arenite::SoundStream::of(*session, rate, 0, &why);
  if (!stream.ok()) return fail(stream.status(), why);

  uint64_t samples = 0;
  Clock clock;
  Ear ear;
  Digest digest;
  for (auto piece = input.next(); !piece.empty(); piece = input.next()) {
    samples += piece.size();
    while (!piece.empty()) {
      // One slice makes the features of a frame, and more of them what the model makes of these.
      const auto begun = clock.time([&] { return stream->begin_step(piece, &why); });
      if (!begun.ok()) return fail(begun.status(), why);
      if (!*begun) continue;  // no token is full
      for (uint32_t ops_left = 1; ops_left != 0;) {
        const auto left = clock.time([&] { return (*session)->advance(kSliceMax, &why); });
        if (!left.ok()) return fail(left.status(), why);
        ops_left = *left;
      }
      const std::span<const float> logits = (*session)->output().row(0);
      digest.add(logits);
      const size_t command = ear.next(logits);
      if (command == 0) continue;
      print_seconds(samples - piece.size(), rate);
      print(kNames[command]);
      print("\n");
    }
  }
  print_seconds(samples, rate);
  print("heard, logits ");
  digest.print_hex();
  print(", an arena of ");
  print(uint64_t{sizeof(arena)});
  print(" bytes\n");
  if (board::kInstructionsPerTick != 0 && samples != 0) {
    print("instructions: ");
    print(clock.ticks * board::kInstructionsPerTick * rate / samples);
    print(" a second, at most ");
    print(uint64_t{clock.most_ticks} * board::kInstructionsPerTick);
    print(" in a slice\n");
  }
  return 0;
}
