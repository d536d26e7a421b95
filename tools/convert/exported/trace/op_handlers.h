// SPDX-License-Identifier: Apache-2.0
// Handlers of ops, in the order in which they are tried, and what they share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "convert/exported/trace/tracer.h"

namespace arenite::convert {

// Returns nullopt for an op of another handler.
using OpHandler = std::optional<TracedValue>(Tracer& tracer, const Call& call);
OpHandler complex_op, ordered_score_op, op_of_one, layer_op, decomposed_op, matrix_op,
    convolution_op, max_pool_op, nearest_op, mean_of_lines, written_softmax, score_op,
    softmax_of_rows, norm_op, sum_op, filled_by_ids, pooling_op;
// Keeps any op on single elements or rows as a function, which is lowered when it is read.
OpHandler function_op;
// Lowers an op by its decomposition into others.
OpHandler made_of_others;

// Returns the call with a number in place of an exponent that is a one-element constant.
Call with_numbers(const Call& call);
// Whether the call is no function of single elements or rows: slopes of channels in dimension 1,
// and cumulative sums over the columns of a row.
bool mixes_columns(Tracer& tracer, const Call& call);
// Moves token rows to the row axis of interleaved windows over them, if another value of the call
// is on such an axis.
Call with_aligned_axes(Tracer& tracer, const Call& call);
// Turns padding by rows of zeros into a concatenation, where the number of rows is fixed. Returns
// any other call as it is.
Call with_rows_of_zeros(Tracer& tracer, const Call& call);
// Lowers a movement that repeats or reorders rows, where the number of rows is fixed; nullopt for
// any other movement.
std::optional<TracedValue> rows_by_list(Tracer& tracer, const std::vector<TracedValue>& parts,
                                        const std::vector<Movement>& movements);
// Looks up rows by a function of the token ids: their positions, with or without padding, or equal
// rows for all ids. Probes with a few id sequences tell which.
LinearExprRef looked_up(Tracer& tracer, const ConstantRef& table, const TracedValue& given);
bool is_of_ids(const GraphBuilder& builder, const TracedValue& value);
// Returns a function of single token ids as elements that the ids look up. Refuses any other
// function of ids.
LinearExprRef of_ids(Tracer& tracer, const Function& function);
// Adds added(f) to each score, where f is `function` of the token ids: a constant for each score,
// and an addend for each key's id.
ScoresRef masked_by_ids(Tracer& tracer, const Scores& scores, const Function& function,
                        const std::function<double(double)>& added);
// Throws NotRecognised if ops are nested too deep.
FunctionRef function_of(const LinearExprRef& base, Call call, Shape shape, size_t depth);
// Stacks per-sequence rows, or one token of each sequence, along `dim` as rows of their own;
// nullopt for any other values.
std::optional<LinearExprRef> stacked_rows(Tracer& tracer, const std::vector<TracedValue>& parts,
                                          size_t dim);
// Moves the base of a type conversion instead of its result; nullopt for any other function.
std::optional<std::vector<TracedValue>> moved_conversion(const GraphBuilder& builder,
                                                         const FunctionRef& function,
                                                         const std::vector<Movement>& movements);
bool is_reduction(std::string_view op);
bool is_softmax(std::string_view op);
bool is_log_softmax(std::string_view op);
// Returns the argument as an array if it is a constant or a number.
std::optional<Array> constant_argument(const Call& call, std::string_view name);
// Applies a function to each element.
template <typename Apply>
Array each_of(const Array& array, const Apply& apply) {
  Array::Reals values = array.to_reals();
  for (double& value : values) value = apply(value);
  return Array::real(array.shape(), std::move(values));
}
// Returns 1 / x for each element x.
Array inverse(const Array& array);
// The factors of a sum: self * x + other * y.
struct SumFactors {
  double self, other;
};
SumFactors sum_factors(const Call& call);
// Whether the sum has elements of nodes.
bool is_of_model(const GraphBuilder& builder, const LinearExpr& value);
// Returns the number of positions that the call's constants have; 0: no limit.
int64_t positions_max_of(const Call& call);

}  // namespace arenite::convert
