// SPDX-License-Identifier: Apache-2.0
// The program is followed at the length of its example and at another one. What both agree about
// holds for every length; what is a table of positions ends with it.
#include "convert/exported/exported_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <random>
#include <utility>

#include "convert/exported/interpret.h"
#include "convert/exported/one_model.h"
#include "convert/exported/reducer.h"
#include "convert/files/error.h"
#include "convert/graph/interpreter.h"

namespace arenite::convert {
namespace {

constexpr int64_t kElementsMax = int64_t{1} << 24;  // that a second length may take
constexpr double kDifferenceMax = 1e-6;             // of the largest value
constexpr double kDifferencePerToken = 2e-7;  // of rotations whose angles the author has in float32
constexpr uint32_t kRandomInputs = 1;
constexpr uint32_t kPrefixStepsMax = 5;
constexpr size_t kLargeWeights = size_t{1} << 24;  // of a model that one input is enough for

struct Followed {
  Graph graph;
  int64_t positions_max = 0;
  std::unique_ptr<Reducer> reducer;
};

Followed follow_once(const std::shared_ptr<const ExportedProgram>& program, const Lengths& lengths,
                     size_t output) {
  Followed followed;
  followed.reducer = std::make_unique<Reducer>(program, lengths);
  followed.reducer->run(output);
  followed.graph = followed.reducer->builder().graph();
  followed.graph.remove_unread();
  followed.positions_max = followed.reducer->builder().positions_max();
  return followed;
}

// How many rows of constants the program puts before each sequence is seen when it does. Where it
// does so in several steps, those that are put first may be the first of all, or the last.
Followed follow(const std::shared_ptr<const ExportedProgram>& program, Lengths& lengths,
                size_t output) {
  for (uint32_t steps = 0; steps < kPrefixStepsMax; ++steps) {
    try {
      return follow_once(program, lengths, output);
    } catch (const PrefixFound& found) {
      lengths = lengths.with_prefix(found.rows, false);
    } catch (const PatchesFound& found) {
      lengths = lengths.with_patches(found.patches);
    } catch (const InputError& error) {
      if (lengths.sizes().prefix < 2) throw;
      Lengths other = lengths.with_prefix(lengths.sizes().prefix, true);
      try {
        Followed followed = follow_once(program, other, output);
        lengths = other;
        return followed;
      } catch (const PrefixFound&) {
        throw error;
      } catch (const PatchesFound&) {
        throw error;
      } catch (const InputError&) {
        throw error;
      }
    }
  }
  throw InputError(
      "{}: it puts rows of constants before the tokens in too many steps: expected at "
      "most {}",
      quote(program->source), kPrefixStepsMax);
}

class ModelReader {
 public:
  ModelReader(const std::filesystem::path& path, const ModelOptions& options)
      : options_(options),
        where_(quote(path.string())),
        program_(std::make_shared<const ExportedProgram>(read_exported(path))),
        lengths_(program_) {}

  ExportedModel read() {
    choose_output();
    traced_ = follow_input();
    choose_positions();
    Followed& last = try_other_length() ? *longer_ : traced_;
    settle_masks(last.graph);
    last.reducer->builder().graph() = last.graph;
    const auto constant_at = [program = program_, lengths = lengths_](uint32_t value, int64_t n) {
      return ConstantsAt(program, lengths.at(n)).get(value);
    };
    last.reducer->builder().finish(static_cast<uint32_t>(positions_), constant_at);
    model_.program = program_;
    model_.graph = last.reducer->builder().graph();
    model_.graph.positions_max = static_cast<uint32_t>(positions_);
    model_.graph.architecture = "exported PyTorch program";
    settle_output();
    describe_length();
    compare();
    return std::move(model_);
  }

 private:
  int64_t prefix() const { return lengths_.sizes().prefix; }

  // What has the shape of features may be images or series that the program cuts.
  Followed follow_input() {
    try {
      return follow(program_, lengths_, model_.output_index);
    } catch (const InputError& error) {
      std::optional<Lengths> images = lengths_.of_images();
      if (!images) throw;
      try {
        Followed followed = follow(program_, *images, model_.output_index);
        lengths_ = *images;
        return followed;
      } catch (const InputError&) {
        throw error;
      }
    }
  }

  void choose_output() {
    model_.outputs = 0;
    std::vector<size_t> tensors;
    for (size_t i = 0; i < program_->outputs.size(); ++i) {
      const ValueRef* ref = program_->outputs[i].as<ValueRef>();
      if (ref && program_->values[ref->value].kind == ValueKind::kTensor) tensors.push_back(i);
    }
    model_.outputs = tensors.size();
    const size_t wanted = options_.output_index.value_or(0);
    if (wanted >= tensors.size()) {
      throw InputError("{}: --output-index {}: the model gives out {} tensor{}: expected 0 to {}",
                       where_, wanted, tensors.size(), tensors.size() == 1 ? "" : "s",
                       tensors.empty() ? 0 : tensors.size() - 1);
    }
    model_.output_index = tensors[wanted];
    if (model_.outputs > 1) {
      model_.account.given.push_back(
          fmt::format("output {} of {}{}", wanted, model_.outputs,
                      options_.output_index ? ", --output-index"
                                            : ", the first: --output-index takes another"));
    }
  }

