// SPDX-License-Identifier: Apache-2.0
// Every candidate is measured as a complete model file for the target on which the limits are
// checked. Rounded matrices are cached, so a candidate takes no longer than packing its file.
#include "convert/choose_by_loss.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "convert/calibrate/evaluation.h"
#include "convert/calibrate/sequence_runner.h"
#include "convert/check/pack_model.h"
#include "convert/files/error.h"
#include "convert/passes/passes.h"
#include "convert/program/program.h"
#include "convert/program/weights.h"
#include "convert/program/writer.h"
#include "format/file_layout.h"

namespace arenite::convert {
namespace {

// Matrices that are stored as one tensor if they have the same type.
struct Group {
  std::vector<std::string> names;
  std::vector<TensorType> types;  // the largest first
};

// Index into Group::types for each group.
using Levels = std::vector<size_t>;

// The effect of lowering one group to a smaller type.
struct Step {
  size_t group = 0;
  double loss = 0.0;
  uint64_t saved = 0;  // bytes
  double per_byte() const { return loss / static_cast<double>(saved); }
};

// Loss assigned to outputs that are not finite.
constexpr double kLossMax = 1e6;

// Knapsack: returns the set of steps of least loss that saves `wanted` bytes. Savings are counted
// in units of the tensor alignment, or larger ones to limit the table, and rounded down.
std::vector<bool> cheapest(const std::vector<Step>& steps, uint64_t wanted) {
  constexpr size_t kUnits = size_t{1} << 20;
  const uint64_t unit = format::kSegmentUnit * (wanted / format::kSegmentUnit / kUnits + 1);
  const size_t units = static_cast<size_t>((wanted + unit - 1) / unit);
  // costs[u] is the least loss that saves u units; takes[i][u] tells whether step i is part of it.
  std::vector<double> costs(units + 1, HUGE_VAL);
  costs[0] = 0.0;
  std::vector<std::vector<bool>> takes(steps.size(), std::vector<bool>(units + 1));
  const auto left = [&](size_t u, const Step& step) {
    return u - std::min(u, static_cast<size_t>(std::min<uint64_t>(step.saved / unit, kUnits)));
  };
  for (size_t i = 0; i < steps.size(); ++i) {
    for (size_t u = units; u > 0; --u) {
      const double cost = costs[left(u, steps[i])] + steps[i].loss;
      if (cost >= costs[u]) continue;
      costs[u] = cost;
      takes[i][u] = true;
    }
  }
  std::vector<bool> taken(steps.size(), std::isinf(costs[units]));  // all, where none is enough
  if (taken.empty() || taken[0]) return taken;
  size_t u = units;
  for (size_t i = steps.size(); i-- > 0;) {
    if (!takes[i][u]) continue;
    taken[i] = true;
    u = left(u, steps[i]);
  }
  return taken;
}

class Search {
 public:
  Search(const ConversionPlan& plan, const std::vector<WeightRule>& keep,
         const WeightBudget& budget, RoundingCache& before)
      : plan_(plan), keep_(keep), budget_(budget), before_(before) {
    find_groups();
  }

  ChosenWeights run() {
    const Levels lowest = levels([](const Group& group) { return group.types.size() - 1; });
    const Levels highest = levels([](const Group&) { return size_t{0}; });
    if (budget_.max_bytes) {
      require_reachable(lowest);
      if (bytes_of(highest) <= *budget_.max_bytes) {
        return chosen(highest, "the file is small enough with all matrices at their largest type");
      }
    }
    // The middle level is q8 for groups that can have it.
    const Levels middle = levels([](const Group& group) {
      return group.types[0] == TensorType::kF32 && group.types.size() > 1 ? size_t{1} : size_t{0};
    });
    start_measuring(middle);
    const bool is_middle_enough =
        budget_.max_bytes ? bytes_of(middle) <= *budget_.max_bytes : !keeps_perplexity(middle);
    if (is_middle_enough) return lower(highest, middle);
    round(lowest);
    if (!budget_.max_bytes && keeps_perplexity(lowest)) {
      return chosen(lowest, "the perplexity is kept with all matrices at their smallest type");
    }
    return lower(middle, lowest);
  }

 private:
  // ---- collecting the matrices ----

  void find_groups() {
    std::map<std::string, FreeMatrix> free;
    std::vector<WeightRule> rules;
    for (FreeMatrix& matrix : free_matrices(plan_.graph, keep_)) {
      rules.push_back({matrix.name, matrix.types[0]});
      free.emplace(matrix.name, std::move(matrix));
    }
    const Graph graph = graph_of(rules);
    std::map<ValueId, std::string> embeddings;  // by the layer that stores them
    for (const ValueId value : graph.order()) {
      const auto* const embedding = graph.as<EmbeddingNode>(value);
      if (embedding == nullptr) continue;
      const std::string& name = graph.node(value).name;
      if (embedding->stored_by) {
        embeddings[*embedding->stored_by] = name;
      } else if (free.contains(name)) {
        groups_.push_back({{name}, free.at(name).types});
      }
    }
    for (const ValueId value : graph.order()) {
      const auto* const linear = graph.weights_at(value);
      if (linear == nullptr) continue;
      std::vector<std::string> names;
      for (const LinearPart& part : linear->parts) names.push_back(part.layer);
      if (embeddings.contains(value)) names.push_back(embeddings[value]);
      add_groups(names, free);
    }
  }

