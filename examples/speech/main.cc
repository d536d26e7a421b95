// SPDX-License-Identifier: Apache-2.0
// Spoken words in a stream of sound, a frame of 20 ms at a time, in static memory and without heap.
// Samples come from the standard input as a microphone gives them: 16-bit, one channel, 16,000 a
// second, in this CPU's byte order.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <iterator>

#include "arenite/sound.h"
#include "words.h"  // made by `arenite embed`: the model, and the size of its arena

constexpr const char* kWords[] = {"",      "yes", "no",  "up",   "down", "left",
                                  "right", "on",  "off", "stop", "go"};
constexpr uint32_t kRate = 16000;
constexpr uint32_t kFramesToBeSure = 3;
constexpr uint32_t kFramesMax = 1u << 31;  // of a stream: 497 days

// All the memory there is. The last samples and what becomes of them lie in the arena, too.
alignas(arenite::kArenaAlignment) static std::byte arena[words_arena_bytes(kFramesMax, 1, 1, 1)];
static int16_t samples[512];  // of one read; any number will do

static int fail(arenite::Status status, const arenite::Diagnostic& why) {
  char text[256];
  arenite::describe(status, why, text);
  std::fprintf(stderr, "%s\n", text);
  return 1;
}

int main() {
  arenite::Diagnostic why;
  const auto model = arenite::Model::load(words_model(), &why);
  if (!model.ok()) return fail(model.status(), why);
  arenite::SessionOptions options;
  options.positions_max = kFramesMax;
  options.tokens_max = 1;
  const auto session = arenite::Session::create(*model, options, arena, &why);
  if (!session.ok()) return fail(session.status(), why);

  auto stream = arenite::SoundStream::of(*session, kRate, 0, &why);
  if (!stream.ok()) return fail(stream.status(), why);

  const arenite::SoundInfo sound = arenite::sound_info(*model);
  uint32_t frames = 0, in_a_row = 0;
  size_t before = 0;  // the word that the last frame says
  while (const size_t count = std::fread(samples, sizeof(samples[0]), std::size(samples), stdin)) {
    for (std::span<const int16_t> rest(samples, count); !rest.empty();) {
      const auto logits = stream->step(rest, &why);
      if (!logits.ok()) return fail(logits.status(), why);
      if (logits->rows == 0) continue;  // no frame is full
      ++frames;
      const auto row = logits->row(0);
      const auto likeliest =
          static_cast<size_t>(std::max_element(row.begin(), row.end()) - row.begin());
      in_a_row = likeliest == before ? in_a_row + 1 : 1;
      before = likeliest;
      if (likeliest == 0 || in_a_row != kFramesToBeSure) continue;
      const double heard = 1.0 * sound.hop * (frames - 1) + sound.window;  // samples
      std::printf("%6.2f s  %s\n", heard / kRate, kWords[likeliest]);
      std::fflush(stdout);
    }
  }
  std::printf("%u frames, arena of %zu bytes\n", frames, sizeof(arena));
  return 0;
}
