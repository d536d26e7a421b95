// SPDX-License-Identifier: Apache-2.0
// arenite run: an array through a model, results into another. What its ways to run share.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/json_output.h"
#include "cli/process.h"
#include "cli/run.h"
#include "cli/text_table.h"
#include "convert/check/model_input.h"
#include "convert/files/error.h"
#include "convert/files/output_files.h"
#include "session/model_access.h"

namespace arenite::tool {
namespace {

using Json = nlohmann::ordered_json;

void check_feature_array(const convert::NpyArray& input, const Model& model) {
  const std::vector<uint64_t>& shape = input.shape();
  const size_t rank = shape.size();
  const std::string file = convert::quote(input.name());
  if (input.dtype() != convert::DType::kF32 && input.dtype() != convert::DType::kF64) {
    throw convert::InputError("{}: dtype is {}: expected float32 ('<f4') or float64 ('<f8')", file,
                              convert::name(input.dtype()));
  }
  if (image_shape(model).channels != 0) return;  // shape_of_images
  if ((rank != 2 && rank != 3) || shape[rank - 1] != model.input_features()) {
    throw convert::InputError("{}: shape is [{}]: expected [tokens, {}] or [sequences, tokens, {}]",
                              file, fmt::join(shape, ", "), model.input_features(),
                              model.input_features());
  }
}

void check_token_array(const convert::NpyArray& input) {
  const std::string file = convert::quote(input.name());
  const convert::DType dtype = input.dtype();
  if (dtype != convert::DType::kI32 && dtype != convert::DType::kI64 &&
      dtype != convert::DType::kU32) {
    throw convert::InputError(
        "{}: dtype is {}: expected token ids, as int32 ('<i4'), int64 ('<i8') or uint32 ('<u4')",
        file, convert::name(dtype));
  }
  if (input.shape().size() != 1 && input.shape().size() != 2) {
    throw convert::InputError("{}: shape is [{}]: expected [tokens] or [sequences, tokens]", file,
                              fmt::join(input.shape(), ", "));
  }
}

InputShape shape_of_images(const convert::NpyArray& input, const Model& model) {
  const ImageShape image = image_shape(model);
  const uint64_t images = convert::images_of(input.shape(), image);
  if (images == 0 || images > UINT32_MAX / image.patches) {
    convert::refuse_shape(input, "--input",
                          fmt::format("[{0}] or [images, {0}]", convert::image_text(image)));
  }
  return {static_cast<uint32_t>(images), image.patches};
}

InputShape shape_of(const convert::NpyArray& input, const Model& model) {
  if (image_shape(model).channels != 0) return shape_of_images(input, model);
  const std::vector<uint64_t>& shape = input.shape();
  const bool one_sequence = shape.size() == (model.vocab_size() != 0 ? 1 : 2);
  const uint64_t sequences = one_sequence ? 1 : shape[0];
  const uint64_t tokens = shape[one_sequence ? 0 : 1];
  if (sequences == 0 || tokens == 0 || sequences > UINT32_MAX || tokens > UINT32_MAX) {
    throw convert::InputError("{}: shape is [{}]: expected at least one sequence and one token",
                              convert::quote(input.name()), fmt::join(shape, ", "));
  }
  if (model.positions_max() != 0 && tokens > model.positions_max()) {
    throw convert::InputError("{}: shape is [{}]: found {} tokens; at most {}, the model's context",
                              convert::quote(input.name()), fmt::join(shape, ", "), tokens,
                              model.positions_max());
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
      throw convert::InputError("--lengths: found {}; at most the {} tokens in {}", length,
                                shape.tokens, file);
    }
  }
  if (std::ranges::all_of(lengths, [](uint32_t length) { return length == 0; })) {
    throw convert::InputError("--lengths: found zeros only, expected at least one token to run");
  }
}

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
  const uint32_t prefix = ModelAccess::reader(model).prefix_rows();
  const bool has_other_rows = prefix != 0 || image_shape(model).channels != 0;
  if (model.causal() && has_other_rows && !(options.last && options.hidden_states.empty())) {
    throw convert::InputError(
        "{}: its sequences have more rows than tokens are given: expected --last, without "
        "--hidden-states",
        convert::quote(file.name()));
  }
  const bool is_encoder = !model.causal() && (model.vocab_size() != 0 || model.pooled() || masked ||
                                              has_other_rows || !options.hidden_states.empty());
  if (is_encoder) return run_encoder(options, file);
  (model.vocab_size() == 0 ? run_features : run_tokens)(options, file);
}

}  // namespace

InputShape check_input(const RunOptions& options, const convert::NpyArray& input,
                       const Model& model) {
  if (model.vocab_size() != 0) {
    check_token_array(input);
  } else {
    check_feature_array(input, model);
  }
  const InputShape shape = shape_of(input, model);
  check_lengths(options, shape);
  return shape;
}