  void add_groups(const std::vector<std::string>& names,
                  const std::map<std::string, FreeMatrix>& free) {
    std::map<std::vector<TensorType>, Group> by_types;
    for (const std::string& name : names) {
      const auto found = free.find(name);
      if (found == free.end()) continue;
      Group& group = by_types[found->second.types];
      group.types = found->second.types;
      group.names.push_back(name);
    }
    for (auto& [_, group] : by_types) groups_.push_back(std::move(group));
  }

  template <typename Level>
  Levels levels(const Level& level_of) const {
    Levels all;
    for (const Group& group : groups_) all.push_back(level_of(group));
    return all;
  }

  // ---- models of candidates ----

  std::vector<WeightRule> rules_of(const Levels& levels) const {
    std::vector<WeightRule> rules;
    for (size_t i = 0; i < groups_.size(); ++i) {
      for (const std::string& name : groups_[i].names) {
        rules.push_back({name, groups_[i].types[levels[i]]});
      }
    }
    return rules;
  }

  Graph graph_of(std::vector<WeightRule> rules) const {
    Graph graph = plan_.graph;
    rules.insert(rules.end(), keep_.begin(), keep_.end());
    choose_types(graph, {TensorType::kF32, std::move(rules)});
    return rewrite(std::move(graph), plan_.without_passes);
  }

  uint64_t bytes_of(const Levels& levels) const {
    Program program = lower_graph(graph_of(rules_of(levels)));
    return model_bytes(program, plan_.targets, self_test_tokens(program));
  }

  Program lower_graph(const Graph& graph) const {
    Program program = convert::lower(graph, plan_.name);
    program.tokenizer = plan_.tokenizer;
    return program;
  }

  AlignedBytes file_of(const Levels& levels) {
    Graph graph = graph_of(rules_of(levels));
    set_rounded_weights(graph, before_);
    return write_model(lower_graph(graph), {target()});
  }

  // Returns the best target of this CPU among the requested ones, else among all. The finished
  // model is compared on the same target.
  Target target() const {
    Target best = best_kernels().target;
    bool is_found = false;
    for (const Target one : plan_.targets) {
      if ((bit(one) & cpu_targets()) == 0 || (is_found && one < best)) continue;
      best = one;
      is_found = true;
    }
    return best;
  }

  // ---- measuring ----

  // Rounds every matrix to its type. Returns the float32 model.
  AlignedBytes round(const Levels& levels) {
    Graph graph = graph_of(rules_of(levels));
    return quantize_weights(graph, plan_.name, plan_.tokenizer, plan_.calibration, before_)
        .reference;
  }

  void start_measuring(const Levels& middle) {
    const AlignedBytes reference = round(middle);
    const Model model = load_best(reference);
    refuse_if(budget_.max_perplexity_increase && !(predicts_tokens(model) && before_.calibration),
              "{}: --max-perplexity-increase: {}: pass --max-bytes with --weights auto instead",
              plan_.path,
              before_.calibration ? "the model does not predict a next token"
                                  : "there is no text to measure it on");
    if (before_.calibration) {
      distance_.emplace(reference, before_.calibration->fitted);
      held_out_ = before_.calibration->held_out;
      if (budget_.max_perplexity_increase) perplexity_ = perplexity_of(reference, held_out_);
    } else {
      notes_.emplace_back(
          "types are chosen by random input: pass --calibrate FILE with realistic input");
      distance_.emplace(reference, random_inputs(model).held_out);
    }
  }

  bool keeps_perplexity(const Levels& levels) {
    const Perplexity found = perplexity_of(file_of(levels), held_out_);
    return std::expm1(found.mean_nll - perplexity_.mean_nll) <= *budget_.max_perplexity_increase;
  }

  // Returns the possible steps of a stage, in order of loss per saved byte.
  std::vector<Step> steps(const Levels& from, const Levels& to) {
    const double before = distance_->of(file_of(from));
    const uint64_t bytes = bytes_of(from);
    std::vector<Step> steps;
    for (size_t i = 0; i < groups_.size(); ++i) {
      if (from[i] == to[i]) continue;
      Levels levels = from;
      levels[i] = to[i];
      const uint64_t smaller = bytes_of(levels);
      if (smaller >= bytes) continue;
      const double loss = distance_->of(file_of(levels)) - before;
      steps.push_back({i, loss < kLossMax ? std::max(loss, 0.0) : kLossMax, bytes - smaller});
    }
    std::ranges::stable_sort(steps, {}, &Step::per_byte);
    return steps;
  }

