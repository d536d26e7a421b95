// SPDX-License-Identifier: Apache-2.0
// C interface of SoundStream: selects int16 or float samples by the pointer that the caller set.
#include "arenite/arenite_sound.h"
#include "arenite/sound.h"
#include "c/interop.h"

namespace arenite::c {
namespace {

SoundStream& stream_in(arenite_sound_stream* stream) { return object_in<SoundStream>(stream); }

arenite_status give(const Result<Output>& result, const Diagnostic& from, arenite_output* output,
                    arenite_diagnostic* why) {
  return finish(result, from, why, [&](const Output& value) {
    *output = {value.data, value.rows, value.features};
  });
}

// Calls step with the samples and keeps those that were not consumed.
template <typename Sample, typename Step>
auto take(const Sample*& samples, size_t& count, const Step& step) {
  std::span<const Sample> rest(samples, count);
  const auto result = step(rest);
  samples = rest.data();
  count = rest.size();
  return result;
}

template <typename Step>
auto take(arenite_samples* samples, const Step& step) {
  return samples->whole != nullptr ? take(samples->whole, samples->count, step)
                                   : take(samples->real, samples->count, step);
}

arenite_status give(const Result<bool>& result, const Diagnostic& from, bool* begun,
                    arenite_diagnostic* why) {
  return finish(result, from, why, [&](bool value) { *begun = value; });
}

}  // namespace
}  // namespace arenite::c

using arenite::Diagnostic;
using arenite::c::object_in;
using arenite::c::stream_in;

arenite_sound_info arenite_model_sound(const arenite_model* model) {
  const arenite::SoundInfo info = arenite::sound_info(object_in<const arenite::Model>(model));
  return {info.rate,
          info.window,
          info.hop,
          info.features,
          info.row_floats,
          info.frames_per_token,
          info.needs_whole_sound};
}

uint64_t arenite_sound_frames(const arenite_model* model, uint64_t samples) {
  return arenite::sound_frames(object_in<const arenite::Model>(model), samples);
}

arenite_status arenite_sound_stream_init(arenite_sound_stream* stream, arenite_session* session,
                                         uint32_t rate, uint32_t sequence,
                                         arenite_diagnostic* why) {
  Diagnostic from;
  const auto made =
      arenite::SoundStream::of(reinterpret_cast<arenite::Session*>(session), rate, sequence, &from);
  return arenite::c::finish(made, from, why, [&](const arenite::SoundStream& value) {
    arenite::c::place(value, stream);
  });
}

arenite_status arenite_sound_stream_step(arenite_sound_stream* stream, arenite_samples* samples,
                                         arenite_output* output, arenite_diagnostic* why) {
  Diagnostic from;
  const auto step = [&](auto& rest) { return stream_in(stream).step(rest, &from); };
  return arenite::c::give(arenite::c::take(samples, step), from, output, why);
}

arenite_status arenite_sound_stream_finish(arenite_sound_stream* stream, arenite_output* output,
                                           arenite_diagnostic* why) {
  Diagnostic from;
  return arenite::c::give(stream_in(stream).finish(&from), from, output, why);
}

arenite_status arenite_sound_stream_begin_step(arenite_sound_stream* stream,
                                               arenite_samples* samples, bool* begun,
                                               arenite_diagnostic* why) {
  Diagnostic from;
  const auto step = [&](auto& rest) { return stream_in(stream).begin_step(rest, &from); };
  return arenite::c::give(arenite::c::take(samples, step), from, begun, why);
}

arenite_status arenite_sound_stream_begin_finish(arenite_sound_stream* stream, bool* begun,
                                                 arenite_diagnostic* why) {
  Diagnostic from;
  return arenite::c::give(stream_in(stream).begin_finish(&from), from, begun, why);
}

arenite_status arenite_sound_stream_features(arenite_sound_stream* stream,
                                             const arenite_samples* samples, float* rows,
                                             size_t rows_size, size_t* frames,
                                             arenite_diagnostic* why) {
  Diagnostic from;
  const std::span<float> room(rows, rows_size);
  const auto made =
      samples->whole != nullptr
          ? stream_in(stream).features(std::span(samples->whole, samples->count), room, &from)
          : stream_in(stream).features(std::span(samples->real, samples->count), room, &from);
  return arenite::c::finish(made, from, why, [&](size_t value) { *frames = value; });
}