  // 0: any number.
  void choose_positions() {
    if (lengths_.reads_images()) {
      positions_ = limit_ = lengths_.tokens();
      return;
    }
    const auto longest = lengths_.is_dynamic() ? lengths_.range().max : std::nullopt;
    limit_ = tighter(std::max<int64_t>(0, traced_.positions_max - prefix()), longest.value_or(0));
    positions_ = limit_;
    if (options_.context != 0) {
      if (limit_ != 0 && options_.context > limit_) {
        throw InputError("{}: --context: found {}, expected at most {}, which the model has",
                         where_, options_.context, limit_);
      }
      positions_ = options_.context;
    }
    const bool needs_end = traced_.reducer->builder().has_position_tables() ||
                           std::ranges::any_of(traced_.graph.order(), [&](ValueId value) {
                             return traced_.graph.as<RotateNode>(value) != nullptr;
                           });
    if (positions_ == 0 && needs_end) {
      positions_ = lengths_.traced_tokens();
      is_end_chosen_ = true;
    }
  }

  // Whether the program is the same model at another length, which it then has been followed at.
  bool try_other_length() {
    if (lengths_.reads_images()) return false;
    const int64_t traced = lengths_.traced_tokens();
    int64_t elements = 1;
    for (const ExportedValue& value : program_->values) {
      int64_t count = 1;
      for (const Extent& extent : value.sizes) count *= std::max<int64_t>(1, extent.size);
      if (!value.sizes.empty() && std::ranges::any_of(value.sizes, [&](const Extent& extent) {
            return extent.size == traced;
          })) {
        elements += count;
      }
    }
    const int64_t affordable = std::max(traced + 3, kElementsMax / elements * traced);
    int64_t other = positions_ != 0 && !is_end_chosen_ ? positions_ : 2 * traced + 3;
    other = std::min(other, affordable);
    if (limit_ != 0) other = std::min(other, limit_);
    if (other == traced) other = traced - 1;
    if (other < 2 || (lengths_.is_dynamic() && other < lengths_.range().min)) return false;
    try {
      Lengths lengths = lengths_.at(other);
      Followed found = follow(program_, lengths, model_.output_index);
      why_not_ = difference(other > traced ? traced_.graph : found.graph,
                            other > traced ? found.graph : traced_.graph);
      if (!why_not_.empty()) return limit_to_trace();
      other_ = other;
      if (other < traced) return false;
      longer_ = std::make_unique<Followed>(std::move(found));
      return true;
    } catch (const InputError& error) {
      why_not_ = error.what();
    }
    return limit_to_trace();
  }

  bool limit_to_trace() {
    positions_ = lengths_.traced_tokens();
    return false;
  }

  void settle_masks(Graph& graph) {
    for (Mask& mask : graph.masks) {
      if (const auto rule = mask_rule(mask)) {
        mask = *rule;
      } else {
        const int64_t rows = positions_of(mask) - prefix();
        if (positions_ == 0 || rows < positions_) {
          positions_ = rows;
          mask_end_ = true;
        }
      }
    }
  }

  // A decoder gives out the rows that a call asks for.
  void settle_output() {
    Graph& graph = model_.graph;
    model_.causal =
        std::ranges::all_of(graph.masks, [](const Mask& mask) { return is_causal(mask); });
    bool selects = false;
    for (const ValueId value : graph.order()) {
      if (auto* rows = graph.as<RowsNode>(value)) {
        if (rows->kind == SelectKind::kLast && model_.causal) rows->kind = SelectKind::kAsAsked;
        selects = true;
        model_.pools = model_.pools || rows->kind != SelectKind::kAsAsked;
      }
    }
    if (model_.causal && !selects) {
      graph.output = graph.add("select", RowsNode{SelectKind::kAsAsked}, {graph.output});
    }
    graph.remove_unread();
  }

  void describe_length() {
    if (const auto& image = lengths_.patches()) {
      model_.length = fmt::format("{} patches of [{}, {}, {}] an image", lengths_.tokens(),
                                  image->channels, image->patch_height, image->patch_width);
      return;
    }
    const std::string traced = fmt::format("{}", lengths_.traced_tokens());
    const std::string steps = model_.causal ? ", token by token too" : "";
    if (!why_not_.empty()) {
      model_.length = fmt::format("exactly {} tokens a call: {}", traced, why_not_);
      return;
    }
    const std::string end =
        positions_ == 0 ? "any length" : fmt::format("any length up to {}", positions_);
    model_.length =
        fmt::format("{}{}: masks follow one rule and ops are the same at {}{} tokens", end, steps,
                    traced, other_ != 0 ? fmt::format(" and {}", other_) : "");
    if (is_end_chosen_) model_.length += "; --context N makes it longer";
    if (mask_end_) model_.length += "; its mask is no rule of distances";
  }

