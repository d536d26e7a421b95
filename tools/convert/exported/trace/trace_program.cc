// SPDX-License-Identifier: Apache-2.0
// Traces a program in one reading after the other, until one is recognised as an attention model.
#include <exception>

#include "convert/exported/trace/trace_program.h"
#include "convert/exported/trace/tracer.h"

namespace arenite::convert {
namespace {

constexpr uint32_t kPrefixStepsMax = 5;
constexpr size_t kColumnNodesMax = 400;  // more are tried as another reading

// Replaces masks that show the made-up pairs of the trace by masks that each call gives. Throws
// InputError if no attention has such a mask.
void take_pairs(Graph& graph, const TraceShape& trace_shape, const std::string& producer) {
  for (const SideInput& side : trace_shape.sides()) {
    if (!gives_pairs(side)) continue;
    const auto tokens = static_cast<uint32_t>(trace_shape.of(side.of).tokens());
    DenseMask given(tokens), earlier(tokens);
    for (uint32_t query = 0; query < tokens; ++query) {
      for (uint32_t key = 0; key < tokens; ++key) {
        given.set(query, key, is_made_up_pair(query, key));
        earlier.set(query, key, key <= query && is_made_up_pair(query, key));
      }
    }
    bool is_taken = false;
    for (const ValueId value : graph.order()) {
      const auto* attention = graph.as<AttentionNode>(value);
      if (attention == nullptr || graph.axis(value) != graph.inputs[side.of].axis) continue;
      Mask& mask = graph.masks[attention->mask];
      const auto* buffer = std::get_if<BufferMask>(&mask);
      if (buffer != nullptr && (*buffer->dense == given || *buffer->dense == earlier)) {
        mask = pair_mask(*buffer->dense == earlier);
      }
      if (!is_of_pairs(mask)) continue;
      is_taken = true;
      // Terms of pairs that the trace hid are not known.
      refuse_if(attention->terms != nullptr || !attention->slopes.empty(),
                "{}: '{}' adds a bias to the scores of the pairs that input {} shows; expected no "
                "bias beside such an input",
                quote(producer), graph.node(value).name, quote(side.input->name));
    }
    if (is_taken) continue;
    throw InputError(
        "{}: input {}: no attention mask hides exactly the pairs that are 0 there; expected it in "
        "place of a mask, as in masked_fill(adjacency == 0, -inf)",
        quote(producer), quote(side.input->name));
  }
}

// Adds a token table of zeros to positions that skip padding, if they are added to no token
// embedding: such positions are read with the ids.
void add_tokens_of_padding(Graph& graph) {
  for (const ValueId value : graph.order()) {
    auto* const embedding = graph.as<EmbeddingNode>(value);
    if (embedding == nullptr || !embedding->padding_id || embedding->tokens) continue;
    WeightRef zeros;
    zeros.name = graph.node(value).name + ".no_tokens";
    zeros.rows = 1;
    for (const GraphInput& input : graph.inputs) {
      if (input.axis == graph.axis(value)) zeros.rows = std::max(1u, input.vocab_size);
    }
    zeros.columns = embedding->positions->columns;
    const size_t numbers = size_t{zeros.rows} * zeros.columns;
    set_exact(zeros, [numbers] { return std::vector<double>(numbers, 0.0); });
    embedding->tokens = zeros;
  }
}

// Returns nullopt if the trace must start anew with the changed `trace_shape`. When it throws,
// `has_other_rows` tells whether keeping rows apart may help.
std::optional<TracedProgram> trace_once(const std::shared_ptr<const ExportedProgram>& program,
                                        TraceShape& trace_shape, size_t output,
                                        bool& has_other_rows) {
  TracedProgram followed;
  followed.tracer = std::make_unique<Tracer>(program, trace_shape);
  const GraphBuilder& builder = followed.tracer->builder;
  try {
    followed.tracer->run(output);
  } catch (const InputError&) {
    has_other_rows = has_other_rows || builder.has_other_rows;
    if (!builder.found) throw;
    TraceShape& own = trace_shape.of(builder.found->row_axis);
    own = builder.found->image ? own.with_image(*builder.found->image)
                               : own.with_prefix(builder.found->prefix, false);
    return std::nullopt;
  }
  followed.graph = builder.graph;
  followed.graph.remove_unread();
  add_tokens_of_padding(followed.graph);
  take_pairs(followed.graph, trace_shape, program->source);
  for (uint32_t i = 0; i < trace_shape.inputs(); ++i) {
    followed.positions_max.push_back(builder.positions_max(i));
  }
  for (uint32_t i = static_cast<uint32_t>(trace_shape.inputs()); i < builder.row_axes(); ++i) {
    followed.joined_positions_max =
        tighter(followed.joined_positions_max, builder.positions_max(i));
  }
  return followed;
}

// Traces until the number of prefix rows is known, which shows when the program prepends them.
// Several steps may prepend them in order, or in reverse order.
TracedProgram trace_in_steps(const std::shared_ptr<const ExportedProgram>& program,
                             TraceShape& trace_shape, size_t output, bool& has_other_rows) {
  for (uint32_t steps = 0; steps < kPrefixStepsMax; ++steps) {
    try {
      auto followed = trace_once(program, trace_shape, output, has_other_rows);
      if (followed) return std::move(*followed);
    } catch (const InputError&) {
      if (trace_shape.sizes().prefix < 2 || trace_shape.inputs() > 1) throw;
      TraceShape other = trace_shape.with_prefix(trace_shape.sizes().prefix, true);
      std::optional<TracedProgram> followed;
      try {
        followed = trace_once(program, other, output, has_other_rows);
      } catch (const InputError&) {  // the first refusal is reported
      }
      if (!followed) throw;
      trace_shape = other;
      return std::move(*followed);
    }
  }
  throw InputError("{}: constant rows are prepended in too many steps; at most {} are supported",
                   quote(program->source), kPrefixStepsMax);
}

// Traces one reading after the other, and keeps the refusal to report.
class Readings {
 public:
  Readings(const std::shared_ptr<const ExportedProgram>& program, TraceShape& trace_shape,
           size_t output)
      : program_(program), trace_shape_(trace_shape), output_(output) {}

