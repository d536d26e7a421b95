// SPDX-License-Identifier: Apache-2.0
// The program is followed at the length of its example and at another one. What both agree about
// holds for every length; what is a table of positions ends with it.
#include "convert/exported/exported_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "convert/exported/aten/interpret.h"
#include "convert/exported/compare_traces.h"
#include "convert/exported/model_outputs.h"
#include "convert/exported/recover/refusals.h"
#include "convert/exported/trace/symbolic_tokens.h"
#include "convert/exported/trace/trace_shape.h"
#include "convert/exported/trace/tracer.h"
#include "convert/files/error.h"
#include "convert/files/input_limits.h"
#include "format/file_layout.h"

namespace arenite::convert {
namespace {

// For which lengths a conversion is its author's model, and why.

struct LengthClaim {
  int64_t traced = 0;                 // tokens of the example
  int64_t other = 0;                  // that were followed, too; 0: none
  int64_t shortest = 1;               // sequence
  int64_t positions = 0;              // of the longest one; 0: any
  int64_t longest = 0;                // that the author's outputs prove; 0: they prove none
  std::vector<int64_t> computed{};    // lengths that were not followed
  bool is_causal = false;             // runs token by token
  bool tells_lengths = false;         // the program is told what is padding
  bool is_end_chosen = false;         // `positions` are those of the example
  bool ends_with_mask = false;        // which is no rule
  bool ends_with_terms = false;       // of scores
  std::string why_exact{};            // it is the model at the example's length alone; or empty
  std::vector<std::string> doubts{};  // literals that may be why, the first one in `why_exact`
  std::string export_lines{};         // that spare the doubts

  std::string text() const;  // lines for a person
};

std::string counted_tokens(int64_t tokens) {
  return fmt::format("{} token{}", tokens, tokens == 1 ? "" : "s");
}

std::string LengthClaim::text() const {
  if (!why_exact.empty()) {
    std::string text = fmt::format("{} {} tokens a call: {}", tells_lengths ? "at most" : "exactly",
                                   traced, why_exact);
    for (size_t i = 1; i < doubts.size(); ++i) text += "\n" + doubts[i];
    return text + export_lines;
  }
  std::string text = "any length";
  if (shortest > 1) text += fmt::format(" from {}", shortest);
  if (positions != 0) text += fmt::format(" up to {}", positions);
  text += is_causal ? ", token by token too" : ", whole sequences";
  text += fmt::format(": masks follow one rule and ops are the same at {}", traced);
  if (other != 0) text += fmt::format(" and {}", other);
  text += " tokens";
  if (is_end_chosen) text += "; --context N makes it longer";
  if (ends_with_mask) text += "; its mask is no rule of distances";
  if (ends_with_terms) text += "; what it adds to scores was followed so far";
  if (longest != 0) text += "; as --expect proves";
  if (!computed.empty()) {
    text += fmt::format("\ncomputed at {} tokens, too", fmt::join(computed, ", "));
  }
  return text;
}

constexpr int64_t kElementsMax = int64_t{1} << 24;              // that a second length may take
constexpr int64_t kPositionsMax = int64_t{1} << 30;             // more are as good as any number
constexpr size_t kGraphNodesMax = size_t{4} * format::kOpsMax;  // slices and their like are no ops

class ModelReader {
 public:
  ModelReader(std::shared_ptr<const ExportedProgram> program, std::vector<SideInput> sides,
              const ModelOptions& options,
              const std::vector<std::vector<uint64_t>>& expected_inputs, GraphChecks checks)
      : options_(options),
        expected_inputs_(expected_inputs),
        checks_(checks),
        where_(quote(program->source)),
        program_(std::move(program)),
        trace_shape_(program_, std::move(sides)) {}

  ExportedModel read() {
    for (size_t i = 0; i < trace_shape_.sides().size(); ++i) {
      model_.account.given.push_back(describe(trace_shape_.sides()[i], i + 2));
    }
    const ChosenOutput chosen = choose_output(program_, options_.output_indices);
    model_.outputs = chosen.outputs;
    model_.output_index = chosen.index;
    if (!chosen.words.empty()) model_.account.given.push_back(chosen.words);
    const ElementLimit limit(std::max(kExportedElementsMax, program_->largest_weight()));
    program_ =
        std::make_shared<const ExportedProgram>(needed_part(*chosen.program, model_.output_index));
    trace_shape_ = TraceShape(program_, trace_shape_.sides());
    free_tokens();
    // What is found out at other lengths may leave fewer of them.
    const ExportedModel begun = model_;
    do {
      model_ = begun;
    } while (!build() || (checks_.compares && !is_exact() && !holds_at_other_lengths()));
    describe_length();
    return std::move(model_);
  }

