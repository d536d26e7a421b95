// SPDX-License-Identifier: Apache-2.0
// arenite convert: converts a checkpoint to a model file and reports the result.

#include <charconv>

#include "cli/arguments.h"
#include "cli/convert_report.h"
#include "cli/process.h"
#include "cli/report_facts.h"
#include "convert/check/converted_model.h"
#include "convert/check/pack_model.h"
#include "convert/convert.h"
#include "convert/files/progress.h"
#include "convert/graph/graph.h"

namespace arenite::tool {
namespace {

// The options of `arenite convert`.
struct ConvertArguments {
  std::filesystem::path checkpoint;
  std::filesystem::path decoder;  // the second of two programs
  std::filesystem::path output;
  std::filesystem::path tokenizer;
  std::filesystem::path labels;
  std::string sound;
  convert::ModelOptions model;
  // Per value: the files of the inputs, then that of the outputs computed by the author's model.
  std::vector<std::string> expect;
  std::vector<std::string> expect_lengths;  // of each sequence of the inputs
  std::string weights = "f32";
  bool has_weights = false;  // the option was given
  std::string keep;
  TensorType kv_cache = TensorType::kF32;
  std::vector<std::string> calibrate;  // one per input
  std::filesystem::path report;
  ConversionLimits limits;
  std::string targets = "native";
  std::string name;
  bool no_self_test = false;
  bool json = false;
  bool explain = false;
  bool verbose = false;
  std::vector<std::string> without_passes;
};

// Limits far above real models and far below overflow.
constexpr uint32_t kHeadsMax = 1u << 16;
constexpr uint32_t kContextMax = 1u << 24;
constexpr uint32_t kFeaturesMax = 1u << 20;
constexpr double kScaleMax = 1e6;
constexpr double kThetaMax = 1e9;

constexpr const char* kSqrt = "sqrt";
constexpr const char* kAuto = "auto";

constexpr Choice<convert::PoolingChoice> kPoolings[] = {{"none", convert::PoolingChoice::kNone},
                                                        {"first", convert::PoolingChoice::kFirst},
                                                        {"pooler", convert::PoolingChoice::kPooler},
                                                        {"mean", convert::PoolingChoice::kMean}};
constexpr Choice<Activation> kActivations[] = {{"gelu", Activation::kGeluErf},
                                               {"gelu_tanh", Activation::kGeluTanh},
                                               {"silu", Activation::kSilu},
                                               {"relu", Activation::kRelu}};
constexpr Choice<convert::MaskOnes> kMaskOnes[] = {{"hidden", convert::MaskOnes::kHidden},
                                                   {"visible", convert::MaskOnes::kVisible}};
constexpr Choice<TensorType> kCacheTypes[] = {{"f32", TensorType::kF32},
                                              {"int8", TensorType::kInt8}};

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

convert::EmbeddingScale parse_embedding_scale(const std::string& text) {
  convert::EmbeddingScale scale = {.is_sqrt = text == kSqrt};
  if (!scale.is_sqrt) std::from_chars(text.data(), text.data() + text.size(), scale.value);
  return scale;
}

// Accepts two or more file names, separated by commas.
CLI::Validator arrays_and_outputs() {
  return CLI::Validator(
      [](const std::string& text) {
        const std::vector<std::string> files = CLI::detail::split(text, ',');
        if (files.size() > 1 && std::ranges::none_of(files, &std::string::empty)) {
          return std::string();
        }
        return fmt::format("found {}, expected an input and outputs, X.npy,Y.npy",
                           convert::quote(text));
      },
      "");
}

// Declares options for facts that a state dict does not contain.
void add_answers(CLI::App& command, convert::ModelOptions& model) {
  add_number(command, "--heads", model.heads, "Number of heads, where the file does not tell", 1,
             kHeadsMax);
  add_choice(command, "--activation", model.activation, kActivations,
             "Activation of a state dict's MLP: gelu, gelu_tanh, silu, relu");
  command.add_flag_function(
      "--norm-first", [&model](int64_t count) { model.norm_first = count > 0; },
      "The norms of a state dict come before attention and MLP");
  command
      .add_flag_function(
          "--norm-last", [&model](int64_t count) { model.norm_first = count <= 0; },
          "The norms of a state dict come after the residual sums")
      ->excludes("--norm-first");
  const auto add_mask = [&](const char* name, convert::MaskChoice mask, const char* help) {
    return command.add_flag_function(
        name, [&model, mask](int64_t) { model.mask = mask; }, help);
  };
  CLI::Option* causal = add_mask("--causal", convert::MaskChoice::kCausal,
                                 "Each token sees itself and those before it");
  CLI::Option* bidirectional = add_mask("--bidirectional", convert::MaskChoice::kBidirectional,
                                        "Each token sees all tokens");
  CLI::Option* window =
      add_number(command, "--window", model.window,
                 "Each token sees itself and the N - 1 before it", 1, kContextMax);
  causal->excludes(bidirectional)->excludes(window);
  bidirectional->excludes(window);
  command
      .add_option_function<std::string>(
          "--embedding-scale",
          [&model](const std::string& text) {
            model.embedding_scale = parse_embedding_scale(text);
          },
          "Factor of a state dict's embeddings, before positions are added; sqrt stands for the "
          "square root of the model's width")
      ->check(embedding_scale());
  add_real(command, "--scale", model.score_scale,
           "Factor of a state dict's attention scores, instead of 1/sqrt(head_dim)", 0, true,
           kScaleMax);
  add_real(command, "--epsilon", model.epsilon, "Epsilon of a state dict's norms, instead of 1e-05",
           0, true, 1);
  add_real(command, "--rope-theta", model.rope_theta, "RoPE base, if not 10000", 1, false,
           kThetaMax);
  add_choice(command, "--pooling", model.pooling, kPoolings,
             "Pooling of an encoder: none, first, pooler or mean");
}

// Declares options of attention modules and exported programs.
void add_choices_of_model(CLI::App& command, convert::ModelOptions& model) {
  command.add_option("--module", model.module,
                     "Prefix of the module to convert, where a checkpoint has several");
  command
      .add_option("--state-dict", model.state_dict,
                  "Key of the weights in a checkpoint that holds several, such as an average")
      ->type_name("KEY");
  add_number(command, "--features", model.features,
             "Width of the input, for a module that has only a mask", 1, kFeaturesMax);
  add_choice(command, "--mask-ones", model.mask_ones, kMaskOnes,
             "What a 1 in the mask buffer means, where it cannot be told");
  command
      .add_option("--output-index", model.output_indices,
                  "Outputs of an exported program, from 0; 0,2 concatenates two")
      ->type_name("N,...")
      ->delimiter(',')
      ->check(whole_number(0, kHeadsMax));
  command.add_flag(
      "--any-length", model.any_length,
      "You vouch that no constant of a program with fixed sizes depends on its length");
  command
      .add_option("--functions", model.functions,
                  "Names of an exported program's functions, encode and step if not given")
      ->type_name("NAME,...")
      ->delimiter(',');
  command.add_option("--encoded", model.encoded,
                     "The second program's input that the first one gives, where several may be");
}

// Declares all options. `arguments` must outlive the command.
void add_convert_options(CLI::App& command, ConvertArguments& arguments) {
  add_file(command, "checkpoint", arguments.checkpoint,
           "A .pt2, .safetensors, .pt, .pth, .bin or .gguf file, or a model folder: see "
           "'arenite help formats'")
      ->required();
  add_file(command, "decoder", arguments.decoder, "The second of two exported programs");
  add_file(command, "-o,--output", arguments.output, "The model file to write")->required();
  add_number(command, "--context", arguments.model.context,
             "Longest sequence, in positions: a model's own, or less", 1, kContextMax);
  add_file(command, "--tokenizer", arguments.tokenizer,
           "Tokenizer file, if not beside the checkpoint; or none");
  add_file(command, "--labels", arguments.labels,
           "Names of the classes: a line each, or JSON with id2label");
  command.add_option("--sound", arguments.sound, "Features of samples: see 'arenite help sound'")
      ->type_name("WORDS");
  add_answers(command, arguments.model);
  add_choices_of_model(command, arguments.model);
  command
      .add_option(
          "--expect", arguments.expect,
          "Write the result only if it gives Y for X, as the author's model did; of two inputs "
          "A,B,Y. Several prove an exported model at their lengths")
      ->type_name("X.npy,Y.npy")
      ->check(arrays_and_outputs());
  add_lengths(command, "--expect-lengths", arguments.expect_lengths,
              "Tokens of each sequence of X; all others are padding")
      ->needs("--expect");
  command
      .add_option(
          "--weights", arguments.weights,
          "f32; int8, small (w8) or fast (q8); int4 (q4); or auto: see 'arenite help weights'")
      ->check(CLI::IsMember({"f32", "w8", "q8", "q4", kAuto}))
      ->each([&arguments](const std::string&) { arguments.has_weights = true; })
      ->capture_default_str();
  command.add_option("--keep", arguments.keep,
                     "NAME=TYPE,...: other types for some matrices, by name or part of a name; or "
                     "none. With q4 it is output=q8,embedding=q8 if not given");
  add_choice(command, "--kv", arguments.kv_cache, kCacheTypes,
             "Type of the KV cache: int8 is a quarter of f32")
      ->default_str("f32");
  add_input_files(command, "--calibrate", arguments.calibrate,
                  "Calibration data for quantized weights: lines of text, or an .npy of token ids "
                  "or features; for a model with several inputs once each, in their order or as "
                  "NAME=FILE. If not given, a decoder writes its own text; none: round to nearest");
  command
      .add_option("--target", arguments.targets,
                  "native, all, or as 'arenite help targets'; portable is for "
                  "microcontrollers (Cortex-M)")
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
  command
      .add_flag("-v,--verbose", arguments.verbose, "Print all findings, and the output of inspect")
      ->excludes(json);
  command.add_option("--without-pass", arguments.without_passes)->group("");  // for developers
  put_in_group(
      command, kStateDictGroup,
      {"--activation", "--norm-first", "--norm-last", "--causal", "--bidirectional", "--window",
       "--embedding-scale", "--scale", "--epsilon", "--rope-theta", "--state-dict", "--module",
       "--features", "--mask-ones", "--functions", "--encoded", "--output-index", "--any-length"});
  put_in_group(command, kWeightGroup, {"--keep", "--calibrate"});
}

// Throws InputError for options that do not apply to a single attention module.
void refuse_model_options(const ConvertArguments& arguments) {
  const convert::ModelOptions& model = arguments.model;
  std::vector<std::string> others;
  for (const auto& [name, is_given] : std::initializer_list<std::pair<const char*, bool>>{
           {"--tokenizer", !arguments.tokenizer.empty()},
           {"--activation", model.activation.has_value()},
           {"--norm-first", model.norm_first == true},
           {"--norm-last", model.norm_first == false},
           {"--embedding-scale", model.embedding_scale.has_value()},
           {"--epsilon", model.epsilon.has_value()},
           {"--rope-theta", model.rope_theta.has_value()},
           {"--pooling", model.pooling.has_value()}}) {
    if (is_given) others.emplace_back(name);
  }
  if (others.empty()) return;
  throw convert::InputError(
      "{}: {}: this is a single attention module, which has no tokens, embeddings, norms or MLP: "
      "drop the option{}",
      convert::quote(arguments.checkpoint.string()), fmt::join(others, ", "),
      others.size() == 1 ? "" : "s");
}

// The value "none" turns calibration off; any other is a file.
convert::Calibration calibration_of(const ConvertArguments& arguments) {
  if (arguments.calibrate == std::vector<std::string>{"none"}) return {{}, true};
  return {arguments.calibrate};
}

// Returns the budget of `--weights auto`, or nullopt if types are given.
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

// Returns the files of --expect, with the lengths of their sequences.
std::vector<convert::AuthorFiles> author_files(const ConvertArguments& arguments) {
  std::vector<convert::AuthorFiles> files;
  for (const std::string& text : arguments.expect) {
    const std::vector<std::string> all = CLI::detail::split(text, ',');
    files.push_back(
        {all.front(), all.back(), arguments.expect_lengths, {all.begin() + 1, all.end() - 1}});
  }
  return files;
}

convert::ConvertOptions convert_options(const ConvertArguments& arguments) {
  const std::optional<convert::WeightBudget> budget = budget_of(arguments);
  const TensorType type = budget ? TensorType::kF32 : convert::parse_weight_type(arguments.weights);
  convert::ModelOptions model = arguments.model;
  if (model.window != 0) model.mask = convert::MaskChoice::kWindow;
  return {model,
          arguments.tokenizer,
          arguments.without_passes,
          {type, convert::parse_weight_rules(arguments.keep, type), !arguments.has_weights},
          budget,
          calibration_of(arguments),
          arguments.kv_cache,
          arguments.decoder,
          author_files(arguments),
          arguments.labels,
          arguments.sound};
}

// Describes the requested types: "q4, keeping output=q8, embedding=q8".
std::string describe_weights(const ConvertArguments& arguments) {
  std::vector<std::string> kept;
  for (const convert::WeightRule& rule : convert_options(arguments).weights.keep) {
    kept.push_back(fmt::format("{}={}", rule.name, name(rule.type)));
  }
  return kept.empty() ? arguments.weights
                      : fmt::format("{}, keeping {}", arguments.weights, fmt::join(kept, ", "));
}

// Returns the bytes of the files with the weights: of a folder, those in its preferred format.
uint64_t checkpoint_bytes(const ConvertArguments& arguments) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (!fs::is_directory(arguments.checkpoint, ignored)) {
    const uint64_t bytes = fs::file_size(arguments.checkpoint, ignored);
    return arguments.decoder.empty() ? bytes : bytes + fs::file_size(arguments.decoder, ignored);
  }
  for (const char* extension : {".safetensors", ".gguf", ".bin", ".pt", ".pth", ".pt2"}) {
    uint64_t bytes = 0;
    for (const fs::directory_entry& file : fs::directory_iterator(arguments.checkpoint, ignored)) {
      if (file.path().extension() == extension) bytes += file.file_size(ignored);
    }
    if (bytes != 0) return bytes;
  }
  return 0;
}

constexpr size_t kWriteBytes = 16 << 20;  // between two updates of the progress

// Compares with the author's outputs, writes and reports. Leaves no file if the outputs differ.
void finish(convert::Conversion& conversion, const ConvertArguments& arguments,
            Progress& progress) {
  std::vector<convert::AuthorCheck> expect;
  const convert::AlignedBytes* const in_float32 =
      conversion.quantization ? &conversion.quantization->reference : nullptr;
  for (const convert::AuthorFiles& files : conversion.expect) {
    try {
      expect.push_back(convert::check_against_author(conversion, files,
                                                     arguments.checkpoint.string(), in_float32));
    } catch (const convert::InputError& error) {
      if (files.listed_in.empty()) throw;
      throw convert::InputError("{}: {}", files.listed_in, error.what());
    }
  }
  if (arguments.explain) {
    progress.done();
    print_output("as recognised\n{}\n", convert::print_graph(conversion.graph));
    print_output("after the passes\n{}\n", convert::print_graph(conversion.rewritten));
  }
  if (arguments.no_self_test) convert::strip_self_test(conversion.file);
  const ConversionFacts found =
      conversion_facts(conversion, convert::quote(arguments.checkpoint.string()),
                       describe_weights(arguments), arguments.limits);
  require_limits(found);
  const VerifiedFile verified(arguments.output.string(), conversion.file.span());
  const ReportFacts facts = gather_report(gather_facts(verified, {}), found);
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
  const WrittenFile written = {arguments.output, expect, checkpoint_bytes(arguments)};
  const std::string report = describe_conversion(conversion, written, facts,
                                                 arguments.json      ? ConversionOutput::kJson
                                                 : arguments.verbose ? ConversionOutput::kVerbose
                                                                     : ConversionOutput::kScreen);
  arguments.json ? write_output(report) : write_lines(report);
}

void run_convert(const ConvertArguments& arguments) {
  const convert::OutputGuard guard(
      {{"--output", arguments.output}, {"--report", arguments.report}});
  const std::filesystem::path& checkpoint = arguments.checkpoint;
  require_no_part_of(checkpoint, arguments.output);
  for (const std::string& text : arguments.expect) {
    for (const std::string& file : CLI::detail::split(text, ',')) {
      convert::note_read(file);
      convert::note_read(file.substr(file.find('=') + 1));  // NAME=FILE
    }
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
