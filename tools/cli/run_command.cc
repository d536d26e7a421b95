// SPDX-License-Identifier: Apache-2.0
// arenite run: feeds an array to a model and writes the results into another.

#include <cmath>
#include <exception>
#include <numeric>

#include "cli/arguments.h"
#include "cli/kernel_check.h"
#include "cli/process.h"
#include "cli/profiler.h"
#include "cli/sound_file.h"
#include "convert/check/check_session.h"
#include "convert/check/run_input.h"
#include "convert/files/npy.h"
#include "convert/files/thread_pool.h"
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

// Writes the rows of one sequence; row i of `made` is row places[i].
void write_rows(convert::NpyWriter& writer, const ResultArray& array, uint32_t sequence,
                std::span<const uint64_t> places, std::span<const float> made) {
  const size_t width = array.width, count = std::min(places.size(), made.size() / width);
  if (array.axes.tokens_first && !array.is_row) {
    const size_t step = std::gcd(width, array.joint_width);
    for (size_t i = 0; i < count * width; i += step) {
      const uint64_t element = places[i / width] * width + i % width;
      writer.write(array.place(sequence, element), made.subspan(i, step));
    }
    return;
  }
  std::vector<float> ordered(array.rows * width);  // masked tokens and padding: zero
  for (size_t i = 0; i < count * width; ++i) {
    ordered[array.place(0, places[i / width] * width + i % width)] = made[i];
  }
  writer.write(sequence * ordered.size(), ordered);
}

// The file of --hidden-states, which is written as the states arrive.
class HiddenStates {
 public:
  HiddenStates(const std::filesystem::path& file, const Model& model,
               const convert::RunInput& input)
      : input_(input),
        reader_(ModelAccess::reader(model)),
        array_(input.axes, rows_of(reader_, input.axes.tokens), reader_.hidden_state(0).view.width),
        writer_(file, shape()) {}

  convert::AtomicFile& file() { return writer_.file(); }
  HiddenStateHook hook() { return {&HiddenStates::keep, this}; }

  void begin(uint32_t sequence) {
    sequence_ = sequence;
    places_ = input_.rows_given(array_.rows, sequence);
    rows_kept_.assign(reader_.hidden_states(), 0);
  }
  // No exception may pass through the runtime: a caught one waits for the end of the call.
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  static uint64_t rows_of(const format::ModelReader& reader, uint32_t tokens) {
    return reader.rows_of_axes(tokens, 1, true)[reader.slot(reader.hidden_state(0).view.slot).axis];
  }

  std::vector<uint64_t> shape() const {
    std::vector<uint64_t> shape = array_.shape;
    shape.insert(shape.begin(), reader_.hidden_states());
    return shape;
  }

  static void keep(void* context, uint32_t index, const float* data, uint32_t rows, uint32_t) {
    HiddenStates& own = *static_cast<HiddenStates*>(context);
    const ResultArray& array = own.array_;
    const uint64_t first = index * array.axes.sequences * array.rows * array.width;
    try {
      for (uint32_t i = 0; i < rows && !own.error_; ++i) {
        const uint64_t row = own.places_.at(own.rows_kept_[index]++);
        own.writer_.write(first + array.place(own.sequence_, row * array.width),
                          {data + i * array.width, array.width});
      }
    } catch (...) {
      own.error_ = std::current_exception();
    }
  }

  const convert::RunInput& input_;
  const format::ModelReader reader_;
  const ResultArray array_;
  convert::NpyWriter writer_;
  uint32_t sequence_ = 0;
  std::vector<uint64_t> places_;   // of the sequence's rows
  std::vector<size_t> rows_kept_;  // of each state
  std::exception_ptr error_;
};

// Runs all functions on the first sequence of each input, then on the second, and so on.
void run_sequences(const RunOptions& options, const ModelFile& file,
                   const std::vector<convert::RunInput>& inputs) {
  const Model& model = file.model();
  const convert::RunInput& rows_from = inputs[convert::last_input(model)];
  const Outputs outputs = outputs_of(options, file);
  // Masked tokens require whole sequences.
  const uint32_t chunk =
      rows_from.visible.empty() ? options.chunk.value_or(kDefaultTokens) : UINT32_MAX;
  InputTokens most;
  for (size_t i = 0; i < inputs.size(); ++i) most.of[i] = inputs[i].axes.tokens;
  Profiler profiler(options.profile, model);
  convert::ThreadPool pool(options.threads);
  SessionOptions sizes = convert::options_for_functions(model, most, chunk);
  sizes.outputs = outputs;
  sizes.kv_cache = options.kv_cache;
  profiler.attach(sizes, pool.parallel_for());
  std::optional<HiddenStates> states;
  if (!options.hidden_states.empty()) {
    sizes.hidden_states = states.emplace(options.hidden_states, model, inputs[0]).hook();
  }
  ModelSession session(file, sizes);
  const ResultArray array(model, rows_from.axes, convert::rows_of_functions(model, most), outputs);
  convert::NpyWriter writer(options.output, array.shape);
  const std::string source =
      convert::quote(inputs.size() == 1 ? inputs[0].array.name() : file.name());
  bool is_finite = true;
  Progress progress("running " + options.model.string());
  for (uint32_t s = 0; s < rows_from.axes.sequences; ++s) {
    progress.at("sequences", static_cast<double>(s) / rows_from.axes.sequences);
    if (states) states->begin(s);
    std::vector<convert::ModelInput> fed;
    for (const convert::RunInput& input : inputs) fed.push_back(input.sequence(model, s));
    std::vector<float> made = convert::run_functions(
        session.session(), model, convert::joined(std::move(fed)), chunk, source, outputs,
        [&](const InputTokens& held, const InputTokens& tokens) {
          profiler.add_sequence(
              {held, tokens, array.is_row ? 1 : *std::ranges::max_element(tokens.of)});
        });
    if (states) states->rethrow();
    if (array.is_row && made.size() > array.width) {
      made.erase(made.begin(), made.end() - static_cast<ptrdiff_t>(array.width));
    }
    is_finite = is_finite && std::ranges::all_of(made, [](float x) { return std::isfinite(x); });
    write_rows(writer, array, s, rows_from.rows_given(array.rows, s), made);
  }
  progress.done();
  profiler.report({&writer.file(), states ? &states->file() : nullptr});
  print_run(options, file, array.shape, session.plan(), is_finite);
}

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
  run_sequences(options, file, inputs);
}

}  // namespace

Json run_facts() { return schema_of<RunFacts>(); }

void add_run(CLI::App& app) {
  const auto [command, options] = add_command(
      app, run_run, "run", "Run a model on features or token ids in a .npy file",
      "\nFeatures are float [tokens, features] or [sequences, tokens, features], or [sequences, "
      "features, tokens] where the author's program takes that; ids are int32, uint32 or int64 "
      "[tokens] or [sequences, tokens]; images are float [images, channels, height, width]; sound "
      "is .wav or .raw (arenite help sound). The output is float32, as the author's program has "
      "it: a row of results for each token or, where that pools or gives the last token's alone, "
      "for each sequence. Where sequences are shorter than the array, --lengths says how long "
      "each is, or --mask, with ones for the tokens that count; the rest is not read, and its "
      "results are zero. Of several inputs these, too, are given for each. Of graphs, which "
      "tokens see which is one more input, or pairs=FILE: [sequences, tokens, tokens] as the "
      "author's program takes it.\n"
      "\n--hidden-states writes [layers + 1, tokens, width], or [layers + 1, sequences, tokens, "
      "width]: "
      "the embedding, then the result of each layer, the last one after the final norm. "
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