  // Returns nullopt if the reading is refused; its refusal is kept if it came as far as op `least`,
  // if that is given. `has_other_rows` then tells whether keeping rows apart may help.
  std::optional<TracedProgram> trace_program(TraceShape shape, std::optional<size_t> least,
                                             bool& has_other_rows) {
    try {
      TracedProgram followed = trace_in_steps(program_, shape, output_, has_other_rows);
      trace_shape_ = std::move(shape);
      return followed;
    } catch (const InputError& error) {
      if (!least || ops_followed(error) < *least) return std::nullopt;
      reached = ops_followed(error);
      told = std::current_exception();
      return std::nullopt;
    }
  }
  std::optional<TracedProgram> trace_apart(const TraceShape& shape, std::optional<size_t> least) {
    bool has_other_rows = false;
    return trace_program(shape.with_rows_apart(), least, has_other_rows);
  }
  std::optional<TracedProgram> trace_fixed(const TraceShape& shape) {
    bool has_other_rows = false;
    return trace_program(shape.with_fixed_rows(), {}, has_other_rows);
  }

  size_t reached = 0;       // op of the kept refusal
  std::exception_ptr told;  // null: nothing was refused

 private:
  const std::shared_ptr<const ExportedProgram>& program_;
  TraceShape& trace_shape_;
  const size_t output_;
};

// Returns the program traced as a series or an image if that takes far fewer nodes: a table whose
// columns are tokens, traced as one row, takes nodes for each column. Otherwise returns `whole`.
TracedProgram smaller_series(Readings& readings, const TraceShape& given, TraceShape& trace_shape,
                             TracedProgram whole) {
  const size_t nodes = whole.graph.order().size();
  if (nodes <= kColumnNodesMax) return whole;
  const TraceShape of_whole = trace_shape;
  for (const std::optional<TraceShape>& shape : {given.with_series(), given.of_images()}) {
    if (!shape) continue;
    bool has_other_rows = false;
    auto traced = readings.trace_program(*shape, {}, has_other_rows);
    if (!traced && has_other_rows) traced = readings.trace_apart(*shape, {});
    if (traced && traced->graph.order().size() < nodes / 4) return std::move(*traced);
  }
  trace_shape = of_whole;
  return whole;
}

}  // namespace

TracedProgram trace_program(const std::shared_ptr<const ExportedProgram>& program,
                            TraceShape& trace_shape, size_t output) {
  bool has_other_rows = false;
  return trace_in_steps(program, trace_shape, output, has_other_rows);
}

TracedProgram trace_any(const std::shared_ptr<const ExportedProgram>& program,
                        TraceShape& trace_shape, size_t output) {
  const TraceShape given = trace_shape;
  Readings readings(program, trace_shape, output);
  bool has_other_rows = false;
  if (auto followed = readings.trace_program(given, 0, has_other_rows)) {
    return smaller_series(readings, given, trace_shape, std::move(*followed));
  }
  // SIZE_MAX: all ops were traced, and the output is no row of tokens.
  const bool is_of_output = readings.reached == SIZE_MAX;
  const std::string op = is_of_output ? "" : program->nodes[readings.reached].op;
  const bool is_cut = op.starts_with("conv");
  const auto images = is_of_output ? std::nullopt : given.of_images();
  const auto series = is_of_output ? std::nullopt : given.with_series();
  const auto columns = is_of_output ? std::nullopt : given.with_columns_first();
  std::optional<TracedProgram> followed;
  bool have_other_rows = false;
  if (const auto one = given.with_one_token())
    followed = readings.trace_program(*one, {}, have_other_rows);
  bool have_images_rows = false, have_columns_rows = false, have_series_rows = false;
  if (!followed && images) {  // reported if they came farther, or went on at a convolution
    followed =
        readings.trace_program(*images, readings.reached + (is_cut ? 0 : 1), have_images_rows);
  }
  if (!followed && has_other_rows) followed = readings.trace_apart(given, readings.reached);
  if (!followed && have_images_rows) followed = readings.trace_apart(*images, {});
  if (!followed && series) followed = readings.trace_program(*series, {}, have_series_rows);
  if (!followed && have_series_rows) followed = readings.trace_apart(*series, {});
  if (!followed && columns) followed = readings.trace_program(*columns, {}, have_columns_rows);
  if (!followed && have_columns_rows) followed = readings.trace_apart(*columns, {});
  // Fixed rows come last, since the model then has one length only.
  const bool is_one = given.inputs() == 1;
  if (!followed && is_one) followed = readings.trace_fixed(given);
  if (!followed && is_one && images) followed = readings.trace_fixed(*images);
  if (followed) return std::move(*followed);
  if (is_one_of(op, {"to", "_to_copy"})) {
    const uint32_t made = program->nodes[readings.reached].outputs.at(0);
    refuse_if(is_integer(program->values[made].type),
              "{}: input {} is {}, but becomes integers; token ids are torch.int64",
              quote(program->source), quote(given.input().name),
              name(program->values[given.input().value].type));
  }
  std::rethrow_exception(readings.told);
}

}  // namespace arenite::convert
