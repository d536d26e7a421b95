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
  TracedProgram traced_program;
  traced_program.tracer = std::make_unique<Tracer>(program, trace_shape);
  const GraphBuilder& builder = traced_program.tracer->builder;
  try {
    traced_program.tracer->run(output);
  } catch (const InputError&) {
    if (!builder.found) throw;
    TraceShape& own = trace_shape.of(builder.found->row_axis);
    own = own.with_image(builder.found->layout);
    return std::nullopt;
  }
  traced_program.graph = builder.graph;
  traced_program.graph.remove_unread();
  add_tokens_of_padding(traced_program.graph);
  take_pairs(traced_program.graph, trace_shape, program->source);
  for (uint32_t i = 0; i < trace_shape.inputs(); ++i) {
    traced_program.positions_max.push_back(builder.positions_max(i));
  }
  for (uint32_t i = static_cast<uint32_t>(trace_shape.inputs()); i < builder.row_axes(); ++i) {
    traced_program.joined_positions_max =
        tighter(traced_program.joined_positions_max, builder.positions_max(i));
  }
  return traced_program;
}

// Traces under several interpretations, and keeps the refusal to report.
class TraceAttempts {
 public:
  TraceAttempts(const std::shared_ptr<const ExportedProgram>& program, TraceShape& trace_shape,
                size_t output)
      : program_(program), trace_shape_(trace_shape), output_(output) {}

  // Returns nullopt if the interpretation is refused. Keeps the refusal if `least` is given, and
  // the refused op is `least` or a later one.
  std::optional<TracedProgram> trace(TraceShape shape, std::optional<size_t> least = {}) {
    try {
      TracedProgram traced_program = trace_program(program_, shape, output_);
      trace_shape_ = std::move(shape);
      return traced_program;
    } catch (const InputError& error) {
      if (!least || refused_op_index(error) < *least) return std::nullopt;
      refused_op = refused_op_index(error);
      refusal = std::current_exception();
      return std::nullopt;
    }
  }

  size_t refused_op = 0;       // the refused op of the kept refusal
  std::exception_ptr refusal;  // the kept refusal, or null

 private:
  const std::shared_ptr<const ExportedProgram>& program_;
  TraceShape& trace_shape_;
  const size_t output_;
};

// Returns the program traced as a series or an image if that takes less than half of the nodes, as
// for a table whose columns are tokens: as one row, it needs nodes for each column. Otherwise
// returns `whole`.
TracedProgram smaller_series(TraceAttempts& attempts, const TraceShape& given,
                             TraceShape& trace_shape, TracedProgram whole) {
  const size_t nodes = whole.graph.order().size();
  if (nodes <= kColumnNodesMax || given.is_dynamic()) return whole;
  const TraceShape of_whole = trace_shape;
  for (const std::optional<TraceShape>& shape : {given.with_series(), given.of_images()}) {
    if (!shape) continue;
    auto traced = attempts.trace(*shape);
    if (traced && traced->graph.order().size() < nodes / 2) return std::move(*traced);
  }
  trace_shape = of_whole;
  return whole;
}

}  // namespace

TracedProgram trace_program(const std::shared_ptr<const ExportedProgram>& program,
                            TraceShape& trace_shape, size_t output) {
  for (;;) {
    if (auto traced_program = trace_once(program, trace_shape, output))
      return std::move(*traced_program);
  }
}

TracedProgram trace_any(const std::shared_ptr<const ExportedProgram>& program,
                        TraceShape& trace_shape, size_t output) {
  const TraceShape given = trace_shape;
  TraceAttempts attempts(program, trace_shape, output);
  if (auto traced_program = attempts.trace(given, 0)) {
    return smaller_series(attempts, given, trace_shape, std::move(*traced_program));
  }
  // SIZE_MAX: all ops were traced, and the output was refused.
  const bool is_of_output = attempts.refused_op == SIZE_MAX;
  const std::string op = is_of_output ? "" : program->nodes[attempts.refused_op].op;
  const auto images = is_of_output ? std::nullopt : given.of_images();
  std::optional<TracedProgram> traced_program;
  if (const auto one = given.with_one_token()) traced_program = attempts.trace(*one);
  if (!traced_program && images) {  // keeps a refusal at a later op, or at the same convolution
    traced_program =
        attempts.trace(*images, attempts.refused_op + (op.starts_with("conv") ? 0 : 1));
  }
  for (const auto& shape : {given.with_series(), given.with_columns_first()}) {
    if (!traced_program && shape && !is_of_output) traced_program = attempts.trace(*shape);
  }
  // Fixed rows are tried last, since the model then has a single length.
  const bool is_one = given.inputs() == 1;
  if (!traced_program && is_one) traced_program = attempts.trace(given.with_fixed_rows());
  if (!traced_program && is_one && images)
    traced_program = attempts.trace(images->with_fixed_rows());
  if (traced_program) return std::move(*traced_program);
  if (is_one_of(op, {"to", "_to_copy"})) {
    const uint32_t made = program->nodes[attempts.refused_op].outputs.at(0);
    refuse_if(is_integer(program->values[made].type),
              "{}: input {} is {}, but the program converts it to integers; expected token ids of "
              "torch.int64",
              quote(program->source), quote(given.input().name),
              name(program->values[given.input().value].type));
  }
  std::rethrow_exception(attempts.refusal);
}

}  // namespace arenite::convert
