// SPDX-License-Identifier: Apache-2.0
// The public SoundStream: collects the frames of a token, and steps the session with it.
#include "arenite/sound.h"

#include <cstring>

#include "core/float_bits.h"
#include "core/message.h"
#include "format/verify.h"
#include "session/session_state.h"
#include "sound/frames.h"

namespace arenite {

SoundInfo sound_info(const Model& model) {
  const format::ModelReader reader = ModelAccess::reader(model);
  const SoundNumbers* const numbers = reader.sound().numbers;
  if (numbers == nullptr) return {};
  const uint32_t features = numbers->features();
  return {numbers->rate,
          numbers->window,
          numbers->hop,
          features,
          numbers->bands,
          reader.slot(reader.input_slot()).width / features,
          numbers->needs_whole_sound()};
}

uint64_t sound_frames(const Model& model, uint64_t samples) {
  return ModelAccess::reader(model).sound().numbers->frames(samples);
}

struct SoundStream::Parts {
  explicit Parts(SoundStream& stream)
      : state(SessionState::of(stream.session_)),
        view(state.reader.sound()),
        width(state.reader.slot(state.reader.input_slot()).width),
        floats(floats_of(state, stream.sequence_)),
        frames(view, stream.place_, floats) {}

  // The buffers of streams follow the rows that convolutions keep (history), at the end of the KV
  // cache.
  static float* floats_of(SessionState& state, uint32_t sequence) {
    const ArenaFormula& formula = state.reader.formula(ModelAccess::packed_index(state.model));
    const uint32_t sequences = state.layout.sequences_max;
    const size_t bytes = state.reader.sound_bytes();
    const auto all = static_cast<size_t>(history_bytes(formula, sequences).value());
    std::byte* const begin = state.arena() + state.layout.activation_offset() - all;
    return reinterpret_cast<float*>(begin + (formula.history_bytes - bytes) * sequences +
                                    sequence * bytes);
  }
  float* token() const { return floats + sound_floats(*view.numbers, 0); }
  uint32_t frames_per_token() const { return width / view.numbers->features(); }

