// SPDX-License-Identifier: Apache-2.0
// The first two bytes determine the file format; the kind of model determines which files may
// belong to it.
#include "convert/tokenizers/tokenizer_source.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "convert/files/error.h"
#include "convert/files/input_limits.h"
#include "convert/files/json_file.h"
#include "convert/files/memory.h"
#include "convert/tokenizers/tokenizer_readers.h"
#include "convert/tokenizers/tokenizer_spec.h"
#include "format/tokenizer_reader.h"

namespace arenite::convert {
namespace {

namespace fs = std::filesystem;

TokenizerSpec read_json_tokenizer(const fs::path& file) {
  const bool has_model = read_json_object(file).contains("model");
  TokenizerSpec spec = has_model ? read_hf_tokenizer_json(file) : read_vocab_json(file);
  if (spec.kind == format::TokenizerKind::kWordPiece) {
    check_bert_config(spec, file.parent_path());
  } else if (spec.kind != format::TokenizerKind::kCharacters) {
    apply_hf_config(spec, file.parent_path(),
                    has_model ? AroundText::kTokenizerSays : AroundText::kConfigsSay);
  }
  return spec;
}

// Some classes give the file's pieces other ids, or change texts before; T5's end each text.
void apply_class(TokenizerSpec& spec, const fs::path& folder) {
  constexpr std::string_view kOthers[] = {
      "Albert",      "Barthez",     "Camembert", "LayoutXLM",  "M2M100",  "MBart",
      "MLuke",       "Marian",      "Nllb",      "PLBart",     "Pegasus", "RemBert",
      "SeamlessM4T", "Speech2Text", "XGLM",      "XLMRoberta", "XLNet"};
  const HfObject config(folder / "tokenizer_config.json", true);
  if (!config.has("tokenizer_class")) return;
  const std::string name = config.text("tokenizer_class");
  if (std::ranges::any_of(kOthers, [&](auto other) { return name.starts_with(other); })) {
    config.refuse(
        "tokenizer_class",
        "one that takes texts and ids as the file says; for others save a tokenizer.json");
  }
  if ((name.starts_with("T5") || name.starts_with("MT5")) && !spec.ends.empty()) {
    spec.flags = (spec.flags & ~uint32_t{format::kAddBos}) | format::kAddEnd;
  }
}

// Reads the first of the files that exists in the folder.
std::optional<TokenizerSpec> find_among(const fs::path& folder,
                                        std::span<const char* const> names) {
  for (const char* name : names) {
    if (is_there(folder / name)) return read_tokenizer(folder / name);
  }
  return std::nullopt;
}

TokenizerSpec read_chosen(const fs::path& chosen) {
  if (!fs::is_directory(chosen)) return read_tokenizer(chosen);
  std::optional<TokenizerSpec> found = find_among(chosen, kEncoderTokenizers);
  if (found) return *std::move(found);
  throw InputError(
      "{} has no tokenizer: expected tokenizer.json, vocab.txt, tokenizer.model or vocab.json in "
      "the folder, or the name of a file",
      quote(chosen.string()));
}

// A tokenizer that was not requested must not keep a model from being converted.
template <typename Action>
std::optional<TokenizerSpec> with_advice(const Action& find) {
  try {
    return find();
  } catch (const InputError& error) {
    throw InputError("{} (choose another with --tokenizer FILE, or none with --tokenizer {})",
                     error.what(), kNoTokenizer);
  }
}

// Ids without a token name padding rows, or are left over from another model's config.
void add_model_tokens(const TokenizerPlace& model, TokenizerSpec& spec) {
  const auto is_token = [&](uint32_t id) { return id < spec.tokens.size(); };
  if (spec.bos == kNoToken && model.bos_id && is_token(*model.bos_id)) spec.bos = *model.bos_id;
  if (!spec.ends.empty()) return;
  std::copy_if(model.eos_ids.begin(), model.eos_ids.end(), std::back_inserter(spec.ends), is_token);
}

void ask_for_lower_case(TokenizerSpec& spec) {
  const bool can_lower = spec.splits.empty() || spec.word_rules.lowers_case;
  refuse_if(spec.kind != format::TokenizerKind::kWordPiece || !can_lower,
            "{}: the model expects lower case (do_lower_case), which only BERT's normalizer "
            "applies: set the field to false, and pass texts in lower case",
            quote(spec.origin));
  spec.word_rules.lowers_case = true;
}

}  // namespace

TokenizerFile::TokenizerFile(const std::filesystem::path& file)
    : map_(file, kVocabularyBytesMax), name_(quote(file.string())) {}

void check_token(const std::string& name, size_t index, std::string_view token) {
  refuse_if(index >= format::kVocabularyMax,
            "{} has more than {} tokens: a model file holds at most as many", name,
            format::kVocabularyMax);
  if (token.size() > format::kTokenBytesMax) {
    throw InputError("{}: token {} ({}) has {} bytes: a model file holds at most {}", name, index,
                     quote(token), token.size(), format::kTokenBytesMax);
  }
}

void check_merge_count(const std::string& name, size_t count) {
  refuse_if(count > format::kMergesMax,
            "{}: more than {} merges: a model file holds at most as many", name,
            format::kMergesMax);
}

TokenizerSpec read_tokenizer(const fs::path& file) {
  if (file.extension() == ".txt") return read_vocab_txt(file);
  const FileMap map(file);
  refuse_if(map.bytes().size() < 2, "{} is too short for a tokenizer file", quote(file.string()));
  const auto first = std::to_integer<unsigned>(map.bytes()[0]);
  const auto second = std::to_integer<unsigned>(map.bytes()[1]);
  if (first == '{' && second != 0) return read_json_tokenizer(file);
  if (first == 0x80 && second >= 2 && second <= 5) return read_character_pickle(file);
  if (first == 0x0A && second != 0) {  // the first field of a message: a piece, not empty
    TokenizerSpec spec = read_sentencepiece_model(file);
    apply_class(spec, file.parent_path());
    apply_hf_config(spec, file.parent_path(), AroundText::kConfigsSay);
    return spec;
  }
  return read_llama2c_tokenizer(file);  // it begins with a small number in four bytes
}

std::optional<TokenizerSpec> tokenizer_for(const TokenizerPlace& place, const fs::path& chosen) {
  if (chosen == kNoTokenizer) return std::nullopt;
  const auto fitted = [&](std::optional<TokenizerSpec> spec) {
    if (!spec) return spec;
    if (place.lowers_case) ask_for_lower_case(*spec);
    check_vocabulary(*spec, place.vocab_size);
    add_model_tokens(place, *spec);
    complete_tokenizer(*spec);
    return spec;
  };
  if (!chosen.empty()) return fitted(read_chosen(chosen));
  return with_advice([&] {
    std::optional<TokenizerSpec> own = place.own ? place.own() : std::nullopt;
    return fitted(own ? std::move(own) : find_among(place.folder, place.files));
  });
}

uint32_t check_vocabulary(const TokenizerSpec& spec, uint32_t vocab_size) {
  refuse_if(spec.tokens.size() > vocab_size,
            "{}: the tokenizer has {} tokens, more than the {} rows of the model's vocabulary: use "
            "the tokenizer that the model was trained with",
            quote(spec.origin), spec.tokens.size(), vocab_size);
  return vocab_size - static_cast<uint32_t>(spec.tokens.size());
}

}  // namespace arenite::convert