 private:
  // Makes the graph for all lengths, or for the example's alone. False: those for all is no such.
  bool build() {
    traced_ = follow_input();
    require_few_nodes(traced_.graph);
    choose_positions();
    Followed& last = try_other_length() ? *longer_ : traced_;
    settle_masks(last.graph);
    settle_terms(last.graph);
    last.tracer->builder().graph() = last.graph;
    const auto constant_at = [program = program_, shape = trace_shape_](uint32_t value, int64_t n) {
      return ConstantsAt(program, shape.at(n)).get(value);
    };
    try {
      last.tracer->builder().finish(static_cast<uint32_t>(positions_), constant_at);
    } catch (const NotRecognised& error) {
      throw InputError("{}: {}", where_, error.what());
    }
    model_.program = program_;
    model_.graph = last.tracer->builder().graph();
    model_.graph.positions_max = static_cast<uint32_t>(positions_);
    model_.graph.architecture = "exported PyTorch program";
    model_.graph.tokens_min = static_cast<uint32_t>(tokens_min());
    settle_outputs(model_, trace_shape_, where_);
    require_inputs(model_.graph, trace_shape_, where_);
    if (!checks_.compares) return true;
    try {
      const bool is_shorter = positions_ != 0 && positions_ < trace_shape_.tokens();
      compare_with_program(model_, is_shorter ? trace_shape_.at(positions_) : trace_shape_);
    } catch (const ProgramDifference& found) {
      if (!is_exact() && trace_shape_.is_dynamic()) {
        claim_.why_exact =
            fmt::format("with tables for {}, {}", counted_tokens(positions_), found.text());
        return false;
      }
      throw InputError(
          "{}: what was recognised is not what the program computes: outputs differ by {:.1e}, and "
          "reach {:.1e}. This is a limit of the converter: please report the model",
          where_, found.difference, found.value);
    }
    return true;
  }

  bool is_exact() const { return !claim_.why_exact.empty(); }
  int64_t tokens_min() const {
    if (trace_shape_.reads_images() || tells_lengths()) return 0;
    if (is_exact()) return trace_shape_.traced_tokens();
    return claim_.shortest > 1 ? claim_.shortest : 0;
  }
  // The program says itself what shorter sequences come to.
  bool tells_lengths() const { return std::ranges::any_of(trace_shape_.sides(), tells_length); }

  // Where sizes are fixed, those that are the number of tokens become a symbol. What may depend on
  // it otherwise is a constant where the author's outputs for other lengths say so.
  void free_tokens() {
    if (trace_shape_.reads_images()) return;
    if (trace_shape_.is_dynamic()) {
      if (!trace_shape_.range_is_known())
        claim_.why_exact = "their number is " + trace_shape_.symbol();
      return;
    }
    SymbolicTokens symbolic = with_symbolic_tokens(
        *program_, trace_shape_.input().value, trace_shape_.axis(), trace_shape_.sizes().sequences);
    const std::set<int64_t> proved = trace_shape_.of_arrays(expected_inputs_);
    if (!symbolic.doubts.empty() && proved.size() < 2) {
      claim_.why_exact = symbolic.doubts[0];
      claim_.doubts = std::move(symbolic.doubts);
      return;
    }
    if (!symbolic.doubts.empty()) {
      claim_.shortest = *proved.begin();
      claim_.longest = *proved.rbegin();
      for (const std::string& doubt : symbolic.doubts) {
        model_.account.assumed.push_back(doubt + ", and is taken for a constant");
      }
    }
    program_ = std::move(symbolic.program);
    trace_shape_ = TraceShape(program_, trace_shape_.sides());
  }

  // Computes the program at other lengths, too. Where it is another model at the shortest ones,
  // these are left out; at others, all but the example's.
  bool holds_at_other_lengths() {
    if (!trace_shape_.is_dynamic()) return true;
    const int64_t longest =
        positions_ != 0 ? positions_ : std::max(claim_.other, 4 * trace_shape_.traced_tokens() + 5);
    const OtherLengths found =
        compare_at_other_lengths(model_, trace_shape_, claim_.shortest, longest, checks_.seed);
    claim_.computed = found.right;
    if (found.wrong.empty()) return true;
    const int64_t last = found.wrong.rbegin()->first;
    const int64_t next = last == claim_.shortest ? last + 1 : trace_shape_.range().min;
    if (last < next && next <= trace_shape_.traced_tokens()) {
      claim_.shortest = next;
    } else {
      claim_.why_exact = fmt::format("at {}, {}", counted_tokens(found.wrong.begin()->first),
                                     found.wrong.begin()->second);
    }
    return false;
  }

  int64_t prefix() const { return trace_shape_.sizes().prefix; }

  // Passes look at nodes in pairs.
  void require_few_nodes(const Graph& graph) const {
    if (graph.order().size() <= kGraphNodesMax) return;
    throw InputError("{}: it becomes {} ops and parts of values: the runtime has at most {} ops",
                     where_, graph.order().size(), format::kOpsMax);
  }

