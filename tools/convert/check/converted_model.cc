// SPDX-License-Identifier: Apache-2.0
// Checks against the graph run one sequence of tokens or features; checks against the author run
// whole arrays.
#include "convert/check/converted_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "convert/check/check_session.h"
#include "convert/check/model_input.h"
#include "convert/check/run_input.h"
#include "convert/files/error.h"
#include "convert/files/npy.h"
#include "convert/files/progress.h"
#include "convert/graph/interpreter.h"
#include "convert/program/program.h"
#include "convert/program/weights.h"
#include "convert/quantize/matrix_product.h"

namespace arenite::convert {

// ---- comparison with the graph ----

namespace {

// Scores up to this size keep the plain tolerance. Beyond it, softmax amplifies rounding errors in
// proportion to the scores.
constexpr double kOrdinaryScore = 100.0;

// Tolerance with int8 activations, as a share of the largest output: a few quantization steps.
constexpr double kStepError = 0.05;

constexpr uint64_t kTokens = 48;  // a multiple of the rows of every tile
constexpr uint64_t kTokensMin = 2;
constexpr uint64_t kProductsMax = 2'000'000'000;  // of a weight and an activation

// Returns enough tokens to exceed a tile of every kernel set; fewer for large models, as the
// reference is slow, and for short contexts.
uint32_t tokens_to_check(const Program& program) {
  uint64_t weights = 0;
  for (const ProgramTensor& tensor : program.tensors) {
    if (tensor.layout == format::Layout::kGemm) weights += uint64_t{tensor.outputs} * tensor.inputs;
  }
  const uint64_t affordable = kProductsMax / std::max<uint64_t>(1, weights);
  const uint64_t count = std::clamp(affordable, kTokensMin, kTokens);
  return token_count_for(static_cast<uint32_t>(count), program);
}

// Makes input `number`, which is not the first, with a different number of tokens from the first
// input.
ModelInput other_input_for(const ConvertedModel& conversion, uint32_t number, uint32_t tokens) {
  const GraphInput& input = conversion.graph.inputs[number];
  size_t width = 0;
  for (const ValueId value : conversion.graph.order()) {
    const bool is_own = conversion.graph.axis(value) == input.axis;
    if (is_own && conversion.graph.as<FeaturesNode>(value)) width = conversion.graph.width(value);
  }
  const uint32_t count = format::allowed_length(input, std::max(2u, tokens / (number + 1)));
  return input_to_check(count, input.vocab_size, input.token_types, count * width);
}

ModelInput input_for(const ConvertedModel& conversion) {
  const Program& program = conversion.program;
  const size_t width = program.slots[program.inputs[0].slot].width;
  if (!conversion.evaluated) {
    const uint32_t count = tokens_to_check(program);
    return input_to_check(count, conversion.graph.inputs[0].vocab_size,
                          conversion.graph.inputs[0].token_types, count * width);
  }
  ModelInput input = {conversion.evaluated->tokens, conversion.evaluated->features};
  const size_t count = input.ids.empty() ? input.features.size() / width : input.ids.size();
  input.tokens = static_cast<uint32_t>(count);
  return input;
}

// Runs all functions, both in one call and token by token.
std::vector<float> run_functions_on(const AlignedBytes& file, Target target,
                                    const ModelInput& input) {
  const Model model = load_converted(file, target);
  const auto run_in = [&](uint32_t chunk) {
    SessionOptions options = options_for_functions(model, input.tokens_of_inputs(), chunk);
    options.outputs = Outputs::kAll;
    const ConvertedSession session(model, options);
    return run_functions(*session, model, input, chunk, "the converted model");
  };
  const std::vector<float> values = run_in(UINT32_MAX);
  const bool finite = std::ranges::all_of(values, [](float v) { return std::isfinite(v); });
  if (!finite) return values;
  const std::vector<float> stepped = run_in(1);
  if (!std::ranges::equal(std::as_bytes(std::span(stepped)), std::as_bytes(std::span(values)))) {
    throw std::logic_error("stepping differs from one pass: this is a bug");
  }
  return values;
}

std::vector<float> run_target(const AlignedBytes& file, Target target, const ModelInput& input) {
  if (!input.others.empty()) return run_functions_on(file, target, input);
  CheckSession session(file, target, input.tokens, Outputs::kAll);
  const std::vector<float> values = session.run(input);
  const bool finite = std::ranges::all_of(values, [](float v) { return std::isfinite(v); });
  if (!finite || !session.model().causal() || !input.types.empty()) return values;
  session.reset();
  const size_t width = session.session().output().features;
  size_t begin = 0;
  for (uint32_t t = 0; t < input.tokens; ++t) {
    // Constant rows come with the first token; interleaved rows are several for each token.
    const size_t rows = rows_given(session.model(), Outputs::kAll, 1, t == 0);
    session.step(input, t, std::span(values).subspan(begin, rows * width));
    begin += rows * width;
  }
  return values;
}

template <typename Real>
double largest_difference(const std::vector<Real>& found, const std::vector<double>& expected) {
  double largest = 0.0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double difference = std::fabs(found[i] - expected[i]);
    if (!(difference <= largest)) largest = difference;  // NaN too
  }
  return largest;
}

// Whether a rounding step may choose another expert for a row, whose results then differ by more
// than steps, as may those of rows that attend to it.
bool may_choose_others(const Program& program) {
  return rounds_activations(program) && std::ranges::any_of(program.ops, [](const ProgramOp& op) {
           return op.body.kind == format::OpKind::kTopK;
         });
}

// Returns the median over rows of `width` elements of their largest difference; NaN if one has it.
double median_difference(const std::vector<float>& found, const std::vector<double>& expected,
                         size_t width) {
  std::vector<double> rows(expected.size() / width, 0.0);
  for (size_t i = 0; i < rows.size() * width; ++i) {
    const double difference = std::fabs(static_cast<double>(found[i]) - expected[i]);
    if (!std::isfinite(difference)) return NAN;
    rows[i / width] = std::max(rows[i / width], difference);
  }
  std::ranges::sort(rows);
  return rows.empty() ? 0.0 : rows[rows.size() / 2];
}

}  // namespace

