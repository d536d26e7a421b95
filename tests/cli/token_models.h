// SPDX-License-Identifier: Apache-2.0
// Small decoders and encoders in files, and the runtime's own results for them.
#pragma once

#include <string>
#include <vector>

#include "arenite/token.h"
#include "support/temp_folder.h"

namespace arenite::testing {

inline constexpr uint32_t kTokenContext = 70;  // positions of both models

// Without a tokenizer; its vocabulary has kPlainVocabulary tokens.
inline constexpr uint32_t kPlainVocabulary = 37;
std::string write_plain_decoder(const TempFolder& folder);

// With SentencePiece's <unk>, <s>, </s>, bytes from id kFirstByte on, and a few pieces.
inline constexpr TokenId kTextBos = 1;
inline constexpr TokenId kTextEnd = 2;
inline constexpr TokenId kFirstByte = 3;
std::string write_text_decoder(const TempFolder& folder);
// Writes the decoder without byte tokens: characters outside the pieces become <unk>.
std::string write_decoder_without_byte_tokens(const TempFolder& folder);

// Encoders over the words below; each has kEncoderContext positions. The first one gives a vector
// of kSentenceWidth numbers of length 1 for a text, the second one of three classes, the third one
// a label for each token, and the last one, of five features, one of three classes.
inline constexpr uint32_t kEncoderContext = 9;
inline constexpr uint32_t kSentenceWidth = 12;
std::string write_sentence_encoder(const TempFolder& folder);
std::string write_text_classifier(const TempFolder& folder);
std::string write_tagger(const TempFolder& folder);
std::string write_sensor_classifier(const TempFolder& folder);

// An encoder whose positions do not count token kUncounted, and which gives the mean.
inline constexpr TokenId kUncounted = 1;
std::string write_counting_encoder(const TempFolder& folder);

// 16 MB of weights, without a tokenizer.
std::string write_large_decoder(const TempFolder& folder);

// Logits of all tokens, in one call, on the best target here: [tokens, vocabulary].
std::vector<float> logits_of(const std::string& model, const std::vector<TokenId>& ids);

// The most probable continuation: `count` tokens.
std::vector<TokenId> greedy_after(const std::string& model, std::vector<TokenId> ids,
                                  uint32_t count);

// "1 2 3"
std::string spaced(const std::vector<TokenId>& ids);
// "1,2,3"
std::string listed(const std::vector<TokenId>& ids);

// An array of int64 ids in a .npy file of the folder; returns its path.
std::string write_ids(const TempFolder& folder, const std::string& shape,
                      const std::vector<int64_t>& ids);

}  // namespace arenite::testing
