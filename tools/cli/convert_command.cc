// SPDX-License-Identifier: Apache-2.0
// arenite convert: from a checkpoint to a model file, and what it made.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/convert_report.h"
#include "cli/help.h"
#include "cli/process.h"
#include "cli/report.h"
#include "cli/report_facts.h"
#include "convert/check/converted_model.h"
#include "convert/check/pack_model.h"
#include "convert/convert.h"
#include "convert/files/error.h"
#include "convert/files/output_files.h"
#include "convert/files/progress.h"
#include "convert/graph/graph.h"

namespace arenite::tool {
namespace {

// The options of `arenite convert`, and what they mean to the converter.
struct ConvertArguments {
  std::filesystem::path checkpoint;
  std::filesystem::path output;
  std::filesystem::path tokenizer;
  uint32_t heads = 0;
  uint32_t context = 0;
  std::string activation;
  std::string pooling;
  std::optional<bool> norm_first;
  bool causal = false;
  bool bidirectional = false;
  uint32_t window = 0;
  std::string embedding_scale;
  std::optional<double> score_scale;
  std::optional<double> epsilon;
  std::vector<uint32_t> output_indices;
  std::optional<double> rope_theta;
  std::optional<std::string> module;
  uint32_t features = 0;
  std::string mask_ones;
  // Inputs and the outputs that the author's model gave for each.
  std::vector<std::pair<std::filesystem::path, std::filesystem::path>> expect;
  std::vector<uint32_t> expect_lengths;  // of each sequence of the inputs
  std::string weights = "f32";
  std::string keep;
  TensorType kv_cache = TensorType::kF32;
  std::filesystem::path calibrate;
  std::filesystem::path report;
  ConversionLimits limits;
  std::string targets = "native";
  std::string name;
  bool no_self_test = false;
  bool json = false;
  bool explain = false;
  std::vector<std::string> without_passes;
};

// Far above real models, and far from overflow.
constexpr uint32_t kHeadsMax = 1u << 16;
constexpr uint32_t kContextMax = 1u << 24;
constexpr uint32_t kFeaturesMax = 1u << 20;
constexpr double kScaleMax = 1e6;
constexpr double kThetaMax = 1e9;

constexpr const char* kSqrt = "sqrt";
constexpr const char* kAuto = "auto";

constexpr std::pair<const char*, convert::PoolingChoice> kPoolings[] = {
    {"none", convert::PoolingChoice::kNone},
    {"first", convert::PoolingChoice::kFirst},
    {"pooler", convert::PoolingChoice::kPooler},
    {"mean", convert::PoolingChoice::kMean}};

constexpr std::pair<const char*, Activation> kActivations[] = {{"gelu", Activation::kGeluErf},
                                                               {"gelu_tanh", Activation::kGeluTanh},
                                                               {"silu", Activation::kSilu},
                                                               {"relu", Activation::kRelu}};

// The value that `table` has for `name`; nullopt: the option was not given.
template <typename Value, size_t kRows>
std::optional<Value> value_of(const std::pair<const char*, Value> (&table)[kRows],
                              const std::string& name) {
  for (const auto& [known, value] : table) {
    if (name == known) return value;
  }
  return std::nullopt;
}

CLI::Validator embedding_scale() {
  const CLI::Validator number = real_number(0, true, kScaleMax);
  return CLI::Validator(
      [number](std::string& text) {
        if (text == kSqrt) return std::string();
        const std::string problem = number(text);
        return problem.empty() ? problem : fmt::format("{}, or {}", problem, kSqrt);
      },
      "");
}

convert::MaskChoice mask_choice(const ConvertArguments& arguments) {
  if (arguments.causal) return convert::MaskChoice::kCausal;
  if (arguments.bidirectional) return convert::MaskChoice::kBidirectional;
  return arguments.window != 0 ? convert::MaskChoice::kWindow : convert::MaskChoice::kUnsaid;
}

// What no state dict tells.
void add_answers(CLI::App& command, ConvertArguments& arguments) {
  add_number(command, "--heads", arguments.heads, "Number of heads, where the file does not tell",
             1, kHeadsMax);
  command
      .add_option("--activation", arguments.activation,
                  "Of a state dict's MLP: gelu, gelu_tanh, silu, relu")
      ->check(CLI::IsMember({"gelu", "gelu_tanh", "silu", "relu"}));
  CLI::Option* first = command.add_flag_function(
      "--norm-first", [&](int64_t count) { arguments.norm_first = count > 0; },
      "Of a state dict: norms come before attention and MLP");
  CLI::Option* last = command.add_flag_function(
      "--norm-last", [&](int64_t count) { arguments.norm_first = count <= 0; },
      "Of a state dict: norms come after attention and MLP were added");
  first->excludes(last);
  CLI::Option* causal =
      command.add_flag("--causal", arguments.causal, "Each token sees itself and those before it");
  CLI::Option* bidirectional =
      command.add_flag("--bidirectional", arguments.bidirectional, "Each token sees all tokens");
  CLI::Option* window =
      add_number(command, "--window", arguments.window,
                 "Each token sees itself and the N - 1 before it", 1, kContextMax);
  causal->excludes(bidirectional)->excludes(window);
  bidirectional->excludes(window);
  command
      .add_option("--embedding-scale", arguments.embedding_scale,
                  "Of a state dict: what multiplies embeddings before positions are added; sqrt "
                  "stands for the square root of the model's width")
      ->check(embedding_scale());
  command
      .add_option("--scale", arguments.score_scale,
                  "Of a state dict: what multiplies attention scores, instead of 1/sqrt(head_dim)")
      ->check(real_number(0, true, kScaleMax));
  command.add_option("--epsilon", arguments.epsilon, "Of a state dict's norms, instead of 1e-05")
      ->check(real_number(0, true, 1));
  command.add_option("--rope-theta", arguments.rope_theta, "The base of rotations, if not 10000")
      ->check(real_number(1, false, kThetaMax));
  command
      .add_option(
          "--pooling", arguments.pooling,
          "What an encoder gives out of each sequence: none (all tokens), first, pooler or mean")
      ->check(CLI::IsMember({"none", "first", "pooler", "mean"}));
}

void add_exported_options(CLI::App& command, ConvertArguments& arguments) {
  command
      .add_option("--output-index", arguments.output_indices,
                  "Which output of an exported program, the first is 0; several side by side: 0,2")
      ->type_name("N,...")
      ->delimiter(',')
      ->check(whole_number(0, kHeadsMax));
}

void add_module_options(CLI::App& command, ConvertArguments& arguments) {
  command.add_option("--module", arguments.module,
                     "Prefix of the module to convert, where a checkpoint has several");
  add_number(command, "--features", arguments.features,
             "Width of the input, for a module of a mask alone", 1, kFeaturesMax);
  command
      .add_option("--mask-ones", arguments.mask_ones,
                  "What a 1 in the mask buffer means, where it cannot be told")
      ->check(CLI::IsMember({"hidden", "visible"}));
}

// Declares them all. `arguments` must outlive the command.
void add_convert_options(CLI::App& command, ConvertArguments& arguments) {
  command
      .add_option("checkpoint", arguments.checkpoint,
                  "A .pt2, .safetensors, .pt, .pth, .bin or .gguf file, or a model folder: see "
                  "'arenite help formats'")
      ->type_name(kFileType)
      ->required();
  command.add_option("-o,--output", arguments.output, "The model file to write")
      ->type_name(kFileType)
      ->required();
  add_number(command, "--context", arguments.context,
             "Longest sequence, in positions: a model's own, or less", 1, kContextMax);
  command
      .add_option("--tokenizer", arguments.tokenizer,
                  "Its file, if not beside the checkpoint; or none")
      ->type_name(kFileType);
  add_answers(command, arguments);
  add_module_options(command, arguments);
  add_exported_options(command, arguments);
  command
      .add_option(
          "--expect", arguments.expect,
          "Write the result only if it gives Y for X, as the author's model did. Several prove an "
          "exported model at their lengths")
      ->type_name("X.npy,Y.npy")
      ->delimiter(',');
  add_number(command, "--expect-lengths", arguments.expect_lengths,
             "Tokens of each sequence of X; all others are padding")
      ->needs("--expect");
  command
      .add_option(
          "--weights", arguments.weights,
          "f32; int8, small (w8) or fast (q8); int4 (q4); or auto: see 'arenite help weights'")
      ->check(CLI::IsMember({"f32", "w8", "q8", "q4", kAuto}))
      ->capture_default_str();
  command.add_option("--keep", arguments.keep,
                     "NAME=TYPE,...: other types for some matrices, by name or part of a name; or "
                     "none. With q4 it is output=q8,embedding=q8 if not given");
  command
      .add_option_function<std::string>(
          "--kv",
          [&arguments](const std::string& name) {
            arguments.kv_cache = name == "int8" ? TensorType::kInt8 : TensorType::kF32;
          },
          "What sessions keep keys and values as: int8 takes about a quarter of the memory")
      ->check(CLI::IsMember({"f32", "int8"}))
      ->default_str("f32");
  command
      .add_option("--calibrate", arguments.calibrate,
                  "What weights in few bits are rounded for: lines of text, or an .npy of token "
                  "ids or features. If not given, a decoder writes its own text; none: rounding "
                  "alone")
      ->type_name(kFileType);
  command
      .add_option(
          "--target", arguments.targets,
          "CPUs to pack for: native, all, or names of 'arenite help targets'; portable is the one "
          "for microcontrollers (Cortex-M) and RISC-V")
      ->type_name(kTargetType)
      ->check(target_names())
      ->capture_default_str();
  command.add_flag("--no-self-test", arguments.no_self_test,
                   "Store nothing for arenite verify, to save flash");
  command.add_option("--name", arguments.name, "Name to store; the file's by default");
  CLI::Option* json = add_json_option(command, arguments.json);
  command
      .add_flag("--explain", arguments.explain,
                "Print the graph, as recognised and after the passes")
      ->excludes(json);
  command.add_option("--without-pass", arguments.without_passes)->group("");  // for developers
  for (const char* name : {"--activation", "--norm-first", "--norm-last", "--causal",
                           "--bidirectional", "--window", "--embedding-scale", "--scale",
                           "--epsilon", "--rope-theta", "--module", "--features", "--mask-ones"}) {
    command.get_option(name)->group(kStateDictGroup);
  }
  for (const char* name : {"--keep", "--calibrate"}) command.get_option(name)->group(kWeightGroup);
}

// Throws InputError for options that a single attention module does not have.
void refuse_model_options(const ConvertArguments& arguments) {
  std::vector<std::string> others;
  if (!arguments.tokenizer.empty()) others.emplace_back("--tokenizer");
  if (!arguments.activation.empty()) others.emplace_back("--activation");
  if (arguments.norm_first) {
    others.emplace_back(*arguments.norm_first ? "--norm-first" : "--norm-last");
  }
  if (!arguments.embedding_scale.empty()) others.emplace_back("--embedding-scale");
  if (arguments.epsilon) others.emplace_back("--epsilon");
  if (arguments.rope_theta) others.emplace_back("--rope-theta");
  if (!arguments.pooling.empty()) others.emplace_back("--pooling");
  if (others.empty()) return;
  throw convert::InputError(
      "{}: {}: this is a single attention module, which has no tokens, embeddings, norms or MLP: "
      "drop the option{}",
      convert::quote(arguments.checkpoint.string()), fmt::join(others, ", "),
      others.size() == 1 ? "" : "s");
}

convert::ModelOptions model_options(const ConvertArguments& arguments) {
  convert::ModelOptions options;
  options.heads = arguments.heads;
  options.activation = value_of(kActivations, arguments.activation);
  options.norm_first = arguments.norm_first;
  options.pooling = value_of(kPoolings, arguments.pooling);
  options.mask = mask_choice(arguments);
  options.window = arguments.window;
  options.score_scale = arguments.score_scale;
  options.epsilon = arguments.epsilon;
  options.output_indices = arguments.output_indices;
  options.rope_theta = arguments.rope_theta;
  options.context = arguments.context;
  options.features = arguments.features;
  options.module = arguments.module;
  if (arguments.mask_ones == "hidden") options.mask_ones = convert::MaskOnes::kHidden;
  if (arguments.mask_ones == "visible") options.mask_ones = convert::MaskOnes::kVisible;
  const std::string& scale = arguments.embedding_scale;
  if (scale == kSqrt) {
    options.embedding_scale = {.is_sqrt = true};
  } else if (!scale.empty()) {
    double value = 0.0;
    std::from_chars(scale.data(), scale.data() + scale.size(), value);
    options.embedding_scale = {.value = value};
  }
  return options;
}

// "none" is no file.
convert::Calibration calibration_of(const ConvertArguments& arguments) {
  const bool is_off = arguments.calibrate == "none";
  return {is_off ? std::filesystem::path() : arguments.calibrate, is_off};
}

// What `--weights auto` may spend; none where types are given.
std::optional<convert::WeightBudget> budget_of(const ConvertArguments& arguments) {
  if (arguments.weights != kAuto) return std::nullopt;
  const ConversionLimits& limits = arguments.limits;
  if (!limits.max_bytes && !limits.max_perplexity_increase) {
    throw CLI::ValidationError(
        "--weights auto",
        "pass what it may spend: --max-bytes N, for as little loss as fits, or "
        "--max-perplexity-increase P, for as few bytes as that allows");
  }
  convert::WeightBudget budget = {limits.max_bytes, limits.max_perplexity_increase};
  if (budget.max_perplexity_increase) *budget.max_perplexity_increase /= 100.0;
  return budget;
}

// Those of --expect, and the lengths of their sequences.
std::vector<convert::AuthorFiles> author_files(const ConvertArguments& arguments) {
  std::vector<convert::AuthorFiles> files;
  for (const auto& [input, outputs] : arguments.expect) {
    files.push_back({input, outputs, arguments.expect_lengths});
  }
  return files;
}

convert::ConvertOptions convert_options(const ConvertArguments& arguments) {
  const std::optional<convert::WeightBudget> budget = budget_of(arguments);
  const TensorType type = budget ? TensorType::kF32 : convert::parse_weight_type(arguments.weights);
  return {model_options(arguments),
          arguments.tokenizer,
          arguments.without_passes,
          {type, convert::parse_weight_rules(arguments.keep, type)},
          budget,
          calibration_of(arguments),
          arguments.kv_cache,
          author_files(arguments)};
}

// "q4, keeping output=q8, embedding=q8": the types that were asked for.
std::string describe_weights(const ConvertArguments& arguments) {
  std::vector<std::string> kept;
  for (const convert::WeightRule& rule : convert_options(arguments).weights.keep) {
    kept.push_back(fmt::format("{}={}", rule.name, name(rule.type)));
  }
  return kept.empty() ? arguments.weights
                      : fmt::format("{}, keeping {}", arguments.weights, fmt::join(kept, ", "));
}

constexpr size_t kWriteBytes = 16 << 20;  // between two looks at the progress

// Compares, writes and reports. A conversion that is not what its author expects leaves no file.
void finish(convert::Conversion& conversion, const ConvertArguments& arguments,
            Progress& progress) {
  std::vector<convert::AuthorCheck> expect;
  const convert::AlignedBytes* const in_float32 =
      conversion.quantization ? &conversion.quantization->reference : nullptr;
  for (const convert::AuthorFiles& files : author_files(arguments)) {
    expect.push_back(convert::check_against_author(conversion, files, arguments.checkpoint.string(),
                                                   in_float32));
  }
  if (arguments.explain) {
    progress.done();
    fmt::print("as recognised\n{}\n", convert::print_graph(conversion.graph));
    fmt::print("after the passes\n{}\n", convert::print_graph(conversion.rewritten));
  }
  if (arguments.no_self_test) convert::strip_self_test(conversion.file);
  const ConversionFacts found =
      conversion_facts(conversion, convert::quote(arguments.checkpoint.string()),
                       describe_weights(arguments), arguments.limits);
  require_limits(found);
  const VerifiedFile verified(arguments.output.string(), conversion.file.span());
  const ReportFacts facts = gather_report(verified, resolve_sizes(verified, {}), found);
  convert::AtomicFile file(arguments.output);
  const std::span<const std::byte> bytes = conversion.file.span();
  for (size_t begin = 0; begin < bytes.size(); begin += kWriteBytes) {
    progress.at("writing", static_cast<double>(begin) / static_cast<double>(bytes.size()));
    file.write(bytes.subspan(begin, std::min(kWriteBytes, bytes.size() - begin)));
  }
  std::optional<convert::AtomicFile> page;
  if (!arguments.report.empty()) {
    const std::string report = render_report(facts, arguments.report);
    page.emplace(arguments.report).write(std::as_bytes(std::span(report)));
  }
  convert::AtomicFile* const files[] = {&file, page ? &*page : nullptr};
  convert::commit_together(files);
  progress.done();
  const WrittenFile written = {arguments.output, expect};
  if (arguments.json) {
    fmt::print("{}", conversion_as_json(conversion, written, facts));
  } else {
    print_conversion(conversion, written, facts);
  }
}

void run_convert(const ConvertArguments& arguments) {
  const convert::OutputGuard guard(
      {{"--output", arguments.output}, {"--report", arguments.report}});
  const std::filesystem::path& checkpoint = arguments.checkpoint;
  require_no_part_of(checkpoint, arguments.output);
  for (const auto& [input, outputs] : arguments.expect) {
    convert::note_read(input);
    convert::note_read(outputs);
  }
  const std::string name =
      arguments.name.empty() ? arguments.output.stem().string() : arguments.name;
  const std::vector<Target> targets = convert::parse_targets(arguments.targets);
  Progress progress("converting " + checkpoint.string());
  convert::Conversion conversion;
  on_known_stack([&] {
    const convert::ProgressListener listener(
        [&](const std::string& stage, double share) { progress.at(stage, share); });
    conversion = convert::convert_model(checkpoint, name, convert_options(arguments), targets);
  });
  if (conversion.module() != nullptr) refuse_model_options(arguments);
  finish(conversion, arguments, progress);
}

constexpr const char* kFooter =
    "\nExamples:\n"
    "  arenite convert model.pt2 -o model.arn\n"
    "  arenite convert models/home-intent -o intent.arn\n"
    "  arenite convert attention.safetensors -o attention.arn --heads 12\n";

}  // namespace

void add_convert(CLI::App& app) {
  const auto [command, arguments] = add_command(
      app, run_convert, "convert",
      "Convert a decoder, an encoder or one attention module into a model file", kFooter);
  command.set_help_all_flag("--help-all", "The same with the options that are named below");
  add_convert_options(command, arguments);
  add_limit_options(command, arguments.limits);
  add_report_option(command, arguments.report);
}

}  // namespace arenite::tool
