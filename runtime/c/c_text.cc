// SPDX-License-Identifier: Apache-2.0
// C interface: tokenizers, text streams, stop strings and samplers.
#include <algorithm>
#include <memory>

#include "arenite/arenite_text.h"
#include "arenite/sampler.h"
#include "arenite/text_stream.h"
#include "arenite/tokenizer.h"
#include "c/interop.h"

namespace arenite::c {
namespace {

static_assert(ARENITE_NO_TOKEN == kNoToken && ARENITE_TEXT_BYTES_MAX == kTextBytesMax &&
              ARENITE_ENCODE_TOKENS_MAX(7) == encode_tokens_max(7));
static_assert(sizeof(Candidate) == sizeof(arenite_candidate) &&
              alignof(Candidate) == alignof(arenite_candidate));

const Tokenizer& tokenizer_in(const arenite_tokenizer* tokenizer) {
  return object_in<const Tokenizer>(tokenizer);
}

EncodeOptions options_from(const arenite_encode_options* options) {
  if (options == nullptr) return {};
  return {options->add_bos_and_end, options->read_specials, options->tokens_max};
}

DecodeOptions options_from(const arenite_decode_options* options) {
  if (options == nullptr) return {};
  return {options->keep_specials, options->is_continuation};
}

SamplerOptions options_from(const arenite_sampler_options* options) {
  if (options == nullptr) return {};
  return {options->repetition_penalty,
          options->temperature,
          options->top_k,
          options->top_p,
          options->min_p,
          options->seed};
}

arenite_text text_from(std::string_view text) { return {text.data(), text.size()}; }

arenite_text_parts parts_from(const TextParts& parts) {
  return {text_from(parts.head), text_from(parts.tail)};
}

std::string_view view_of(const arenite_text& text) { return {text.data, text.bytes}; }

}  // namespace
}  // namespace arenite::c

using arenite::Diagnostic;
using arenite::Sampler;
using arenite::StopStrings;
using arenite::TextStream;
using arenite::Tokenizer;
using arenite::c::object_in;
using arenite::c::options_from;
using arenite::c::tokenizer_in;

arenite_status arenite_tokenizer_init(arenite_tokenizer* tokenizer, const arenite_model* model,
                                      arenite_diagnostic* why) {
  Diagnostic from;
  const auto found = Tokenizer::of(object_in<const arenite::Model>(model), &from);
  return arenite::c::finish(found, from, why,
                            [&](const Tokenizer& value) { arenite::c::place(value, tokenizer); });
}

uint32_t arenite_tokenizer_vocab_size(const arenite_tokenizer* tokenizer) {
  return tokenizer_in(tokenizer).vocab_size();
}
uint32_t arenite_tokenizer_bos(const arenite_tokenizer* tokenizer) {
  return tokenizer_in(tokenizer).bos();
}
uint32_t arenite_tokenizer_end(const arenite_tokenizer* tokenizer) {
  return tokenizer_in(tokenizer).end();
}
bool arenite_tokenizer_is_end(const arenite_tokenizer* tokenizer, uint32_t id) {
  return tokenizer_in(tokenizer).is_end(id);
}
bool arenite_tokenizer_is_special(const arenite_tokenizer* tokenizer, uint32_t id) {
  return tokenizer_in(tokenizer).is_special(id);
}
bool arenite_tokenizer_expects_nfc(const arenite_tokenizer* tokenizer) {
  return tokenizer_in(tokenizer).expects_nfc();
}
uint32_t arenite_tokenizer_find_special(const arenite_tokenizer* tokenizer, const char* name,
                                        size_t name_bytes) {
  return tokenizer_in(tokenizer).find_special({name, name_bytes});
}
arenite_text arenite_tokenizer_token_bytes(const arenite_tokenizer* tokenizer, uint32_t id) {
  return arenite::c::text_from(tokenizer_in(tokenizer).token_bytes(id));
}

arenite_status arenite_tokenizer_encode(const arenite_tokenizer* tokenizer, const char* text,
                                        size_t text_bytes, const arenite_encode_options* options,
                                        uint32_t* out, size_t out_size, size_t* count,
                                        arenite_diagnostic* why) {
  Diagnostic from;
  const auto encoded = tokenizer_in(tokenizer).encode({text, text_bytes}, options_from(options),
                                                      {out, out_size}, &from);
  return arenite::c::finish(encoded, from, why, [&](size_t value) { *count = value; });
}

