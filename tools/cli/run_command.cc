// SPDX-License-Identifier: Apache-2.0
// arenite run: feeds an array to a model and writes the results into another.

#include <cmath>
#include <exception>
#include <functional>
#include <numeric>

#include "cli/arguments.h"
#include "cli/kernel_check.h"
#include "cli/process.h"
#include "cli/profiler.h"
#include "cli/sound_file.h"
#include "cli/thread_pool.h"
#include "convert/check/check_session.h"
#include "convert/check/run_input.h"
#include "convert/files/npy.h"
#include "convert/program/program.h"
#include "session/session_state.h"

namespace arenite::tool {
namespace {

// The options of arenite run.
struct RunOptions {
  std::filesystem::path model;
  std::vector<std::string> inputs;   // FILE, or NAME=FILE
  std::vector<std::string> lengths;  // N,N, or NAME=N,N
  std::vector<std::string> masks;    // in the form of `inputs`
  std::vector<std::string> types;    // in the form of `inputs`
  std::filesystem::path output;
  std::filesystem::path hidden_states;  // empty: none
  std::optional<uint32_t> chunk;
  bool last = false;
  bool all_rows = false;
  std::string kernels;
  uint32_t threads = 1;
  KvType kv_cache = KvType::kOfModel;
  ProfileOptions profile;
  bool json = false;
};

// --- Calls of few tokens, so that little memory is needed ---

// A causal model gets some tokens of all sequences per call. Other models get as many whole
// sequences per call as keep the kernels busy.
using convert::CallRows;

// Feeds tokens [begin, begin + counts[i]) of sequence first + i.
struct RunCall {
  uint32_t first = 0;
  uint32_t begin = 0;
  std::vector<uint32_t> counts;

