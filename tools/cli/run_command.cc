// SPDX-License-Identifier: Apache-2.0
// arenite run: an array through a model, results into another.
#include <fmt/format.h>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/run.h"
#include "convert/files/error.h"
#include "convert/files/output_files.h"

namespace arenite::tool {
namespace {

void run_run(const RunOptions& options) {
  const convert::OutputGuard guard({{"--output", options.output},
                                    {"--hidden-states", options.hidden_states},
                                    {"--trace", options.profile.trace}});
  const ModelFile file(options.model, options.kernels);
  if (const char* const why = why_whole_sequences(file.model()); why != nullptr && options.chunk) {
    throw convert::InputError("{}: --chunk: the model takes whole sequences: {}",
                              convert::quote(file.name()), why);
  }
  run_input(options, file, read_run_input(options, file.model()));
}

}  // namespace

void add_run(CLI::App& app) {
  const auto [command, options] = add_command(
      app, run_run, "run", "Run a model on features or token ids in a .npy file",
      "\nThe input of a model of features is float [tokens, features] or [sequences, tokens,\n"
      "features]; that of a model of tokens is int32, uint32 or int64 [tokens] or [sequences,\n"
      "tokens]; images are float [images, channels, height, width]. The output is float32, as the\n"
      "author's program has it: a row of results for each token or, where that pools or gives the\n"
      "last token's alone, for each sequence; of a decoder --last and --all-rows choose. Where\n"
      "sequences are shorter than the array, --lengths says how long each is, or --mask, with "
      "ones\n"
      "for the tokens that count; the rest is not read, and its results are zero.\n"
      "\n--hidden-states writes [layers + 1, tokens, width], or [layers + 1, sequences, tokens, "
      "width]:\n"
      "the embedding, then the result of each layer, the last one after the final norm.\n"
      "ARENITE_KERNELS in the environment does what --kernels does.\n"
      "\nExamples:\n"
      "  arenite run attention.arn --input x.npy --output y.npy --lengths 12,7\n"
      "  arenite run decoder.arn --input ids.npy --output logits.npy --last\n");
  command.add_option("model", options.model, "A model file")->type_name(kFileType)->required();
  command.add_option("--input", options.input, "Features or token ids, .npy")
      ->type_name(kFileType)
      ->required();
  command.add_option("--output", options.output, "Where to write the results, .npy")
      ->type_name(kFileType)
      ->required();
  add_number(command, "--lengths", options.lengths, "Tokens of each sequence", 0);
  command
      .add_option("--mask", options.mask,
                  "1 for each token that counts, 0 for padding, [sequences, tokens], .npy")
      ->type_name(kFileType)
      ->excludes("--lengths");
  command.add_option("--types", options.types, "The type of each token, [sequences, tokens], .npy")
      ->type_name(kFileType);
  command.add_flag("--last", options.last,
                   "Of a decoder: results of the last token of each sequence alone");
  command.add_flag("--all-rows", options.all_rows, "Of a decoder: results of each token")
      ->excludes("--last");
  command
      .add_option("--hidden-states", options.hidden_states,
                  "Where to write what the layers hand on, .npy")
      ->type_name(kFileType);
  add_number(command, "--chunk", options.chunk,
             "Of a causal model: most tokens of a sequence in one call; 64 by default. Changes "
             "memory, not results");
  add_machine_options(command, options.kernels, options.threads);
  add_kv_option(command, options.kv_cache);
  add_profile_options(command, options.profile);
  add_json_option(command, options.json);
}

}  // namespace arenite::tool
