// SPDX-License-Identifier: Apache-2.0
// Notes for a person where a config and a tokenizer disagree about what begins and ends a text.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "convert/tokenizers/hf_object.h"
#include "convert/tokenizers/tokenizer_spec.h"

namespace arenite::convert {

// Holds what the files beside a tokenizer.json say against its post-processor, which decides:
// transformers 5 encodes with it, whatever the configs say.
class FrameCheck {
 public:
  // `spec` has the tokens of the post-processor, and gets the notes. It must outlive this.
  explicit FrameCheck(TokenizerSpec& spec);

  // A field of `config` names tokens that begin or end a text. Where the post-processor puts none
  // there, they merely have these names. A list of ends may hold others, too.
  void begin_is(const HfObject& config, std::string_view field, std::span<const TokenId> tokens);
  void end_is(const HfObject& config, std::string_view field, std::span<const TokenId> tokens);

  // "add_bos_token" and "add_eos_token", which may say that there is a token, or none.
  void check_additions(const HfObject& config);

 private:
  void check_place(const HfObject& config, std::string_view field, std::span<const TokenId> tokens,
                   const char* place, TokenId actual);
  void note(const HfObject& config, std::string_view field, const char* place, TokenId actual);

  TokenizerSpec& spec_;
  TokenId begin_, end_;
};

}  // namespace arenite::convert