  uint64_t tokens() const {
    uint64_t sum = 0;
    for (const uint32_t count : counts) sum += count;
    return sum;
  }
};

std::vector<RunCall> calls_of(const RunOptions& options, const convert::RunInput& input,
                              const Model& model) {
  std::vector<RunCall> calls;
  if (!model.causal()) {
    for (const SequenceGroup& group : group_sequences(input.lengths)) {
      const auto begin = input.lengths.begin() + group.first;
      calls.push_back({group.first, 0, {begin, begin + group.count}});
    }
  } else {
    const uint32_t limit = UINT32_MAX / input.axes.sequences;  // tokens per call
    const uint32_t wanted =
        input.visible.empty() ? options.chunk.value_or(kDefaultTokens) : UINT32_MAX;
    const uint32_t most = std::min({wanted, input.axes.tokens, limit});
    for (uint64_t begin = 0; begin < input.axes.tokens; begin += most) {
      RunCall call{0, static_cast<uint32_t>(begin), {}};
      for (const uint32_t length : input.lengths) {
        call.counts.push_back(length > begin ? std::min(length - call.begin, most) : 0);
      }
      calls.push_back(std::move(call));
    }
  }
  std::erase_if(calls, [](const RunCall& call) { return call.tokens() == 0; });
  return calls;
}

SessionOptions sizes_for(const std::vector<RunCall>& calls, const convert::RunInput& input) {
  SessionOptions options;
  options.positions_max = input.axes.tokens;
  options.tokens_max = 1;
  for (const RunCall& call : calls) {
    options.sequences_max =
        std::max(options.sequences_max, static_cast<uint32_t>(call.counts.size()));
    options.tokens_max = std::max(options.tokens_max, static_cast<uint32_t>(call.tokens()));
  }
  return options;
}

// Returns the rows to request. --last and --all-rows apply to models that leave it open.
Outputs outputs_of(const RunOptions& options, const ModelFile& file) {
  if (!options.last && !options.all_rows) return convert::authors_outputs(file.model().file());
  if (!convert::leaves_rows_open(ModelAccess::reader(file.model()))) {
    const Model& model = file.model();
    throw convert::InputError(
        "{}: {}: the model always outputs one row for each {}: --last and --all-rows are for "
        "decoders",
        convert::quote(file.name()), options.last ? "--last" : "--all-rows",
        model.function(model.functions() - 1).pooled ? "sequence" : "token");
  }
  return options.last ? Outputs::kLast : Outputs::kAll;
}

struct RunFacts {
  std::filesystem::path output;
  std::vector<uint64_t> shape;
  std::optional<std::filesystem::path> hidden_states;
  const char* kernel_set = "";
  uint32_t threads = 1;
  uint64_t arena_bytes = 0;
  bool finite = true;
};

std::vector<std::string> dtypes() { return {"float32"}; }

}  // namespace

template <>
constexpr auto kFacts<RunFacts> =
    std::tuple(part("output", "", Fact("path", &RunFacts::output), Fact("shape", &RunFacts::shape),
                    Fact("dtype", [](const RunFacts&) { return OneOf<dtypes>{"float32"}; })),
               Fact("hidden_states", "File of the hidden states; null: not asked for",
                    &RunFacts::hidden_states),
               Fact("kernel_set", &RunFacts::kernel_set), Fact("threads", &RunFacts::threads),
               Fact("arena_bytes", &RunFacts::arena_bytes),
               Fact("finite", "No result is NaN or infinity", &RunFacts::finite));

namespace {

void print_run(const RunOptions& options, const ModelFile& file, const std::vector<uint64_t>& shape,
               const ArenaPlan& plan, bool is_finite) {
  const char* const kernels = kernel_set_name(file.model().target());
  const std::string path = options.output.string();
  if (options.json) {
    RunFacts facts = {options.output,   shape,    std::nullopt, kernels, options.threads,
                      plan.total_bytes, is_finite};
    if (!options.hidden_states.empty()) facts.hidden_states = options.hidden_states;
    print_json(facts);
  } else {
    print_output("{}: [{}] float32, by kernel set {} on {}, in an arena of {} bytes\n", path,
                 fmt::join(shape, ", "), kernels, counted(options.threads, "thread"),
                 plan.total_bytes);
  }
  if (is_finite) return;
  print_warning(fmt::format(
      "{}: NaN or infinity is among the results: check {} and the weights for numbers that are "
      "not finite or very large",
      path, fmt::join(options.inputs, ", ")));
}

// Result rows as an array [axes, columns], or as the author's array if that has the same rows.
struct ResultArray {
  ResultArray(const convert::TokenAxes& of, uint64_t rows_of_sequence, uint64_t columns)
      : axes(of), rows(rows_of_sequence), width(columns), joint_width(width) {
    shape = axes.shape(rows);
    shape.push_back(width);
  }
  ResultArray(const Model& model, const convert::TokenAxes& of, uint64_t rows_of_sequence,
              Outputs outputs)
      : ResultArray(of, rows_of_sequence, model.function(model.functions() - 1).output_features) {
    const uint32_t flags = convert::array_flags(model.file());
    is_row = convert::has_row_of_sequence(model.file(), outputs, model.functions() - 1);
    columns_first = (flags & convert::kColumnsFirst) != 0 && !is_row;
    if (is_row) rows = 1;
    if (outputs == convert::authors_outputs(model.file())) {
      const auto own = convert::authors_shape(model, axes, rows * width);
      if (!own.empty() && axes.tokens_first && !is_row) joint_width = rows * width / own[0];
      if (!own.empty()) {
        shape = own;
        return;
      }
    }
    shape = axes.shape(rows);
    const bool drops_tokens = is_row && (flags & convert::kKeepsTokenAxis) == 0;
    if (drops_tokens) shape.erase(axes.tokens_first ? shape.begin() : shape.end() - 1);
    shape.push_back(width);
    if (columns_first) std::swap(shape.back(), shape[shape.size() - 2]);
  }

  // Returns the array index of element `i` of a sequence's rows.
  size_t place(size_t sequence, size_t i) const {
    if (columns_first) return (sequence * width + i % width) * rows + i / width;
    if (!axes.tokens_first || is_row) return sequence * rows * width + i;
    return (i / joint_width * axes.sequences + sequence) * joint_width + i % joint_width;
  }