std::optional<double> ConvertedModel::computing_error() const {
  std::optional<double> largest;
  for (const TargetCheck& check : checks) {
    if (check.ran) largest = std::max(largest.value_or(0.0), check.largest_error);
  }
  return largest;
}

void check_conversion(ConvertedModel& conversion, const std::string& path,
                      const std::vector<Target>& targets, double relative_error_max) {
  ModelInput input = input_for(conversion);
  for (uint32_t i = 1; i < conversion.graph.inputs.size(); ++i) {
    input.others.push_back(other_input_for(conversion, i, input.tokens));
  }
  std::vector<SequenceInput> fed;
  for (uint32_t i = 0; i < conversion.graph.inputs.size(); ++i) {
    ModelInput& own = i == 0 ? input : input.others[i - 1];
    if (conversion.graph.takes_pairs(i)) own.pairs = pairs_to_check(own.tokens);
    fed.push_back({own.ids, own.types, own.features, own.pairs});
  }
  if (!conversion.evaluated) report_progress("computing in double precision");
  Evaluation reference =
      conversion.evaluated ? conversion.evaluated->result : evaluate(conversion.graph, fed);
  const auto require_small = [&](double error, const std::string& what) {
    const double error_max = relative_error_max * std::max(1.0, reference.largest_value) *
                             std::max(1.0, reference.largest_score / kOrdinaryScore);
    const std::string circumstances = fmt::format("scores reach {:.1e} and outputs {:.1e}",
                                                  reference.largest_score, reference.largest_value);
    refuse_if(!std::isfinite(error),
              "{}: these weights are too large for float32: {}, and {} gives infinities or NaN; "
              "expected finite results",
              quote(path), circumstances, what);
    refuse_if(error > error_max,
              "{}: float32 is not exact enough for these weights: {}, and {} is off double "
              "precision by {:.1e}; expected at most {:.1e}",
              quote(path), circumstances, what, error, error_max);
  };
  // Without rounding, the file has the author's weights.
  if (is_rounded(conversion.rewritten)) {
    Evaluation stored = evaluate(with_stored_weights(conversion.rewritten), fed);
    conversion.storing_error = largest_difference(stored.values, reference.values);
    // Whether a quantization loss is acceptable is the user's decision, unless results are not
    // finite.
    if (!has_quantization(conversion.program) || !std::isfinite(conversion.storing_error)) {
      require_small(conversion.storing_error, "storing them");
    }
    reference = std::move(stored);
  }
  if (rounds_activations(conversion.program)) {
    relative_error_max = std::max(relative_error_max, kStepError);
  }
  conversion.checked_tokens = input.tokens;
  conversion.largest_output = reference.largest_value;
  for (const Target target : targets) {
    report_progress(fmt::format("checking {}", name(target)));
    TargetCheck check{target, (cpu_targets() & bit(target)) != 0, 0.0};
    if (check.ran) {
      const auto found = run_target(conversion.file, target, input);
      const Program& program = conversion.program;
      check.largest_error =
          may_choose_others(program)
              ? median_difference(found, reference.values,
                                  program.slots[program.functions.back().output_slot].width)
              : largest_difference(found, reference.values);
    }
    require_small(check.largest_error, fmt::format("target {}", name(target)));
    conversion.checks.push_back(check);
  }
}

