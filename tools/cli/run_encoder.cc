// SPDX-License-Identifier: Apache-2.0
// A model that sees whole sequences: as many of them in a call as keep its kernels busy.
#include <fmt/format.h>

#include "cli/process.h"
#include "cli/run.h"
#include "cli/session_sizes.h"
#include "convert/check/model_input.h"
#include "convert/files/error.h"
#include "session/model_access.h"

namespace arenite::tool {
namespace {

// A .npy of whole numbers of one byte each, as many as there are tokens.
std::vector<uint8_t> read_bytes(const std::filesystem::path& path, const char* option,
                                const InputShape& shape, int64_t most) {
  if (path.empty()) return {};
  const convert::NpyArray array = convert::NpyArray::read(path);
  const uint64_t tokens = uint64_t{shape.sequences} * shape.tokens;
  if (array.elements() != tokens || array.shape().back() != shape.tokens) {
    throw convert::InputError("{}: shape is [{}]: expected [{}, {}], a number for each token ({})",
                              convert::quote(array.name()), fmt::join(array.shape(), ", "),
                              shape.sequences, shape.tokens, option);
  }
  std::vector<uint8_t> bytes;
  for (const int64_t value : array.to_i64()) {
    if (value < 0 || value > most) {
      throw convert::InputError("{}: found {}, expected numbers from 0 to {} ({})",
                                convert::quote(array.name()), value, most, option);
    }
    bytes.push_back(static_cast<uint8_t>(value));
  }
  return bytes;
}

// All sequences, as the files have them.
struct Sequences {
  InputShape shape;
  uint32_t prefix = 0;  // rows of constants before the tokens of each
  bool are_images = false;
  std::vector<TokenId> ids;
  std::vector<float> features;
  std::vector<uint8_t> types;
  std::vector<uint8_t> visible;   // [sequences, tokens]
  std::vector<uint32_t> lengths;  // ones in each row of `visible`
};

Sequences read_sequences(const RunOptions& options, const convert::NpyArray& input,
                         const Model& model) {
  Sequences all;
  const bool reads_tokens = model.vocab_size() != 0;
  all.shape = check_input(options, input, model);
  all.prefix = ModelAccess::reader(model).prefix_rows();
  all.are_images = image_shape(model).channels != 0;
  const bool is_whole = options.mask.empty() && options.lengths.empty();
  if (all.are_images && !is_whole) {
    throw convert::InputError(
        "{}: --mask and --lengths are for texts and features, and this model "
        "reads images",
        convert::quote(options.model.string()));
  }
  const uint32_t types = model.token_types();
  if (!options.types.empty() && types == 0) {
    throw convert::InputError("{}: --types: the model knows no token types",
                              convert::quote(options.model.string()));
  }
  all.types = read_bytes(options.types, "--types", all.shape, int64_t{types} - 1);
  all.visible = read_bytes(options.mask, "--mask", all.shape, 1);
  if (options.mask.empty()) all.visible = tokens_within_lengths(options, all.shape);
  for (uint32_t s = 0; s < all.shape.sequences; ++s) {
    uint32_t length = 0;
    for (uint32_t t = 0; t < all.shape.tokens; ++t) {
      length += all.visible[size_t{s} * all.shape.tokens + t];
    }
    all.lengths.push_back(length);
  }
  if (reads_tokens) {
    all.ids = token_ids(input, all.shape, model, all.visible);
  } else {
    all.features = input.to_f32();
  }
  return all;
}

// Rows of a call to where their tokens stand in an array [.., sequences, tokens, width].
void write_rows(convert::NpyWriter& writer, uint64_t first_row, const Sequences& all,
                const SequenceGroup& group, const float* data, size_t width) {
  const size_t each = size_t{all.prefix} + all.shape.tokens;
  for (size_t sequence = group.first; sequence < group.first + group.count; ++sequence) {
    for (size_t row = 0; row < each; ++row) {
      const size_t token = sequence * all.shape.tokens + row - all.prefix;
      if (row >= all.prefix && all.visible[token] == 0) continue;
      writer.write((first_row + sequence * each + row) * width, {data, width});
      data += width;
    }
  }
}

Result<Output> run_group(Session& session, const Sequences& all, const SequenceGroup& group,
                         Diagnostic& why) {
  const size_t begin = size_t{group.first} * all.shape.tokens;
  const size_t count = size_t{group.count} * all.shape.tokens;
  const std::span visible = std::span(all.visible).subspan(begin, count);
  if (all.ids.empty()) {
    if (all.are_images) {
      const size_t pixels = all.features.size() / all.shape.sequences;
      const auto images =
          std::span(all.features).subspan(group.first * pixels, group.count * pixels);
      return session.run(Batch{images, group.count}, &why);
    }
    const size_t width = all.features.size() / all.visible.size();
    const std::span features = std::span(all.features).subspan(begin * width, count * width);
    return session.run(Batch{features, group.count, all.shape.tokens, {}, visible, false}, &why);
  }
  const std::span ids = std::span(all.ids).subspan(begin, count);
  TokenBatch batch{ids, group.count, all.shape.tokens, {}, visible, false, {}};
  if (!all.types.empty()) batch.types = std::span(all.types).subspan(begin, count);
  return session.run(batch, &why);
}

// [rows] or [sequences, rows], as the input has it.
std::vector<uint64_t> rows_shape_of(const convert::NpyArray& input, const Model& model) {
  std::vector<uint64_t> shape = input.shape();
  if (const ImageShape image = image_shape(model); image.channels != 0) {
    const uint64_t images = convert::images_of(shape, image);
    const bool is_one = input.elements() == image.pixels() && (shape.empty() || shape[0] != 1);
    shape = {images, image.patches};
    if (is_one) shape.erase(shape.begin());
  } else if (model.vocab_size() == 0) {
    shape.pop_back();
  }
  shape.back() += ModelAccess::reader(model).prefix_rows();
  return shape;
}

std::vector<uint64_t> output_shape_of(const convert::NpyArray& input, const Model& model) {
  std::vector<uint64_t> shape = rows_shape_of(input, model);
  if (model.pooled()) shape.pop_back();
  shape.push_back(model.output_features());
  return shape;
}

}  // namespace

void run_encoder(const RunOptions& options, const ModelFile& file) {
  const Model& model = file.model();
  if (options.chunk) {
    throw convert::InputError(
        "{}: --chunk: the model is not causal, so that each token sees all of them",
        convert::quote(file.name()));
  }
  if (options.last) {
    throw convert::InputError("{}: --last is for decoders, and this model is none",
                              convert::quote(file.name()));
  }
  const convert::NpyArray input = convert::NpyArray::read(options.input);
  const Sequences all = read_sequences(options, input, model);
  const std::vector<SequenceGroup> groups = group_sequences(all.lengths);

  Profiler profiler(options.profile, model);
  SequenceGroup group;
  StateWriter states(
      options, model, rows_shape_of(input, model),
      [&](convert::NpyWriter& states_writer, uint64_t first_row, const float* data, size_t width) {
        write_rows(states_writer, first_row, all, group, data, width);
      });
  ThreadPool pool(options.threads);
  SessionOptions session_options = options_for(all.lengths, groups);
  session_options.positions_max = all.shape.tokens;
  session_options.kv_cache = options.kv_cache;
  profiler.attach(session_options, pool.parallel_for());
  session_options.hidden_states = states.hook();
  ModelSession session(file, session_options);
  const std::vector<uint64_t> output_shape = output_shape_of(input, model);
  convert::NpyWriter writer(options.output, output_shape);
  Progress progress("running " + options.model.string());
  bool finite = true;
  for (const SequenceGroup& next : groups) {
    group = next;
    for (uint32_t i = 0; i < group.count; ++i) {
      const uint32_t length = all.lengths[group.first + i];
      profiler.add_sequence(0, length, model.pooled() ? 1 : length);
    }
    Diagnostic why;
    const Result<Output> output = run_group(session.session(), all, group, why);
    if (!output.ok()) throw_status(options.input.string(), output.status(), why);
    states.rethrow();
    finite = finite && output->finite();
    if (model.pooled()) {
      const size_t size = size_t{output->rows} * output->features;
      writer.write(uint64_t{group.first} * output->features, {output->data, size});
    } else {
      write_rows(writer, 0, all, group, output->data, output->features);
    }
  }
  progress.done();
  profiler.report({&writer.file(), states.file()});
  print_run(options, file, output_shape, session.plan(), finite);
}

}  // namespace arenite::tool