  // ---- the graph against the program ----

  void compare() {
    std::vector<Array> inputs;
    if (!program_->sample_inputs.empty()) inputs.push_back(program_->sample_inputs[0]);
    std::mt19937_64 random(3);
    const size_t random_inputs = is_large() && !inputs.empty() ? 0 : kRandomInputs;
    while (inputs.size() < random_inputs + (program_->sample_inputs.empty() ? 0 : 1)) {
      const Shape shape = lengths_.input_shape();
      const size_t count = elements_of(shape);
      if (lengths_.reads_tokens()) {
        Array::Integers ids;
        for (size_t i = 0; i < count; ++i) {
          ids.push_back(static_cast<int64_t>(random() % model_.graph.vocab_size));
        }
        inputs.push_back(Array::integer(shape, std::move(ids)));
      } else {
        Array::Reals values;
        for (size_t i = 0; i < count; ++i) {
          values.push_back(
              static_cast<float>(4.0 * static_cast<double>(random() >> 11) * 0x1p-53 - 2.0));
        }
        inputs.push_back(Array::real(shape, std::move(values)));
      }
    }
    const auto start = std::chrono::steady_clock::now();
    for (const Array& input : inputs) compare(input);
    model_.compared_seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  // Double precision takes its time.
  bool is_large() const {
    size_t weights = 0;
    for (const ExportedInput& input : program_->inputs) {
      if (input.kind == InputKind::kParameter) {
        weights += elements_of(program_->values[input.value].shape());
      }
    }
    return weights > kLargeWeights;
  }

  void compare(const Array& input) {
    const std::vector<Array> outputs = interpret(*program_, std::span(&input, 1),
                                                 interpreting_budget(*program_, input.elements()));
    size_t place = 0;
    for (size_t i = 0; i < model_.output_index; ++i) {
      const ValueRef* ref = program_->outputs[i].as<ValueRef>();
      if (ref && program_->values[ref->value].kind == ValueKind::kTensor) ++place;
    }
    const Array::Reals expected = outputs.at(place).to_reals();
    const TraceSizes sizes = lengths_.sizes();
    const Array::Reals given = input.to_reals();
    const size_t each = given.size() / sizes.sequences;
    const size_t count = expected.size() / sizes.sequences;
    for (uint32_t b = 0; b < sizes.sequences; ++b) {
      const auto begin = given.begin() + static_cast<ptrdiff_t>(b * each);
      const auto end = begin + static_cast<ptrdiff_t>(each);
      GraphInput fed;
      std::vector<uint32_t> ids;
      std::vector<float> features;
      if (lengths_.reads_tokens()) {
        for (auto id = begin; id != end; ++id) ids.push_back(static_cast<uint32_t>(*id));
        fed.tokens = ids;
      } else {
        for (auto value = begin; value != end; ++value)
          features.push_back(static_cast<float>(*value));
        fed.features = features;
      }
      const Evaluation found = evaluate(model_.graph, fed);
      // A decoder's graph has all rows, also where the program gives out the last one.
      const size_t first = found.values.size() - std::min(count, found.values.size());
      for (size_t i = 0; i < count; ++i) {
        const double value = expected[b * count + i];
        const double difference = std::fabs(found.values.at(first + i) - value);
        model_.largest_value = std::max(model_.largest_value, std::fabs(value));
        if (!(difference <= model_.largest_difference)) model_.largest_difference = difference;
      }
    }
    ++model_.compared_inputs;
    const bool turns = std::ranges::any_of(model_.graph.order(), [&](ValueId value) {
      return model_.graph.as<RotateNode>(value) != nullptr;
    });
    const double share_max = kDifferenceMax + (turns ? kDifferencePerToken * sizes.tokens : 0.0);
    if (!(model_.largest_difference <= share_max * model_.largest_value)) {
      throw InputError(
          "{}: what was recognised is not what the program computes: outputs differ by {:.1e}, and "
          "reach {:.1e}. This is a limit of the converter: please report the model",
          where_, model_.largest_difference, model_.largest_value);
    }
  }

  const ModelOptions& options_;
  std::string where_;
  std::shared_ptr<const ExportedProgram> program_;
  Lengths lengths_;
  ExportedModel model_;
  Followed traced_;
  std::unique_ptr<Followed> longer_;
  int64_t limit_ = 0;      // of the model, 0: none
  int64_t positions_ = 0;  // that the file is to have, 0: any
  int64_t other_ = 0;      // length that was followed, too
  bool is_end_chosen_ = false;
  bool mask_end_ = false;
  std::string why_not_;
};

}  // namespace

ExportedModel read_exported_model(const std::filesystem::path& path, const ModelOptions& options) {
  return ModelReader(path, options).read();
}

Graph build_graph(const ExportedModel& model) { return model.graph; }

}  // namespace arenite::convert