  const convert::TokenAxes& axes;
  uint64_t rows, width;  // of one sequence
  uint64_t joint_width;  // for tokens-first arrays: adjacent elements of a sequence
  bool is_row = false;   // one row per sequence
  bool columns_first = false;
  std::vector<uint64_t> shape;
};

class ModelRun {
 public:
  ModelRun(const RunOptions& options, const ModelFile& file, const convert::RunInput& input)
      : options_(options),
        file_(file),
        model_(file.model()),
        input_(input),
        outputs_(outputs_of(options, file)),
        rows_(rows_of(ModelAccess::reader(model_), input.axes.tokens)),
        array_(model_, input.axes, rows_, outputs_),
        calls_(calls_of(options, input, model_)),
        writer_(options.output, array_.shape) {
    if (options.hidden_states.empty()) return;
    const format::ModelReader reader = ModelAccess::reader(model_);
    state_array_.emplace(input.axes, rows_, reader.hidden_state(0).view.width);
    std::vector<uint64_t> shape = state_array_->shape;
    shape.insert(shape.begin(), reader.hidden_states());
    states_.emplace(options.hidden_states, shape);
  }
  ModelRun(const ModelRun&) = delete;
  ModelRun& operator=(const ModelRun&) = delete;

  void run() {
    Profiler profiler(options_.profile, model_);
    ThreadPool pool(options_.threads);
    SessionOptions sizes = sizes_for(calls_, input_);
    sizes.outputs = outputs_;
    sizes.kv_cache = options_.kv_cache;
    profiler.attach(sizes, pool.parallel_for());
    if (states_) sizes.hidden_states = {&ModelRun::show_state, this};
    ModelSession session(file_, sizes);
    Progress progress("running " + options_.model.string());
    for (const RunCall& call : calls_) {
      call_ = &call;
      for (const uint32_t count : call.counts) {
        profiler.add_sequence(
            {call.begin, count,
             static_cast<uint32_t>(convert::rows_given(model_, outputs_, count, false))});
      }
      Diagnostic why;
      const Result<Output> output = feed(session.session(), why);
      if (!output.ok()) throw_status(input_.array.name(), output.status(), why);
      if (error_) std::rethrow_exception(error_);
      is_finite_ = is_finite_ && output->finite();
      write_output(*output);
    }
    progress.done();
    profiler.report({&writer_.file(), states_ ? &states_->file() : nullptr});
    print_run(options_, file_, array_.shape, session.plan(), is_finite_);
  }

 private:
  // Returns the rows of one sequence: of the hidden states if there are any, else of the output.
  static uint64_t rows_of(const format::ModelReader& reader, uint32_t tokens) {
    const uint32_t slot =
        reader.hidden_states() != 0 ? reader.hidden_state(0).view.slot : reader.output_slot();
    return reader.rows_of_axes(tokens, 1, true)[reader.slot(slot).axis];
  }

  // ---- input ----

  // Feeds the call's valid tokens back to back, or whole sequences if masked tokens lie between.
  Result<Output> feed(Session& session, Diagnostic& why) const {
    const uint32_t sequences = static_cast<uint32_t>(call_->counts.size());
    const bool is_dense = !input_.visible.empty();
    const uint32_t tokens = is_dense ? input_.axes.tokens : 0;
    std::span<const uint32_t> lengths = call_->counts;
    if (is_dense) lengths = {};
    convert::ModelInput fed;
    for (uint32_t i = 0; i < sequences; ++i) {
      const uint32_t count = is_dense ? tokens : call_->counts[i];
      input_.append(model_, call_->first + i, call_->begin, count, fed);
    }
    if (model_.vocab_size() != 0) {
      const TokenBatch batch{fed.ids,     sequences, tokens,    lengths,
                             fed.visible, !is_dense, fed.types, fed.pairs};
      return model_.causal() ? session.step(batch, &why) : session.run(batch, &why);
    }
    input_.array.drop_pages();
    const Batch batch{fed.features, sequences, tokens, lengths, fed.visible, !is_dense, fed.pairs};
    return model_.causal() ? session.step(batch, &why) : session.run(batch, &why);
  }

