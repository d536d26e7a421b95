// SPDX-License-Identifier: Apache-2.0
// Text for programs in C99: a model's tokenizer, and the sampler that picks the next token. The
// same code serves tokenizer.h and sampler.h; arenite.h says what holds for all calls.
#pragma once

#include "arenite/arenite.h"

#ifdef __cplusplus
extern "C" {
#endif

// The number of a token in the vocabulary of a model where there is none.
#define ARENITE_NO_TOKEN UINT32_MAX

// Bytes of text, not terminated; a view. What calls give out is never null.
typedef struct arenite_text {
  const char* data;
  size_t bytes;
} arenite_text;

// ---- Text to tokens ----

typedef struct arenite_encode_options {
  bool add_bos_and_end;  // the tokens around a text that the model was trained with
  bool read_specials;    // names of special tokens are these tokens: for text you wrote yourself
  size_t tokens_max;     // the most tokens that may come out; 0: as many as there are
} arenite_encode_options;
#define ARENITE_ENCODE_OPTIONS_INIT \
  { true, false, 0 }

// Longest text that can be encoded at once.
#define ARENITE_TEXT_BYTES_MAX ((size_t)1 << 29)

// The number of ids that must fit where encode writes, however the text looks.
#define ARENITE_ENCODE_TOKENS_MAX(text_bytes) (5 * (size_t)(text_bytes) + 8)

// A view of the tokenizer in a model file. ARENITE_TOKENIZER_INIT is none yet: encode refuses it,
// and no other function may be called with it.
typedef struct arenite_tokenizer {
  uint64_t opaque[2];
} arenite_tokenizer;
#define ARENITE_TOKENIZER_INIT \
  {                            \
    { 0 }                      \
  }

// The bytes of the model must outlive it. Fails with ARENITE_UNSUPPORTED if the file has none.
ARENITE_NODISCARD arenite_status arenite_tokenizer_init(arenite_tokenizer* tokenizer,
                                                        const arenite_model* model,
                                                        arenite_diagnostic* why);

uint32_t arenite_tokenizer_vocab_size(const arenite_tokenizer* tokenizer);  // ids are below it
uint32_t arenite_tokenizer_bos(const arenite_tokenizer* tokenizer);         // or ARENITE_NO_TOKEN
uint32_t arenite_tokenizer_end(const arenite_tokenizer* tokenizer);         // or ARENITE_NO_TOKEN
bool arenite_tokenizer_is_end(const arenite_tokenizer* tokenizer, uint32_t id);
bool arenite_tokenizer_is_special(const arenite_tokenizer* tokenizer, uint32_t id);
// Whether the caller should bring text into Unicode's normalization form C; encoding does not.
bool arenite_tokenizer_expects_nfc(const arenite_tokenizer* tokenizer);
// ARENITE_NO_TOKEN if no special token has this name.
uint32_t arenite_tokenizer_find_special(const arenite_tokenizer* tokenizer, const char* name,
                                        size_t name_bytes);

// What a token stands for, not always whole characters. A view of the model's bytes; empty for an
// id that is not below the vocabulary's size.
arenite_text arenite_tokenizer_token_bytes(const arenite_tokenizer* tokenizer, uint32_t id);

// Writes the tokens of a text to the front of `out` and their number to `count`; the rest of `out`
// is work space. `options` may be null.
// Fails with ARENITE_INVALID_ARGUMENT if `out_size` is less than ARENITE_ENCODE_TOKENS_MAX of the
// text, if tokens_max is less than the tokens around it, or if the vocabulary has no token for
// something in it (why->index: at which byte; why->found: the code point). What `out` holds is
// then undefined.
ARENITE_NODISCARD arenite_status arenite_tokenizer_encode(const arenite_tokenizer* tokenizer,
                                                          const char* text, size_t text_bytes,
                                                          const arenite_encode_options* options,
                                                          uint32_t* out, size_t out_size,
                                                          size_t* count, arenite_diagnostic* why);

// The same for two texts that belong together, with what goes around and between them. `out_types`,
// unless it is null, gets the type of each token.
// Fails as encode, for `out_ids` of less than ARENITE_ENCODE_TOKENS_MAX of both texts together and
// `out_types` of less than that or, where it is not 0, than options->tokens_max; and with
// ARENITE_UNSUPPORTED if the tokenizer does not say what goes between two texts.
ARENITE_NODISCARD arenite_status arenite_tokenizer_encode_pair(
    const arenite_tokenizer* tokenizer, const char* text, size_t text_bytes, const char* second,
    size_t second_bytes, const arenite_encode_options* options, uint32_t* out_ids,
    size_t out_ids_size, uint8_t* out_types, size_t out_types_size, size_t* count,
    arenite_diagnostic* why);

// ---- Tokens to text ----

typedef struct arenite_decode_options {
  bool keep_specials;    // give out the names of special tokens, too
  bool is_continuation;  // the tokens go on where others ended, such as a prompt's
} arenite_decode_options;
#define ARENITE_DECODE_OPTIONS_INIT \
  { false, false }

// One text in two parts, of which either may be empty.
typedef struct arenite_text_parts {
  arenite_text head;  // in the stream, valid until its next call
  arenite_text tail;  // in the model
} arenite_text_parts;

// Turns tokens into text as they come: whole characters only, and bytes that are no UTF-8 as they
// are.
typedef struct arenite_text_stream {
  uint64_t opaque[5];
} arenite_text_stream;

// `options` may be null.
void arenite_text_stream_init(arenite_text_stream* stream, const arenite_tokenizer* tokenizer,
                              const arenite_decode_options* options);

// The text that this token completes. An id outside the vocabulary stands for nothing.
arenite_text_parts arenite_text_stream_next(arenite_text_stream* stream, uint32_t id);

// What is still held back. The stream is then as new.
arenite_text_parts arenite_text_stream_finish(arenite_text_stream* stream);

// Ends a text before the first of some stop strings, wherever tokens begin and end. Text that may
// be the beginning of one is held back until it is clear that it is not. What is passed may come in
// any pieces: the parts of a text stream one after the other, say.
typedef struct arenite_stop_strings {
  uint64_t opaque[6];
} arenite_stop_strings;

// Bytes of work space that these stop strings need.
size_t arenite_stop_strings_bytes_needed(const arenite_text* stops, size_t stops_count);

// What the texts of `stops` view, and `space`, must outlive it. Empty stop strings stop nothing.
// REQUIRES: space_bytes >= arenite_stop_strings_bytes_needed(stops, stops_count).
void arenite_stop_strings_init(arenite_stop_strings* finder, const arenite_text* stops,
                               size_t stops_count, char* space, size_t space_bytes);

// The text that may be shown now: head in the work space, valid until the next call, and tail in
// the text that was passed. Once it has stopped, there is none.
arenite_text_parts arenite_stop_strings_next(arenite_stop_strings* finder, const char* text,
                                             size_t text_bytes);
// What is still held back, where the text ends without a stop string. It is then as new.
arenite_text arenite_stop_strings_finish(arenite_stop_strings* finder);
// Whether a stop string is complete.
bool arenite_stop_strings_stopped(const arenite_stop_strings* finder);

// ---- The next token ----

// The steps are taken in this order; the values of ARENITE_SAMPLER_OPTIONS_INIT switch them off.
typedef struct arenite_sampler_options {
  float repetition_penalty;  // divides logits of recent tokens; above 0
  float temperature;         // divides logits; 0 takes the largest, and nothing below is looked at
  uint32_t top_k;            // keeps the k most probable tokens; 0: all
  float top_p;               // keeps the most probable ones up to this sum; above 0, at most 1
  float min_p;               // keeps those at least this many times as probable as the best; 0 to 1
  uint64_t seed;             // the same seed picks the same tokens, on every platform
} arenite_sampler_options;
#define ARENITE_SAMPLER_OPTIONS_INIT \
  { 1.0f, 0.0f, 0, 1.0f, 0.0f, 0 }

// An entry of the sampler's work space.
typedef struct arenite_candidate {
  float weight;
  uint32_t id;
} arenite_candidate;

typedef struct arenite_sampler {
  uint64_t opaque[5];
} arenite_sampler;

// `options` may be null: greedy. Fails with ARENITE_INVALID_ARGUMENT for options out of range.
ARENITE_NODISCARD arenite_status arenite_sampler_init(arenite_sampler* sampler,
                                                      const arenite_sampler_options* options,
                                                      arenite_diagnostic* why);

// Entries of work space that sample needs: none if greedy, top_k if set, else one for each logit.
size_t arenite_sampler_candidates_needed(const arenite_sampler* sampler, size_t logits);

// One token. `recent`, null where recent_count is 0, are those that the repetition penalty is for;
// `scratch`, null where scratch_count is 0, is work space.
// Fails with ARENITE_INVALID_ARGUMENT if a logit is NaN or +infinity, or all are -infinity, or the
// work space is too small.
ARENITE_NODISCARD arenite_status arenite_sampler_sample(arenite_sampler* sampler,
                                                        const float* logits, size_t logits_count,
                                                        const uint32_t* recent, size_t recent_count,
                                                        arenite_candidate* scratch,
                                                        size_t scratch_count, uint32_t* token,
                                                        arenite_diagnostic* why);

// The number of random numbers drawn so far. Setting it goes back, or ahead, at once.
uint64_t arenite_sampler_draws(const arenite_sampler* sampler);
void arenite_sampler_set_draws(arenite_sampler* sampler, uint64_t draws);

#ifdef __cplusplus
}
#endif
