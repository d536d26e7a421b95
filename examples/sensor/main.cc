// SPDX-License-Identifier: Apache-2.0
// A machine's health from a stream of sensor frames: one result per hop, in static memory and
// without heap. Frames come from the standard input as a device would send them: 16 float32 each,
// in this CPU's byte order.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "arenite/session.h"
#include "vibration.h"  // made by `arenite embed`: the model, and the size of its arena

constexpr uint32_t kFeatures = 16;  // of a frame
constexpr uint32_t kWindow = 64;    // frames that the model looks at
constexpr uint32_t kHop = 1;        // frames between results
constexpr double kFramesPerSecond = 20.0;

// All the memory there is: the arena, and the last frames, the oldest first.
alignas(
    arenite::kArenaAlignment) static std::byte arena[vibration_arena_bytes(kWindow, kWindow, 1, 1)];
static float window[kWindow][kFeatures];

static int fail(arenite::Status status, const arenite::Diagnostic& why) {
  char text[256];
  arenite::describe(status, why, text);
  std::fprintf(stderr, "%s\n", text);
  return 1;
}

// False at the end of the stream.
static bool read_frame(float (&frame)[kFeatures]) {
  return std::fread(frame, sizeof(frame), 1, stdin) == 1;
}

static uint32_t likeliest(std::span<const float> logits) {
  return static_cast<uint32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

int main() {
  arenite::Diagnostic why;
  const auto model = arenite::Model::load(vibration_model(), &why);
  if (!model.ok()) return fail(model.status(), why);

  arenite::SessionOptions options;
  options.positions_max = kWindow;
  const auto session = arenite::Session::create(*model, options, arena, &why);
  if (!session.ok()) return fail(session.status(), why);

  const auto test = (*session)->self_test(&why);
  if (!test.ok()) return fail(test.status(), why);
  if (!test->passed) {
    std::fprintf(stderr, "this machine computes %s wrongly, by %g\n", test->op_name,
                 double{test->difference});
    return 1;
  }

  uint32_t frames = 0, results = 0;
  uint32_t state = UINT32_MAX;  // the class before
  for (float frame[kFeatures]; read_frame(frame);) {
    std::memmove(window[0], window[1], sizeof(window) - sizeof(window[0]));
    std::memcpy(window[kWindow - 1], frame, sizeof(frame));
    if (++frames < kWindow || (frames - kWindow) % kHop != 0) continue;

    const arenite::Batch batch = {{window[0], kWindow * kFeatures}, 1, kWindow};
    const auto logits = (*session)->run(batch, &why);
    if (!logits.ok()) return fail(logits.status(), why);
    ++results;
    const uint32_t found = likeliest(logits->row(0));
    if (found == state) continue;
    state = found;
    std::printf("%5.2f s  %s\n", frames / kFramesPerSecond, model->label(state));
  }
  std::printf("%u frames, %u results, arena of %zu bytes\n", frames, results, sizeof(arena));
  return 0;
}