  // ---- output ----

  // Writes the call's rows to their places in `array`, which begins at element `first` of the file.
  void write_rows(convert::NpyWriter& writer, const ResultArray& array, uint64_t first,
                  const float* data) {
    const convert::TokenAxes& axes = input_.axes;
    const uint64_t prefix = rows_ > axes.tokens ? rows_ - axes.tokens : 0;
    const bool is_dense = axes.tokens_first || !input_.visible.empty();
    const size_t width = array.width;
    const auto write = [&](uint32_t sequence, uint64_t row, uint64_t count) {
      const size_t size = count * width;
      if (array.columns_first) {
        std::vector<float> column(count);
        for (size_t c = 0; c < width; ++c) {
          for (size_t r = 0; r < column.size(); ++r) column[r] = data[r * width + c];
          writer.write(first + array.place(sequence, row * width + c), column);
        }
      } else {
        const size_t step = axes.tokens_first ? std::gcd(width, array.joint_width) : size;
        for (size_t i = 0; i < size; i += step) {
          writer.write(first + array.place(sequence, row * width + i), {data + i, step});
        }
      }
      data += size;
    };
    for (uint32_t i = 0; i < call_->counts.size(); ++i) {
      if (call_->counts[i] == 0) continue;
      const uint32_t sequence = call_->first + i;
      const format::ModelReader reader = ModelAccess::reader(model_);
      const uint64_t begin = call_->begin == 0 ? 0 : rows_of(reader, call_->begin);
      uint64_t left = rows_of(reader, call_->begin + call_->counts[i]) - begin;
      if (!is_dense) {
        write(sequence, begin, left);
        continue;
      }
      for (uint64_t row = begin; left > 0; ++row) {
        const bool counts = row < prefix || input_.visible.empty() ||
                            input_.counts(sequence, static_cast<uint32_t>(row - prefix));
        if (!counts) continue;
        write(sequence, row, 1);
        --left;
      }
    }
  }

  void write_output(const Output& output) {
    uint64_t given = 0;
    for (const uint32_t count : call_->counts) {
      given += convert::rows_given(model_, outputs_, count, call_->begin == 0);
    }
    CallRows rows(output, model_, given);
    if (!array_.is_row) {
      return write_rows(writer_, array_, 0, rows.values().data());
    }
    // If a sequence takes several calls, the call with its last token comes last and overwrites.
    size_t row = 0;
    for (uint32_t i = 0; i < call_->counts.size(); ++i) {
      if (call_->counts[i] == 0) continue;
      writer_.write((size_t{call_->first} + i) * model_.output_features(), rows[row++]);
    }
  }

  // No exception may pass through the runtime: a caught one waits for the end of the call.
  static void show_state(void* context, uint32_t index, const float* data, uint32_t, uint32_t) {
    ModelRun& run = *static_cast<ModelRun*>(context);
    if (run.error_) return;
    try {
      const ResultArray& array = *run.state_array_;
      run.write_rows(*run.states_, array, index * array.axes.sequences * array.rows * array.width,
                     data);
    } catch (...) {
      run.error_ = std::current_exception();
    }
  }

