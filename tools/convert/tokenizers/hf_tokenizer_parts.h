// SPDX-License-Identifier: Apache-2.0
// The parts of a tokenizer.json: each is understood on its own, or refused by name.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "convert/tokenizers/subwords.h"
#include "convert/tokenizers/tokenizer_spec.h"

namespace arenite::convert {

// An object of the file, and where it stands, such as "pre_tokenizer.pretokenizers[1]".
class HfObject {
 public:
  // Throws InputError unless `value` is an object.
  HfObject(const nlohmann::json& value, std::string file_name, std::string place);

  const std::string& file_name() const { return file_name_; }  // in quotes
  const std::string& place() const { return place_; }
  std::string type() const { return text("type"); }

  // Throws InputError for a field that is not among these.
  void expect_only(std::initializer_list<std::string_view> fields) const;

  bool has(std::string_view field) const;  // and it is not null
  const nlohmann::json& at(std::string_view field) const;
  std::string text(std::string_view field) const;
  bool flag(std::string_view field, bool otherwise) const;
  HfObject object(std::string_view field) const;

  // Throws InputError unless the field has this value, or is absent where that means the same.
  void expect(std::string_view field, const nlohmann::json& value, bool may_lack = false) const;

  // Says that `field` cannot be read as it is, and what is expected.
  [[noreturn]] void refuse(std::string_view field, std::string_view expected) const;

 private:
  const nlohmann::json& value_;
  std::string file_name_;
  std::string place_;
};

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

struct HfFrame {
  bool is_said = false;  // by a step that has been read
  TokenId begin = kNoToken;
  TokenId end = kNoToken;
  uint32_t pair_separators = 0;  // ends between two texts; 0: pairs are put together otherwise
  bool second_has_type1 = false;
};

// Reads TemplateProcessing, BertProcessing or RobertaProcessing, of which there may be one;
// ByteLevel changes nothing. A template for one text that is not understood is refused: InputError.
// One for a pair is not needed to encode a text, so that pairs are merely not taken.
void take_post_processor(HfFrame& frame, const HfObject& step, const std::string& file_name);

void apply_frame(TokenizerSpec& spec, const HfFrame& frame);

// Reads the model and the steps around it, but for the unknown and the added tokens, into a spec
// whose origin is set. What is not as BERT has it is refused by name: InputError.
void fill_hf_word_piece(TokenizerSpec& spec, const HfObject& root, const Vocabulary& vocabulary,
                        const std::string& file_name);

// Throws InputError where the folder's tokenizer_config.json says otherwise than the spec what is
// done to a text: transformers would follow the one, other programs the other. Where it names other
// tokens around a text, the spec gets notes.
void check_bert_config(TokenizerSpec& spec, const std::filesystem::path& folder);

// What the steps say, taken together.
struct HfPipeline {
  bool is_byte_level = false;      // the vocabulary is written in the alphabet of bytes
  bool replaces_spaces = false;    // ... or with U+2581 for a space
  bool has_byte_decoder = false;   // "<0x0A>" is decoded as a byte
  bool drops_first_space = false;  // by the decoder
  bool expects_nfc = false;
  format::Pattern pattern = format::Pattern::kNone;
  format::Prefix prefix = format::Prefix::kNever;
  bool prefix_every_part = false;
  HfFrame frame;
};

// Calls `take` for the step that a field of `root` holds, or for each step of a sequence, which
// lists them under `list_field`.
void for_each_step(const HfObject& root, const std::string& file_name, const char* field,
                   const char* list_field, const std::function<void(const HfObject& step)>& take);

// Reads normalizer, pre_tokenizer, decoder and post_processor of `root`. A step, a field of a step
// or a combination that is not understood is refused by name: InputError.
HfPipeline read_hf_pipeline(const nlohmann::json& root, const std::string& file_name);

}  // namespace arenite::convert