  // ---- choosing types ----

  ChosenWeights lower(const Levels& from, const Levels& to) {
    const std::vector<Step> all = steps(from, to);
    const Levels levels =
        budget_.max_bytes ? small_enough(from, to, all) : good_enough(from, to, all);
    ChosenWeights result = chosen(levels, "nothing smaller fits, or it would save nothing");
    for (size_t i = 0; i < all.size(); ++i) {
      const Step& step = all[i];
      result.choices[step.group].reason =
          reason(step, i, all.size(), levels[step.group] == to[step.group], to);
    }
    return result;
  }

  // Takes the cheapest steps that save enough bytes, then undoes steps while the result still fits
  // the budget, the most helpful first.
  Levels small_enough(const Levels& from, const Levels& to, const std::vector<Step>& all) const {
    const uint64_t bytes = bytes_of(from);
    const uint64_t wanted = bytes - std::min(bytes, *budget_.max_bytes);
    const std::vector<bool> taken = cheapest(all, wanted);
    Levels levels = from;
    for (size_t i = 0; i < all.size(); ++i) {
      if (taken[i]) levels[all[i].group] = to[all[i].group];
    }
    // Sums of savings may be off by the alignment of tensors.
    for (size_t i = 0; i < all.size() && bytes_of(levels) > *budget_.max_bytes; ++i) {
      levels[all[i].group] = to[all[i].group];
    }
    for (size_t i = all.size(); i-- > 0;) {
      Levels larger = levels;
      larger[all[i].group] = from[all[i].group];
      if (bytes_of(larger) <= *budget_.max_bytes) levels = larger;
    }
    return levels;
  }

  // Takes as many steps, in order, as the perplexity budget allows.
  Levels good_enough(const Levels& from, const Levels& to, const std::vector<Step>& all) {
    const auto after = [&](size_t count) {
      Levels levels = from;
      for (size_t i = 0; i < count; ++i) levels[all[i].group] = to[all[i].group];
      return levels;
    };
    size_t count = 0;
    size_t beyond = all.size() + 1;
    while (beyond - count > 1) {
      const size_t half = count + (beyond - count) / 2;
      (keeps_perplexity(after(half)) ? count : beyond) = half;
    }
    return after(count);
  }

  std::string reason(const Step& step, size_t place, size_t places, bool is_lowered,
                     const Levels& to) const {
    const char* const lowered = name(groups_[step.group].types[to[step.group]]);
    const std::string cost = fmt::format(
        "{:.1e} {} for {} bytes, place {} of {}", step.loss,
        distance_->has_probabilities() ? "nats of KL" : "of cosine", step.saved, place + 1, places);
    return is_lowered ? fmt::format("lowered alone to {}, it costs {}", lowered, cost)
                      : fmt::format("{} would cost {}", lowered, cost);
  }

  ChosenWeights chosen(const Levels& levels, const std::string& reason) const {
    ChosenWeights result;
    result.rules = {TensorType::kF32, rules_of(levels)};
    result.rules.keep.insert(result.rules.keep.end(), keep_.begin(), keep_.end());
    for (size_t i = 0; i < groups_.size(); ++i) {
      const bool is_as_read = groups_[i].types[0] != TensorType::kF32 && levels[i] == 0;
      result.choices.push_back({fmt::format("{}", fmt::join(groups_[i].names, ", ")),
                                groups_[i].types[levels[i]],
                                is_as_read ? "as the checkpoint has it" : reason});
    }
    result.notes = notes_;
    return result;
  }

  void require_reachable(const Levels& lowest) const {
    const uint64_t least = bytes_of(lowest);
    if (least <= *budget_.max_bytes) return;
    throw InputError(
        "{}: --max-bytes: found {}, expected at least {}, the file's size with all matrices at "
        "their smallest type{}{}",
        plan_.path, *budget_.max_bytes, least, keep_.empty() ? "" : ", except those of --keep",
        plan_.targets.size() > 1 ? ": pass fewer targets" : "");
  }

  const ConversionPlan& plan_;
  const std::vector<WeightRule>& keep_;
  const WeightBudget& budget_;
  RoundingCache& before_;
  std::vector<Group> groups_;
  std::optional<OutputDistance> distance_;
  std::vector<ModelInput> held_out_;
  Perplexity perplexity_;
  std::vector<std::string> notes_;
};

}  // namespace

ChosenWeights choose_by_loss(const ConversionPlan& plan, const std::vector<WeightRule>& keep,
                             const WeightBudget& budget, RoundingCache& before) {
  return Search(plan, keep, budget, before).run();
}

}  // namespace arenite::convert