  const RunOptions& options_;
  const ModelFile& file_;
  const Model& model_;
  const convert::RunInput& input_;
  const Outputs outputs_;
  const uint64_t rows_;  // per sequence: its prefix and its tokens
  const ResultArray array_;
  const std::vector<RunCall> calls_;
  convert::NpyWriter writer_;
  std::optional<ResultArray> state_array_;
  std::optional<convert::NpyWriter> states_;
  const RunCall* call_ = nullptr;  // the current call
  bool is_finite_ = true;
  std::exception_ptr error_;
};

// ---- models of several inputs ----

// Runs all functions on the first sequence of each input, then on the second, and so on.
class FunctionsRun {
 public:
  FunctionsRun(const RunOptions& options, const ModelFile& file,
               const std::vector<convert::RunInput>& inputs)
      : options_(options),
        file_(file),
        model_(file.model()),
        inputs_(inputs),
        last_(model_.function(model_.functions() - 1)),
        rows_from_(inputs[convert::last_input(model_)]),
        outputs_(outputs_of(options, file)),
        // Masked tokens require whole sequences.
        chunk_(rows_from_.visible.empty() ? options.chunk.value_or(kDefaultTokens) : UINT32_MAX) {
    for (size_t i = 0; i < inputs.size(); ++i) tokens_.of[i] = inputs[i].axes.tokens;
    rows_ = gives_last_row() ? 1 : convert::rows_of_functions(model_, tokens_);
  }

  void run() {
    Profiler profiler(options_.profile, model_);
    ThreadPool pool(options_.threads);
    SessionOptions sizes = convert::options_for_functions(model_, tokens_, chunk_);
    sizes.outputs = outputs_;
    sizes.kv_cache = options_.kv_cache;
    profiler.attach(sizes, pool.parallel_for());
    ModelSession session(file_, sizes);
    const convert::TokenAxes& axes = rows_from_.axes;
    std::vector<float> results(axes.sequences * rows_ * last_.output_features);
    for (uint32_t s = 0; s < axes.sequences; ++s) {
      std::vector<convert::ModelInput> fed;
      for (const convert::RunInput& input : inputs_) fed.push_back(input.sequence(model_, s));
      const auto watch = [&](const InputTokens& held, const InputTokens& tokens) {
        profiler.add_sequence({held, tokens, *std::ranges::max_element(tokens.of)});
      };
      put(convert::run_functions(session.session(), model_, convert::joined(std::move(fed)), chunk_,
                                 convert::quote(file_.name()), outputs_, watch),
          s, results);
    }
    const ResultArray array(model_, axes, rows_, outputs_);
    std::vector<float> ordered(results.size());
    const size_t each = array.rows * array.width;
    for (size_t i = 0; i < results.size(); ++i) {
      ordered[array.place(i / each, i % each)] = results[i];
    }
    convert::NpyWriter writer(options_.output, array.shape);
    writer.write(0, ordered);
    profiler.report({&writer.file()});
    const bool is_finite = std::ranges::all_of(results, [](float x) { return std::isfinite(x); });
    print_run(options_, file_, array.shape, session.plan(), is_finite);
  }

 private:
  bool gives_last_row() const { return outputs_ == Outputs::kLast; }

  // Puts the rows of a sequence where its tokens are, after the rows of constants.
  void put(std::span<const float> made, uint32_t sequence, std::vector<float>& results) const {
    const size_t width = last_.output_features;
    if (made.empty()) return;
    if (gives_last_row()) made = made.last(width);
    for (const uint64_t row : rows_from_.rows_given(rows_, sequence)) {
      if (made.empty()) return;
      std::ranges::copy(made.first(width),
                        results.begin() + static_cast<ptrdiff_t>((sequence * rows_ + row) * width));
      made = made.subspan(width);
    }
  }

