// SPDX-License-Identifier: Apache-2.0
// A causal model of tokens: the ids in chunks, so that the arena need not hold the logits of all of
// them.
#include <fmt/format.h>

#include <algorithm>

#include "cli/process.h"
#include "cli/run.h"
#include "cli/session_sizes.h"
#include "convert/files/error.h"

namespace arenite::tool {
namespace {

// One call feeds tokens [begin, begin + most) of each sequence, as far as they go.
struct Chunk {
  uint32_t begin = 0;
  std::vector<uint32_t> lengths;
  std::vector<TokenId> ids;  // [sequences, tokens]
  uint32_t tokens = 0;       // of the longest
};

Chunk cut_chunk(const RunOptions& options, const InputShape& shape, std::span<const TokenId> ids,
                uint32_t begin, uint32_t most) {
  Chunk chunk;
  chunk.begin = begin;
  for (uint32_t s = 0; s < shape.sequences; ++s) {
    const uint32_t length = length_of(options, shape, s);
    chunk.lengths.push_back(length > begin ? std::min(length - begin, most) : 0);
    chunk.tokens = std::max(chunk.tokens, chunk.lengths.back());
  }
  for (uint32_t s = 0; s < shape.sequences && chunk.tokens > 0; ++s) {
    const std::span<const TokenId> row =
        ids.subspan(size_t{s} * shape.tokens + begin, chunk.tokens);
    chunk.ids.insert(chunk.ids.end(), row.begin(), row.end());
  }
  return chunk;
}

// Writes dense rows of a call to where they belong in an array [.., sequences, tokens, width].
void write_rows(convert::NpyWriter& writer, uint64_t first_row, const InputShape& shape,
                const Chunk& chunk, const float* data, uint64_t width) {
  for (uint32_t s = 0; s < shape.sequences; ++s) {
    const uint64_t row = first_row + uint64_t{s} * shape.tokens + chunk.begin;
    writer.write(row * width, {data, static_cast<size_t>(chunk.lengths[s] * width)});
    data += chunk.lengths[s] * width;
  }
}

// Of several chunks, the one with the last token of a sequence comes last.
void write_last_rows(convert::NpyWriter& writer, const Chunk& chunk, const Output& output) {
  uint32_t row = 0;
  for (size_t s = 0; s < chunk.lengths.size(); ++s) {
    if (chunk.lengths[s] > 0) writer.write(s * output.features, output.row(row++));
  }
}

uint32_t chunk_tokens(const RunOptions& options, const InputShape& shape) {
  const uint32_t limit = UINT32_MAX / shape.sequences;  // of a call
  return std::min({options.chunk.value_or(kDefaultTokens), shape.tokens, limit});
}

}  // namespace

void run_tokens(const RunOptions& options, const ModelFile& file) {
  const convert::NpyArray input = convert::NpyArray::read(options.input);
  const InputShape shape = check_input(options, input, file.model());
  const std::vector<TokenId> ids =
      token_ids(input, shape, file.model(), tokens_within_lengths(options, shape));
  const uint32_t most = chunk_tokens(options, shape);

  Profiler profiler(options.profile, file.model());
  Chunk chunk;
  StateWriter states(
      options, file.model(), input.shape(),
      [&](convert::NpyWriter& states_writer, uint64_t first_row, const float* data, size_t width) {
        write_rows(states_writer, first_row, shape, chunk, data, width);
      });
  ThreadPool pool(options.threads);
  SessionOptions session_options;
  session_options.positions_max = shape.tokens;
  session_options.tokens_max = most * shape.sequences;
  session_options.sequences_max = shape.sequences;
  session_options.outputs = options.last ? Outputs::kLast : Outputs::kAll;
  session_options.kv_cache = options.kv_cache;
  profiler.attach(session_options, pool.parallel_for());
  session_options.hidden_states = states.hook();
  ModelSession session(file, session_options);

  std::vector<uint64_t> output_shape = input.shape();
  if (options.last) output_shape.pop_back();
  output_shape.push_back(file.model().output_features());
  convert::NpyWriter writer(options.output, output_shape);
  Progress progress("running " + options.model.string());
  bool finite = true;  // in each call, which takes the same weights
  for (uint32_t begin = 0; begin < shape.tokens; begin += most) {
    chunk = cut_chunk(options, shape, ids, begin, most);
    if (chunk.tokens == 0) break;
    for (const uint32_t length : chunk.lengths) {
      profiler.add_sequence(begin, length, options.last ? std::min(length, 1u) : length);
    }
    Diagnostic why;
    const Result<Output> output = session.session().step(
        TokenBatch{chunk.ids, shape.sequences, chunk.tokens, chunk.lengths}, &why);
    if (!output.ok()) throw_status(options.input.string(), output.status(), why);
    states.rethrow();
    finite = finite && output->finite();
    if (options.last) {
      write_last_rows(writer, chunk, *output);
    } else {
      write_rows(writer, 0, shape, chunk, output->data, output->features);
    }
  }
  progress.done();
  profiler.report({&writer.file(), states.file()});
  print_run(options, file, output_shape, session.plan(), finite);
}

}  // namespace arenite::tool
