// SPDX-License-Identifier: Apache-2.0
// Feeds sound to a session, in C99: a stream of samples becomes features, and these step the
// session. The same code serves sound.h, which says more; arenite.h says what holds for all calls.
//
//     arenite_sound_stream_init(&stream, session, 16000, 0, &why);
//     while (samples.count != 0 &&
//            arenite_sound_stream_step(&stream, &samples, &output, &why) == ARENITE_OK) { ... }
//
#pragma once

#include "arenite/arenite.h"

#ifdef __cplusplus
extern "C" {
#endif

// Describes the sound that a model takes. A frame is computed from `window` samples, and frames
// start `hop` samples apart.
typedef struct arenite_sound_info {
  uint32_t rate;  // samples per second; 0: the file does not define features of sound
  uint32_t window;
  uint32_t hop;
  uint32_t features;          // floats per frame
  uint32_t row_floats;        // work space of arenite_sound_stream_features, in floats per frame
  uint32_t frames_per_token;  // consecutive frames that form one token
  bool needs_whole_sound;     // features depend on the maximum over the whole sound
} arenite_sound_info;
arenite_sound_info arenite_model_sound(const arenite_model* model);

// Returns how many frames `samples` samples yield. REQUIRES: the model's rate is not 0.
uint64_t arenite_sound_frames(const arenite_model* model, uint64_t samples);

// Samples of one channel: int16 in `whole` or, if that is null, floats from -1 to 1 in `real`.
typedef struct arenite_samples {
  const int16_t* whole;
  const float* real;
  size_t count;
} arenite_samples;

// Feeds sound to one sequence of a session. Its work space is part of the arena.
typedef struct arenite_sound_stream {
  uint64_t opaque[6];
} arenite_sound_stream;

// Makes a stream for samples of `rate` per second. Fails with ARENITE_INVALID_ARGUMENT for another
// rate than the model's or a sequence out of range, and with ARENITE_UNSUPPORTED if the file does
// not define features of sound.
ARENITE_NODISCARD arenite_status arenite_sound_stream_init(arenite_sound_stream* stream,
                                                           arenite_session* session, uint32_t rate,
                                                           uint32_t sequence,
                                                           arenite_diagnostic* why);

// Takes samples off the front until a token is complete, and steps the session with it. Call it
// until no samples are left. `output` has no rows if no token is complete yet. Fails as a step
// does; the next call then tries that step again. Fails with ARENITE_UNSUPPORTED for models that
// take whole sequences, or whose features depend on the maximum over the whole sound.
ARENITE_NODISCARD arenite_status arenite_sound_stream_step(arenite_sound_stream* stream,
                                                           arenite_samples* samples,
                                                           arenite_output* output,
                                                           arenite_diagnostic* why);

// Ends the sound and feeds the frames that reach beyond its last sample. Call it until `output` has
// no rows; then another sound may begin.
ARENITE_NODISCARD arenite_status arenite_sound_stream_finish(arenite_sound_stream* stream,
                                                             arenite_output* output,
                                                             arenite_diagnostic* why);

// Step and finish in slices. `begun` says whether a step of the session has begun: advance the
// session until no op is left, then arenite_session_output has the rows. Features of a token are
// computed in a slice of their own. Samples may be passed while a step is in progress; once they
// complete a token, calls fail with ARENITE_INVALID_ARGUMENT until the step is done.
ARENITE_NODISCARD arenite_status arenite_sound_stream_begin_step(arenite_sound_stream* stream,
                                                                 arenite_samples* samples,
                                                                 bool* begun,
                                                                 arenite_diagnostic* why);
ARENITE_NODISCARD arenite_status arenite_sound_stream_begin_finish(arenite_sound_stream* stream,
                                                                   bool* begun,
                                                                   arenite_diagnostic* why);

// Computes the features of a whole sound, for any model, at the front of `rows`, whose size is at
// least arenite_sound_frames() * row_floats. Writes the number of frames to `frames`.
ARENITE_NODISCARD arenite_status arenite_sound_stream_features(arenite_sound_stream* stream,
                                                               const arenite_samples* samples,
                                                               float* rows, size_t rows_size,
                                                               size_t* frames,
                                                               arenite_diagnostic* why);

#ifdef __cplusplus
}
#endif