  SessionState& state;
  SoundView view;
  uint32_t width;
  float* floats;
  sound::Frames frames;
};

Result<SoundStream> SoundStream::of(Session* session, uint32_t rate, uint32_t sequence,
                                    Diagnostic* why) {
  clear(why);
  if constexpr (linked(Need::kSound)) {
    const SessionState& state = SessionState::of(session);
    const SoundNumbers* const numbers = state.reader.sound().numbers;
    const uint32_t held = state.layout.sequences_max;
    const uint32_t sequences = held < kSoundSequencesMax ? held : kSoundSequencesMax;
    // Repeats the check of load: only programs that link this function verify sound.
    if (!format::verify_sound(state.reader, format::Refusal(why))) return Status::kBadModel;
    if (numbers != nullptr && rate != numbers->rate) {
      return refuse(why, Status::kInvalidArgument,
                    "the sample rate is not the model's: resample the sound", "rate", 0, rate,
                    numbers->rate);
    }
    if (sequence >= sequences) {
      return refuse(why, Status::kInvalidArgument, "there is no such sequence", "sequence", 0,
                    sequence, sequences - 1);
    }
    if (numbers != nullptr) {
      SoundStream stream;
      stream.session_ = session;
      stream.sequence_ = sequence;
      stream.restart();
      return stream;
    }
  }
  return refuse(why, Status::kUnsupported,
                "the file has no sound front end: convert it with --sound", "sound");
}

void SoundStream::restart() {
  frames_ = 0;
  has_ended_ = false;
  Parts(*this).frames.restart();
}

Status SoundStream::check_step(Diagnostic* why) const {
  clear(why);
  if (session_ == nullptr) {
    return refuse(why, Status::kInvalidArgument, "the stream belongs to no session");
  }
  const SessionState& state = SessionState::of(session_);
  if (!state.causal(state.reader.function_of_input(0))) {
    return refuse(why, Status::kUnsupported,
                  "the model takes whole sequences: use the features of the whole sound", "sound");
  }
  if (state.reader.sound().numbers->needs_whole_sound()) {
    return refuse(why, Status::kUnsupported,
                  "features depend on the loudest moment of the whole sound: convert the model "
                  "with a fixed peak",
                  "sound.range");
  }
  return Status::kOk;
}

// REQUIRES: a frame is complete, and the token is not.
void SoundStream::add_frame() {
  Parts parts(*this);
  const SoundNumbers& numbers = *parts.view.numbers;
  parts.frames.complete(parts.frames.compute(), numbers.peak,
                        parts.token() + frames_ * numbers.features());
  ++frames_;
}

// REQUIRES: the token has all its frames.
Result<bool> SoundStream::begin_token(Diagnostic* why) {
  const Parts parts(*this);
  uint32_t lengths[kSoundSequencesMax] = {};
  lengths[sequence_] = 1;
  Batch batch = {{parts.token(), parts.width}, sequence_ + 1, 1, {lengths, sequence_ + 1}};
  batch.back_to_back = true;
  const Input input = batch;
  const uint32_t function = parts.state.reader.function_of_input(0);
  const Status status = parts.state.begin({function, {&input, 1}}, why);
  if (status != Status::kOk) return status;
  frames_ = 0;
  return true;
}

Result<Output> SoundStream::end_token(const Result<bool>& begun, Diagnostic* why) {
  if (!begun.ok()) return begun.status();
  if (!*begun) return Output{};
  const Status status = SessionState::of(session_).run_ops(UINT32_MAX, why);
  if (status != Status::kOk) return status;
  return session_->output();
}

template <typename Sample>
Result<bool> SoundStream::begin_with(std::span<const Sample>& samples, Diagnostic* why) {
  const Status status = check_step(why);
  if (status != Status::kOk) return status;
  if (has_ended_) {
    return refuse(why, Status::kInvalidArgument, "the sound has ended: finish it first");
  }
  Parts parts(*this);
  while (frames_ != parts.frames_per_token()) {
    samples = samples.subspan(parts.frames.take(samples));
    if (!parts.frames.is_whole()) return false;
    add_frame();
  }
  return begin_token(why);
}

Result<bool> SoundStream::begin_step(std::span<const int16_t>& samples, Diagnostic* why) {
  return begin_with(samples, why);
}
Result<bool> SoundStream::begin_step(std::span<const float>& samples, Diagnostic* why) {
  return begin_with(samples, why);
}

Result<Output> SoundStream::step(std::span<const int16_t>& samples, Diagnostic* why) {
  return end_token(begin_step(samples, why), why);
}
Result<Output> SoundStream::step(std::span<const float>& samples, Diagnostic* why) {
  return end_token(begin_step(samples, why), why);
}
Result<Output> SoundStream::finish(Diagnostic* why) { return end_token(begin_finish(why), why); }

Result<bool> SoundStream::begin_finish(Diagnostic* why) {
  const Status status = check_step(why);
  if (status != Status::kOk) return status;
  Parts parts(*this);
  if (!has_ended_ && !parts.frames.end()) {
    restart();
    return refuse(why, Status::kInvalidArgument, "the sound is too short to be mirrored at its end",
                  "samples");
  }
  has_ended_ = true;
  while (frames_ != parts.frames_per_token()) {
    if (!parts.frames.take_padding()) {
      restart();
      return false;
    }
    add_frame();
  }
  return begin_token(why);
}

template <typename Sample>
Result<size_t> SoundStream::features_of(std::span<const Sample> sound, std::span<float> rows,
                                        Diagnostic* why) {
  clear(why);
  if (session_ == nullptr) {
    return refuse(why, Status::kInvalidArgument, "the stream belongs to no session");
  }
  restart();
  Parts parts(*this);
  const SoundNumbers& numbers = *parts.view.numbers;
  const uint64_t count = numbers.frames(sound.size());
  if (count == 0) {
    return refuse(why, Status::kInvalidArgument, "the sound is shorter than a frame", "sound", 0,
                  sound.size(), numbers.window - numbers.padding());
  }
  if (count > rows.size() / numbers.bands) {
    return refuse(why, Status::kInvalidArgument, "there is no room for all frames", "rows", 0,
                  rows.size(), count * numbers.bands);
  }
  sound::compute_features(parts.frames, sound, static_cast<size_t>(count), rows.data());
  restart();
  return static_cast<size_t>(count);
}

Result<size_t> SoundStream::features(std::span<const int16_t> sound, std::span<float> rows,
                                     Diagnostic* why) {
  return features_of(sound, rows, why);
}
Result<size_t> SoundStream::features(std::span<const float> sound, std::span<float> rows,
                                     Diagnostic* why) {
  return features_of(sound, rows, why);
}

}  // namespace arenite