  // What has the shape of features may be images or series that the program cuts.
  Followed follow_input() {
    const auto is_cut = [&](const InputError& error) {
      const size_t op = ops_followed(error);
      return op < program_->nodes.size() && program_->nodes[op].op.starts_with("conv");
    };
    try {
      Followed followed = follow(program_, trace_shape_, model_.output_index);
      if (trace_shape_.has_one_token() && trace_shape_.tokens() < 2)
        trace_shape_.refuse_one_token();
      return followed;
    } catch (const OpRefused& error) {
      std::optional<TraceShape> images = trace_shape_.of_images();
      if (trace_shape_.has_one_token() && trace_shape_.tokens() < 2 && !is_cut(error)) {
        trace_shape_.refuse_one_token();
      }
      if (!images) throw;
      try {
        Followed followed = follow(program_, *images, model_.output_index);
        trace_shape_ = *images;
        return followed;
      } catch (const InputError& other) {
        const size_t reached = ops_followed(other);
        if (reached > error.op_index || (reached == error.op_index && is_cut(error))) throw;
        throw error;
      }
    }
  }

  // 0: any number.
  void choose_positions() {
    if (trace_shape_.reads_images()) {
      positions_ = limit_ = trace_shape_.tokens();
      return;
    }
    if (is_exact()) {
      limit_to_trace();
      return;
    }
    auto longest = trace_shape_.is_dynamic() ? trace_shape_.range().max : std::nullopt;
    if (longest > kPositionsMax) longest = std::nullopt;
    if (longest && *longest < 1) {
      throw InputError("{}: its range says at most {} tokens", where_, *longest);
    }
    limit_ = tighter(std::max<int64_t>(0, traced_.positions_max - prefix()), longest.value_or(0));
    limit_ = tighter(limit_, claim_.longest);
    positions_ = limit_;
    if (options_.context != 0) {
      if (limit_ != 0 && options_.context > limit_) {
        throw InputError("{}: --context: found {}, expected at most {}, which the model has",
                         where_, options_.context, limit_);
      }
      const int64_t least = trace_shape_.is_dynamic() ? trace_shape_.range().min : 1;
      if (options_.context < least) {
        throw InputError("{}: --context: found {}, expected at least {}, which its range says",
                         where_, options_.context, least);
      }
      positions_ = options_.context;
    }
    const bool needs_end = traced_.tracer->builder().has_position_tables() ||
                           std::ranges::any_of(traced_.graph.order(), [&](ValueId value) {
                             const auto* attention = traced_.graph.as<AttentionNode>(value);
                             return traced_.graph.as<RotateNode>(value) != nullptr ||
                                    (attention != nullptr && attention->terms);
                           });
    if (positions_ == 0 && needs_end) {
      positions_ = trace_shape_.traced_tokens();
      claim_.is_end_chosen = true;
    }
  }

  // Whether the program is the same model at another length, which it then has been followed at.
  bool try_other_length() {
    if (trace_shape_.reads_images() || is_exact()) return false;
    const int64_t traced = trace_shape_.traced_tokens();
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
    int64_t other = positions_ != 0 && !claim_.is_end_chosen ? positions_ : 2 * traced + 3;
    other = std::min(other, affordable);
    if (limit_ != 0) other = std::min(other, limit_);
    if (other == traced) other = traced - 1;
    if (other < 2 || (trace_shape_.is_dynamic() && other < trace_shape_.range().min)) return false;
    longer_ = followed_at(other);
    if (longer_ == nullptr) {
      limit_to_trace();
      return false;
    }
    claim_.other = other;
    if (other > traced) return true;
    longer_ = nullptr;
    return false;
  }

  // The program at another length, or nothing where it is another model there.
  std::unique_ptr<Followed> followed_at(int64_t other) {
    const bool is_longer = other > trace_shape_.traced_tokens();
    try {
      TraceShape shape = trace_shape_.at(other);
      auto found = std::make_unique<Followed>(follow(program_, shape, model_.output_index));
      claim_.why_exact = difference(is_longer ? traced_.graph : found->graph,
                                    is_longer ? found->graph : traced_.graph);
      if (claim_.why_exact.empty()) return found;
      claim_.why_exact = fmt::format("at {}, {}", counted_tokens(other), claim_.why_exact);
    } catch (const InputError& error) {
      claim_.why_exact = fmt::format("at {}, {}", counted_tokens(other), error.what());
    }
    return nullptr;
  }

  void limit_to_trace() {
    positions_ = limit_ = trace_shape_.traced_tokens();
    claim_.is_end_chosen = false;
    if (options_.context == 0 || options_.context == positions_) return;
    throw InputError("{}: --context: found {}, but the model is of exactly {} tokens: {}", where_,
                     options_.context, positions_, claim_.why_exact);
  }

