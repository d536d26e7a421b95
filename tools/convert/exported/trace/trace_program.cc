// SPDX-License-Identifier: Apache-2.0
// Traces a program under one interpretation of its input after the other, until one is recognised.
#include <exception>

#include "convert/exported/trace/trace_program.h"
#include "convert/exported/trace/tracer.h"

namespace arenite::convert {
namespace {

constexpr size_t kColumnNodesMax = 64;  // for more, other interpretations are tried

// Replaces masks of the made-up pairs by masks that each call of the model gets. Throws InputError
// if no attention has such a mask.
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
      // The bias of pairs that the made-up mask hides is not known.
      refuse_if(attention->terms != nullptr || !attention->slopes.empty(),
                "{}: '{}' adds a bias to scores that input {} masks; expected no bias in attention "
                "with such an input",
                quote(producer), graph.node(value).name, quote(side.input->name));
    }
    if (is_taken) continue;
    throw InputError(
        "{}: input {} is a pair mask, but no attention uses it as its whole mask; expected a use "
        "such as masked_fill(adjacency == 0, -inf)",
        quote(producer), quote(side.input->name));
  }
}

// Adds a zero token table to a lookup of positions that skip padding, unless a token embedding has
// the positions. The runtime looks both up by the ids.
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

// Returns nullopt if the trace must be restarted with the image layout in `trace_shape`.
std::optional<TracedProgram> trace_once(const std::shared_ptr<const ExportedProgram>& program,
                                        TraceShape& trace_shape, size_t output) {
  TracedProgram followed;
  followed.tracer = std::make_unique<Tracer>(program, trace_shape);
  const GraphBuilder& builder = followed.tracer->builder;
  try {
    followed.tracer->run(output);
  } catch (const InputError&) {
    if (!builder.found) throw;
    TraceShape& own = trace_shape.of(builder.found->row_axis);
    own = own.with_image(builder.found->layout);
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

// Traces under several interpretations, and keeps the refusal to report.
class Readings {
 public:
  Readings(const std::shared_ptr<const ExportedProgram>& program, TraceShape& trace_shape,
           size_t output)
      : program_(program), trace_shape_(trace_shape), output_(output) {}

  // Returns nullopt if the interpretation is refused. Keeps the refusal if `least` is given, and
  // the refused op is `least` or a later one.
  std::optional<TracedProgram> trace(TraceShape shape, std::optional<size_t> least = {}) {
    try {
      TracedProgram followed = trace_program(program_, shape, output_);
      trace_shape_ = std::move(shape);
      return followed;
    } catch (const InputError& error) {
      if (!least || ops_followed(error) < *least) return std::nullopt;
      reached = ops_followed(error);
      told = std::current_exception();
      return std::nullopt;
    }
  }

  size_t reached = 0;       // the refused op of the kept refusal
  std::exception_ptr told;  // the kept refusal, or null

 private:
  const std::shared_ptr<const ExportedProgram>& program_;
  TraceShape& trace_shape_;
  const size_t output_;
};

// Returns the program traced as a series or an image if that takes less than half of the nodes, as
// for a table whose columns are tokens: as one row, it needs nodes for each column. Otherwise
// returns `whole`.
TracedProgram smaller_series(Readings& readings, const TraceShape& given, TraceShape& trace_shape,
                             TracedProgram whole) {
  const size_t nodes = whole.graph.order().size();
  if (nodes <= kColumnNodesMax || given.is_dynamic()) return whole;
  const TraceShape of_whole = trace_shape;
  for (const std::optional<TraceShape>& shape : {given.with_series(), given.of_images()}) {
    if (!shape) continue;
    auto traced = readings.trace(*shape);
    if (traced && traced->graph.order().size() < nodes / 2) return std::move(*traced);
  }
  trace_shape = of_whole;
  return whole;
}

}  // namespace

TracedProgram trace_program(const std::shared_ptr<const ExportedProgram>& program,
                            TraceShape& trace_shape, size_t output) {
  for (;;) {
    if (auto followed = trace_once(program, trace_shape, output)) return std::move(*followed);
  }
}

TracedProgram trace_any(const std::shared_ptr<const ExportedProgram>& program,
                        TraceShape& trace_shape, size_t output) {
  const TraceShape given = trace_shape;
  Readings readings(program, trace_shape, output);
  if (auto followed = readings.trace(given, 0)) {
    return smaller_series(readings, given, trace_shape, std::move(*followed));
  }
  // SIZE_MAX: all ops were traced, and the output was refused.
  const bool is_of_output = readings.reached == SIZE_MAX;
  const std::string op = is_of_output ? "" : program->nodes[readings.reached].op;
  const auto images = is_of_output ? std::nullopt : given.of_images();
  std::optional<TracedProgram> followed;
  if (const auto one = given.with_one_token()) followed = readings.trace(*one);
  if (!followed && images) {  // keeps a refusal at a later op, or at the same convolution
    followed = readings.trace(*images, readings.reached + (op.starts_with("conv") ? 0 : 1));
  }
  for (const auto& shape : {given.with_series(), given.with_columns_first()}) {
    if (!followed && shape && !is_of_output) followed = readings.trace(*shape);
  }
  // Fixed rows are tried last, since the model then has a single length.
  const bool is_one = given.inputs() == 1;
  if (!followed && is_one) followed = readings.trace(given.with_fixed_rows());
  if (!followed && is_one && images) followed = readings.trace(images->with_fixed_rows());
  if (followed) return std::move(*followed);
  if (is_one_of(op, {"to", "_to_copy"})) {
    const uint32_t made = program->nodes[readings.reached].outputs.at(0);
    refuse_if(is_integer(program->values[made].type),
              "{}: input {} is {}, but the program converts it to integers; expected token ids of "
              "torch.int64",
              quote(program->source), quote(given.input().name),
              name(program->values[given.input().value].type));
  }
  std::rethrow_exception(readings.told);
}

}  // namespace arenite::convert
