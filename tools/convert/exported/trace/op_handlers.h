// SPDX-License-Identifier: Apache-2.0
// Declares the handlers of ops, which lower them, and the functions that handlers share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "convert/exported/trace/tracer.h"

namespace arenite::convert {

// Lowers a call. Returns nullopt if another handler lowers it.
using OpHandler = std::optional<TracedValue>(Tracer& tracer, const Call& call);
OpHandler complex_op, ordered_score_op, op_on_extent_one, layer_op, decomposed_op, matrix_op,
    convolution_op, max_pool_op, nearest_op, mean_of_lines, match_decomposed_softmax, score_op,
    softmax_of_rows, norm_op, sum_op, filled_by_ids, pooling_op;
// Keeps an op on single elements or rows as a Function, which is lowered when it is read.
OpHandler function_op;
// Lowers an op by its decomposition into other ops.
OpHandler lower_decomposition;

// Replaces an exponent that is a constant of one element by a number.
Call with_numbers(const Call& call);
// Whether a prelu or cumsum is no function of single elements or rows: slopes are those of channels
// in dimension 1, or the sums run over the columns of a row.
bool mixes_columns(Tracer& tracer, const Call& call);
// If a value of the call is on the row axis of interleaved windows, moves token rows of the other
// values to that axis.
Call with_aligned_axes(Tracer& tracer, const Call& call);
// Replaces padding by zero rows with a concatenation, if the number of rows is fixed. Returns any
// other call unchanged.
Call with_rows_of_zeros(Tracer& tracer, const Call& call);
// Lowers a movement that repeats or reorders rows to a row gather, if the number of rows is fixed.
// Returns nullopt for any other movement.
std::optional<TracedValue> gather_rows_op(Tracer& tracer, const std::vector<TracedValue>& parts,
                                          const std::vector<Movement>& movements);
// Lowers an embedding lookup whose index is the ids or a function of them: positions, with or
// without padding, or the same row for all ids. Probes the function with a few id sequences to
// decide.
LinearExprRef looked_up(Tracer& tracer, const ConstantRef& table, const TracedValue& given);
bool is_of_ids(const GraphBuilder& builder, const TracedValue& value);
// Lowers a function of single token ids to a lookup by these ids. Throws NotRecognised for any
// other function of ids.
LinearExprRef lookup_of_function(Tracer& tracer, const Function& function);
// Adds added(f) to each score, where f is the element of `function`, a function of token ids. The
// addend must be a constant plus an addend that depends on the id of the key.
ScoresRef mask_by_ids(Tracer& tracer, const Scores& scores, const Function& function,
                      const std::function<double(double)>& added);
// Makes a Function. Throws NotRecognised if ops are nested too deeply.
FunctionRef function_of(const LinearExprRef& base, Call call, Shape shape, size_t depth);
// Stacks per-sequence rows, or single tokens of each sequence, along `dim` to a new row axis.
// Returns nullopt for any other values.
std::optional<LinearExprRef> stacked_rows(Tracer& tracer, const std::vector<TracedValue>& parts,
                                          size_t dim);
// Applies movements to the argument of a type conversion instead of its result. Returns nullopt for
// any other function.
std::optional<std::vector<TracedValue>> moved_conversion(const GraphBuilder& builder,
                                                         const FunctionRef& function,
                                                         const std::vector<Movement>& movements);
bool is_reduction(std::string_view op);
bool is_softmax(std::string_view op);
bool is_log_softmax(std::string_view op);
// Returns the argument `name` as an array; nullopt unless it is a constant or a number.
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
// Whether some term has elements of nodes.
bool is_of_model(const GraphBuilder& builder, const LinearExpr& value);
// Returns the smallest position limit of the call's constants; 0: no limit.
int64_t positions_max_of(const Call& call);

}  // namespace arenite::convert
