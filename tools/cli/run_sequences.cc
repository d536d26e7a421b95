// SPDX-License-Identifier: Apache-2.0
// In calls that need little memory: of a causal model some tokens of all sequences at a time, of
// others as many whole sequences as keep their kernels busy.
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <utility>

#include "cli/commands.h"
#include "cli/facts.h"
#include "cli/process.h"
#include "cli/run.h"
#include "cli/session_sizes.h"
#include "cli/text_table.h"
#include "cli/thread_pool.h"
#include "convert/check/call_rows.h"
#include "convert/files/error.h"
#include "convert/program/program.h"
#include "session/model_access.h"

namespace arenite::tool {
namespace {

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
        rows_(input.axes.tokens + uint64_t{ModelAccess::reader(model_).prefix_rows()}),
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
            call.begin, count,
            static_cast<uint32_t>(convert::rows_given(model_, outputs_, count, false)));
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
  std::vector<uint64_t> output_shape() const {
    std::vector<uint64_t> shape = input_.axes.shape(rows_);
    if (convert::has_row_of_sequence(model_.file(), outputs_)) {
      const bool keeps_axis = (convert::array_flags(model_.file()) & convert::kKeepsTokenAxis) != 0;
      shape = input_.axes.shape(1);
      if (!keeps_axis) shape.erase(input_.axes.tokens_first ? shape.begin() : shape.end() - 1);
    }
    shape.push_back(model_.output_features());
    return shape;
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
    const bool are_images = image_shape(model_).channels != 0;
    if (are_images) {
      const uint64_t pixels = image_shape(model_).pixels();
      features = input_.array.to_f32(call_->first * pixels, sequences * pixels);
    } else {
      for_each_part([&](size_t first, uint32_t count) {
        const std::vector<float> part = input_.array.to_f32(first * width, count * width);
        features.insert(features.end(), part.begin(), part.end());
      });
    }
    input_.array.drop_pages();
    if (are_images) return session.run(Batch{features, sequences}, &why);
    const Batch batch{features, sequences, tokens, lengths, visible, !is_dense};
    return model_.causal() ? session.step(batch, &why) : session.run(batch, &why);
  }

  // ---- out ----

  // Rows of the call, one after the other, to where they stand in [.., axes, width], in which a
  // row for each token begins with row `first`.
  void write_rows(convert::NpyWriter& writer, uint64_t first, const float* data, size_t width) {
    const convert::TokenAxes& axes = input_.axes;
    const uint64_t prefix = rows_ - axes.tokens;
    const bool is_dense = axes.tokens_first || !input_.visible.empty();
    for (uint32_t i = 0; i < call_->counts.size(); ++i) {
      if (call_->counts[i] == 0) continue;
      const uint32_t sequence = call_->first + i;
      const uint64_t begin = call_->begin == 0 ? 0 : prefix + call_->begin;
      uint64_t left = prefix + call_->begin + call_->counts[i] - begin;
      if (!is_dense) {
        const size_t size = static_cast<size_t>(left) * width;
        writer.write((first + axes.place(rows_, sequence, begin)) * width, {data, size});
        data += size;
        continue;
      }
      for (uint64_t row = begin; left > 0; ++row) {
        const bool counts = row < prefix || input_.visible.empty() ||
                            input_.visible[size_t{sequence} * axes.tokens + (row - prefix)] != 0;
        if (!counts) continue;
        writer.write((first + axes.place(rows_, sequence, row)) * width, {data, width});
        data += width;
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
      return write_rows(writer_, 0, rows.values().data(), model_.output_features());
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

}  // namespace

FactType run_facts() { return type_of_fact<RunFacts>(); }

void run_input(const RunOptions& options, const ModelFile& file, const RunInput& input) {
  ModelRun(options, file, input).run();
}

}  // namespace arenite::tool
