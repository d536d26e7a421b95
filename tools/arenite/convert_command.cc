// SPDX-License-Identifier: Apache-2.0
// arenite convert: from a checkpoint to a model file, and what it made.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "arenite/arguments.h"
#include "arenite/commands.h"
#include "arenite/convert_report.h"
#include "arenite/progress.h"
#include "convert/atomic_file.h"
#include "convert/error.h"
#include "convert/module_recognition.h"
#include "convert/output_guard.h"
#include "convert/self_test.h"

namespace arenite::tool {
namespace {

// Far above real modules, and far from overflow.
constexpr uint32_t kHeadsMax = 1u << 16;
constexpr uint32_t kContextMax = 1u << 24;
constexpr uint32_t kFeaturesMax = 1u << 20;

constexpr char kTargetHelp[] =
    "native, all, or some of portable,x86-64-v2,x86-64-v3,x86-64-v4,arm64,arm32; portable is the "
    "one for microcontrollers (Cortex-M) and RISC-V";

constexpr std::pair<const char*, convert::PoolingChoice> kPoolings[] = {
    {"none", convert::PoolingChoice::kNone},
    {"first", convert::PoolingChoice::kFirst},
    {"pooler", convert::PoolingChoice::kPooler},
    {"mean", convert::PoolingChoice::kMean}};

constexpr std::pair<const char*, convert::Activation> kActivations[] = {
    {"gelu", convert::Activation::kGeluErf},
    {"gelu_tanh", convert::Activation::kGeluTanh},
    {"silu", convert::Activation::kSilu},
    {"relu", convert::Activation::kRelu}};

struct Arguments {
  std::filesystem::path checkpoint;
  std::filesystem::path output;
  std::filesystem::path tokenizer;
  std::string activation;
  std::string pooling;
  bool norm_first = false;
  convert::ModuleOptions module;
  std::string targets = "native";
  std::string name;
  std::string mask_ones;
  bool causal = false;
  bool bidirectional = false;
  bool no_self_test = false;
};

// Options of modules that no whole model has.
bool asks_for_module(const Arguments& arguments) {
  const convert::ModuleOptions& module = arguments.module;
  return module.module || arguments.causal || arguments.bidirectional || module.window != 0 ||
         module.features != 0 || !arguments.mask_ones.empty();
}

bool asks_for_encoder(const Arguments& arguments) {
  return !arguments.pooling.empty() || arguments.norm_first;
}

std::optional<convert::Activation> activation_of(const Arguments& arguments) {
  for (const auto& [name, activation] : kActivations) {
    if (arguments.activation == name) return activation;
  }
  return std::nullopt;
}

template <typename Conversion>
void write_file(Conversion& conversion, const Arguments& arguments) {
  if (arguments.no_self_test) convert::strip_self_test(conversion.file);
  convert::AtomicFile file(arguments.output);
  file.write(conversion.file.span());
  file.commit();
  print_conversion(conversion, arguments.output);
}

void convert_module(const Arguments& arguments, const std::string& name,
                    const std::vector<Target>& targets) {
  if (!arguments.tokenizer.empty() || !arguments.activation.empty() ||
      asks_for_encoder(arguments)) {
    throw convert::InputError(
        "{}: --tokenizer, --activation, --pooling and --norm-first are for whole models, and this "
        "is a single attention module",
        convert::quote(arguments.checkpoint.string()));
  }
  convert::ModuleOptions options = arguments.module;
  if (arguments.causal) options.mask = convert::MaskChoice::kCausal;
  if (arguments.bidirectional) options.mask = convert::MaskChoice::kBidirectional;
  if (options.window != 0) options.mask = convert::MaskChoice::kWindow;
  if (arguments.mask_ones == "hidden") options.mask_ones = convert::MaskOnes::kHidden;
  if (arguments.mask_ones == "visible") options.mask_ones = convert::MaskOnes::kVisible;
  Progress progress("converting " + arguments.checkpoint.string());
  convert::Conversion conversion =
      convert::convert_checkpoint(arguments.checkpoint, name, options, targets);
  progress.done();
  write_file(conversion, arguments);
}

void convert_encoder_model(const Arguments& arguments, const std::string& name,
                           const std::vector<Target>& targets) {
  convert::EncoderConversionOptions options;
  options.source.heads = arguments.module.heads;
  options.source.activation = activation_of(arguments);
  if (arguments.norm_first) options.source.norm_first = true;
  for (const auto& [pooling_name, pooling] : kPoolings) {
    if (arguments.pooling == pooling_name) options.source.pooling = pooling;
  }
  options.context = arguments.module.context;
  options.tokenizer = arguments.tokenizer;
  Progress progress("converting " + arguments.checkpoint.string());
  convert::EncoderConversion conversion =
      convert::convert_encoder(arguments.checkpoint, name, options, targets);
  progress.done();
  write_file(conversion, arguments);
}

void convert_decoder_model(const Arguments& arguments, const std::string& name,
                           const std::vector<Target>& targets) {
  if (asks_for_encoder(arguments)) {
    throw convert::InputError(
        "{}: --pooling and --norm-first are for encoders, and this is a decoder",
        convert::quote(arguments.checkpoint.string()));
  }
  convert::DecoderConversionOptions options;
  options.source.heads = arguments.module.heads;
  options.source.activation = activation_of(arguments);
  options.context = arguments.module.context;
  options.tokenizer = arguments.tokenizer;
  Progress progress("converting " + arguments.checkpoint.string());
  convert::DecoderConversion conversion =
      convert::convert_decoder(arguments.checkpoint, name, options, targets);
  progress.done();
  write_file(conversion, arguments);
}

void run_convert(const Arguments& arguments) {
  const convert::OutputGuard guard({{"--output", arguments.output}});
  require_no_part_of(arguments.checkpoint, arguments.output);
  const std::string name =
      arguments.name.empty() ? arguments.output.stem().string() : arguments.name;
  const std::vector<Target> targets = convert::parse_targets(arguments.targets);
  auto* convert_it = convert_module;
  if (!asks_for_module(arguments)) {
    if (convert::holds_encoder(arguments.checkpoint)) {
      convert_it = convert_encoder_model;
    } else if (convert::holds_decoder(arguments.checkpoint)) {
      convert_it = convert_decoder_model;
    }
  }
  convert_it(arguments, name, targets);
}

}  // namespace

void add_convert(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand(
      "convert", "Convert a decoder, an encoder or one attention module into a model file");
  command->footer(fmt::format(
      "\nDecoders: a Hugging Face folder (gpt2, llama, mistral, qwen2, qwen3, gpt_neox, phi, "
      "gemma),\n"
      "GGUF (llama, gpt2, qwen2, qwen3), llama2.c .bin, and state dicts of nanoGPT and minGPT.\n"
      "Encoders: a Hugging Face folder (bert, distilbert, roberta, xlm-roberta, electra; with a\n"
      "classifier or a masked-LM head, too), one of sentence-transformers, and state dicts\n"
      "around torch.nn.TransformerEncoder.\n"
      "The tokenizer is the one in the same file or beside it, unless --tokenizer names another.\n"
      "\nModules, recognised by their parameters under any prefix:\n{}\n"
      "Examples:\n"
      "  arenite convert models/home-intent -o intent.arn\n"
      "  arenite convert stories15M.bin -o stories.arn --tokenizer tokenizer.bin\n"
      "  arenite convert all-MiniLM-L6-v2 -o sentences.arn\n"
      "  arenite convert encoder.pt -o encoder.arn --heads 4 --norm-first --pooling mean\n"
      "  arenite convert attention.safetensors -o attention.arn --heads 12 --context 1024\n"
      "  arenite convert model.pt -o layer0.arn --module transformer.h.0.attn --heads 12 "
      "--target all\n",
      convert::known_modules()));
  command
      ->add_option("checkpoint", arguments->checkpoint,
                   "A model folder, or a .safetensors, .pt, .pth, .bin or .gguf file")
      ->required();
  command->add_option("-o,--output", arguments->output, "The model file to write")->required();
  command
      ->add_option("--heads", arguments->module.heads,
                   "Number of heads, where the file does not tell")
      ->check(whole_number(1, kHeadsMax));
  command
      ->add_option("--context", arguments->module.context,
                   "Longest sequence, in positions: a model's own or less; of a mask buffer, its "
                   "rows and columns")
      ->check(whole_number(1, kContextMax));
  command->add_option(
      "--tokenizer", arguments->tokenizer,
      "tokenizer.json, tokenizer.model, vocab.json, vocab.txt, tokenizer.bin or meta.pkl; or none");
  command
      ->add_option("--activation", arguments->activation,
                   "Of a state dict, which does not tell: gelu, gelu_tanh, silu, relu")
      ->check(CLI::IsMember({"gelu", "gelu_tanh", "silu", "relu"}));
  command
      ->add_option("--pooling", arguments->pooling,
                   "What an encoder gives out of each sequence: all tokens (none), the first, the "
                   "first through the model's pooler, or the mean; a head that guesses tokens is "
                   "then dropped")
      ->check(CLI::IsMember({"none", "first", "pooler", "mean"}));
  command->add_flag("--norm-first", arguments->norm_first,
                    "Of an encoder's state dict, which does not tell: norms come before attention "
                    "and MLP");
  CLI::Option* causal = command->add_flag("--causal", arguments->causal,
                                          "Each token sees itself and those before it");
  CLI::Option* bidirectional =
      command->add_flag("--bidirectional", arguments->bidirectional, "Each token sees all tokens");
  CLI::Option* window = command
                            ->add_option("--window", arguments->module.window,
                                         "Each token sees itself and the N - 1 before it")
                            ->check(whole_number(1, kContextMax));
  causal->excludes(bidirectional)->excludes(window);
  bidirectional->excludes(window);
  command->add_option("--target", arguments->targets, kTargetHelp)
      ->check(target_names())
      ->capture_default_str();
  command->add_flag("--no-self-test", arguments->no_self_test,
                    "Store nothing for Session::self_test and arenite verify, to save flash");
  command->add_option("--name", arguments->name, "Name to store; the file's by default");
  command->add_option("--module", arguments->module.module,
                      "Prefix of the module to convert, where a checkpoint has several");
  command
      ->add_option("--features", arguments->module.features,
                   "Width of the input, for a module of a mask alone")
      ->check(whole_number(1, kFeaturesMax));
  command
      ->add_option("--mask-ones", arguments->mask_ones,
                   "What a 1 in the mask buffer means, where it cannot be told")
      ->check(CLI::IsMember({"hidden", "visible"}));
  command->callback([arguments] { run_convert(*arguments); });
}

}  // namespace arenite::tool