// ---- comparison with the author's outputs ----

namespace {

using Shape = std::vector<uint64_t>;

constexpr const char* kOption = "--expect";

Shape squeezed(Shape shape) {
  std::erase(shape, 1u);
  return shape;
}

// Merges trailing dimensions until the last one has `width` elements.
Shape with_width(Shape shape, uint64_t width) {
  while (shape.size() > 1 && shape.back() < width) {
    const uint64_t last = shape.back();
    shape.pop_back();
    shape.back() *= last;
  }
  return shape;
}

// Transposes outputs [sequences, width, rows] to [sequences, rows, width].
std::vector<float> columns_last(const NpyArray& outputs, const std::vector<float>& values,
                                uint64_t sequences, uint64_t rows, uint64_t width) {
  if (values.size() != sequences * rows * width) {
    refuse_shape(outputs, kOption,
                 fmt::format("[{}, {}, {}], a column for each token", sequences, width, rows));
  }
  std::vector<float> result(values.size());
  for (size_t i = 0; i < result.size(); ++i) {
    const size_t sequence = i / (rows * width), row = i / width % rows;
    result[i] = values[(sequence * width + i % width) * rows + row];
  }
  return result;
}

// Whether the outputs hold only the last token's row: [axes, width], with `rows` rows of a
// sequence, or [sequences, width], without extents of 1.
bool are_of_last_tokens(const NpyArray& outputs, const Shape& shape, const TokenAxes& input,
                        uint64_t rows, const FunctionInfo& last) {
  const uint64_t width = last.output_features;
  const Shape of_sequences = {input.sequences, width};
  Shape of_tokens = input.shape(rows);
  of_tokens.push_back(width);
  const Shape found = squeezed(shape);
  if (last.pooled) {
    if (found == squeezed(of_sequences)) return false;
    refuse_shape(outputs, kOption,
                 fmt::format("[{}, {}], a row for each sequence", input.sequences, width));
  }
  if (found == squeezed(of_tokens)) return false;
  if (found == squeezed(of_sequences)) return true;
  refuse_shape(outputs, kOption,
               fmt::format("[{0}, {1}, {2}], a row for each token, or [{0}, {2}], a row for each "
                           "sequence's last token",
                           input.sequences, rows, width));
}

// Returns the number of tokens of the longest sequence, for each input.
InputTokens tokens_of(const std::vector<RunInput>& inputs) {
  InputTokens tokens;
  for (size_t i = 0; i < inputs.size(); ++i) tokens.of[i] = inputs[i].axes.tokens;
  return tokens;
}

// Returns the largest difference over all sequences: of every expected row, or of the last row of
// each sequence. Padding rows are not compared.
double largest_difference(const Model& model, const std::vector<RunInput>& inputs,
                          const std::vector<float>& expected, double& largest_value) {
  SessionOptions options = options_for_functions(model, tokens_of(inputs), UINT32_MAX);
  options.outputs = Outputs::kAll;
  const ConvertedSession session(model, options);
  const uint32_t sequences = inputs[0].axes.sequences;
  const size_t each = expected.size() / sequences;
  const size_t width = model.function(model.functions() - 1).output_features;
  double largest = 0.0;
  for (uint32_t i = 0; i < sequences; ++i) {
    std::vector<ModelInput> fed;
    for (const RunInput& input : inputs) fed.push_back(input.sequence(model, i));
    const std::vector<float> rows =
        run_functions(*session, model, joined(std::move(fed)), UINT32_MAX, "the converted model");
    const size_t count = std::min(each, rows.size());
    const auto found = std::span(rows).last(count);
    const std::vector<uint64_t> given = inputs[last_input(model)].rows_given(each / width, i);
    for (size_t k = 0; k < count; ++k) {
      const double value = expected[i * each + given[k / width] * width + k % width];
      const double difference = std::fabs(found[k] - value);
      largest_value = std::max(largest_value, std::fabs(value));
      if (!(difference <= largest)) largest = difference;  // NaN too
    }
  }
  return largest;
}

std::string basis_of(const Account& account) {
  std::string text;
  if (!account.given.empty()) text += fmt::format("\n  given: {}", fmt::join(account.given, "; "));
  if (!account.assumed.empty()) {
    text += fmt::format("\n  assumed: {}", fmt::join(account.assumed, "; "));
  }
  if (!text.empty()) return " One of these may be wrong:" + text + "\n";
  return " The conversion relies on the author's own file alone.";
}

}  // namespace

