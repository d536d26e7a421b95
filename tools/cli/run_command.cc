// SPDX-License-Identifier: Apache-2.0
// arenite run: an array through a model, results into another.

#include <cmath>
#include <exception>
#include <functional>

#include "cli/arguments.h"
#include "cli/profiler.h"
#include "cli/thread_pool.h"
#include "convert/check/check_session.h"
#include "convert/check/model_input.h"
#include "convert/files/npy.h"
#include "convert/program/program.h"
#include "session/session_state.h"

namespace arenite::tool {
namespace {

// What arenite run was asked for: its arrays, and how they go through the model.
struct RunOptions {
  std::filesystem::path model;
  std::vector<std::string> inputs;  // FILE, or NAME=FILE
  std::filesystem::path input{};    // the first of them
  std::filesystem::path output;
  std::filesystem::path hidden_states;  // empty: not wanted
  std::vector<uint32_t> lengths;        // empty: all tokens of each sequence
  std::filesystem::path mask;           // empty: none
  std::filesystem::path types;          // empty: none
  std::optional<uint32_t> chunk;
  bool last = false;
  bool all_rows = false;
  std::string kernels;
  uint32_t threads = 1;
  KvType kv_cache = KvType::kOfModel;
  ProfileOptions profile;
  bool json = false;
};

// All sequences, as the arrays have them.
struct RunInput {
  convert::NpyArray array;  // whose numbers are read when they are needed, unless they are ids
  convert::TokenAxes axes;
  std::vector<TokenId> ids;       // [axes]; kNoToken for padding outside the vocabulary
  std::vector<uint8_t> types;     // [sequences, tokens], or none
  std::vector<uint32_t> lengths;  // of each sequence: the tokens that count
  // [sequences, tokens] where tokens that do not count stand before others that do; else none.
  std::vector<uint8_t> visible;
};

// --- The arrays: what is fed, and which of its tokens count ---

using convert::TokenAxes;

void check_lengths(const RunOptions& options, const TokenAxes& axes) {
  const std::vector<uint32_t>& lengths = options.lengths;
  const std::string file = convert::quote(options.input.string());
  if (lengths.size() != axes.sequences) {
    throw convert::InputError(
        "--lengths: found {} numbers, expected one for each of the {} "
        "sequence{} in {}",
        lengths.size(), axes.sequences, axes.sequences == 1 ? "" : "s", file);
  }
  for (const uint32_t length : lengths) {
    if (length > axes.tokens) {
      throw convert::InputError("--lengths: found {}; at most the {} tokens in {}", length,
                                axes.tokens, file);
    }
  }
  if (std::ranges::all_of(lengths, [](uint32_t length) { return length == 0; })) {
    throw convert::InputError("--lengths: found zeros only, expected at least one token to run");
  }
}

// A .npy of whole numbers of one byte each, [sequences, tokens].
std::vector<uint8_t> read_token_bytes(const std::filesystem::path& path, const char* option,
                                      const TokenAxes& axes, int64_t most) {
  const convert::NpyArray array = convert::NpyArray::read(path);
  const uint64_t tokens = uint64_t{axes.sequences} * axes.tokens;
  if (array.elements() != tokens || array.shape().back() != axes.tokens) {
    throw convert::InputError("{}: shape is [{}]: expected [{}, {}], a number for each token ({})",
                              convert::quote(array.name()), fmt::join(array.shape(), ", "),
                              axes.sequences, axes.tokens, option);
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

// A mask whose zeros all stand at the end says no more than lengths do.
void read_mask(const RunOptions& options, const Model& model, RunInput& input) {
  std::vector<uint8_t> mask = read_token_bytes(options.mask, "--mask", input.axes, 1);
  bool has_gaps = false;
  for (uint32_t s = 0; s < input.axes.sequences; ++s) {
    const auto row = std::span(mask).subspan(size_t{s} * input.axes.tokens, input.axes.tokens);
    input.lengths[s] = static_cast<uint32_t>(std::ranges::count(row, 1));
    if (input.lengths[s] == 0) {
      throw convert::InputError("{}: hides a whole sequence, the one at {}: expected a 1 in each",
                                convert::quote(options.mask.string()), s);
    }
    has_gaps = has_gaps || std::ranges::count(row.first(input.lengths[s]), 0) != 0;
  }
  if (!has_gaps) return;
  if (!ModelAccess::reader(model).sees_everything()) {
    throw convert::InputError(
        "{}: hides tokens before others that count, and the model has a mask of its own, by which "
        "a token sees those at some distances alone: expected zeros at the end of each sequence, "
        "or --lengths",
        convert::quote(options.mask.string()));
  }
  input.visible = std::move(mask);
}

bool counts(const RunInput& input, uint32_t sequence, uint32_t token) {
  return input.visible.empty() ? token < input.lengths[sequence]
                               : input.visible[size_t{sequence} * input.axes.tokens + token] != 0;
}

void read_ids(const Model& model, RunInput& input) {
  const TokenAxes& axes = input.axes;
  const std::vector<int64_t> values = input.array.to_i64();
  input.ids.assign(values.size(), kNoToken);
  for (uint32_t s = 0; s < axes.sequences; ++s) {
    for (uint32_t t = 0; t < axes.tokens; ++t) {
      const size_t place = axes.place(axes.tokens, s, t);
      const int64_t value = values[place];
      if (value >= 0 && value < int64_t{model.vocab_size()}) {
        input.ids[place] = static_cast<TokenId>(value);
      } else if (counts(input, s, t)) {
        const uint32_t first = axes.tokens_first ? t : s;
        throw convert::InputError(
            "{}: found token {} at [{}], expected ids from 0 to {}, the model's vocabulary",
            convert::quote(input.array.name()), value,
            axes.has_sequences ? fmt::format("{}, {}", first, axes.tokens_first ? s : t)
                               : fmt::format("{}", t),
            model.vocab_size() - 1);
      }
    }
  }
}

// Throws InputError for arrays of another type or shape than the model reads, for more tokens than
// its context has, for ids outside its vocabulary, and for lengths, masks and types that do not
// fit.
RunInput read_run_input(const RunOptions& options, const Model& model) {
  RunInput input{convert::NpyArray::read(options.input), {}, {}, {}, {}, {}};
  input.axes = convert::token_axes(input.array, model, "--input");
  convert::require_context(input.array, input.axes, model, "--input");
  input.lengths.assign(input.axes.sequences, input.axes.tokens);
  const std::string file = convert::quote(options.model.string());
  if (convert::image_layout(model) && !(options.mask.empty() && options.lengths.empty())) {
    throw convert::InputError(
        "{}: --mask and --lengths are for texts and features, and this model reads images", file);
  }
  if (!options.lengths.empty()) {
    check_lengths(options, input.axes);
    input.lengths = options.lengths;
  }
  if (!options.mask.empty()) read_mask(options, model, input);
  if (!options.types.empty()) {
    const uint32_t types = model.token_types();
    if (types == 0) throw convert::InputError("{}: --types: the model knows no token types", file);
    input.types = read_token_bytes(options.types, "--types", input.axes, int64_t{types} - 1);
  }
  if (model.vocab_size() != 0) read_ids(model, input);
  return input;
}

// --- Runs of few tokens, so that little memory is needed ---

// Of a causal model some tokens of all sequences at a time, of others as many whole sequences as
// keep their kernels busy.
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

std::vector<RunCall> calls_of(const RunOptions& options, const RunInput& input,
                              const Model& model) {
  std::vector<RunCall> calls;
  if (!model.causal()) {
    for (const SequenceGroup& group : group_sequences(input.lengths)) {
      const auto begin = input.lengths.begin() + group.first;
      calls.push_back({group.first, 0, {begin, begin + group.count}});
    }
  } else {
    const uint32_t limit = UINT32_MAX / input.axes.sequences;  // of a call
    const uint32_t most =
        std::min({options.chunk.value_or(kDefaultTokens), input.axes.tokens, limit});
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

SessionOptions sizes_for(const std::vector<RunCall>& calls, const RunInput& input) {
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

// Which rows to ask for. --last and --all-rows are for models that leave it open.
Outputs outputs_of(const RunOptions& options, const ModelFile& file) {
  if (!options.last && !options.all_rows) return convert::authors_outputs(file.model().file());
  if (!convert::leaves_rows_open(ModelAccess::reader(file.model()))) {
    throw convert::InputError(
        "{}: {}: the model gives a row for each {}, and no others: --last and --all-rows are for "
        "decoders, which leave it open",
        convert::quote(file.name()), options.last ? "--last" : "--all-rows",
        file.model().pooled() ? "sequence" : "token");
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
               Fact("hidden_states", "Their file; null: not asked for", &RunFacts::hidden_states),
               Fact("kernel_set", &RunFacts::kernel_set), Fact("threads", &RunFacts::threads),
               Fact("arena_bytes", &RunFacts::arena_bytes),
               Fact("finite", "No result is NaN or infinity", &RunFacts::finite));

namespace {

class ModelRun {
 public:
  ModelRun(const RunOptions& options, const ModelFile& file, const RunInput& input)
      : options_(options),
        file_(file),
        model_(file.model()),
        input_(input),
        outputs_(outputs_of(options, file)),
        rows_(rows_of(ModelAccess::reader(model_), input.axes.tokens)),
        calls_(calls_of(options, input, model_)),
        writer_(options.output, output_shape()) {
    if (options.hidden_states.empty()) return;
    const format::ModelReader reader = ModelAccess::reader(model_);
    if (reader.hidden_states() == 0) {
      throw convert::InputError(
          "{}: --hidden-states: the file names none: the converter found no "
          "layers that hand them on",
          convert::quote(file.name()));
    }
    std::vector<uint64_t> shape = input.axes.shape(rows_);
    shape.insert(shape.begin(), reader.hidden_states());
    shape.push_back(reader.hidden_state(0).view.width);
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
      if (!output.ok()) throw_status(options_.input.string(), output.status(), why);
      if (error_) std::rethrow_exception(error_);
      is_finite_ = is_finite_ && output->finite();
      write_output(*output);
    }
    progress.done();
    profiler.report({&writer_.file(), states_ ? &states_->file() : nullptr});
    print(session.plan());
  }

 private:
  // Of a sequence: those of hidden states where there are any, else those given out.
  static uint64_t rows_of(const format::ModelReader& reader, uint32_t tokens) {
    const uint32_t slot =
        reader.hidden_states() != 0 ? reader.hidden_state(0).view.slot : reader.output_slot();
    return reader.rows_of_axes(tokens, 1, true)[reader.slot(slot).axis];
  }

  std::vector<uint64_t> output_shape() const {
    std::vector<uint64_t> shape = input_.axes.shape(rows_);
    if (convert::has_row_of_sequence(model_.file(), outputs_)) {
      const bool keeps_axis = (convert::array_flags(model_.file()) & convert::kKeepsTokenAxis) != 0;
      shape = input_.axes.shape(1);
      if (!keeps_axis) shape.erase(input_.axes.tokens_first ? shape.begin() : shape.end() - 1);
    }
    shape.push_back(model_.output_features());
    if (columns_first()) std::swap(shape.back(), shape[shape.size() - 2]);
    return shape;
  }

  // Whether the array has the columns of each sequence before its tokens.
  bool columns_first() const {
    return (convert::array_flags(model_.file()) & convert::kColumnsFirst) != 0 &&
           !convert::has_row_of_sequence(model_.file(), outputs_);
  }

  // ---- in ----

  // The numbers of the call's tokens, back to back, or with what stands between those that count:
  // append(first, count) adds so many tokens of the array.
  template <typename Append>
  void for_each_part(const Append& append) const {
    const convert::TokenAxes& axes = input_.axes;
    for (uint32_t i = 0; i < call_->counts.size(); ++i) {
      const uint32_t sequence = call_->first + i;
      const uint32_t count = input_.visible.empty() ? call_->counts[i] : axes.tokens;
      if (!axes.tokens_first) {
        append(axes.place(axes.tokens, sequence, call_->begin), count);
        continue;
      }
      for (uint32_t t = 0; t < count; ++t) {
        append(axes.place(axes.tokens, sequence, call_->begin + t), 1);
      }
    }
  }

  // The call's part of what the sequences have in their order, or nothing.
  std::vector<uint8_t> part_of(const std::vector<uint8_t>& bytes) const {
    std::vector<uint8_t> part;
    for (uint32_t i = 0; i < call_->counts.size() && !bytes.empty(); ++i) {
      const size_t begin = (size_t{call_->first} + i) * input_.axes.tokens + call_->begin;
      const uint32_t count = input_.visible.empty() ? call_->counts[i] : input_.axes.tokens;
      const auto from = bytes.begin() + static_cast<ptrdiff_t>(begin);
      part.insert(part.end(), from, from + count);
    }
    return part;
  }

  // Rows of an array whose columns come before the tokens.
  std::vector<float> turned_features(size_t first, uint32_t count, uint64_t width) const {
    const uint32_t tokens = input_.axes.tokens;
    std::vector<float> rows(count * width);
    for (uint64_t c = 0; c < width; ++c) {
      const uint64_t begin = (first / tokens * width + c) * tokens + first % tokens;
      const std::vector<float> column = input_.array.to_f32(begin, count);
      for (uint32_t i = 0; i < count; ++i) rows[i * width + c] = column[i];
    }
    return rows;
  }

  Result<Output> feed(Session& session, Diagnostic& why) const {
    const uint32_t sequences = static_cast<uint32_t>(call_->counts.size());
    const std::vector<uint8_t> visible = part_of(input_.visible);
    const bool is_dense = !visible.empty();
    const uint32_t tokens = is_dense ? input_.axes.tokens : 0;
    std::span<const uint32_t> lengths = call_->counts;
    if (is_dense) lengths = {};
    if (model_.vocab_size() != 0) {
      std::vector<TokenId> ids;
      for_each_part([&](size_t first, uint32_t count) {
        const auto from = input_.ids.begin() + static_cast<ptrdiff_t>(first);
        ids.insert(ids.end(), from, from + count);
      });
      const std::vector<uint8_t> types = part_of(input_.types);
      const TokenBatch batch{ids, sequences, tokens, lengths, visible, !is_dense, types};
      return model_.causal() ? session.step(batch, &why) : session.run(batch, &why);
    }
    const uint64_t width =
        input_.array.elements() / (uint64_t{input_.axes.sequences} * input_.axes.tokens);
    std::vector<float> features;
    if (const auto image = convert::image_layout(model_)) {
      const size_t each = image->elements();
      features =
          convert::pixels_of(input_.array.to_f32(call_->first * each, sequences * each), *image);
    } else {
      for_each_part([&](size_t first, uint32_t count) {
        const std::vector<float> part = input_.axes.columns_first
                                            ? turned_features(first, count, width)
                                            : input_.array.to_f32(first * width, count * width);
        features.insert(features.end(), part.begin(), part.end());
      });
    }
    input_.array.drop_pages();
    const Batch batch{features, sequences, tokens, lengths, visible, !is_dense};
    return model_.causal() ? session.step(batch, &why) : session.run(batch, &why);
  }

  // ---- out ----

  // Rows of the call, one after the other, to where they stand in [.., axes, width], in which a
  // row for each token begins with row `first`; or in [sequences, width, rows].
  void write_rows(convert::NpyWriter& writer, uint64_t first, const float* data, size_t width,
                  bool columns_first = false) {
    const convert::TokenAxes& axes = input_.axes;
    const uint64_t prefix = rows_ > axes.tokens ? rows_ - axes.tokens : 0;
    const bool is_dense = axes.tokens_first || !input_.visible.empty();
    const auto write = [&](uint32_t sequence, uint64_t row, uint64_t count) {
      const auto size = static_cast<size_t>(count) * width;
      if (!columns_first) {
        writer.write((first + axes.place(rows_, sequence, row)) * width, {data, size});
      } else {
        std::vector<float> column(count);
        for (size_t c = 0; c < width; ++c) {
          for (size_t r = 0; r < column.size(); ++r) column[r] = data[r * width + c];
          writer.write((sequence * width + c) * rows_ + row, column);
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
                            input_.visible[size_t{sequence} * axes.tokens + (row - prefix)] != 0;
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
    if (!convert::has_row_of_sequence(model_.file(), outputs_)) {
      return write_rows(writer_, 0, rows.values().data(), model_.output_features(),
                        columns_first());
    }
    // Of several calls, the one with the last token of a sequence comes last.
    size_t row = 0;
    for (uint32_t i = 0; i < call_->counts.size(); ++i) {
      if (call_->counts[i] == 0) continue;
      writer_.write((size_t{call_->first} + i) * model_.output_features(), rows[row++]);
    }
  }

  // No exception may pass through the runtime: what is caught waits for the end of the call.
  static void show_state(void* context, uint32_t index, const float* data, uint32_t,
                         uint32_t features) {
    ModelRun& run = *static_cast<ModelRun*>(context);
    if (run.error_) return;
    try {
      run.write_rows(*run.states_, index * run.input_.axes.sequences * run.rows_, data, features);
    } catch (...) {
      run.error_ = std::current_exception();
    }
  }

  void print(const ArenaPlan& plan) const {
    const char* const kernels = kernel_set_name(model_.target());
    const std::string path = options_.output.string();
    if (options_.json) {
      RunFacts facts = {options_.output,  output_shape(),   std::nullopt, kernels,
                        options_.threads, plan.total_bytes, is_finite_};
      if (states_) facts.hidden_states = options_.hidden_states;
      print_json(facts);
    } else {
      fmt::print("{}: [{}] float32, by kernel set {} on {}, in an arena of {} bytes\n", path,
                 fmt::join(output_shape(), ", "), kernels, counted(options_.threads, "thread"),
                 plan.total_bytes);
    }
    if (is_finite_) return;
    print_warning(fmt::format(
        "{}: NaN or infinity is among the results: check {} and the weights for numbers that are "
        "not finite or very large",
        path, options_.input.string()));
  }

  const RunOptions& options_;
  const ModelFile& file_;
  const Model& model_;
  const RunInput& input_;
  const Outputs outputs_;
  const uint64_t rows_;  // of a sequence: those of its prefix and of its tokens
  const std::vector<RunCall> calls_;
  convert::NpyWriter writer_;
  std::optional<convert::NpyWriter> states_;
  const RunCall* call_ = nullptr;  // the one that is made
  bool is_finite_ = true;
  std::exception_ptr error_;
};

// ---- models of several inputs ----

// The file of each input, in the order of the model's: those without a name fill it up. Throws
// InputError unless there is one for each.
std::vector<std::filesystem::path> files_of_inputs(const RunOptions& options, const Model& model) {
  std::vector<std::filesystem::path> files(model.inputs());
  std::vector<std::string> names;
  for (uint32_t i = 0; i < model.inputs(); ++i) names.emplace_back(model.input(i).name);
  std::vector<std::string> unnamed;
  for (const std::string& given : options.inputs) {
    const size_t end = given.find('=');
    const auto known = std::ranges::find(names, given.substr(0, end));
    if (end == std::string::npos || known == names.end()) {
      unnamed.push_back(given);
    } else {
      files[static_cast<size_t>(known - names.begin())] = given.substr(end + 1);
    }
  }
  size_t next = 0;
  for (std::filesystem::path& file : files) {
    if (file.empty() && next < unnamed.size()) file = unnamed[next++];
  }
  const bool is_complete =
      next == unnamed.size() && std::ranges::none_of(files, &std::filesystem::path::empty);
  if (is_complete) return files;
  throw convert::InputError(
      "{}: --input: found {} of the model's {} inputs ({}): expected one file for each, in this "
      "order or as NAME=FILE",
      convert::quote(options.model.string()), options.inputs.size(), files.size(),
      fmt::join(names, ", "));
}

// What models of one input have alone.
void refuse_options_of_one_input(const RunOptions& options) {
  for (const auto& [name, is_given] : std::initializer_list<std::pair<const char*, bool>>{
           {"--lengths", !options.lengths.empty()},
           {"--mask", !options.mask.empty()},
           {"--types", !options.types.empty()},
           {"--hidden-states", !options.hidden_states.empty()}}) {
    if (!is_given) continue;
    throw convert::InputError(
        "{}: {}: the model has several inputs, and this is for models with one: drop the option, "
        "and run sequences of other lengths one by one",
        convert::quote(options.model.string()), name);
  }
}

// The shape of the results of the last function, which has so many rows for each sequence.
std::vector<uint64_t> shape_of_results(const Model& model, const convert::TokenAxes& axes,
                                       uint64_t rows) {
  const FunctionInfo last = model.function(model.functions() - 1);
  const uint32_t flags = convert::array_flags(model.file());
  std::vector<uint64_t> shape = axes.shape(rows);
  const bool is_of_sequence = last.pooled || (rows == 1 && (flags & convert::kLastRows) != 0);
  const bool drops_tokens = is_of_sequence && (flags & convert::kKeepsTokenAxis) == 0;
  if (drops_tokens) shape.erase(axes.tokens_first ? shape.begin() : shape.end() - 1);
  shape.push_back(last.output_features);
  return shape;
}

// Results [sequences, rows, features] in the order of the author's arrays.
std::vector<float> in_order(const std::vector<float>& results, const convert::TokenAxes& axes,
                            uint64_t rows, bool columns_first) {
  const size_t width = results.size() / (axes.sequences * rows);
  std::vector<float> ordered(results.size());
  for (size_t i = 0; i < results.size(); ++i) {
    const size_t sequence = i / (rows * width), row = i / width % rows, column = i % width;
    const size_t place =
        columns_first ? (sequence * width + column) * rows + row
                      : axes.place(rows, static_cast<uint32_t>(sequence), row) * width + column;
    ordered[place] = results[i];
  }
  return ordered;
}

// Runs all functions on one sequence of each input after the other. Throws InputError.
void run_several_inputs(const RunOptions& options, const ModelFile& file) {
  const Model& model = file.model();
  refuse_options_of_one_input(options);
  std::vector<convert::NpyArray> arrays;
  for (const std::filesystem::path& file_of_input : files_of_inputs(options, model)) {
    arrays.push_back(convert::NpyArray::read(file_of_input));
  }
  const convert::ModelInput inputs = convert::read_model_inputs(arrays, model, "--input");
  const uint32_t own = convert::last_input(model);
  const convert::TokenAxes axes = convert::token_axes(arrays[own], model, "--input", own);
  const FunctionInfo last = model.function(model.functions() - 1);
  Profiler profiler(options.profile, model);
  ThreadPool pool(options.threads);
  const uint32_t chunk = options.chunk.value_or(kDefaultTokens);
  SessionOptions sizes = convert::options_for_functions(model, inputs.tokens_of_inputs(), chunk);
  const bool has_last_rows = !options.all_rows && !options.last
                                 ? (convert::array_flags(model.file()) & convert::kLastRows) != 0
                                 : options.last;
  sizes.outputs = has_last_rows ? Outputs::kLast : Outputs::kAll;
  sizes.kv_cache = options.kv_cache;
  profiler.attach(sizes, pool.parallel_for());
  ModelSession session(file, sizes);
  std::vector<float> results;
  uint64_t rows = 0;
  bool is_finite = true;
  for (uint32_t s = 0; s < axes.sequences; ++s) {
    std::vector<float> made =
        convert::run_functions(session.session(), model, inputs.sequence(s), chunk,
                               convert::quote(file.name()), sizes.outputs);
    if (has_last_rows) made.erase(made.begin(), made.end() - last.output_features);
    is_finite = is_finite && std::ranges::all_of(made, [](float x) { return std::isfinite(x); });
    rows = made.size() / last.output_features;
    results.insert(results.end(), made.begin(), made.end());
  }
  const bool columns_first =
      (convert::array_flags(model.file()) & convert::kColumnsFirst) != 0 && !last.pooled;
  std::vector<uint64_t> shape = shape_of_results(model, axes, rows);
  if (columns_first) std::swap(shape.back(), shape[shape.size() - 2]);
  convert::write_npy(options.output, shape, in_order(results, axes, rows, columns_first));
  const char* const kernels = kernel_set_name(model.target());
  if (options.json) {
    print_json(RunFacts{options.output, shape, std::nullopt, kernels, options.threads,
                        session.plan().total_bytes, is_finite});
  } else {
    fmt::print("{}: [{}] float32, by kernel set {} on {}, in an arena of {} bytes\n",
               options.output.string(), fmt::join(shape, ", "), kernels,
               counted(options.threads, "thread"), session.plan().total_bytes);
  }
  if (is_finite) return;
  print_warning(fmt::format(
      "{}: NaN or infinity is among the results: check the inputs and the weights for numbers that "
      "are not finite or very large",
      options.output.string()));
}

// Runs all of it, and writes the output and the hidden states. Throws InputError.
void run_input(const RunOptions& options, const ModelFile& file, const RunInput& input) {
  ModelRun(options, file, input).run();
}

void run_run(const RunOptions& given) {
  RunOptions options = given;
  options.input = options.inputs[0];
  const convert::OutputGuard guard({{"--output", options.output},
                                    {"--hidden-states", options.hidden_states},
                                    {"--trace", options.profile.trace}});
  const ModelFile file(options.model, options.kernels);
  if (file.model().inputs() > 1) return run_several_inputs(options, file);
  if (options.inputs.size() > 1) {
    throw convert::InputError("{}: --input: the model has one input, and {} files are given",
                              convert::quote(file.name()), options.inputs.size());
  }
  if (const char* const why = why_whole_sequences(file.model()); why != nullptr && options.chunk) {
    throw convert::InputError("{}: --chunk: the model takes whole sequences: {}",
                              convert::quote(file.name()), why);
  }
  run_input(options, file, read_run_input(options, file.model()));
}

}  // namespace

Json run_facts() { return schema_of<RunFacts>(); }

void add_run(CLI::App& app) {
  const auto [command, options] = add_command(
      app, run_run, "run", "Run a model on features or token ids in a .npy file",
      "\nThe input of a model of features is float [tokens, features] or [sequences, tokens,\n"
      "features], or [sequences, features, tokens] where the author's program takes that; of a\n"
      "model of tokens it is int32, uint32 or int64 [tokens] or [sequences, tokens]; images are\n"
      "float [images, channels, height, width]. The output is float32, as the author's program\n"
      "has it: a row of results for each token or, where that pools or gives the last token's\n"
      "alone, for each sequence; of a decoder --last and --all-rows choose. Where sequences are\n"
      "shorter than the array, --lengths says how long each is, or --mask, with ones for the\n"
      "tokens that count; the rest is not read, and its results are zero.\n"
      "\n--hidden-states writes [layers + 1, tokens, width], or [layers + 1, sequences, tokens, "
      "width]:\n"
      "the embedding, then the result of each layer, the last one after the final norm.\n"
      "ARENITE_KERNELS in the environment does what --kernels does.\n"
      "\nExamples:\n"
      "  arenite run attention.arn --input x.npy --output y.npy --lengths 12,7\n"
      "  arenite run decoder.arn --input ids.npy --output logits.npy --last\n"
      "  arenite run translate.arn --input source.npy --input target.npy --output logits.npy\n");
  add_model(command, options.model);
  command
      .add_option("--input", options.inputs,
                  "Features or token ids, .npy; of a model with several inputs once for each, in "
                  "their order or as NAME=FILE")
      ->required()
      ->type_name(kFileType)
      ->allow_extra_args(false);
  add_file(command, "--output", options.output, "Where to write the results, .npy")->required();
  add_number(command, "--lengths", options.lengths, "Tokens of each sequence", 0);
  add_file(command, "--mask", options.mask,
           "1 for each token that counts, 0 for padding, [sequences, tokens], .npy")
      ->excludes("--lengths");
  add_file(command, "--types", options.types, "The type of each token, [sequences, tokens], .npy");
  command.add_flag("--last", options.last,
                   "Of a decoder: results of the last token of each sequence alone");
  command.add_flag("--all-rows", options.all_rows, "Of a decoder: results of each token")
      ->excludes("--last");
  add_file(command, "--hidden-states", options.hidden_states,
           "Where to write what the layers hand on, .npy");
  add_number(command, "--chunk", options.chunk,
             "Of a causal model: most tokens of a sequence in one call; 64 by default. Changes "
             "memory, not results");
  add_machine_options(command, options.kernels, options.threads);
  add_kv_option(command, options.kv_cache);
  add_profile_options(command, options.profile);
  add_json_option(command, options.json);
}

}  // namespace arenite::tool