  void settle_masks(Graph& graph) {
    for (Mask& mask : graph.masks) {
      if (const auto rule = mask_rule(mask)) {
        mask = *rule;
      } else {
        const int64_t rows = positions_of(mask) - prefix();
        if (rows < 1) throw InputError("{}: its mask has no row for tokens", where_);
        if (positions_ == 0 || rows < positions_) {
          positions_ = rows;
          claim_.ends_with_mask = true;
        }
      }
    }
  }

  // Tables of terms have as many positions as were followed, and the file as many as it needs.
  void settle_terms(Graph& graph) {
    std::map<std::shared_ptr<const TermTable>, std::shared_ptr<const TermTable>> cut;
    for (const ValueId value : graph.order()) {
      const auto* attention = graph.as<AttentionNode>(value);
      if (attention == nullptr || !attention->terms) continue;
      const int64_t positions = attention->terms->positions;
      if (positions < 1) {
        throw InputError("{}: what it adds to scores has no row for tokens", where_);
      }
      if (positions_ == 0 || positions < positions_) {
        positions_ = positions;
        claim_.ends_with_terms = true;
      }
      cut.emplace(attention->terms, nullptr);
    }
    for (auto& [whole, part] : cut) {
      part = std::make_shared<const TermTable>(
          first_positions(*whole, static_cast<uint32_t>(positions_)));
    }
    for (const ValueId value : graph.order()) {
      auto* attention = graph.as<AttentionNode>(value);
      if (attention != nullptr && attention->terms) attention->terms = cut.at(attention->terms);
    }
  }

  void describe_length() {
    if (const auto& image = trace_shape_.patches()) {
      model_.length = fmt::format("{} patches of [{}, {}, {}] an image", trace_shape_.tokens(),
                                  image->channels, image->patch_height, image->patch_width);
      return;
    }
    claim_.traced = trace_shape_.traced_tokens();
    claim_.positions = positions_;
    claim_.is_causal = model_.causal;
    claim_.tells_lengths = tells_lengths();
    if (!claim_.doubts.empty()) claim_.export_lines = trace_shape_.export_lines();
    model_.length = claim_.text();
  }

  const ModelOptions& options_;
  const std::vector<std::vector<uint64_t>>& expected_inputs_;  // their shapes
  const GraphChecks checks_;
  std::string where_;
  std::shared_ptr<const ExportedProgram> program_;  // what this output needs of it
  TraceShape trace_shape_;
  ExportedModel model_;
  Followed traced_;
  std::unique_ptr<Followed> longer_;
  int64_t limit_ = 0;      // of the model, 0: none
  int64_t positions_ = 0;  // that the file is to have, 0: any
  LengthClaim claim_;
};

// Following, comparing and weighing it take a few times what interpreting it does.
uint64_t reading_steps(const ExportedProgram& program) {
  const std::vector<const ExportedInput*> inputs = program.user_inputs();
  const Shape example = inputs.empty() ? Shape() : program.values[inputs[0]->value].shape();
  const OpBudget once = interpreting_budget(program, elements_of(example));
  return kReadingSteps + kReadingRounds * (once.multiplications - kFoldedMultiplicationsMax +
                                           once.elements - kFoldedElementsMax);
}

}  // namespace

ExportedModel read_exported_model(const std::filesystem::path& path, const ModelOptions& options,
                                  const std::vector<std::vector<uint64_t>>& expected_inputs) {
  const auto program = std::make_shared<const ExportedProgram>(read_exported(path));
  return read_exported_model(program, options, expected_inputs, {.seed = program->checksum});
}

ExportedModel read_exported_model(const std::shared_ptr<const ExportedProgram>& program,
                                  const ModelOptions& options,
                                  const std::vector<std::vector<uint64_t>>& expected_inputs,
                                  GraphChecks checks) {
  const WorkBudget budget(reading_steps(*program));
  const std::vector<std::vector<SideInput>> meanings = possible_sides(*program);
  std::optional<InputError> why;  // of the reading that came the farthest
  size_t reached = 0;
  for (const std::vector<SideInput>& sides : meanings) {
    const auto reader = [&] {
      return ModelReader(program, sides, options, expected_inputs, checks);
    };
    if (meanings.size() == 1) return reader().read();
    try {
      ModelReader one = reader();
      try {
        return one.read();
      } catch (const InputError& error) {
        if (!why || ops_followed(error) > reached) why = error, reached = ops_followed(error);
      }
    } catch (const InputError&) {  // its sizes say that it is something else
    }
  }
  if (why) throw *why;
  throw InputError("{}: {}", quote(program->source), why_not_these_inputs(*program));
}

Graph build_graph(const ExportedModel& model) { return model.graph; }

}  // namespace arenite::convert