uint32_t length_of(const RunOptions& options, const InputShape& shape, uint32_t index) {
  return options.lengths.empty() ? shape.tokens : options.lengths[index];
}

std::vector<uint8_t> tokens_within_lengths(const RunOptions& options, const InputShape& shape) {
  std::vector<uint8_t> visible;
  for (uint32_t s = 0; s < shape.sequences; ++s) {
    const uint32_t length = length_of(options, shape, s);
    visible.insert(visible.end(), length, 1);
    visible.insert(visible.end(), shape.tokens - length, 0);
  }
  return visible;
}

std::vector<TokenId> token_ids(const convert::NpyArray& input, const InputShape& shape,
                               const Model& model, std::span<const uint8_t> visible) {
  const std::vector<int64_t> values = input.to_i64();
  std::vector<TokenId> ids(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] >= 0 && values[i] < int64_t{model.vocab_size()}) {
      ids[i] = static_cast<TokenId>(values[i]);
      continue;
    }
    ids[i] = kNoToken;
    if (visible[i] == 0) continue;
    const size_t token = i % shape.tokens;
    throw convert::InputError(
        "{}: found token {} at [{}], expected ids from 0 to {}, the model's vocabulary",
        convert::quote(input.name()), values[i],
        input.shape().size() == 1 ? fmt::format("{}", token)
                                  : fmt::format("{}, {}", i / shape.tokens, token),
        model.vocab_size() - 1);
  }
  return ids;
}

StateWriter::StateWriter(const RunOptions& options, const Model& model,
                         const std::vector<uint64_t>& tokens_shape, WriteRows write_rows)
    : write_rows_(std::move(write_rows)) {
  if (options.hidden_states.empty()) return;
  const format::ModelReader reader(model.file());
  if (reader.hidden_states() == 0) {
    throw convert::InputError("{}: the file names no hidden states: convert it again",
                              convert::quote(options.model.string()));
  }
  std::vector<uint64_t> shape = {reader.hidden_states()};
  for (const uint64_t extent : tokens_shape) {
    shape.push_back(extent);
    rows_ *= extent;
  }
  shape.push_back(reader.hidden_state(0).view.width);
  writer_.emplace(options.hidden_states, shape);
}

HiddenStateHook StateWriter::hook() {
  if (!writer_) return {};
  return {[](void* context, uint32_t index, const float* data, uint32_t, uint32_t features) {
            static_cast<StateWriter*>(context)->write(index, data, features);
          },
          this};
}

void StateWriter::rethrow() const {
  if (error_) std::rethrow_exception(error_);
}

convert::AtomicFile* StateWriter::file() { return writer_ ? &writer_->file() : nullptr; }

void StateWriter::write(uint32_t index, const float* data, uint32_t features) {
  if (error_) return;
  try {
    write_rows_(*writer_, index * rows_, data, features);
  } catch (...) {
    error_ = std::current_exception();
  }
}

void print_run(const RunOptions& options, const ModelFile& file,
               const std::vector<uint64_t>& output_shape, const ArenaPlan& plan, bool finite) {
  if (options.json) {
    const bool has_states = !options.hidden_states.empty();
    print_json(
        {{"output",
          {{"path", options.output.string()}, {"shape", output_shape}, {"dtype", "float32"}}},
         {"hidden_states", has_states ? Json(options.hidden_states.string()) : Json(nullptr)},
         {"kernel_set", kernel_set_name(file.model().target())},
         {"threads", options.threads},
         {"arena_bytes", plan.total_bytes},
         {"finite", finite}});
  } else {
    fmt::print("{}: [{}] float32, by kernel set {} on {}, in an arena of {} bytes\n",
               options.output.string(), fmt::join(output_shape, ", "),
               kernel_set_name(file.model().target()), counted(options.threads, "thread"),
               plan.total_bytes);
  }
  if (finite) return;
  print_warning(
      fmt::format("{}: NaN or infinity is among the results: check {} and the weights for numbers "
                  "that are not finite or very large",
                  options.output.string(), options.input.string()));
}

void add_run(CLI::App& app) {
  const auto [command, options] = add_command(
      app, run_run, "run", "Run a model on features or token ids in a .npy file",
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
                  "Of an encoder: 1 for each token that counts, 0 for padding, .npy")
      ->type_name(kFileType)
      ->excludes("--lengths");
  command.add_option("--types", options.types, "Of an encoder: the type of each token, .npy")
      ->type_name(kFileType);
  command.add_flag("--last", options.last, "Results of the last token of each sequence alone");
  command
      .add_option("--hidden-states", options.hidden_states,
                  "Where to write what the layers hand on, .npy")
      ->type_name(kFileType);
  add_number(command, "--chunk", options.chunk,
             "Most tokens of a sequence in one call; 64 by default. Changes memory, not "
             "results");
  add_machine_options(command, options.kernels, options.threads);
  add_kv_option(command, options.kv_cache);
  add_profile_options(command, options.profile);
  add_json_option(command, options.json);
}

}  // namespace arenite::tool
