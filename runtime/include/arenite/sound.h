// SPDX-License-Identifier: Apache-2.0
// Sound for models whose file says how it becomes features: SoundStream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "arenite/model.h"
#include "arenite/session.h"
#include "arenite/status.h"

namespace arenite {

// What a model hears. A frame is made of `window` samples, and the next one of those from `hop`
// samples later on.
struct SoundInfo {
  uint32_t rate = 0;  // samples a second; 0: the file does not say how sound becomes features
  uint32_t window = 0;
  uint32_t hop = 0;
  uint32_t features = 0;           // floats of a frame
  uint32_t row_floats = 0;         // that SoundStream::features works in, of a frame
  uint32_t frames_per_token = 0;   // that the model takes side by side
  bool needs_whole_sound = false;  // features depend on the loudest moment of the whole sound
};
SoundInfo sound_info(const Model& model);

// Frames of a sound of so many samples. REQUIRES: sound_info(model).rate is not 0.
uint64_t sound_frames(const Model& model, uint64_t samples);

// Sequences of a session that sound can be fed to.
inline constexpr uint32_t kSoundSequencesMax = 16;

// Where a stream stands among its samples: the runtime's own.
struct SoundPlace {
  uint32_t next = 0;     // of a ring of samples: where the next one goes
  uint32_t begin = 0;    // of the ring: where the next frame begins
  uint32_t until = 0;    // samples until it is whole
  uint32_t after = 0;    // samples that are still put after the end
  bool is_first = true;  // no frame is made yet
};

// Feeds one sequence of a session with sound, which may come in pieces of any size. Samples are
// 16-bit numbers or floats from -1 to 1, of one channel. What it works in is a part of the arena,
// so that of several streams of one sequence only the last that was made may be used; where the
// arena is moved, make it anew. The same bits for any pieces, and on every CPU.
class SoundStream {
 public:
  // None yet: step, finish and features refuse.
  SoundStream() = default;

  // `rate` is that of the samples that will come: another one than the model's is kInvalidArgument,
  // as nothing here resamples; so is a sequence that the session or kSoundSequencesMax does not
  // have. Fails with kUnsupported if the file does not say how sound becomes features.
  static Result<SoundStream> of(Session* session, uint32_t rate, uint32_t sequence = 0,
                                Diagnostic* why = nullptr);

  // Takes samples off the front of `samples` until a token is full, and steps the session with it:
  // call it until they are all taken. No rows: none is full yet. What Session::step refuses is
  // refused here, and tried again by the next call.
  // Fails with kUnsupported for models that take whole sequences, or whose features depend on the
  // loudest moment of the whole sound: `features` is for these.
  Result<Output> step(std::span<const int16_t>& samples, Diagnostic* why = nullptr);
  Result<Output> step(std::span<const float>& samples, Diagnostic* why = nullptr);

  // The sound has ended: frames that reach beyond its last sample, where the model has those. Call
  // it until there are no rows; then another sound may begin. Frames that do not fill a token are
  // dropped. Fails as step does, and with kInvalidArgument for a sound that is too short to be
  // mirrored at its end.
  Result<Output> finish(Diagnostic* why = nullptr);

  // The same in slices. True: a step of the session has begun, so advance it until no op is left,
  // and then Session::output has the rows. False: no token is full yet, or the sound has ended. The
  // features of a token are a slice of their own: a call makes as many frames as it takes samples
  // for. Samples may come before the step is over; the token that they fill waits, with
  // kInvalidArgument, until a call after it. A step that is cancelled is one that no model heard.
  Result<bool> begin_step(std::span<const int16_t>& samples, Diagnostic* why = nullptr);
  Result<bool> begin_step(std::span<const float>& samples, Diagnostic* why = nullptr);
  Result<bool> begin_finish(Diagnostic* why = nullptr);

  // The features of a whole sound, for any model: dense [frames, SoundInfo::features] at the front
  // of `rows`, which has room for sound_frames() * SoundInfo::row_floats. Gives back the number of
  // frames. The session is not stepped, and the stream is then as new.
  // Fails with kInvalidArgument if `rows` is too small, or there is not one frame.
  Result<size_t> features(std::span<const int16_t> sound, std::span<float> rows,
                          Diagnostic* why = nullptr);
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
  uint32_t frames_ = 0;  // in the token that is being filled
  bool has_ended_ = false;
};

}  // namespace arenite
