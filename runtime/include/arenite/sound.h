// SPDX-License-Identifier: Apache-2.0
// Converts sound to features and feeds them to a session, for models whose file defines how:
//
//     Result<SoundStream> stream = SoundStream::of(session, 16000);
//     while (!samples.empty()) use(stream->step(samples));  // rows once a token is complete
//
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "arenite/model.h"
#include "arenite/session.h"
#include "arenite/status.h"

namespace arenite {

// Describes the sound that a model takes. A frame is computed from `window` samples, and frames
// start `hop` samples apart.
struct SoundInfo {
  uint32_t rate = 0;        // samples per second; 0: the file does not define features of sound
  uint32_t window = 0;      // samples
  uint32_t hop = 0;         // samples
  uint32_t features = 0;    // floats per frame
  uint32_t row_floats = 0;  // work space of SoundStream::features, in floats per frame
  uint32_t frames_per_token = 0;   // consecutive frames that form one token
  bool needs_whole_sound = false;  // features depend on the maximum over the whole sound
};

// Returns what a model takes. REQUIRES: `model` holds a model.
SoundInfo sound_info(const Model& model);

// Returns how many frames `samples` samples yield. REQUIRES: sound_info(model).rate is not 0.
uint64_t sound_frames(const Model& model, uint64_t samples);

// Upper limit for the sequences of a session that take sound.
inline constexpr uint32_t kSoundSequencesMax = 16;

// Position of a stream in its ring buffer of samples. For use by the runtime only.
struct SoundPlace {
  uint32_t next = 0;     // ring index of the next sample
  uint32_t begin = 0;    // ring index of the next frame
  uint32_t until = 0;    // samples missing to complete the next frame
  uint32_t after = 0;    // samples still to be appended after the end
  bool is_first = true;  // no frame is computed yet
};

// Feeds sound to one sequence of a session. The sound may come in pieces of any size; results are
// bit-identical for any pieces and on every CPU. Samples are int16 or floats from -1 to 1, of one
// channel. The work space is part of the arena: if a sequence has several streams, only the one
// that was made last may be used, and a moved arena needs a new stream.
class SoundStream {
 public:
  // An empty stream: step, finish and features fail with kInvalidArgument.
  SoundStream() = default;

  // Makes a stream for samples of `rate` per second. Fails with kInvalidArgument for another rate
  // than the model's, since nothing resamples, and for a sequence beyond the session's or
  // kSoundSequencesMax; with kUnsupported if the file does not define features of sound;
  // with kBadModel if it does so wrongly. The session must outlive the stream.
  static Result<SoundStream> of(Session* session, uint32_t rate, uint32_t sequence = 0,
                                Diagnostic* why = nullptr);

  // Takes samples off the front of `samples` until a token is complete, and steps the session with
  // it. Call it until `samples` is empty. Returns no rows if no token is complete yet. If
  // Session::step fails, so does this call, and the next call tries that step again. Fails with
  // kUnsupported for models that take whole sequences, or whose features depend on the maximum over
  // the whole sound: use `features` for these.
  Result<Output> step(std::span<const int16_t>& samples, Diagnostic* why = nullptr);
  // Takes float samples in [-1, 1].
  Result<Output> step(std::span<const float>& samples, Diagnostic* why = nullptr);

  // Ends the sound and feeds the frames that reach beyond its last sample, if the model has such
  // frames. Call it until it returns no rows; then another sound may begin. Frames that do not
  // complete a token are dropped. Fails as step does, and with kInvalidArgument if the sound is too
  // short to be mirrored at its end.
  Result<Output> finish(Diagnostic* why = nullptr);

  // Step and finish in slices. Return true if a step of the session has begun: advance the session
  // until no op is left, then Session::output has the rows. Return false if no token is complete
  // yet, or the sound has ended. Features of a token are computed in a slice of their own: a call
  // computes as many frames as its samples complete. Samples may be passed while a step is in
  // progress; once they complete a token, calls fail with kInvalidArgument until the step is done.
  // The model does not see the token of a cancelled step.
  Result<bool> begin_step(std::span<const int16_t>& samples, Diagnostic* why = nullptr);
  // Takes float samples in [-1, 1].
  Result<bool> begin_step(std::span<const float>& samples, Diagnostic* why = nullptr);
  // Begins to feed the frames that reach beyond the last sample.
  Result<bool> begin_finish(Diagnostic* why = nullptr);

  // Computes the features of a whole sound, for any model: dense [frames, SoundInfo::features], at
  // the front of `rows`, whose size is at least sound_frames() * SoundInfo::row_floats. Returns the
  // number of frames. Does not step the session, and resets the stream. Fails with kInvalidArgument
  // if `rows` is too small, or the sound has no frame.
  Result<size_t> features(std::span<const int16_t> sound, std::span<float> rows,
                          Diagnostic* why = nullptr);
  // Takes float samples in [-1, 1].
  Result<size_t> features(std::span<const float> sound, std::span<float> rows,
                          Diagnostic* why = nullptr);

 private:
  struct Parts;
  template <typename Sample>
  Result<bool> begin_with(std::span<const Sample>& samples, Diagnostic* why);
  template <typename Sample>
  Result<size_t> features_of(std::span<const Sample> sound, std::span<float> rows, Diagnostic* why);
  void restart();
  Status check_step(Diagnostic* why) const;
  void add_frame();
  Result<bool> begin_token(Diagnostic* why);
  Result<Output> end_token(const Result<bool>& begun, Diagnostic* why);

  Session* session_ = nullptr;
  SoundPlace place_;
  uint32_t sequence_ = 0;
  uint32_t frames_ = 0;  // frames in the incomplete token
  bool has_ended_ = false;
};

}  // namespace arenite