arenite_status arenite_tokenizer_encode_pair(const arenite_tokenizer* tokenizer, const char* text,
                                             size_t text_bytes, const char* second,
                                             size_t second_bytes,
                                             const arenite_encode_options* options,
                                             uint32_t* out_ids, size_t out_ids_size,
                                             uint8_t* out_types, size_t out_types_size,
                                             size_t* count, arenite_diagnostic* why) {
  Diagnostic from;
  const auto encoded = tokenizer_in(tokenizer).encode_pair(
      {text, text_bytes}, {second, second_bytes}, options_from(options), {out_ids, out_ids_size},
      {out_types, out_types != nullptr ? out_types_size : 0}, &from);
  return arenite::c::finish(encoded, from, why, [&](size_t value) { *count = value; });
}

void arenite_text_stream_init(arenite_text_stream* stream, const arenite_tokenizer* tokenizer,
                              const arenite_decode_options* options) {
  arenite::c::place(TextStream(tokenizer_in(tokenizer), options_from(options)), stream);
}

arenite_text_parts arenite_text_stream_next(arenite_text_stream* stream, uint32_t id) {
  return arenite::c::parts_from(object_in<TextStream>(stream).next(id));
}

arenite_text_parts arenite_text_stream_finish(arenite_text_stream* stream) {
  return arenite::c::parts_from(object_in<TextStream>(stream).finish());
}

// Returns the work space: padding to alignof(string_view), one string_view per stop string, then
// the bytes that are held back.
size_t arenite_stop_strings_bytes_needed(const arenite_text* stops, size_t stops_count) {
  size_t held_bytes = 0;
  for (size_t i = 0; i < stops_count; ++i) {
    const std::string_view stop = arenite::c::view_of(stops[i]);
    held_bytes = std::max(held_bytes, StopStrings::bytes_needed({&stop, 1}));
  }
  return alignof(std::string_view) - 1 + stops_count * sizeof(std::string_view) + held_bytes;
}

void arenite_stop_strings_init(arenite_stop_strings* finder, const arenite_text* stops,
                               size_t stops_count, char* space, size_t space_bytes) {
  const size_t views_bytes = stops_count * sizeof(std::string_view);
  void* begin = space;
  std::align(alignof(std::string_view), views_bytes, begin, space_bytes);
  auto* const views = static_cast<std::string_view*>(begin);
  for (size_t i = 0; i < stops_count; ++i) {
    std::construct_at(views + i, arenite::c::view_of(stops[i]));
  }
  char* const held = static_cast<char*>(begin) + views_bytes;
  arenite::c::place(StopStrings({views, stops_count}, {held, space_bytes - views_bytes}), finder);
}

arenite_text_parts arenite_stop_strings_next(arenite_stop_strings* finder, const char* text,
                                             size_t text_bytes) {
  return arenite::c::parts_from(object_in<StopStrings>(finder).next({text, text_bytes}));
}

arenite_text arenite_stop_strings_finish(arenite_stop_strings* finder) {
  return arenite::c::text_from(object_in<StopStrings>(finder).finish());
}

bool arenite_stop_strings_stopped(const arenite_stop_strings* finder) {
  return object_in<const StopStrings>(finder).stopped();
}

arenite_status arenite_sampler_init(arenite_sampler* sampler,
                                    const arenite_sampler_options* options,
                                    arenite_diagnostic* why) {
  Diagnostic from;
  const auto created = Sampler::create(options_from(options), &from);
  return arenite::c::finish(created, from, why,
                            [&](const Sampler& value) { arenite::c::place(value, sampler); });
}

size_t arenite_sampler_candidates_needed(const arenite_sampler* sampler, size_t logits) {
  return object_in<const Sampler>(sampler).candidates_needed(logits);
}

arenite_status arenite_sampler_sample(arenite_sampler* sampler, const float* logits,
                                      size_t logits_count, const uint32_t* recent,
                                      size_t recent_count, arenite_candidate* scratch,
                                      size_t scratch_count, uint32_t* token,
                                      arenite_diagnostic* why) {
  Diagnostic from;
  const auto chosen = object_in<Sampler>(sampler).sample(
      {logits, logits_count}, {recent, recent_count},
      {reinterpret_cast<arenite::Candidate*>(scratch), scratch_count}, &from);
  return arenite::c::finish(chosen, from, why, [&](uint32_t value) { *token = value; });
}

uint64_t arenite_sampler_draws(const arenite_sampler* sampler) {
  return object_in<const Sampler>(sampler).draws();
}
void arenite_sampler_set_draws(arenite_sampler* sampler, uint64_t draws) {
  object_in<Sampler>(sampler).set_draws(draws);
}
