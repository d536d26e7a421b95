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
  uint32_t rate;              // samples per second; 0: the file does not define features of sound
  uint32_t window;            // samples
  uint32_t hop;               // samples
  uint32_t features;          // floats per frame
  uint32_t row_floats;        // work space of arenite_sound_stream_features, in floats per frame
  uint32_t frames_per_token;  // consecutive frames that form one token
  bool needs_whole_sound;     // features depend on the maximum over the whole sound
} arenite_sound_info;
// Returns what a model takes.
arenite_sound_info arenite_model_sound(const arenite_model* model);

// Returns how many frames `samples` samples yield. REQUIRES: the model's rate is not 0.
uint64_t arenite_sound_frames(const arenite_model* model, uint64_t samples);

// Samples of one channel: int16 in `whole` or, if that is null, floats from -1 to 1 in `real`.
typedef struct arenite_samples {
  const int16_t* whole;  // null: floats
  const float* real;     // not read unless `whole` is null
  size_t count;          // samples
} arenite_samples;

// Feeds sound to one sequence of a session, which must outlive the stream. The work space is part
// of the arena: if a sequence has several streams, only the one that was made last may be used.
typedef struct arenite_sound_stream {
  uint64_t opaque[6];  // the C++ object
} arenite_sound_stream;

// Makes a stream for samples of `rate` per second. Fails with ARENITE_INVALID_ARGUMENT for another
// rate than the model's or a sequence out of range, and with ARENITE_UNSUPPORTED if the file does
// not define features of sound, or with ARENITE_BAD_MODEL if it does so wrongly.
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
// no rows; then another sound may begin. Fails as a step does, and with ARENITE_INVALID_ARGUMENT if
// the sound is too short to be mirrored at its end.
ARENITE_NODISCARD arenite_status arenite_sound_stream_finish(arenite_sound_stream* stream,
                                                             arenite_output* output,
                                                             arenite_diagnostic* why);

// Step and finish in slices. `begun` tells whether a step of the session has begun: if so, advance
// the session until no op is left, then arenite_session_output has the rows. The features of a
// token are computed in a separate slice. Samples may be passed while a step is in progress; once
// they complete a token, calls fail with ARENITE_INVALID_ARGUMENT until the step is done.
ARENITE_NODISCARD arenite_status arenite_sound_stream_begin_step(arenite_sound_stream* stream,
                                                                 arenite_samples* samples,
                                                                 bool* begun,
                                                                 arenite_diagnostic* why);
// Begins to feed the frames that reach beyond the last sample.
ARENITE_NODISCARD arenite_status arenite_sound_stream_begin_finish(arenite_sound_stream* stream,
                                                                   bool* begun,
                                                                   arenite_diagnostic* why);

// Computes the features of a whole sound, for any model: dense [frames, features], at the front of
// `rows`, whose size is at least arenite_sound_frames() * row_floats. Writes the number of frames
// to `frames`. Does not step the session, and resets the stream. Fails with
// ARENITE_INVALID_ARGUMENT if `rows` is too small, or the sound has no frame.
ARENITE_NODISCARD arenite_status arenite_sound_stream_features(arenite_sound_stream* stream,
                                                               const arenite_samples* samples,
                                                               float* rows, size_t rows_size,
                                                               size_t* frames,
                                                               arenite_diagnostic* why);

#ifdef __cplusplus
}
#endif
