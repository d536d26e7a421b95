// SPDX-License-Identifier: Apache-2.0
// Converts text to tokens and back and samples the next token, in C99. The same code serves
// tokenizer.h, text_stream.h and sampler.h; arenite.h says what holds for all calls.
//
//     arenite_tokenizer_encode(&tokenizer, "I am", 4, NULL, ids, ids_size, &count, &why);
//     arenite_sampler_sample(&sampler, logits, vocab, ids, count, NULL, 0, &token, &why);
//     arenite_text_parts parts = arenite_text_stream_next(&stream, token);
//
#pragma once

#include "arenite/arenite.h"

#ifdef __cplusplus
extern "C" {
#endif

// The id that stands for no token.
#define ARENITE_NO_TOKEN UINT32_MAX

// A view of text, not terminated. Texts that calls return are never null.
typedef struct arenite_text {
  const char* data;  // UTF-8, if the text is
  size_t bytes;      // length in bytes
} arenite_text;

// ---- Text to tokens ----

// Options of encode and encode_pair. Initialize them with ARENITE_ENCODE_OPTIONS_INIT.
typedef struct arenite_encode_options {
  bool add_bos_and_end;  // adds the model's begin and end tokens around the text
  bool read_specials;    // reads names of special tokens as these tokens; only for trusted text
  size_t tokens_max;     // the most tokens to return, the rest is cut off; 0: no limit
} arenite_encode_options;
// Initializes options to tokens around the text, no names of special tokens, and no limit.
#define ARENITE_ENCODE_OPTIONS_INIT \
  { true, false, 0 }

// Longest text that can be encoded at once, in bytes; for a pair, both texts together.
#define ARENITE_TEXT_BYTES_MAX ((size_t)1 << 29)

// Returns the number of ids that the output of encode must have room for, for any text.
#define ARENITE_ENCODE_TOKENS_MAX(text_bytes) (5 * (size_t)(text_bytes) + 8)

// A view of the tokenizer in a model file. With ARENITE_TOKENIZER_INIT, which holds none, encode
// fails and no other function may be called.
typedef struct arenite_tokenizer {
  uint64_t opaque[2];  // the C++ object
} arenite_tokenizer;
// Initializes a view that holds no tokenizer.
#define ARENITE_TOKENIZER_INIT \
  {                            \
    { 0 }                      \
  }

// Makes a view of the tokenizer. The bytes of the model must outlive the view. Fails with
// ARENITE_UNSUPPORTED if the file has no tokenizer, and with ARENITE_INVALID_ARGUMENT if there is
// no model. Any number of threads may use a view.
ARENITE_NODISCARD arenite_status arenite_tokenizer_init(arenite_tokenizer* tokenizer,
                                                        const arenite_model* model,
                                                        arenite_diagnostic* why);

uint32_t arenite_tokenizer_vocab_size(const arenite_tokenizer* tokenizer);  // ids are below it
uint32_t arenite_tokenizer_bos(const arenite_tokenizer* tokenizer);         // or ARENITE_NO_TOKEN
uint32_t arenite_tokenizer_end(const arenite_tokenizer* tokenizer);         // or ARENITE_NO_TOKEN
// Returns whether a token ends a text; models may have several such tokens.
bool arenite_tokenizer_is_end(const arenite_tokenizer* tokenizer, uint32_t id);
// Returns whether a token has a name and adds no text.
bool arenite_tokenizer_is_special(const arenite_tokenizer* tokenizer, uint32_t id);
// Returns whether the caller should normalize text to NFC; encode does not.
bool arenite_tokenizer_expects_nfc(const arenite_tokenizer* tokenizer);
// Returns the id of a special token, or ARENITE_NO_TOKEN if none has this name.
uint32_t arenite_tokenizer_find_special(const arenite_tokenizer* tokenizer, const char* name,
                                        size_t name_bytes);

// Returns the text of a token, which may be a part of a character. A view of the model's bytes;
// empty for ids outside the vocabulary.
arenite_text arenite_tokenizer_token_bytes(const arenite_tokenizer* tokenizer, uint32_t id);

// Writes the tokens of a text to the front of `out` and their number to `count`; the rest of `out`
// is work space. `options` may be null. Fails with ARENITE_INVALID_ARGUMENT if `out_size` is less
// than ARENITE_ENCODE_TOKENS_MAX(text_bytes), if tokens_max is less than the number of tokens
// around a text, or if the vocabulary has no token for a part of the text (why->index is the byte,
// why->found the code point). Then `out` is undefined.
ARENITE_NODISCARD arenite_status arenite_tokenizer_encode(const arenite_tokenizer* tokenizer,
                                                          const char* text, size_t text_bytes,
                                                          const arenite_encode_options* options,
                                                          uint32_t* out, size_t out_size,
                                                          size_t* count, arenite_diagnostic* why);

// Encodes a pair of texts, with the model's tokens around and between them. `out_types`, unless
// null, gets the type of each token. Fails as encode does, if `out_ids_size` is less than
// ARENITE_ENCODE_TOKENS_MAX of both texts together, or if `out_types_size` is less than
// options->tokens_max or, where that is 0, than the minimum of out_ids_size; and with
// ARENITE_UNSUPPORTED if the tokenizer does not define the tokens between two texts.
ARENITE_NODISCARD arenite_status arenite_tokenizer_encode_pair(
    const arenite_tokenizer* tokenizer, const char* text, size_t text_bytes, const char* second,
    size_t second_bytes, const arenite_encode_options* options, uint32_t* out_ids,
    size_t out_ids_size, uint8_t* out_types, size_t out_types_size, size_t* count,
    arenite_diagnostic* why);

// ---- Tokens to text ----

// Options of a text stream. Initialize them with ARENITE_DECODE_OPTIONS_INIT.
typedef struct arenite_decode_options {
  bool keep_specials;    // also return the names of special tokens
  bool is_continuation;  // the tokens continue others, e.g. those of a prompt
} arenite_decode_options;
// Initializes options to a text of its own, without special tokens.
#define ARENITE_DECODE_OPTIONS_INIT \
  { false, false }

// One text in two consecutive parts; either may be empty.
typedef struct arenite_text_parts {
  arenite_text head;  // in the stream, valid until its next call
  arenite_text tail;  // in the model
} arenite_text_parts;

// Turns tokens into text as they come. Returns whole characters only; bytes that are not UTF-8 pass
// unchanged. The bytes of the model must outlive it.
typedef struct arenite_text_stream {
  uint64_t opaque[5];  // the C++ object
} arenite_text_stream;

// Begins a text. Copies the view and the options; `options` may be null.
void arenite_text_stream_init(arenite_text_stream* stream, const arenite_tokenizer* tokenizer,
                              const arenite_decode_options* options);

// Returns the text that this token completes. An id outside the vocabulary adds nothing.
arenite_text_parts arenite_text_stream_next(arenite_text_stream* stream, uint32_t id);

// Returns the bytes of an incomplete character and resets the stream.
arenite_text_parts arenite_text_stream_finish(arenite_text_stream* stream);

// Ends a text before the first occurrence of a stop string, at any byte of any token. Text that may
// be the beginning of a stop string is held back until this is decided. The text may be passed in
// pieces of any size, e.g. the parts from a text stream.
typedef struct arenite_stop_strings {
  uint64_t opaque[6];  // the C++ object
} arenite_stop_strings;

// Returns the bytes of work space for these stop strings.
size_t arenite_stop_strings_bytes_needed(const arenite_text* stops, size_t stops_count);

// Begins a text. `space` and the texts that `stops` view must outlive `finder`. Empty stop strings
// are ignored. REQUIRES: space_bytes >= arenite_stop_strings_bytes_needed(stops, stops_count).
void arenite_stop_strings_init(arenite_stop_strings* finder, const arenite_text* stops,
                               size_t stops_count, char* space, size_t space_bytes);

// Returns the text that may be shown: head lies in the work space and is valid until the next call,
// tail lies in `text`. Returns no text after a stop string.
arenite_text_parts arenite_stop_strings_next(arenite_stop_strings* finder, const char* text,
                                             size_t text_bytes);
// Returns the text that is still held back when the text ends without a stop string; resets
// `finder`.
arenite_text arenite_stop_strings_finish(arenite_stop_strings* finder);
// Returns whether a stop string has ended the text.
bool arenite_stop_strings_stopped(const arenite_stop_strings* finder);

// ---- The next token ----

// The steps are applied in this order; ARENITE_SAMPLER_OPTIONS_INIT disables all of them.
typedef struct arenite_sampler_options {
  float repetition_penalty;  // divides logits of recent tokens; above 0
  float temperature;         // divides logits; 0 picks the largest and ignores the options below
  uint32_t top_k;            // keeps the k most probable tokens; 0: all
  float top_p;               // keeps the most probable tokens up to this sum; above 0, at most 1
  float min_p;    // keeps tokens at least this many times as probable as the best; 0 to 1
  uint64_t seed;  // equal seeds pick equal tokens, on every platform
} arenite_sampler_options;
// Initializes options of a sampler that picks the largest logit.
#define ARENITE_SAMPLER_OPTIONS_INIT \
  { 1.0f, 0.0f, 0, 1.0f, 0.0f, 0 }

// An element of the work space of arenite_sampler_sample.
typedef struct arenite_candidate {
  float weight;  // a logit, then exp((logit - largest logit) / temperature)
  uint32_t id;   // index of the logit
} arenite_candidate;

// Samples tokens. A copy continues from the same state. At most one thread at a time may sample.
typedef struct arenite_sampler {
  uint64_t opaque[5];  // the C++ object
} arenite_sampler;

// Makes a sampler; `options` may be null: greedy. Fails with ARENITE_INVALID_ARGUMENT for options
// out of range.
ARENITE_NODISCARD arenite_status arenite_sampler_init(arenite_sampler* sampler,
                                                      const arenite_sampler_options* options,
                                                      arenite_diagnostic* why);

// Returns the elements of work space that sample needs: 0 if greedy, top_k if set, else one per
// logit.
size_t arenite_sampler_candidates_needed(const arenite_sampler* sampler, size_t logits);

// Writes one token to `token`. `recent` lists the tokens that the repetition penalty applies to; it
// may be null if recent_count is 0. `scratch` is work space; it may be null if scratch_count is 0.
// Fails with ARENITE_INVALID_ARGUMENT if a logit is NaN or +infinity, if all are -infinity or there
// are none, if an id in `recent` has no logit, or if the work space is too small.
ARENITE_NODISCARD arenite_status arenite_sampler_sample(arenite_sampler* sampler,
                                                        const float* logits, size_t logits_count,
                                                        const uint32_t* recent, size_t recent_count,
                                                        arenite_candidate* scratch,
                                                        size_t scratch_count, uint32_t* token,
                                                        arenite_diagnostic* why);

// Returns the number of random numbers drawn so far: one per token, none if greedy.
uint64_t arenite_sampler_draws(const arenite_sampler* sampler);
// Moves the generator back or forward in O(1).
void arenite_sampler_set_draws(arenite_sampler* sampler, uint64_t draws);

#ifdef __cplusplus
}
#endif
