// SPDX-License-Identifier: Apache-2.0
// Spoken words in a stream of sound, a frame of 20 ms at a time, in static memory and without heap.
// Samples come from the standard input as a microphone gives them: 16-bit, one channel, 16,000 a
// second, in this CPU's byte order.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "arenite/session.h"
#include "words.h"  // made by `arenite embed`: the model, and the size of its arena

// As train.py has them.
constexpr uint32_t kRate = 16000, kHop = 320, kWindow = 512, kBins = kWindow / 2 + 1, kMels = 32;
constexpr const char* kWords[] = {"",      "yes", "no",  "up",   "down", "left",
                                  "right", "on",  "off", "stop", "go"};
constexpr uint32_t kFramesToBeSure = 3;
constexpr uint32_t kFramesMax = 1u << 31;  // of a stream: 497 days

// All the memory there is: the arena, the last samples and the tables of the log mel energies.
alignas(arenite::kArenaAlignment) static std::byte arena[words_arena_bytes(kFramesMax, 1, 1, 1)];
static int16_t samples[kWindow];
static float hann[kWindow], cosine[kWindow], edges[kMels + 2];

static void make_tables() {
  const auto mel_of = [](double hertz) { return 2595.0 * std::log10(1.0 + hertz / 700.0); };
  for (uint32_t i = 0; i < kWindow; ++i) {
    cosine[i] = static_cast<float>(std::cos(2.0 * M_PI * i / kWindow));
    hann[i] = 0.5f - 0.5f * cosine[i];
  }
  for (uint32_t i = 0; i < kMels + 2; ++i) {
    const double mel = mel_of(60.0) + (mel_of(7600.0) - mel_of(60.0)) * i / (kMels + 1);
    edges[i] = static_cast<float>(700.0 * (std::pow(10.0, mel / 2595.0) - 1.0));
  }
}

// The energy of the window at a multiple of kRate / kWindow hertz.
static float power_at(uint32_t bin) {
  float real = 0.0f, imaginary = 0.0f;
  for (uint32_t i = 0; i < kWindow; ++i) {
    const float sample = static_cast<float>(samples[i]) / 32768.0f * hann[i];
    real += sample * cosine[bin * i % kWindow];
    imaginary += sample * cosine[(bin * i + kWindow / 4) % kWindow];
  }
  return real * real + imaginary * imaginary;
}

static void log_mel(float (&frame)[kMels]) {
  float energy[kMels] = {};
  for (uint32_t bin = 0; bin < kBins; ++bin) {
    const float hertz = static_cast<float>(bin) * kRate / kWindow;
    const float power = power_at(bin);
    for (uint32_t i = 0; i < kMels; ++i) {
      const float rise = (hertz - edges[i]) / (edges[i + 1] - edges[i]);
      const float fall = (edges[i + 2] - hertz) / (edges[i + 2] - edges[i + 1]);
      energy[i] += power * std::max(0.0f, std::min(rise, fall));
    }
  }
  for (uint32_t i = 0; i < kMels; ++i) frame[i] = std::log(energy[i] + 1e-3f);
}

// False at the end of the stream.
static bool read_hop() {
  std::memmove(samples, samples + kHop, sizeof(samples) - kHop * sizeof(samples[0]));
  return std::fread(samples + kWindow - kHop, sizeof(samples[0]), kHop, stdin) == kHop;
}

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

  make_tables();
  uint32_t frames = 0, in_a_row = 0;
  size_t before = 0;  // the word that the last frame says
  while (read_hop()) {
    float frame[kMels];
    log_mel(frame);
    const auto logits = (*session)->step(frame, &why);
    if (!logits.ok()) return fail(logits.status(), why);
    ++frames;
    const auto row = logits->row(0);
    const auto likeliest =
        static_cast<size_t>(std::max_element(row.begin(), row.end()) - row.begin());
    in_a_row = likeliest == before ? in_a_row + 1 : 1;
    before = likeliest;
    if (likeliest == 0 || in_a_row != kFramesToBeSure) continue;
    std::printf("%6.2f s  %s\n", double{kHop} * frames / kRate, kWords[likeliest]);
    std::fflush(stdout);
  }
  std::printf("%u frames, arena of %zu bytes\n", frames, sizeof(arena));
  return 0;
}
