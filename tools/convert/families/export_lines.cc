// SPDX-License-Identifier: Apache-2.0
// Suggests torch.export for transformers models of an unknown type or class: the exported program
// contains the whole computation.
#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "convert/families/families.h"
#include "convert/files/error.h"
#include "convert/tokenizers/tokenizer_source.h"

namespace arenite::convert {
namespace {

using nlohmann::json;

constexpr uint32_t kExampleTokens = 16;
constexpr uint32_t kTokensMax = 512;  // the program is computed at this length, too

// The Python expression of the exported program's result, where `{0}` is the call of the model.
struct Result {
  std::string_view class_ending;
  const char* expression;
  const char* options;  // of the conversion
};
constexpr Result kResults[] = {
    {"ForQuestionAnswering", "self.model({}, return_dict=False)[:2]", " --output-index 0,1"},
    {"ForMultipleChoice", "self.model({}[:, None], return_dict=False)[0]", ""},
    {"", "self.model({}, return_dict=False)[0]", ""},
};
// In the class itself, the last token depends on ids; here all tokens count.
constexpr Result kLastToken = {
    "", "self.model.score(self.model.base_model({}, return_dict=False)[0][:, -1])", ""};
constexpr Result kEncoderAlone = {"", "self.model.get_encoder()({}, return_dict=False)[0]", ""};

constexpr const char* kPositionFields[] = {"max_position_embeddings", "n_positions", "max_seq_len",
                                           "max_sequence_length",     "seq_length",  "n_ctx"};

std::optional<uint32_t> number_in(const json& config, const char* field) {
  const auto found = config.find(field);
  if (found == config.end() || !found->is_number_unsigned()) return std::nullopt;
  return static_cast<uint32_t>(std::min<uint64_t>(found->get<uint64_t>(), kSideMax));
}

// The Python class, and what loading it needs besides.
struct Class {
  std::string name;
  std::string arguments;
};

Class class_of(const json& config) {
  Class found{"AutoModel", ""};
  const auto names = config.find("architectures");
  if (names == config.end() || !names->is_array() || names->empty() || !(*names)[0].is_string()) {
    return found;
  }
  const std::string name = (*names)[0].get<std::string>();
  const auto is_word = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
  if (name.empty() || !std::ranges::all_of(name, is_word)) return found;
  found.name = name;
  const auto code = config.find("auto_map");  // the folder has Python of its own
  if (code == config.end() || !code->is_object()) return found;
  for (const auto& [automatic, place] : code->items()) {
    if (place.is_string() && place.get<std::string>().ends_with("." + found.name)) {
      return {automatic, ", trust_remote_code=True"};
    }
  }
  return found;
}

const Result& result_of(const Opened& model, const Class& loaded) {
  if (model.config->value("is_encoder_decoder", json()) == json(true)) return kEncoderAlone;
  if (loaded.name.ends_with("ForSequenceClassification") &&
      model.tensors.find("score.weight") != nullptr) {
    return kLastToken;
  }
  return *std::ranges::find_if(
      kResults, [&](const Result& result) { return loaded.name.ends_with(result.class_ending); });
}

// The Python expression of an example input, and the lengths that it may have.
struct Example {
  const char* name;
  std::string value;
  std::string shapes;  // empty: always this shape
};

// Returns nullopt if the config does not say what the model's inputs are.
std::optional<Example> example_of(const json& config) {
  const auto size = config.find("image_size");  // BEiT's config has a vocabulary, too
  const bool is_image =
      size != config.end() && (size->is_number_unsigned() || (size->is_array() && !size->empty()));
  if (is_image) {
    const json height = size->is_array() ? size->at(0) : *size;
    const json width = size->is_array() ? size->back() : *size;
    return Example{
        "pixel_values",
        fmt::format("torch.zeros(1, {}, {}, {})", number_in(config, "num_channels").value_or(3),
                    height.dump(), width.dump()),
        ""};
  }
  if (const std::optional<uint32_t> tokens = number_in(config, "vocab_size")) {
    uint32_t longest = kTokensMax;
    for (const char* field : kPositionFields) {
      longest = std::min(longest, number_in(config, field).value_or(kTokensMax));
    }
    return Example{
        "input_ids",
        fmt::format("torch.arange({})[None]", std::min({kExampleTokens, longest, *tokens})),
        fmt::format("({{1: torch.export.Dim.AUTO(max={})}},)", longest)};
  }
  return std::nullopt;
}

// Quotes a path for both Python and a shell, unless the name has quotes itself.
std::string quoted_path(const std::filesystem::path& path) {
  return json(path.string()).dump(-1, ' ', false, json::error_handler_t::replace);
}

// Returns " --tokenizer FOLDER", or an empty string and the reason in `why`.
std::string tokenizer_option(const std::filesystem::path& folder, std::string& why) {
  try {
    TokenizerPlace any_size;
    any_size.vocab_size = UINT32_MAX;
    if (tokenizer_for(any_size, folder)) return " --tokenizer " + quoted_path(folder);
  } catch (const InputError& error) {
    why = fmt::format("\nwithout its tokenizer: {}", error.what());
  }
  return "";
}

}  // namespace

std::string export_lines(const Opened& model, const std::string& pooled) {
  const std::optional<Example> example = example_of(*model.config);
  if (!example) {
    return "export it with PyTorch, torch.export.export, and convert the program; only models of "
           "one input, of tokens, images or features, are supported";
  }
  const Class loaded = pooled.empty() ? class_of(*model.config) : Class{"AutoModel", ""};
  const Result& result = result_of(model, loaded);
  const char* const part =
      &result == &kEncoderAlone
          ? "\n\nThese lines export its encoder alone. To generate text, export encoder and "
            "decoder\ntogether: examples/translate/README.md"
          : "";
  std::string expression = fmt::format(fmt::runtime(result.expression), example->name);
  if (!pooled.empty()) expression = fmt::format(fmt::runtime(pooled), expression);
  std::string no_tokenizer;
  const std::string tokenizer =
      example->shapes.empty() ? "" : tokenizer_option(model.folder, no_tokenizer);
  return fmt::format(
      R"(export it with PyTorch:

import torch, transformers

class Program(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.model = transformers.{}.from_pretrained(
            {}, attn_implementation="eager"{}).float()
        self.model.config.use_cache = False

    def forward(self, {}):
        return {}

torch.export.save(torch.export.export(
    Program().eval(), ({},){}), "model.pt2")

and convert the program:

arenite convert model.pt2 -o model.arn{}{}{}{})",
      loaded.name, quoted_path(model.folder), loaded.arguments, example->name, expression,
      example->value, example->shapes.empty() ? "" : ", dynamic_shapes=" + example->shapes,
      tokenizer, result.options, no_tokenizer, part);
}

}  // namespace arenite::convert
