// SPDX-License-Identifier: Apache-2.0
// Shapes are compared without extents of 1, since programs differ in which of them they keep.
#include "convert/check/author_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "convert/check/call_rows.h"
#include "convert/check/check_session.h"
#include "convert/check/model_input.h"
#include "convert/files/error.h"
#include "convert/files/npy.h"
#include "convert/quantize/matrix_product.h"

namespace arenite::convert {
namespace {

using Shape = std::vector<uint64_t>;

constexpr const char* kOption = "--expect";
constexpr const char* kLengthsOption = "--expect-lengths";

Shape squeezed(Shape shape) {
  std::erase(shape, 1u);
  return shape;
}

// Whether the outputs are those of each sequence's last token. They are [axes, width], with `rows`
// of a sequence, or [sequences, width], without extents of 1.
bool are_of_last_tokens(const NpyArray& outputs, const TokenAxes& input, uint64_t rows,
                        const Model& model) {
  const uint64_t width = model.output_features();
  const Shape of_sequences = {input.sequences, width};
  Shape of_tokens = input.shape(rows);
  of_tokens.push_back(width);
  const Shape found = squeezed(outputs.shape());
  if (model.pooled()) {
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

// Each sequence's: all tokens where nothing was said.
std::vector<uint32_t> lengths_of(const AuthorFiles& files, const TokenAxes& axes,
                                 const Model& model) {
  if (files.lengths.empty()) return std::vector<uint32_t>(axes.sequences, axes.tokens);
  if (image_shape(model).channels != 0) {
    throw InputError("{}: the model reads images, which are all of one size: drop the option",
                     kLengthsOption);
  }
  if (files.lengths.size() != axes.sequences) {
    throw InputError("{}: found {} lengths, and {} has {} sequences: expected one for each",
                     kLengthsOption, files.lengths.size(), quote(files.input.string()),
                     axes.sequences);
  }
  const uint32_t least = std::max(1u, model.tokens_min());
  for (const uint32_t length : files.lengths) {
    if (length >= least && length <= axes.tokens) continue;
    throw InputError("{}: found {}, expected {} to {} tokens", kLengthsOption, length, least,
                     axes.tokens);
  }
  return files.lengths;
}

// All rows of the first `tokens` of sequence `index`.
std::vector<float> run_sequence(CheckSession& session, const ModelInput& input, uint32_t index,
                                uint32_t tokens) {
  session.reset();
  if (!input.ids.empty()) {
    const auto ids = std::span(input.ids).subspan(size_t{index} * input.tokens, tokens);
    return session.run(TokenBatch{ids, 1, tokens});
  }
  const size_t count = input.features.size() / input.sequences;
  const size_t given = count / input.tokens * tokens;
  return session.run(Batch{std::span(input.features).subspan(index * count, given), 1, tokens});
}

// How far the rows of all sequences are off: all that are expected, but for those of padding, or
// the last one of each.
double largest_difference(const AlignedBytes& file, Target target, const ModelInput& input,
                          std::span<const uint32_t> lengths, const std::vector<float>& expected,
                          double& largest_value) {
  CheckSession session(file, target, input.tokens, Outputs::kAll);
  const size_t each = expected.size() / input.sequences;
  double largest = 0.0;
  for (uint32_t i = 0; i < input.sequences; ++i) {
    const std::vector<float> rows = run_sequence(session, input, i, lengths[i]);
    const size_t count = std::min(each, rows.size());
    const auto found = std::span(rows).last(count);
    for (size_t k = 0; k < count; ++k) {
      const double value = expected[i * each + k];
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
  return " All that the conversion rests on is what the model's own config says.";
}

}  // namespace

AuthorCheck check_against_author(const ConvertedModel& conversion, const AuthorFiles& files,
                                 const std::string& checkpoint, const AlignedBytes* in_float32) {
  const NpyArray input_array = NpyArray::read(files.input);
  const NpyArray output_array = NpyArray::read(files.outputs);
  if (!is_float(output_array)) {
    throw InputError("--expect: {} is of type {}: expected the outputs, float32 or float64",
                     quote(output_array.name()), name(output_array.dtype()));
  }
  AuthorCheck check;
  const auto compare = [&](const AlignedBytes& file, Target target, double& largest) {
    const Model model = load_converted(file, target);
    const TokenAxes axes = token_axes(input_array, model, kOption);
    require_context(input_array, axes, model, kOption);
    const uint64_t rows = rows_given(model, Outputs::kAll, axes.tokens, true);
    check.sequences = axes.sequences;
    check.tokens = axes.tokens;
    check.of_last_tokens = are_of_last_tokens(output_array, axes, rows, model);
    std::vector<float> expected = finite_values(output_array, kOption);
    if (!model.pooled() && !check.of_last_tokens) expected = sequences_first(expected, axes, rows);
    const double found =
        largest_difference(file, target, read_model_input(input_array, model, kOption),
                           lengths_of(files, axes, model), expected, check.largest_value);
    if (!(found <= largest)) largest = found;
  };
  bool has_run = false;
  double of_file = 0.0;
  for (const TargetCheck& target : conversion.checks) {
    if (!target.ran) continue;
    has_run = true;
    compare(conversion.file, target.target, of_file);
  }
  if (!has_run) {
    throw InputError(
        "{}: --expect: this CPU runs none of the targets asked for: expected one that it runs",
        quote(checkpoint));
  }
  if (in_float32 == nullptr) {
    check.largest_difference = of_file;
  } else {
    compare(*in_float32, best_kernels().target, check.largest_difference);
    check.difference_in_few_bits = of_file;
  }
  if (!(check.largest_difference <= kAuthorDifferenceMax * check.largest_value)) {
    throw InputError(
        "{}: the converted model is not the one that gave {}: outputs differ by up to {:.2e}, and "
        "the largest of them is {:.2e}.{} Or the author's model was not in eval mode, "
        "hid padding, or did not read {}. No file was written",
        quote(checkpoint), quote(output_array.name()), check.largest_difference,
        check.largest_value, basis_of(conversion.account), quote(input_array.name()));
  }
  return check;
}

}  // namespace arenite::convert
