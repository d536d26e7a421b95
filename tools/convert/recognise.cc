// SPDX-License-Identifier: Apache-2.0
// Recognises the model in a file or folder through a registry with a row per file format.
#include "convert/convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "convert/exported/sound/sound_program.h"
#include "convert/families/families.h"
#include "convert/files/error.h"
#include "convert/files/memory.h"
#include "convert/gguf/gguf_file.h"
#include "convert/modules/attention_modules.h"
#include "convert/open/exported_folder.h"

namespace arenite::convert {
namespace {

// Options may repeat what a decoder's config says, but not contradict it.
void check_options(const TransformerSpec& spec, const ModelOptions& options,
                   const std::string& where) {
  check_config_agrees(options, spec.heads, spec.activation, where);
  if (options.norm_first) {
    throw InputError(
        "{}: --norm-{}: the model's own config defines the whole computation of this model: drop "
        "the "
        "option",
        where, *options.norm_first ? "first" : "last");
  }
  refuse_options_of_state_dicts(options, where);
}

Recognised decoder(const Opened& model, const ModelOptions& options, TransformerSpec spec,
                   std::span<const char* const> tokenizers) {
  check_options(spec, options, model.where());
  return {.facts = std::move(spec), .tokenizer = {.folder = model.folder, .files = tokenizers}};
}

Recognised read_sentences(const Opened& model, const ModelOptions& options) {
  refuse_options_of_state_dicts(options, model.where());
  SentenceTransformers read = read_sentence_transformers(model, options);
  return {.facts = std::move(read.spec),
          .tokenizer = {.folder = std::move(read.tokenizer_folder),
                        .files = kEncoderTokenizers,
                        .lowers_case = read.lowers_case}};
}

Recognised read_gguf(const Opened& model, const ModelOptions& options) {
  Recognised read = decoder(model, options, read_gguf_decoder(*model.gguf, model.tensors), {});
  GgufTokenizer tokens = read_gguf_tokenizer(*model.gguf);
  if (tokens.tokens.empty()) return read;
  read.tokenizer.own = [tokens = std::move(tokens), origin = model.path.string()] {
    return understand_gguf_tokenizer(tokens, origin);
  };
  return read;
}

// Calls `read` on a transformers folder. A model that is unsupported as a folder may be supported
// as an exported program, so the error then says how to export it.
template <typename Read>
auto read_or_advise(const Opened& model, const Read& read) {
  try {
    return read();
  } catch (const UnsupportedError& error) {
    if (model.config->contains("quantization_config")) throw;  // PyTorch lacks the type, too
    throw UnsupportedError("{}\n{}", error.what(), export_advice(model.folder));
  }
}

Recognised read_encoder(const Opened& model, const ModelOptions& options) {
  refuse_options_of_state_dicts(options, model.where());
  return {.facts = read_or_advise(model, [&] { return read_hf_encoder(model, options); }),
          .tokenizer = {.folder = model.folder, .files = kEncoderTokenizers}};
}

Recognised read_decoder(const Opened& model, const ModelOptions& options) {
  return decoder(model, options, read_or_advise(model, [&] { return read_hf_decoder(model); }),
                 kDecoderTokenizers);
}

// The tokenizer is one file: older ones of these families need rules that no other file has.
Recognised read_encoder_decoder(const Opened& model, const ModelOptions& options) {
  static constexpr const char* kTokenizers[] = {"tokenizer.json"};
  constexpr const char* kSound = "preprocessor_config.json";
  EncoderDecoderSpec spec = read_or_advise(model, [&] { return read_hf_encoder_decoder(model); });
  check_options(spec.decoder, options, model.where());
  refuse_if(options.pooling.has_value(),
            "{}: --pooling is for encoders, and this is an encoder-decoder: drop the option",
            model.where());
  TokenizerPlace tokenizer = {
      .folder = model.folder, .files = kTokenizers, .eos_ids = spec.decoder.eos_ids};
  std::string sound;
  if (spec.encoder.input_features != 0 && is_there(model.folder / kSound)) {
    sound = (model.folder / kSound).string();
  }
  return {.facts = std::move(spec), .tokenizer = std::move(tokenizer), .sound = std::move(sound)};
}

Recognised read_program(const Opened& model, const ModelOptions& options) {
  TransformerSpec spec = read_state_dict(model, options);
  const std::span<const char* const> tokenizers =
      spec.is_decoder ? std::span<const char* const>(kStateDictTokenizers) : kEncoderTokenizers;
  Recognised read = {.facts = std::move(spec),
                     .tokenizer = {.folder = model.folder, .files = tokenizers}};
  read.tokenizer.own = [values = model.values, origin = model.path.string()] {
    return character_tokenizer_in(values, origin);
  };
  return read;
}

// A row of the registry. Rows are tried in order, so a row may rely on the earlier ones not
// matching.
struct Form {
  const char* name;
  bool (*has_sign)(const Opened& model);
  Recognised (*read)(const Opened& model, const ModelOptions& options);
};

// The fallback for files that match no other form; if its reader finds no module either, the error
// lists what is supported.
constexpr Form kModule = {"a state dict", [](const Opened&) { return true; },
                          [](const Opened& model, const ModelOptions& options) -> Recognised {
                            return {.facts = read_attention_module(model, options)};
                          }};

// An exported program is complete, so options about the model are refused.
Recognised read_exported_program(const Opened& model, const ModelOptions& options) {
  refuse_computation_options(options, model.where());
  const auto program = std::make_shared<const ExportedProgram>(
      read_exported(model.exported->bytes(), model.path.string()));
  const auto split = split_sound(*program, options.sound_rate);
  ExportedModel read =
      read_exported_model(split ? split->program : program, options, model.expected_inputs);
  if (split) {
    read.sound = split->sound;
    read.account.given.push_back(split->words);
  }
  return {.facts = std::move(read),
          .tokenizer = {.folder = model.folder, .files = kStateDictTokenizers}};
}

constexpr Form kForms[] = {
    {"torch.export", [](const Opened& model) { return model.exported != nullptr; },
     read_exported_program},
    {"sentence-transformers", is_sentence_transformers, read_sentences},
    {"GGUF", [](const Opened& model) { return model.gguf != nullptr; }, read_gguf},
    {"llama2.c", [](const Opened& model) { return model.llama2c.has_value(); },
     [](const Opened& model, const ModelOptions& options) {
       return decoder(model, options, read_llama2c(*model.llama2c, model.tensors),
                      kLlama2cTokenizers);
     }},
    {"Hugging Face", [](const Opened& model) { return is_encoder_type(model.model_type()); },
     read_encoder},
    {"Hugging Face",
     [](const Opened& model) { return is_encoder_decoder_type(model.model_type()); },
     read_encoder_decoder},
    {"Hugging Face", [](const Opened& model) { return !model.model_type().empty(); }, read_decoder},
    {"a state dict", [](const Opened& model) { return is_state_dict(model.tensors); },
     read_program},
    // A folder that reaches this row lacks the model_type that its config should have.
    {"Hugging Face",
     [](const Opened& model) {
       return model.config && (model.is_folder() || model.path.extension() == ".json");
     },
     read_decoder},
    kModule,
};

const Form& form_of(const Opened& model, const ModelOptions& options) {
  if (options.has_module_options() && !model.exported) return kModule;
  return *std::ranges::find_if(kForms, [&](const Form& form) { return form.has_sign(model); });
}

}  // namespace

Recognised recognise(const Opened& model, const ModelOptions& options) {
  const Form& form = form_of(model, options);
  Recognised read = form.read(model, options);
  read.form = form.name;
  if (auto* spec = std::get_if<TransformerSpec>(&read.facts)) {
    refuse_if((spec->is_decoder || form.read == read_decoder) && options.pooling,
              "{}: --pooling is for encoders, and this is a decoder: drop the option",
              model.where());
    read.tokenizer.bos_id = spec->bos_id;
    read.tokenizer.eos_ids = spec->eos_ids;
  }
  std::visit([&](auto& facts) { read.account = std::move(facts.account); }, read.facts);
  if (model.has_adapter) {
    read.account.assumed.emplace_back(
        "the adapter in the folder (adapter_config.json) is not applied: to have it in the "
        "model, merge it first with peft's merge_and_unload");
  }
  refuse_if(!options.output_indices.empty() && !model.exported,
            "{}: --output-index is for exported programs: drop the option", model.where());
  refuse_if(options.any_length && !model.exported,
            "{}: --any-length is for exported programs with fixed sizes: drop the option",
            model.where());
  read.graph = std::visit([](const auto& facts) { return build_graph(facts); }, read.facts);
  for (const GraphInput& input : read.graph.inputs) {
    uint32_t& least = read.tokenizer.vocab_size;
    if (input.vocab_size == 0) continue;
    least = least == 0 ? input.vocab_size : std::min(least, input.vocab_size);
  }
  return read;
}

}  // namespace arenite::convert
