// SPDX-License-Identifier: Apache-2.0
// arenite convert: from a checkpoint to a model file, and what it made.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "arenite/commands.h"
#include "arenite/model_file.h"
#include "arenite/progress.h"
#include "convert/atomic_file.h"
#include "convert/convert.h"
#include "convert/error.h"
#include "convert/formula_text.h"
#include "convert/module_recognition.h"
#include "core/arena_formula.h"
#include "format/reader.h"

namespace arenite::tool {
namespace {

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

std::string shape_text(const convert::AttentionModule& module) {
  return fmt::format(
      "[tokens, {}] -> [tokens, {}], {} head{} of {}{}", module.features, module.output_features(),
      module.heads, module.heads == 1 ? "" : "s", module.head_dim,
      module.value_dim == module.head_dim ? "" : fmt::format(" (values {})", module.value_dim));
}

void print_masks(const convert::AttentionModule& module) {
  for (size_t i = 0; i < module.masks.size(); ++i) {
    const convert::CompiledMask& mask = module.masks[i];
    fmt::print("{}{}, {}", i == 0 ? "mask       " : "           ", mask.describe(),
               module.mask_origin);
    if (mask.positions != 0) {
      const size_t dense_bytes = size_t{mask.positions} * mask.positions * sizeof(float);
      fmt::print("; {} bytes, {} less than dense", mask.bytes(), dense_bytes - mask.bytes());
    }
    fmt::print("\n");
  }
}

void print_arena(const convert::Conversion& conversion) {
  const format::ModelReader reader(conversion.file.span());
  const SessionOptions options = convert::default_session_options(conversion.program.positions_max);
  for (uint32_t i = 0; i < reader.packed_count(); ++i) {
    const format::PackedView packed = reader.packed(i);
    const ArenaFormula& formula = packed.formula;
    const ArenaSizes sizes = evaluate(formula, options.positions_max, options.positions_max, 1, 1);
    fmt::print("{}{:<10} {:>12} bytes for {} positions\n", i == 0 ? "arena      " : "           ",
               name(static_cast<Target>(packed.target)), sizes.total_bytes.value(),
               options.positions_max);
    if (i + 1 == reader.packed_count())
      fmt::print("           {}\n", convert::describe_formula(formula));
  }
}

void print_checks(const convert::Conversion& conversion) {
  bool first = true;
  for (const convert::TargetCheck& check : conversion.checks) {
    fmt::print("{}{:<10} ", first ? "check      " : "           ", name(check.target));
    first = false;
    if (check.ran) {
      fmt::print("{:.1e} off the double-precision reference (largest output {:.2f}, {} tokens)\n",
                 check.largest_error, conversion.largest_output, conversion.checked_tokens);
    } else {
      fmt::print("not run: this CPU cannot\n");
    }
  }
}

void print_conversion(const convert::Conversion& conversion, const std::filesystem::path& output) {
  const convert::AttentionModule& module = conversion.module;
  fmt::print("module     {}\n", module.architecture);
  fmt::print("shape      {}\n", shape_text(module));
  if (module.separate_inputs) {
    fmt::print("input      columns [query {} | key {} | value {}]\n", module.query.inputs,
               module.key.inputs, module.value.inputs);
  }
  if (module.positions_max != 0) fmt::print("context    {} positions\n", module.positions_max);
  print_masks(module);
  print_arena(conversion);
  print_checks(conversion);
  fmt::print("file       {}, {} bytes\n", output.string(), conversion.file.size());
}

void run_convert(const Arguments& arguments) {
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
      ->check(CLI::PositiveNumber);
  command->add_option("--context", arguments->module.context, "Longest sequence, in positions")
      ->check(CLI::PositiveNumber);
  CLI::Option* causal = command->add_flag("--causal", arguments->causal,
                                          "Each token sees itself and those before it");
  CLI::Option* bidirectional =
      command->add_flag("--bidirectional", arguments->bidirectional, "Each token sees all tokens");
  CLI::Option* window = command
                            ->add_option("--window", arguments->module.window,
                                         "Each token sees itself and the N - 1 before it")
                            ->check(CLI::PositiveNumber);
  causal->excludes(bidirectional)->excludes(window);
  bidirectional->excludes(window);
  command
      ->add_option("--target", arguments->targets,
                   "native, all, or names: portable, x86-64-v2, x86-64-v3, x86-64-v4, arm64")
      ->capture_default_str();
  command->add_option("--name", arguments->name, "Name to store; the file's by default");
  command->add_option("--module", arguments->module.module,
                      "Prefix of the module to convert, where a checkpoint has several");
  command
      ->add_option("--features", arguments->module.features,
                   "Width of the input, for a module of a mask alone")
      ->check(CLI::PositiveNumber);
  command
      ->add_option("--mask-ones", arguments->mask_ones,
                   "What a 1 in the mask buffer means, where it cannot be told")
      ->check(CLI::IsMember({"hidden", "visible"}));
  command->callback([arguments] { run_convert(*arguments); });
}

}  // namespace arenite::tool
