// SPDX-License-Identifier: Apache-2.0
// arenite convert: from a checkpoint to a model file, and what it made.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "arenite/arguments.h"
#include "arenite/commands.h"
#include "arenite/progress.h"
#include "convert/atomic_file.h"
#include "convert/convert.h"
#include "convert/formula_text.h"
#include "convert/module_recognition.h"
#include "core/arena_formula.h"
#include "format/reader.h"

namespace arenite::tool {
namespace {

// Far above real modules, and far from overflow.
constexpr uint32_t kHeadsMax = 1u << 16;
constexpr uint32_t kContextMax = 1u << 24;
constexpr uint32_t kFeaturesMax = 1u << 20;

struct Arguments {
  std::filesystem::path checkpoint;
  std::filesystem::path output;
  convert::ModuleOptions module;
  std::string targets = "native";
  std::string name;
  std::string mask_ones;
  bool causal = false;
  bool bidirectional = false;
};

void print_shape(const convert::AttentionModule& module) {
  fmt::print("module     {}\n", module.architecture);
  fmt::print("shape      [tokens, {}] -> [tokens, {}], {} head{} of {}{}\n", module.features,
             module.output_features(), module.heads, module.heads == 1 ? "" : "s", module.value_dim,
             module.head_dim == module.value_dim || module.head_dim == 0
                 ? ""
                 : fmt::format(" (queries and keys {})", module.head_dim));
  if (module.separate_inputs) {
    fmt::print("input      columns [query {} | key {} | value {}]\n", module.query.inputs,
               module.key.inputs, module.value.inputs);
  }
}

void print_masks(const convert::AttentionModule& module) {
  fmt::print("context    {}\n", module.positions_max == 0
                                    ? std::string("any number of positions")
                                    : fmt::format("{} positions", module.positions_max));
  for (size_t i = 0; i < module.masks.size(); ++i) {
    const convert::CompiledMask& mask = module.masks[i];
    std::string bytes = fmt::format("{} bytes", mask.bytes());
    if (mask.positions != 0) {
      const uint64_t cells = uint64_t{mask.positions} * mask.positions;
      bytes += fmt::format(", dense {}", cells * sizeof(float));
    }
    fmt::print("{}{}; {}\n", i == 0 ? "mask       " : "           ", mask.describe(), bytes);
    fmt::print("           {}\n", module.mask_origins[i]);
  }
}

// The sum that the arena is, for any sizes. Session and activations are the same for all targets.
void print_formulas(const format::ModelReader& reader) {
  for (uint32_t i = 0; i < reader.packed_count(); ++i) {
    const format::PackedView packed = reader.packed(i);
    const convert::FormulaText parts = convert::describe_parts(packed.formula);
    if (i == 0) {
      fmt::print("formula    session {}, activations {}, and\n", parts.session, parts.activations);
    }
    const char* const target = name(static_cast<Target>(packed.target));
    fmt::print("           {:<10} cache {}\n", target, parts.kv_cache);
    fmt::print("           {:<10} scratch {}\n", "", parts.scratch);
  }
  fmt::print(
      "           for P positions, T tokens a call, S sequences, N threads; each part "
      "rounded up to 64\n");
}

// For each target its arena, and how far its results are from the reference.
void print_targets(const convert::Conversion& conversion) {
  const format::ModelReader reader(conversion.file.span());
  const SessionOptions sizes = convert::default_session_options(conversion.program.positions_max,
                                                                conversion.program.vocab_size != 0);
  for (uint32_t i = 0; i < reader.packed_count(); ++i) {
    const convert::TargetCheck& check = conversion.checks[i];
    const ArenaSizes sizes =
        evaluate(reader.packed(i).formula, {sizes.positions_max, sizes.tokens_max, 1, 1, 1});
    fmt::print("{}{:<10} arena {:>12} bytes, ", i == 0 ? "target     " : "           ",
               name(check.target), sizes.total_bytes.value());
    if (check.ran) {
      fmt::print("largest error {:.1e}\n", check.largest_error);
    } else {
      fmt::print("not checked: this CPU cannot run it\n");
    }
  }
  fmt::print(
      "arena      for one sequence of {} positions, fed {} on one thread\n", sizes.positions_max,
      sizes.tokens_max == sizes.positions_max ? "in one call"
                                              : fmt::format("{} tokens a call", sizes.tokens_max));
  print_formulas(reader);
  fmt::print("error      against double precision, {} tokens, outputs up to {:.2f}\n",
             conversion.checked_tokens, conversion.largest_output);
}

void print_conversion(const convert::Conversion& conversion, const std::filesystem::path& output) {
  print_shape(conversion.module);
  print_masks(conversion.module);
  print_targets(conversion);
  fmt::print("file       {}, {} bytes\n", output.string(), conversion.file.size());
}

void run_convert(const Arguments& arguments) {
  require_other_file(arguments.output, {arguments.checkpoint});
  convert::ModuleOptions options = arguments.module;
  if (arguments.causal) options.mask = convert::MaskChoice::kCausal;
  if (arguments.bidirectional) options.mask = convert::MaskChoice::kBidirectional;
  if (options.window != 0) options.mask = convert::MaskChoice::kWindow;
  if (arguments.mask_ones == "hidden") options.mask_ones = convert::MaskOnes::kHidden;
  if (arguments.mask_ones == "visible") options.mask_ones = convert::MaskOnes::kVisible;
  const std::string name =
      arguments.name.empty() ? arguments.output.stem().string() : arguments.name;

  const std::vector<Target> targets = convert::parse_targets(arguments.targets);
  Progress progress("converting " + arguments.checkpoint.string());
  const convert::Conversion conversion =
      convert::convert_checkpoint(arguments.checkpoint, name, options, targets);
  progress.done();
  convert::AtomicFile file(arguments.output);
  file.write(conversion.file.span());
  file.commit();
  print_conversion(conversion, arguments.output);
}

}  // namespace

void add_convert(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand(
      "convert", "Convert the attention weights of a checkpoint into a model file");
  command->footer(fmt::format(
      "\nModules, recognised by their parameters under any prefix:\n{}\n"
      "Examples:\n"
      "  arenite convert attention.safetensors -o attention.arn --heads 12 --context 1024\n"
      "  arenite convert model.pt -o layer0.arn --module transformer.h.0.attn --heads 12 "
      "--target all\n",
      convert::known_modules()));
  command->add_option("checkpoint", arguments->checkpoint, "A .safetensors, .pt, .pth or .bin file")
      ->required();
  command->add_option("-o,--output", arguments->output, "The model file to write")->required();
  command->add_option("--heads", arguments->module.heads, "Number of heads, where names don't tell")
      ->check(whole_number(1, kHeadsMax));
  command
      ->add_option("--context", arguments->module.context,
                   "Longest sequence, in positions; of a mask buffer, as many rows and columns")
      ->check(whole_number(1, kContextMax));
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
  command
      ->add_option("--target", arguments->targets,
                   "native, all, or names: portable, x86-64-v2, x86-64-v3, x86-64-v4, arm64")
      ->check(target_names())
      ->capture_default_str();
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