  const RunOptions& options_;
  const ModelFile& file_;
  const Model& model_;
  const std::vector<convert::RunInput>& inputs_;
  const FunctionInfo last_;
  const convert::RunInput& rows_from_;  // the input whose tokens determine the output rows
  const Outputs outputs_;
  const uint32_t chunk_;
  InputTokens tokens_;  // of sequences as long as the arrays
  uint64_t rows_ = 0;   // of such a sequence
};

// Reads the arrays of each input. Throws InputError.
std::vector<convert::RunInput> read_inputs(const RunOptions& options, const ModelFile& file) {
  const auto read = [&](const std::filesystem::path& path, uint32_t input) {
    return read_features(path, file.model(), input);
  };
  return convert::read_run_inputs(
      {"--input", "--lengths", options.inputs, options.lengths, options.masks, options.types, read},
      file.model(), file.name());
}

void run_run(const RunOptions& options) {
  const convert::OutputGuard guard({{"--output", options.output},
                                    {"--hidden-states", options.hidden_states},
                                    {"--trace", options.profile.trace}});
  const ModelFile file(options.model, options.kernels);
  const Model& model = file.model();
  const bool has_several = model.inputs() > 1;
  if (const char* const why = why_whole_sequences(model); why != nullptr && options.chunk) {
    throw convert::InputError("{}: --chunk: the model takes whole sequences: {}",
                              convert::quote(file.name()), why);
  }
  if (!options.hidden_states.empty() &&
      (has_several || ModelAccess::reader(model).hidden_states() == 0)) {
    throw convert::InputError(
        "{}: --hidden-states: the file has none, as the converter found no layers",
        convert::quote(file.name()));
  }
  const std::vector<convert::RunInput> inputs = read_inputs(options, file);
  require_right_kernels(file, options.kv_cache, options.threads);
  if (!has_several) return ModelRun(options, file, inputs[0]).run();
  FunctionsRun(options, file, inputs).run();
}

}  // namespace

Json run_facts() { return schema_of<RunFacts>(); }

void add_run(CLI::App& app) {
  const auto [command, options] = add_command(
      app, run_run, "run", "Run a model on features or token ids in a .npy file",
      "\nFeatures are float [tokens, features] or [sequences, tokens, features], or [sequences,\n"
      "features, tokens] where the author's program takes that; ids are int32, uint32 or int64\n"
      "[tokens] or [sequences, tokens]; images are float [images, channels, height, width]; sound\n"
      "is .wav or .raw (arenite help sound). The output is float32, as the author's program has\n"
      "it: a row of results for each token or, where that pools or gives the last token's alone,\n"
      "for each sequence. Where sequences are shorter than the array, --lengths says how long\n"
      "each is, or --mask, with ones for the tokens that count; the rest is not read, and its\n"
      "results are zero. Of several inputs these, too, are given for each. Of graphs, which\n"
      "tokens see which is one more input, or pairs=FILE: [sequences, tokens, tokens] as the\n"
      "author's program takes it.\n"
      "\n--hidden-states writes [layers + 1, tokens, width], or [layers + 1, sequences, tokens, "
      "width]:\n"
      "the embedding, then the result of each layer, the last one after the final norm.\n"
      "ARENITE_KERNELS in the environment does what --kernels does.\n"
      "\nExamples:\n"
      "  arenite run attention.arn --input x.npy --output y.npy --lengths 12,7\n"
      "  arenite run decoder.arn --input ids.npy --output logits.npy --last\n"
      "  arenite run translate.arn --input source.npy --input target.npy --output y.npy\n");
  add_model(command, options.model);
  add_input_files(command, "--input", options.inputs,
                  "Features or token ids, .npy; for a model with several inputs once each, in "
                  "their order or as NAME=FILE")
      ->required();
  add_file(command, "--output", options.output, "Where to write the results, .npy")->required();
  add_lengths(command, "--lengths", options.lengths,
              "Tokens of each sequence; NAME=N,... for one input");
  add_input_files(
      command, "--mask", options.masks,
      "1 for each token that counts, 0 for padding, [sequences, tokens], .npy; as --input")
      ->excludes("--lengths");
  add_input_files(command, "--types", options.types, "The type of each token, .npy; as --mask");
  command.add_flag("--last", options.last,
                   "For a decoder: results of only the last token of each sequence");
  command.add_flag("--all-rows", options.all_rows, "For a decoder: results of each token")
      ->excludes("--last");
  add_file(command, "--hidden-states", options.hidden_states,
           "Where to write the hidden states, .npy");
  add_number(command, "--chunk", options.chunk,
             "For a causal model: most tokens of a sequence in one call; 64 by default. Changes "
             "memory, not results");
  add_machine_options(command, options.kernels, options.threads);
  add_kv_option(command, options.kv_cache);
  add_profile_options(command, options.profile);
  add_json_option(command, options.json);
}

}  // namespace arenite::tool
