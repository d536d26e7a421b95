// SPDX-License-Identifier: Apache-2.0
// arenite run: features in a .npy file through a model, results into another.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "arenite/arguments.h"
#include "arenite/commands.h"
#include "arenite/model_file.h"
#include "arenite/progress.h"
#include "arenite/thread_pool.h"
#include "convert/error.h"
#include "convert/npy.h"

namespace arenite::tool {
namespace {

struct Arguments {
  std::filesystem::path model;
  std::filesystem::path input;
  std::filesystem::path output;
  std::vector<uint32_t> lengths;
  std::string kernels;
  uint32_t threads = 1;
};

struct InputShape {
  uint32_t sequences = 1;
  uint32_t tokens = 0;
};

InputShape check_input(const convert::NpyArray& input, const std::string& file,
                       const Model& model) {
  const std::vector<uint64_t>& shape = input.shape();
  const size_t rank = shape.size();
  if (input.dtype() != convert::DType::kF32 && input.dtype() != convert::DType::kF64) {
    throw convert::InputError("{}: dtype is {}: expected float32 ('<f4') or float64 ('<f8')", file,
                              convert::name(input.dtype()));
  }
  if ((rank != 2 && rank != 3) || shape[rank - 1] != model.input_features()) {
    throw convert::InputError("{}: shape is [{}]: expected [tokens, {}] or [sequences, tokens, {}]",
                              file, fmt::join(shape, ", "), model.input_features(),
                              model.input_features());
  }
  const uint64_t sequences = rank == 3 ? shape[0] : 1;
  const uint64_t tokens = shape[rank - 2];
  if (sequences == 0 || tokens == 0 || sequences > UINT32_MAX || tokens > UINT32_MAX) {
    throw convert::InputError("{}: shape is [{}]: expected at least one sequence and one token",
                              file, fmt::join(shape, ", "));
  }
  if (model.positions_max() != 0 && tokens > model.positions_max()) {
    throw convert::InputError(
        "{}: shape is [{}]: found {} tokens, expected at most {}, which is the model's context",
        file, fmt::join(shape, ", "), tokens, model.positions_max());
  }
  return {static_cast<uint32_t>(sequences), static_cast<uint32_t>(tokens)};
}

void check_lengths(const std::vector<uint32_t>& lengths, const InputShape& shape,
                   const std::string& file) {
  if (lengths.empty()) return;
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

// The elements as they lie in the file where kernels can read them so, else a copy in `converted`.
std::span<const float> features_of(const convert::NpyArray& input, std::vector<float>& converted) {
  const std::byte* const data = input.data().data();
  if (input.dtype() == convert::DType::kF32 &&
      reinterpret_cast<uintptr_t>(data) % alignof(float) == 0) {
    return {reinterpret_cast<const float*>(data), static_cast<size_t>(input.elements())};
  }
  converted = input.to_f32();
  return converted;
}

// A session begins by copying the features: from the first op on, the file's pages are not needed.
ProfileHook drop_pages_after_copy(const convert::NpyArray& input) {
  ProfileHook hook;
  hook.context = const_cast<convert::NpyArray*>(&input);
  hook.op_begins = [](void* context, uint32_t op_index) {
    if (op_index == 0) static_cast<const convert::NpyArray*>(context)->drop_pages();
  };
  return hook;
}

// Rows behind a sequence's length stay zero.
std::vector<float> padded(const Output& output, const InputShape& shape,
                          const std::vector<uint32_t>& lengths) {
  const size_t width = output.features;
  std::vector<float> values(size_t{shape.sequences} * shape.tokens * width, 0.0f);
  size_t row = 0;
  for (size_t s = 0; s < shape.sequences; ++s) {
    std::copy_n(output.data + row * width, lengths[s] * width,
                values.begin() + static_cast<ptrdiff_t>(s * shape.tokens * width));
    row += lengths[s];
  }
  return values;
}

void write_output(const Arguments& arguments, const Output& output, const InputShape& shape,
                  std::span<const uint64_t> output_shape) {
  if (arguments.lengths.empty()) {
    convert::write_npy(arguments.output, output_shape,
                       std::span(output.data, size_t{output.rows} * output.features));
  } else {
    convert::write_npy(arguments.output, output_shape, padded(output, shape, arguments.lengths));
  }
}

void run_run(const Arguments& arguments) {
  require_other_file(arguments.output, {arguments.model, arguments.input});
  const ModelFile file(arguments.model, arguments.kernels);
  const convert::NpyArray input = convert::NpyArray::read(arguments.input);
  const std::string input_name = convert::quote(arguments.input.string());
  const InputShape shape = check_input(input, input_name, file.model());
  check_lengths(arguments.lengths, shape, input_name);

  ThreadPool pool(arguments.threads);
  SessionOptions options;
  options.positions_max = shape.tokens;
  options.sequences_max = shape.sequences;
  options.parallel = pool.parallel_for();
  options.profile = drop_pages_after_copy(input);
  ModelSession session(file, options);
  std::vector<float> converted;
  const std::span<const float> features = features_of(input, converted);
  Progress progress("running " + arguments.model.string());
  Diagnostic why;
  const Result<Output> output = session.session().run(
      Batch{features, shape.sequences, shape.tokens, arguments.lengths}, &why);
  progress.done();
  if (!output.ok()) throw_status(arguments.input.string(), output.status(), why);

  std::vector<uint64_t> output_shape = input.shape();
  output_shape.back() = output->features;
  write_output(arguments, *output, shape, output_shape);
  fmt::print("{}: [{}] float32, by kernel set {} on {} thread{}, in an arena of {} bytes\n",
             arguments.output.string(), fmt::join(output_shape, ", "),
             kernel_set_name(file.model().target()), arguments.threads,
             arguments.threads == 1 ? "" : "s", session.plan().total_bytes);
}

}  // namespace

void add_run(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("run", "Run a model on features in a .npy file");
  command->footer(
      "\nThe input is float [tokens, features] or [sequences, tokens, features]. Where sequences\n"
      "are shorter than the array, --lengths says how long each is; the rest is not read, and its\n"
      "results are zero. ARENITE_KERNELS in the environment does what --kernels does.\n"
      "\nExample:\n"
      "  arenite run attention.arn --input x.npy --output y.npy --lengths 12,7\n");
  command->add_option("model", arguments->model, "A model file")->required();
  command->add_option("--input", arguments->input, "Features, .npy")->required();
  command->add_option("--output", arguments->output, "Where to write the results, .npy")
      ->required();
  command->add_option("--lengths", arguments->lengths, "Tokens of each sequence")
      ->check(whole_number(0, UINT32_MAX))
      ->delimiter(',');
  add_machine_options(*command, arguments->kernels, arguments->threads);
  command->callback([arguments] { run_run(*arguments); });
}

}  // namespace arenite::tool
