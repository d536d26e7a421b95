// SPDX-License-Identifier: Apache-2.0
// arenite tokenize: shows the tokens of texts, as the model reads them.

#include "arenite/tokenizer.h"
#include "cli/arguments.h"
#include "cli/process.h"
#include "cli/texts.h"
#include "convert/files/error.h"
#include "convert/files/input_limits.h"
#include "convert/tokenizers/unicode_library.h"

namespace arenite::tool {
namespace {

struct TokenizeArguments {
  std::filesystem::path model;
  std::vector<std::string> texts;
  std::filesystem::path file;
  bool specials = false;
  bool bare = false;
  bool json = false;
};

struct TokenFacts {
  std::string text;
  std::vector<TokenId> ids{};
  std::vector<std::string> tokens{};
  std::string decoded{};
};

struct TokenizeFacts {
  std::vector<TokenFacts> texts{};
};

// `name` is where the text is from, for messages.
TokenFacts tokenize(const ModelFile& file, const Tokenizer& tokenizer, const std::string& name,
                    std::string text, const TokenizeArguments& arguments) {
  TokenFacts facts = {.text = std::move(text)};
  const std::string normal =
      convert::in_expected_form(file.model(), facts.text, arguments.specials, name);
  EncodeOptions options;
  options.read_specials = arguments.specials;
  options.add_bos_and_end = !arguments.bare;
  facts.ids.resize(convert::ids_for_text(file.model(), normal.size()));
  Diagnostic why;
  const Result<size_t> count = tokenizer.encode(normal, options, facts.ids, &why);
  if (!count.ok()) throw_status(name, count.status(), why);
  facts.ids.resize(*count);
  for (const TokenId id : facts.ids) facts.tokens.emplace_back(tokenizer.token_bytes(id));
  facts.decoded = text_of(tokenizer, facts.ids);
  return facts;
}

void run_tokenize(const TokenizeArguments& arguments) {
  convert::refuse_if(arguments.texts.empty() && arguments.file.empty(),
                     "expected texts: pass --text TEXT or --file FILE");
  const ModelFile file(arguments.model, "");
  const Result<Tokenizer> tokenizer = Tokenizer::of(file.model());
  if (!tokenizer.ok()) {
    throw convert::InputError(
        "{}: the file has no tokenizer: convert the model again with its tokenizer",
        convert::quote(file.name()));
  }
  TokenizeFacts all;
  const auto add = [&](const std::string& name, std::string text) {
    TokenFacts facts = tokenize(file, *tokenizer, name, std::move(text), arguments);
    if (arguments.json) {
      all.texts.push_back(std::move(facts));
    } else {
      print_output("{}\n", fmt::join(facts.ids, " "));
    }
  };
  for (const std::string& text : arguments.texts) add("--text", text);
  if (!arguments.file.empty()) {
    const TextInput input = read_text(arguments.file, convert::kTextFileBytesMax);
    std::string_view rest = input.text;
    size_t number = 0;
    for (std::string_view line; convert::take_line(rest, line);) {
      add(fmt::format("{}, line {}", input.name, ++number), std::string(line));
    }
  }
  if (arguments.json) print_json(all);
}

}  // namespace

template <>
constexpr auto kFacts<TokenFacts> = std::tuple(
    Fact("text", &TokenFacts::text), Fact("ids", &TokenFacts::ids),
    Fact("tokens", "Bytes of each token, or the name of a special one", &TokenFacts::tokens),
    Fact("decoded", "The text of the ids, without special tokens", &TokenFacts::decoded));

template <>
constexpr auto kFacts<TokenizeFacts> = std::tuple(Fact("texts", &TokenizeFacts::texts));

Json tokenize_facts() { return schema_of<TokenizeFacts>(); }

void add_tokenize(CLI::App& app) {
  const auto [command, arguments] = add_command(
      app, run_tokenize, "tokenize", "Show the tokens of texts",
      "\nPrints the ids of each text on a line, with the tokens that the model has around a text.\n"
      "\nExamples:\n"
      "  arenite tokenize encoder.arn --text 'Turn off the lamp'\n"
      "  arenite tokenize decoder.arn --file texts.txt --json\n");
  add_model(command, arguments.model);
  CLI::Option* text = command.add_option("--text", arguments.texts, "A text; may be repeated")
                          ->allow_extra_args(false);
  CLI::Option* file =
      add_file(command, "--file", arguments.file, "A file of texts, one on each line; or -");
  text->excludes(file);
  command.add_flag("--special", arguments.specials, "Read names of special tokens as these tokens");
  command.add_flag("--bare", arguments.bare, "Leave out the tokens around a text");
  add_json_option(command, arguments.json);
}

}  // namespace arenite::tool
