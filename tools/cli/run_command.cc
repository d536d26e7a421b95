// SPDX-License-Identifier: Apache-2.0
// arenite run: an array through a model, results into another.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/run_options.h"
#include "convert/files/error.h"
#include "convert/files/output_files.h"

namespace arenite::tool {

InputShape input_shape(const convert::NpyArray& input, bool one_sequence, const Model& model) {
  const std::vector<uint64_t>& shape = input.shape();
  const uint64_t sequences = one_sequence ? 1 : shape[0];
  const uint64_t tokens = shape[one_sequence ? 0 : 1];
  if (sequences == 0 || tokens == 0 || sequences > UINT32_MAX || tokens > UINT32_MAX) {
    throw convert::InputError("{}: shape is [{}]: expected at least one sequence and one token",
                              convert::quote(input.name()), fmt::join(shape, ", "));
  }
  if (model.positions_max() != 0 && tokens > model.positions_max()) {
    throw convert::InputError(
        "{}: shape is [{}]: found {} tokens, expected at most {}, which is the model's context",
        convert::quote(input.name()), fmt::join(shape, ", "), tokens, model.positions_max());
  }
  return {static_cast<uint32_t>(sequences), static_cast<uint32_t>(tokens)};
}

void check_lengths(const RunOptions& options, const InputShape& shape) {
  const std::vector<uint32_t>& lengths = options.lengths;
  if (lengths.empty()) return;
  const std::string file = convert::quote(options.input.string());
  if (lengths.size() != shape.sequences) {
    throw convert::InputError(
        "--lengths: found {} numbers, expected one for each of the {} "
        "sequence{} in {}",
        lengths.size(), shape.sequences, shape.sequences == 1 ? "" : "s", file);
  }
  for (const uint32_t length : lengths) {
    if (length > shape.tokens) {
      throw convert::InputError("--lengths: found {}, expected at most the {} tokens in {}", length,
                                shape.tokens, file);
    }
  }
  if (std::ranges::all_of(lengths, [](uint32_t length) { return length == 0; })) {
    throw convert::InputError("--lengths: found zeros only, expected at least one token to run");
  }
}

uint32_t length_of(const RunOptions& options, const InputShape& shape, uint32_t index) {
  return options.lengths.empty() ? shape.tokens : options.lengths[index];
}

void print_run(const RunOptions& options, const ModelFile& file,
               const std::vector<uint64_t>& output_shape, const ArenaPlan& plan, bool finite) {
  fmt::print("{}: [{}] float32, by kernel set {} on {} thread{}, in an arena of {} bytes\n",
             options.output.string(), fmt::join(output_shape, ", "),
             kernel_set_name(file.model().target()), options.threads,
             options.threads == 1 ? "" : "s", plan.total_bytes);
  if (finite) return;
  fmt::print(stderr,
             "warning: {}: NaN or infinity is among the results: check {} and the weights for "
             "numbers that are not finite or very large\n",
             options.output.string(), options.input.string());
}

namespace {

void run_run(const RunOptions& options) {
  const convert::OutputGuard guard({{"--output", options.output},
                                    {"--hidden-states", options.hidden_states},
                                    {"--trace", options.profile.trace}});
  const ModelFile file(options.model, options.kernels);
  const Model& model = file.model();
  const bool masked = !options.mask.empty() || !options.types.empty();
  if (masked && model.causal()) {
    throw convert::InputError(
        "{}: --mask and --types are for encoders, and this model is causal: --lengths says how "
        "long its sequences are",
        convert::quote(file.name()));
  }
  const bool is_encoder = !model.causal() && (model.vocab_size() != 0 || model.pooled() || masked ||
                                              !options.hidden_states.empty());
  if (is_encoder) return run_encoder(options, file);
  (model.vocab_size() == 0 ? run_features : run_tokens)(options, file);
}

}  // namespace

void add_run(CLI::App& app) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command =
      app.add_subcommand("run", "Run a model on features or token ids in a .npy file");
  command->footer(
      "\nThe input of a model of features is float [tokens, features] or [sequences, tokens,\n"
      "features]; that of a model of tokens is int32, uint32 or int64 [tokens] or [sequences,\n"
      "tokens]. The output is float32 with a row of results for each token; of tokens, these are\n"
      "logits [.., vocabulary]. Where sequences are shorter than the array, --lengths says how "
      "long\n"
      "each is, or of an encoder --mask, with ones for the tokens that count; the rest is not "
      "read,\n"
      "and its results are zero. An encoder that pools gives a row for each sequence.\n"
      "\n--hidden-states writes [layers + 1, tokens, width], or [layers + 1, sequences, tokens, "
      "width]:\n"
      "the embedding, then the result of each layer, the last one after the final norm.\n"
      "ARENITE_KERNELS in the environment does what --kernels does.\n"
      "\nExamples:\n"
      "  arenite run attention.arn --input x.npy --output y.npy --lengths 12,7\n"
      "  arenite run decoder.arn --input ids.npy --output logits.npy --last\n");
  command->add_option("model", options->model, "A model file")->required();
  command->add_option("--input", options->input, "Features or token ids, .npy")->required();
  command->add_option("--output", options->output, "Where to write the results, .npy")->required();
  command->add_option("--lengths", options->lengths, "Tokens of each sequence")
      ->check(whole_number(0, UINT32_MAX))
      ->delimiter(',');
  command
      ->add_option("--mask", options->mask,
                   "Of an encoder: 1 for each token that counts, 0 for padding, .npy")
      ->excludes("--lengths");
  command->add_option("--types", options->types, "Of an encoder: the type of each token, .npy");
  command->add_flag("--last", options->last, "Results of the last token of each sequence alone");
  command->add_option("--hidden-states", options->hidden_states,
                      "Where to write what the layers hand on, .npy");
  command
      ->add_option("--chunk", options->chunk,
                   "Most tokens of a sequence in one call; 64 by default. Changes memory, not "
                   "results")
      ->check(whole_number(1, UINT32_MAX));
  add_machine_options(*command, options->kernels, options->threads);
  add_profile_options(*command, options->profile);
  command->callback([options] { run_run(*options); });
}

}  // namespace arenite::tool
