// SPDX-License-Identifier: Apache-2.0
// Encodes one text or two with special tokens around them. The texts are encoded back to back in
// the output span, then truncated, then moved to their places.
//   out_ids, pair of BERT:   [CLS] first... [SEP] second... [SEP]
//
// Why encode_tokens_max is enough: a text of n bytes has at most 2 n tokens, and encoding a second
// one of m bytes needs 5 (m + 1) elements; together fewer than 5 (n + m) + 8. So are the tokens of
// both texts with at most eight tokens around them.
#include "text/encoder.h"

#include <algorithm>
#include <cstring>

#include "core/needs.h"

namespace arenite::text {
namespace {

// The number of tokens before, between and after the texts.
struct Frame {
  size_t begins = 0;
  size_t separators = 0;
  size_t ends = 0;

  size_t tokens() const { return begins + separators + ends; }
};

Frame frame_of(const format::TokenizerView& view, const Texts& texts,
               const EncodeOptions& options) {
  if (!options.add_bos_and_end) return {};
  Frame frame = {view.has(format::kAddBos) ? 1u : 0u, texts.is_pair ? view.pair_separators : 0u,
                 view.has(format::kAddEnd) ? 1u : 0u};
  if constexpr (linked(Need::kUnigram)) {
    if (frame.begins != 0 && !view.before.empty()) frame.begins = view.before.size();
    if (frame.ends != 0 && !view.after.empty()) frame.ends = view.after.size();
  }
  return frame;
}

Status check_call(const format::TokenizerView& view, const Texts& texts, const Frame& frame,
                  const EncodeOptions& options, std::span<TokenId> out_ids,
                  std::span<uint8_t> out_types, Diagnostic* why) {
  if (texts.is_pair && view.pair_separators == 0) {
    return refuse(why, Status::kUnsupported, "the tokenizer does not support pairs of texts",
                  "tokenizer.pair_separators");
  }
  if (!out_types.empty() && view.has(format::kOtherTypes)) {
    return refuse(why, Status::kUnsupported, "the tokenizer's types of tokens are not stored",
                  "out_types");
  }
  if (texts.first.size() > kTextBytesMax) {
    return refuse(why, Status::kInvalidArgument, "the text is too long to be encoded at once",
                  "text", 0, texts.first.size(), kTextBytesMax);
  }
  if (texts.second.size() > kTextBytesMax - texts.first.size()) {
    return refuse(why, Status::kInvalidArgument, "the texts are too long to be encoded at once",
                  "second", 0, texts.second.size(), kTextBytesMax - texts.first.size());
  }
  const size_t tokens_max = encode_tokens_max(texts.first.size() + texts.second.size());
  if (out_ids.size() < tokens_max) {
    return refuse(why, Status::kInvalidArgument, "the span is too small for this text", "out", 0,
                  out_ids.size(), tokens_max);
  }
  if (options.tokens_max != 0 && options.tokens_max < frame.tokens()) {
    return refuse(why, Status::kInvalidArgument, "tokens_max is below the tokens around a text",
                  "options.tokens_max", 0, options.tokens_max, frame.tokens());
  }
  const size_t types_max = options.tokens_max != 0 ? options.tokens_max : tokens_max;
  if (!out_types.empty() && out_types.size() < types_max) {
    return refuse(why, Status::kInvalidArgument,
                  "the span is too small for the types of all tokens", "out_types", 0,
                  out_types.size(), types_max);
  }
  return Status::kOk;
}

// Reduces two lengths so that their sum is at most `tokens`: the longer one down to the shorter,
// then both equally. If both are truncated and `tokens` is odd, the longer text keeps one more
// token, or the second one of equally long texts, as in Hugging Face's tokenizers.
void share(size_t tokens, size_t& first, size_t& second) {
  size_t& shorter = first <= second ? first : second;
  size_t& longer = first <= second ? second : first;
  shorter = std::min(shorter, tokens / 2);
  longer = std::min(longer, tokens - shorter);
}

void put_around(TokenId* place, TokenId one, std::span<const uint32_t> several) {
  *place = one;
  if constexpr (linked(Need::kUnigram)) std::ranges::copy(several, place);
}

}  // namespace

Result<size_t> encode_framed(const format::TokenizerView& view, const Texts& texts,
                             const EncodeOptions& options, std::span<TokenId> out_ids,
                             std::span<uint8_t> out_types, Diagnostic* why) {
  const Frame frame = frame_of(view, texts, options);
  const Status status = check_call(view, texts, frame, options, out_ids, out_types, why);
  if (status != Status::kOk) return status;

  size_t counts[2] = {};
  for (const bool is_second : {false, true}) {
    const Result<size_t> count =
        Encoder(view, is_second ? texts.second : texts.first, out_ids.subspan(counts[0]))
            .run(options.read_specials, is_second ? Message("second") : Message("text"), why);
    if (!count.ok()) return count.status();
    counts[is_second] = *count;
  }
  size_t first_count = counts[0];
  size_t second_count = counts[1];
  if (options.tokens_max != 0) {
    share(options.tokens_max - frame.tokens(), first_count, second_count);
  }
  TokenId* const first = out_ids.data() + frame.begins;
  TokenId* const second = first + first_count + frame.separators;
  std::memmove(second, out_ids.data() + counts[0], second_count * sizeof(TokenId));
  std::memmove(first, out_ids.data(), first_count * sizeof(TokenId));
  std::fill(first + first_count, second, frame.separators != 0 ? view.ends.front() : kNoToken);
  if (frame.begins != 0) put_around(out_ids.data(), view.bos, view.before);
  if (frame.ends != 0) put_around(second + second_count, view.ends.front(), view.after);
  const size_t count = frame.tokens() + first_count + second_count;

  if (!out_types.empty()) {
    const size_t boundary = static_cast<size_t>(second - out_ids.data());
    for (size_t i = 0; i < count; ++i) {
      out_types[i] = view.has(format::kSecondHasType1) && i >= boundary ? 1 : 0;
    }
  }
  return count;
}

}  // namespace arenite::text