AuthorCheck check_against_author(const ConvertedModel& conversion, const AuthorFiles& files,
                                 const std::string& checkpoint, const AlignedBytes* in_float32) {
  const NpyArray output_array = NpyArray::read(files.outputs);
  refuse_if(!is_float(output_array),
            "--expect: {} is of type {}: expected the outputs, float32 or float64",
            quote(output_array.name()), name(output_array.dtype()));
  AuthorCheck check;
  std::vector<std::string> names;  // of the inputs
  GivenArrays given = {kOption, "--expect-lengths", {files.input.string()}, files.lengths};
  given.files.insert(given.files.end(), files.more_inputs.begin(), files.more_inputs.end());
  const auto compare = [&](const AlignedBytes& file, Target target, double& largest) {
    const Model model = load_converted(file, target);
    const FunctionInfo last = model.function(model.functions() - 1);
    const std::vector<RunInput> inputs = read_run_inputs(given, model, checkpoint);
    names.clear();
    for (const RunInput& input : inputs) names.push_back(quote(input.array.name()));
    const TokenAxes& axes = inputs[last_input(model)].axes;
    const uint64_t rows = rows_of_functions(model, tokens_of(inputs));
    check.sequences = axes.sequences;
    check.tokens = inputs[0].axes.tokens;
    std::vector<float> expected = finite_values(output_array, kOption);
    const uint64_t width = last.output_features;
    Shape shape = with_width(output_array.shape(), width);
    const bool is_row =
        has_row_of_sequence(model.file(), authors_outputs(model.file()), model.functions() - 1);
    const Shape own = authors_shape(model, axes, is_row ? width : rows * width);
    const bool is_own = !own.empty() && own == output_array.shape();
    const bool columns_first =
        (array_flags(conversion.file.span()) & kColumnsFirst) != 0 && !is_row;
    if (columns_first) {
      expected = columns_last(output_array, expected, axes.sequences, rows, width);
    }
    if (is_row && is_own) {
      shape = {axes.sequences, width};
    } else if (is_own || columns_first) {
      shape = axes.shape(rows);
      shape.push_back(width);
    }
    check.of_last_tokens = are_of_last_tokens(output_array, shape, axes, rows, last);
    if (!last.pooled && !check.of_last_tokens) {
      expected = sequences_first(expected, axes, is_own && axes.tokens_first ? own[0] : rows);
    }
    const double found = largest_difference(model, inputs, expected, check.largest_value);
    if (!(found <= largest)) largest = found;
  };
  bool has_run = false;
  double of_file = 0.0;
  for (const TargetCheck& target : conversion.checks) {
    if (!target.ran) continue;
    has_run = true;
    compare(conversion.file, target.target, of_file);
  }
  refuse_if(!has_run,
            "{}: --expect: this CPU runs none of the targets asked for: expected one that it runs",
            quote(checkpoint));
  if (in_float32 == nullptr) {
    check.largest_difference = of_file;
  } else {
    compare(*in_float32, best_kernels().target, check.largest_difference);
    check.difference_in_few_bits = of_file;
  }
  refuse_if(!(check.largest_difference <= conversion.author_difference_max * check.largest_value),
            "{}: the converted model does not compute {}: outputs differ by up to {:.2e}, and the "
            "largest of them is {:.2e}: expected at most {} of that.{} Or the author's model was "
            "not in eval mode, masked padding, derived a constant from the number of tokens, or "
            "did not read {}. No file was written",
            quote(checkpoint), quote(output_array.name()), check.largest_difference,
            check.largest_value, conversion.author_difference_max, basis_of(conversion.account),
            fmt::join(names, ", "));
  return check;
}

}  // namespace arenite::convert
