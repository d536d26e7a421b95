// SPDX-License-Identifier: Apache-2.0
// Sound for programs in C99: a stream of samples that steps a session. The same code serves
// sound.h, which says more; arenite.h says what holds for all calls.
#pragma once

#include "arenite/arenite.h"

#ifdef __cplusplus
extern "C" {
#endif

// What a model hears. A frame is made of `window` samples, and the next one of those from `hop`
// samples later on.
typedef struct arenite_sound_info {
  uint32_t rate;  // samples a second; 0: the file does not say how sound becomes features
  uint32_t window;
  uint32_t hop;
  uint32_t features;          // floats of a frame
  uint32_t row_floats;        // that arenite_sound_stream_features works in, of a frame
  uint32_t frames_per_token;  // that the model takes side by side
  bool needs_whole_sound;     // features depend on the loudest moment of the whole sound
} arenite_sound_info;
arenite_sound_info arenite_model_sound(const arenite_model* model);

// Frames of a sound of so many samples. REQUIRES: the model's rate is not 0.
uint64_t arenite_sound_frames(const arenite_model* model, uint64_t samples);

// Samples of one channel: 16-bit numbers or, where these are null, floats from -1 to 1.
typedef struct arenite_samples {
  const int16_t* whole;
  const float* real;
  size_t count;
} arenite_samples;

// Feeds one sequence of a session with sound. What it works in is a part of the arena.
typedef struct arenite_sound_stream {
  uint64_t opaque[6];
} arenite_sound_stream;

// `rate` is that of the samples that will come. Fails with ARENITE_INVALID_ARGUMENT for another
// one than the model's, or a sequence that is not there; with ARENITE_UNSUPPORTED if the file does
// not say how sound becomes features.
ARENITE_NODISCARD arenite_status arenite_sound_stream_init(arenite_sound_stream* stream,
                                                           arenite_session* session, uint32_t rate,
                                                           uint32_t sequence,
                                                           arenite_diagnostic* why);

// Takes samples off the front until a token is full, and steps the session with it: call it until
// they are all taken. `output` has no rows where none is full yet. Fails as a step does, and then
// tries it again when called again; with ARENITE_UNSUPPORTED for models that take whole sequences,
// or whose features depend on the loudest moment of the whole sound.
ARENITE_NODISCARD arenite_status arenite_sound_stream_step(arenite_sound_stream* stream,
                                                           arenite_samples* samples,
                                                           arenite_output* output,
                                                           arenite_diagnostic* why);

// The sound has ended: what reaches beyond its last sample. Call it until `output` has no rows;
// then another sound may begin.
ARENITE_NODISCARD arenite_status arenite_sound_stream_finish(arenite_sound_stream* stream,
                                                             arenite_output* output,
                                                             arenite_diagnostic* why);

// The same in slices: `begun` says whether a step of the session has begun, to be advanced until no
// op is left, and arenite_session_output has its rows then. The features of a token are a slice of
// their own. Samples may come before the step is over; the token that they fill waits, with
// ARENITE_INVALID_ARGUMENT, until a call after it.
ARENITE_NODISCARD arenite_status arenite_sound_stream_begin_step(arenite_sound_stream* stream,
                                                                 arenite_samples* samples,
                                                                 bool* begun,
                                                                 arenite_diagnostic* why);
ARENITE_NODISCARD arenite_status arenite_sound_stream_begin_finish(arenite_sound_stream* stream,
                                                                   bool* begun,
                                                                   arenite_diagnostic* why);

// The features of a whole sound, for any model, at the front of `rows`, which has room for
// arenite_sound_frames() * row_floats; how many frames there are, to `frames`.
ARENITE_NODISCARD arenite_status arenite_sound_stream_features(arenite_sound_stream* stream,
                                                               const arenite_samples* samples,
                                                               float* rows, size_t rows_size,
                                                               size_t* frames,
                                                               arenite_diagnostic* why);

#ifdef __cplusplus
}
#endif
