// SPDX-License-Identifier: Apache-2.0
// Traces a program with symbolic sizes at the example's length and at a second one. If both traces
// agree, the model holds for the lengths that the archive allows, up to the end of position tables.
// A program with fixed sizes holds at the example's length only, unless --any-length or --expect
// vouches for others.
//
//   ids [1, s27], equal graphs at 8 and 19 tokens  ->  any length
//   ids [1, 8]                                     ->  exactly 8 tokens
#include "convert/exported/exported_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "convert/exported/allowed_lengths.h"
#include "convert/exported/aten/interpret.h"
#include "convert/exported/compare_traces.h"
#include "convert/exported/model_ends.h"
#include "convert/exported/read/exported_program.h"
#include "convert/exported/recover/refusals.h"
#include "convert/exported/trace/trace_program.h"
#include "convert/exported/trace/trace_shape.h"
#include "convert/exported/trace/tracer.h"
#include "convert/exported/trace_bounds.h"
#include "convert/files/error.h"
#include "convert/files/input_limits.h"
#include "format/file_layout.h"

namespace arenite::convert {
namespace {

constexpr double kElementsMax = 1 << 24;             // elements of a second trace
constexpr double kPairElementsMax = 1 << 28;         // those of pairs of tokens among them
constexpr int64_t kTracedMax = 1024;                 // longer ones are traced if they have to be
constexpr int64_t kShortestMax = 16;                 // lengths that may be excluded as too short
constexpr int64_t kPositionsMin = 128;               // default for a model without a known end
constexpr int64_t kPositionsMax = int64_t{1} << 30;  // larger bounds count as none
constexpr size_t kGraphNodesMax = size_t{4} * format::kOpsMax;  // slices and the like become no ops

class ModelReader {
 public:
  ModelReader(std::shared_ptr<const ExportedProgram> program, const InputMeaning& meaning,
              const ModelOptions& options,
              const std::vector<std::vector<uint64_t>>& expected_inputs, bool compares,
              bool is_turned)
      : options_(options),
        expected_inputs_(expected_inputs),
        compares_(compares),
        is_turned_(is_turned),
        where_(quote(program->source)),
        program_(std::move(program)),
        trace_shape_(program_, meaning) {
    for (size_t i = 0; i < trace_shape_.inputs(); ++i) {
      claim_.inputs.push_back({.name = trace_shape_.of(i).input().name,
                               .traced = trace_shape_.of(i).traced_tokens(),
                               .step = trace_shape_.of(i).step()});
    }
    require_one_order(trace_shape_, where_);
  }

  ExportedModel read() {
    model_.parameters = parameters_of(*program_);
    const std::vector<const ExportedInput*> inputs = program_->user_inputs();
    for (size_t i = 0; i < inputs.size(); ++i) {
      const SideInput* side = trace_shape_.side(inputs[i]->value);
      if (side != nullptr) model_.account.given.push_back(describe(*side, i + 1));
    }
    const ChosenOutput chosen = choose_output(program_, options_.output_indices);
    model_.outputs = chosen.outputs;
    model_.output_index = chosen.index;
    if (!chosen.words.empty()) model_.account.given.push_back(chosen.words);
    const ElementLimit limit(std::max(kExportedElementsMax, program_->largest_weight()));
    const uint32_t output = chosen.program->outputs[model_.output_index].as<ValueRef>()->value;
    program_ = std::make_shared<const ExportedProgram>(needed_part(*chosen.program, output));
    trace_shape_ = trace_shape_.of_program(program_);
    find_lengths();
    // A check at other lengths may reduce the allowed lengths; then the graph is built again.
    const ExportedModel begun = model_;
    do {
      model_ = begun;
    } while (!build() || (compares_ && !is_exact() && !holds_at_other_lengths()));
    if (options_.any_length && is_exact()) {
      refuse("--any-length: it equals the model only at the example's length: {}",
             claim_.why_exact);
    }
    describe_length();
    note_ids(model_);
    note_rows_of_padding(model_);
    return std::move(model_);
  }

  const TraceShape& trace_shape() const { return trace_shape_; }

 private:
  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    throw InputError("{}: {}", where_, fmt::format(format, std::forward<Args>(args)...));
  }

  // Builds the graph for all lengths, or for the example's only. Returns false if the graph does
  // not hold for all lengths; claim_ is then narrower, and build() has to run again.
  bool build() {
    traced_ = trace_any(program_, trace_shape_, model_.output_index);
    require_few_nodes(traced_.graph);
    if (is_vouched_for_ && !is_exact() && is_tied_to_example()) return false;
    choose_positions();
    TracedProgram& last = try_other_length() ? *longer_ : traced_;
    const bool has_concat_rows = bound_by_trace(last, claim_, where_);
    is_of_concat_rows_ = is_of_concat_rows_ || has_concat_rows || last.joined_positions_max != 0;
    if (is_of_concat_rows_ && !is_exact()) {
      claim_.why_exact =
          "masks, positions or angles of concatenated rows do not follow from distances";
      return false;
    }
    GraphBuilder& builder = last.tracer->builder;
    builder.graph = last.graph;
    Lengths longest;
    for (size_t i = 0; i < claim_.inputs.size(); ++i) {
      int64_t& positions = claim_.inputs[i].positions;
      if (positions != 0) positions = trace_shape_.of(i).rounded(positions);
      longest.push_back(positions);
    }
    // With fixed sizes, only the example's constants exist.
    const TraceShape at = is_dynamic() ? trace_shape_.at(longest) : trace_shape_;
    const auto at_length = [program = program_, at](uint32_t value) {
      return constant_at(*program, at, value);
    };
    try {
      fill_position_tables(builder, {longest.begin(), longest.end()}, at_length);
    } catch (const NotRecognised& error) {
      refuse("{}", error.what());
    }
    model_.program = program_;
    model_.graph = builder.graph;
    model_.columns_first = builder.columns_first;
    model_.may_see_nothing = builder.may_see_nothing;
    if (builder.columns_first && trace_shape_.tokens_first()) {
      refuse(
          "it takes [tokens, sequences, ..], but outputs [sequences, channels, tokens]: output "
          "[tokens, sequences, channels]");
    }
    model_.graph.architecture = "exported PyTorch program";
    bool is_shorter = false;
    for (size_t i = 0; i < claim_.inputs.size(); ++i) {
      InputLengths& own = claim_.inputs[i];
      const int64_t window = tokens_of_a_window(model_.graph, i) + own.step - 1;
      own.shortest = std::max(own.shortest, trace_shape_.of(i).rounded(window));
      model_.graph.inputs[i].positions_max = static_cast<uint32_t>(own.positions);
      model_.graph.inputs[i].tokens_min = static_cast<uint32_t>(tokens_min(i));
      if (own.step > 1 && model_.graph.inputs[i].tokens_min != 0 && is_free(i)) {
        model_.graph.inputs[i].tokens_step = static_cast<uint32_t>(own.step);
      }
      is_shorter = is_shorter || (own.positions != 0 && own.positions < own.traced);
      if (own.positions == 0 || own.positions > own.traced) longest[i] = own.traced;
    }
    take_whole_sequences();
    settle_outputs(model_, trace_shape_);
    require_inputs(model_.graph, trace_shape_, where_);
    if (!compares_) return true;
    const auto found =
        compare_with_program(model_, is_shorter ? trace_shape_.at(longest) : trace_shape_);
    if (!found) {
      require_any_sequences();
      return true;
    }
    if (is_exact() || !is_dynamic()) {
      refuse(
          "the converted graph differs from the program: outputs differ by {:.1e}, at magnitudes "
          "up to {:.1e}. {}",
          found->difference, found->value, why_it_differs(model_, trace_shape_));
    }
    Lengths positions;
    for (const InputLengths& input : claim_.inputs) positions.push_back(input.positions);
    claim_.why_exact =
        fmt::format("with tables for {}, {}", counted_tokens(positions), found->text());
    return false;
  }

  // Refuses a program whose results for a sequence depend on the number of sequences.
  void require_any_sequences() {
    const int64_t other = trace_shape_.other_sequences();
    if (other == 0) return;
    auto any = std::make_shared<ExportedProgram>(*program_);
    for (const ExportedInput* input : any->user_inputs()) {
      Extent& first = any->values[input->value].sizes.front();
      if (first.size == trace_shape_.sizes().sequences) first.symbol = "sequences";
    }
    std::string why;
    try {
      model_.program = any;
      const auto found = compare_with_program(model_, trace_shape_.of_sequences(other));
      model_.program = program_;
      if (!found) return;
      why = found->text();
    } catch (const InputError& error) {
      why = error.what();
    }
    refuse(
        "results for a sequence depend on the number of sequences: of {} sequences, where {} were "
        "traced, {}. Export it with an example of one sequence",
        other, trace_shape_.sizes().sequences, why);
  }
  // Requires two tokens of a causal model whose positions skip padding. Such a model counts
  // positions over all ids of a sequence, so it cannot run token by token.
  void take_whole_sequences() {
    model_.graph.remove_unread();
    const GraphFunction last = functions_of(model_.graph).back();
    if (!is_causal_function(model_.graph, last, trace_shape_)) return;
    const bool counts_ids = std::ranges::any_of(last.values, [&](ValueId value) {
      const auto* embedding = model_.graph.as<EmbeddingNode>(value);
      return embedding != nullptr && embedding->padding_id;
    });
    if (!counts_ids) return;
    const auto input = static_cast<size_t>(std::countr_zero(last.inputs));
    claim_.inputs[input].shortest = std::max<int64_t>(2, claim_.inputs[input].shortest);
    uint32_t& least = model_.graph.inputs[input].tokens_min;
    least = std::max(2u, least);
  }

  bool is_exact() const { return !claim_.why_exact.empty(); }
  bool is_dynamic() const {
    for (size_t i = 0; i < trace_shape_.inputs(); ++i) {
      if (trace_shape_.of(i).is_dynamic()) return true;
    }
    return false;
  }
  // Whether the input may have other lengths than the example's.
  bool is_free(size_t i) const {
    const TraceShape& own = trace_shape_.of(i);
    return !is_exact() && !own.reads_images() && !own.is_one_row() && own.is_open();
  }
  int64_t tokens_min(size_t i) const {
    if (trace_shape_.of(i).reads_images()) return trace_shape_.of(i).tokens();
    const bool ends_by_ids = model_.graph.inputs[i].end.rule != SequenceEnd::Rule::kNone;
    if (takes_lengths(i) || ends_by_ids) return 0;
    if (!is_free(i)) return trace_shape_.of(i).traced_tokens();
    const InputLengths& own = claim_.inputs[i];
    return own.shortest > 1 || own.step > 1 ? own.shortest : 0;
  }
  // Whether the program takes a lengths tensor or a padding mask for this input.
  bool takes_lengths(size_t i) const {
    return std::ranges::any_of(trace_shape_.sides(), [&](const SideInput& side) {
      return side.of == i && tells_length(side);
    });
  }

  // Sets the lengths of each input that the archive allows, or that the user vouches for.
  void find_lengths() {
    const Lengths traced = traced_lengths(trace_shape_);
    std::set<int64_t> fixed;
    bool are_alike = false;
    for (size_t i = 0; i < traced.size() && !is_exact(); ++i) {
      const TraceShape& own = trace_shape_.of(i);
      if (own.reads_images() || own.is_one_row()) continue;
      if (own.is_dynamic()) {
        take_allowed(i);
      } else {
        are_alike = !fixed.insert(traced[i]).second || are_alike;
      }
    }
    if (!is_exact()) require_guards_of_several();
    const std::set<int64_t> proved = trace_shape_.of_arrays(expected_inputs_);
    claim_.is_claimed = options_.any_length;
    claim_.is_proved = !options_.any_length && !is_dynamic() && !fixed.empty() &&
                       traced.size() == 1 && proved.size() > 1;
    if (claim_.is_claimed && (is_dynamic() || fixed.empty())) {
      refuse("--any-length is for exported programs with fixed sizes, and {}: drop the option",
             is_dynamic()                  ? "this one has dynamic sizes"
             : trace_shape_.reads_images() ? "images have one size"
                                           : "this one has no length: each sequence is one row");
    }
    is_vouched_for_ = claim_.is_claimed || claim_.is_proved;
    if (!is_vouched_for_) return;
    if (are_alike) claim_.why_exact = "several inputs have one length in the example";
    if (fixed.contains(1)) claim_.why_exact = "the example has one token per sequence";
    trace_shape_ = trace_shape_.with_open_lengths();
    if (!claim_.is_proved) return;
    claim_.inputs[0].shortest = *proved.begin();
    claim_.inputs[0].longest = *proved.rbegin();
  }

  void require_guards_of_several() {
    Lengths least, most;
    for (size_t i = 0; i < claim_.inputs.size(); ++i) {
      const InputLengths& own = claim_.inputs[i];
      const bool varies = trace_shape_.of(i).is_dynamic();
      least.push_back(varies ? own.least : own.traced);
      most.push_back(varies ? own.longest : own.traced);
    }
    const std::string guard = guard_of_several(*program_, trace_shape_, least, most);
    if (guard.empty()) return;
    claim_.why_exact = "its guard " + quote(guard) + " relates several lengths";
  }

  void take_allowed(size_t i) {
    const TraceShape& own = trace_shape_.of(i);
    const AllowedLengths allowed = allowed_lengths(*program_, trace_shape_, i);
    claim_.why_exact = allowed.why_exact;
    claim_.inputs[i].parting_guard = allowed.parting_guard;
    if (!own.range_is_known()) claim_.why_exact = "their number is " + own.symbol();
    if (allowed.min > kPositionsMax) {
      refuse("its range allows no fewer than {} tokens: expected at most {}", allowed.min,
             kPositionsMax);
    }
    if (allowed.max && *allowed.max < 1) {
      refuse("its range allows at most {} tokens: expected at least 1", *allowed.max);
    }
    claim_.inputs[i].shortest = claim_.inputs[i].least = allowed.min;
    claim_.inputs[i].longest =
        allowed.max.value_or(0) > kPositionsMax ? 0 : allowed.max.value_or(0);
  }

  // Returns whether the traced graph depends on the example's length; claim_ then says how.
  bool is_tied_to_example() {
    const Graph& graph = traced_.graph;
    if (trace_shape_.fixes_rows()) {
      claim_.why_exact = "it has values for each pair of rows, or for groups of them";
    }
    for (size_t i = 0; i < claim_.inputs.size(); ++i) {
      if (trace_shape_.of(i).reads_images()) {
        claim_.why_exact = "images, and series that are cut into patches, have one size";
      }
      if (!graph.inputs[i].ids_of_places.empty()) {
        claim_.why_exact = "each position of a sequence has an embedding table of its own";
      }
      for (const Axis& axis : graph.axes) {
        const bool has_as_many = axis.kind == AxisKind::kConstants && axis.rows > 1 &&
                                 axis.rows % claim_.inputs[i].traced == 0;
        if (has_as_many) claim_.why_exact = "it has as many constant rows as tokens";
      }
    }
    for (uint32_t axis = 0; axis < graph.axes.size(); ++axis) {
      if (graph.joins_tokens(axis)) claim_.why_exact = "it concatenates the rows of several inputs";
    }
    for (const ValueId value : graph.order()) {
      const auto* attention = graph.as<AttentionNode>(value);
      const bool has_pairs = attention != nullptr && attention->terms != nullptr &&
                             attention->terms->by == ScoreTerms::kPairs;
      if (has_pairs) claim_.why_exact = "its attention bias does not follow from distances";
    }
    return is_exact();
  }

  // Evaluates the program at lengths that were not traced. If only the shortest ones fail, excludes
  // them; otherwise keeps the example's length alone. Returns false if lengths were excluded.
  bool holds_at_other_lengths() {
    if (!is_dynamic()) return true;
    Lengths shortest, longest;
    for (size_t i = 0; i < claim_.inputs.size(); ++i) {
      const InputLengths& own = claim_.inputs[i];
      shortest.push_back(is_free(i) ? own.shortest : own.traced);
      longest.push_back(!is_free(i)          ? own.traced
                        : own.positions != 0 ? own.positions
                                             : std::max(own.other, 4 * own.traced + 5));
    }
    const std::string nonlinear =
        nonlinear_op(*program_, trace_shape_, model_.graph, shortest, longest_of_all(longest));
    if (!nonlinear.empty() && claim_.inputs.size() > 1) {
      claim_.why_exact = nonlinear + " has another result at each length";
      return false;
    }
    const OtherLengths found = compare_at_other_lengths(model_, trace_shape_, shortest, longest,
                                                        program_->checksum, !nonlinear.empty());
    claim_.computed = found.right;
    if (!nonlinear.empty()) return keep_right(found, nonlinear);
    if (found.wrong.empty()) return true;
    if (exclude_shortest(found)) return false;
    claim_.why_exact = fmt::format("at {}, {}", counted_tokens(found.wrong.begin()->first),
                                   found.wrong.begin()->second);
    return false;
  }

  // Replaces an unknown longest length by 0.
  Lengths longest_of_all(Lengths longest) const {
    for (size_t i = 0; i < longest.size(); ++i) {
      if (is_free(i) && claim_.inputs[i].positions == 0) longest[i] = 0;
    }
    return longest;
  }

  // Keeps the contiguous lengths around the example's at which the model was right. Returns false
  // if there are fewer than the graph was built for.
  bool keep_right(const OtherLengths& found, const std::string& nonlinear) {
    InputLengths& own = claim_.inputs[0];
    std::set<int64_t> right = {own.traced};
    for (const Lengths& lengths : found.right) right.insert(lengths[0]);
    int64_t first = own.traced, last = own.traced;
    while (right.contains(first - own.step)) first -= own.step;
    while (right.contains(last + own.step)) last += own.step;
    own.nonlinear_op = nonlinear;
    const bool is_all = first == own.shortest && last == own.positions;
    own.shortest = first;
    own.longest = last;
    return is_all;
  }

  // Excludes the shortest lengths of an input if all failures are among them. Returns whether it
  // did.
  bool exclude_shortest(const OtherLengths& found) {
    for (size_t i = 0; i < claim_.inputs.size(); ++i) {
      InputLengths& own = claim_.inputs[i];
      int64_t last = 0;
      for (const auto& [lengths, why] : found.wrong) last = std::max(last, lengths[i]);
      // All failures are shorter than all successes.
      const bool are_shortest =
          last < kShortestMax && std::ranges::all_of(found.right, [&](const Lengths& lengths) {
            return lengths[i] > last;
          });
      const int64_t next = last == own.shortest || are_shortest ? last + own.step : own.least;
      if (!is_free(i) || last >= next || next > own.traced || next <= own.shortest) continue;
      own.shortest = next;
      return true;
    }
    return false;
  }

  // Limits the number of nodes, since passes compare nodes in pairs.
  void require_few_nodes(const Graph& graph) const {
    if (graph.order().size() <= kGraphNodesMax) return;
    refuse("the graph has {} nodes: the runtime has at most {} ops", graph.order().size(),
           format::kOpsMax);
  }

  void choose_positions() {
    for (size_t i = 0; i < claim_.inputs.size(); ++i) {
      InputLengths& own = claim_.inputs[i];
      own.is_fixed = !is_free(i);
      own.is_end_chosen = false;
      own.traced = trace_shape_.of(i).traced_tokens();
      if (trace_shape_.of(i).reads_images()) {
        own.positions = own.limit = own.traced;
      } else if (own.is_fixed) {
        limit_to_trace(i);
      } else {
        choose_positions_of(i);
      }
    }
  }

  // Sets the number of positions; 0 is unbounded.
  void choose_positions_of(size_t i) {
    InputLengths& own = claim_.inputs[i];
    const TraceShape& shape = trace_shape_.of(i);
    own.limit = traced_.positions_max[i];
    if (!shape.is_dynamic()) own.limit = tighter(own.limit, tokens_of_tables(i));
    own.limit = tighter(own.limit, own.longest);
    own.positions = own.limit;
    if (options_.context != 0) {
      const bool is_one = claim_.inputs.size() == 1;  // each of several inputs takes what it can
      if (is_one && own.limit != 0 && options_.context > own.limit) {
        refuse("--context: found {}, expected at most {}, the limit of the model", options_.context,
               own.limit);
      }
      const int64_t least = shape.is_dynamic() ? own.least : shape.traced_tokens();
      if (options_.context < least) {
        refuse("--context: found {}, expected at least {}, by {}", options_.context, least,
               shape.is_dynamic() ? "its range" : "the example");
      }
      // With several inputs, keep each at least as long as its example: a spectrogram may come with
      // a short text.
      const int64_t asked = std::max<int64_t>(options_.context, is_one ? 0 : shape.traced_tokens());
      own.positions = is_one ? asked : tighter(own.limit, asked);
    }
    if (own.positions == 0 && needs_end(i)) {
      own.positions = std::max(kPositionsMin, 2 * shape.traced_tokens());
      own.is_end_chosen = true;
    }
  }

  // Returns the number of tokens that the position tables of a program with fixed sizes cover; 0
  // means unbounded.
  int64_t tokens_of_tables(size_t i) const {
    GraphBuilder& builder = traced_.tracer->builder;
    int64_t most = 0;
    for (const PositionTable& table : builder.tables) {
      const uint32_t axis = builder.graph.axis(table.node);
      if ((builder.graph.inputs_of(axis) & 1u << i) == 0) continue;
      for (const TablePart& part : table.parts) {
        if (part.stride == 0) continue;
        const auto elements = static_cast<int64_t>(part.constant->elements());
        int64_t rows = INT64_MAX;
        for (const int64_t first : part.first_row) {
          const int64_t left = part.stride > 0 ? elements - 1 - first : first;
          rows = std::min(rows, left / std::abs(part.stride) + 1);
        }
        most = tighter(most, builder.tokens_of_rows(rows, axis));
      }
    }
    return most;
  }

  // Whether tables or rotations of this input depend on the position.
  bool needs_end(size_t i) const {
    const Graph& graph = traced_.graph;
    const auto is_of_input = [&](ValueId value) {
      return (graph.inputs_of(graph.axis(value)) & 1u << i) != 0;
    };
    const auto& tables = traced_.tracer->builder.tables;
    return std::ranges::any_of(
               tables, [&](const PositionTable& table) { return is_of_input(table.node); }) ||
           std::ranges::any_of(graph.order(), [&](ValueId value) {
             const auto* attention = graph.as<AttentionNode>(value);
             const bool has_terms = attention != nullptr && attention->has_tables();
             return (has_terms || graph.as<RotateNode>(value)) && is_of_input(value);
           });
  }

  // Traces the program at a second length. Returns whether longer_ is set. If the traces are
  // different models, keeps the example's length alone.
  bool try_other_length() {
    Lengths longer = claim_.traced();
    bool is_longer = false;
    longer_ = nullptr;
    for (size_t i = 0; i < longer.size(); ++i) {
      InputLengths& own = claim_.inputs[i];
      own.other = is_free(i) && trace_shape_.of(i).is_dynamic() ? other_length(i) : 0;
      is_longer = is_longer || own.other > own.traced;
      longer[i] = std::max(own.other, own.traced);
    }
    if (is_longer) {
      longer_ = traced_at(longer, true);
      const std::string why = claim_.why_exact;
      if (longer_ == nullptr) find_ends(longer);
      claim_.why_exact = why;
      if (longer_ == nullptr && longer != claim_.traced()) longer_ = traced_at(longer, true);
      while (longer_ == nullptr && halve(longer)) longer_ = traced_at(longer, true);
      if (longer_ == nullptr) return limit_all_to_trace();
    }
    for (size_t i = 0; i < longer.size(); ++i) {
      const InputLengths& own = claim_.inputs[i];
      if (own.other == 0 || own.other > own.traced) continue;
      Lengths shorter = claim_.traced();
      shorter[i] = own.other;
      if (traced_at(shorter, false) == nullptr) return limit_all_to_trace();
    }
    return is_longer;
  }

  // Halves the longest of the lengths that were too long to trace, if the archive's range ends far
  // above it; the model then ends there. Returns whether there was one.
  bool halve(Lengths& longer) {
    for (size_t i = 0; i < longer.size(); ++i) {
      InputLengths& own = claim_.inputs[i];
      const bool is_far = own.longest > kTracedMax && own.other / 2 >= 2 * own.traced + 3;
      if (!is_far || longer[i] != *std::ranges::max_element(longer)) continue;
      longer[i] = own.positions = own.limit = own.other = trace_shape_.of(i).rounded(own.other / 2);
      return true;
    }
    return false;
  }

  // Whether the graph is known only up to the traced length, because of tables, angles, biases or
  // dense masks.
  bool ends_with_trace(size_t i) const {
    return needs_end(i) || std::ranges::any_of(traced_.graph.masks,
                                               [](const Mask& mask) { return !mask_rule(mask); });
  }

  // Returns a second length of an input that can be traced; 0 if there is none.
  int64_t other_length(size_t i) const {
    const InputLengths& own = claim_.inputs[i];
    double linear = 1.0, quadratic = 0.0;  // elements, as the length grows
    for (const ExportedValue& value : program_->values) {
      double count = 1.0;
      for (const Extent& extent : value.sizes)
        count *= std::max(1.0, static_cast<double>(extent.size));
      const auto lengths = std::ranges::count(value.sizes, own.traced, &Extent::size);
      if (lengths > 1) quadratic += count;
      if (lengths == 1) linear += count;
    }
    const auto is_affordable = [&](int64_t length) {
      const double times = static_cast<double>(length) / static_cast<double>(own.traced);
      return times * linear <= kElementsMax && times * times * quadratic <= kPairElementsMax;
    };
    const int64_t least = 2 * own.traced + 3;
    int64_t other = own.positions == 0 ? least : own.positions;
    if (own.positions > kTracedMax && !ends_with_trace(i)) other = least;
    while (other > own.traced + 3 && !is_affordable(other)) {
      other = std::max(own.traced + 3, other > kTracedMax ? other - other / 8 : other / 2);
    }
    if (own.limit != 0) other = std::min(other, own.limit);
    other = trace_shape_.of(i).rounded(other);
    if (other == own.traced) other = own.traced - own.step;
    return other < 2 || other < own.least ? 0 : other;
  }

  // Finds, by bisection, the longest length that can be traced where no bound is given: a table of
  // the program may end there.
  void find_ends(Lengths& longer) {
    for (size_t i = 0; i < longer.size(); ++i) {
      InputLengths& own = claim_.inputs[i];
      Lengths at = claim_.traced();
      const auto can_be = [&](int64_t length) {
        at[i] = length;
        return traced_at(at, true) != nullptr;
      };
      if (!own.is_end_chosen || longer[i] <= own.traced || can_be(longer[i])) continue;
      int64_t begin = own.traced, end = longer[i];
      while (end - begin > own.step) {
        const int64_t middle = trace_shape_.of(i).rounded(begin + (end - begin) / 2);
        (can_be(middle) ? begin : end) = middle;
      }
      longer[i] = begin;
      own.positions = own.limit = own.other = begin;
      own.is_end_chosen = false;
    }
  }

  // Traces the program at `other`. Returns null if the model differs there; claim_ then says how.
  std::unique_ptr<TracedProgram> traced_at(const Lengths& other, bool is_longer) {
    try {
      TraceShape shape = trace_shape_.at(other);
      auto found =
          std::make_unique<TracedProgram>(trace_program(program_, shape, model_.output_index));
      claim_.why_exact = difference(is_longer ? traced_.graph : found->graph,
                                    is_longer ? found->graph : traced_.graph);
      if (claim_.why_exact.empty()) return found;
      claim_.why_exact = fmt::format("at {}, {}", counted_tokens(other), claim_.why_exact);
    } catch (const InputError& error) {
      claim_.why_exact = fmt::format("at {}, {}", counted_tokens(other), error.what());
    }
    return nullptr;
  }

  bool limit_all_to_trace() {
    longer_ = nullptr;
    for (size_t i = 0; i < claim_.inputs.size(); ++i) {
      if (!trace_shape_.of(i).reads_images()) limit_to_trace(i);
    }
    return false;
  }

  void limit_to_trace(size_t i) {
    InputLengths& own = claim_.inputs[i];
    own.positions = own.limit = own.traced = trace_shape_.of(i).traced_tokens();
    own.is_end_chosen = false;
    if (options_.context == 0 || options_.context == own.positions || claim_.inputs.size() > 1) {
      return;
    }
    refuse("--context: found {}, expected exactly {} tokens: {}", options_.context, own.positions,
           is_exact() ? claim_.why_exact : "it was exported with a fixed number of them");
  }

  void describe_length() {
    const auto& image = trace_shape_.image();
    if (image && trace_shape_.inputs() == 1) {
      model_.length =
          fmt::format("images of {} channel{}, {} lines and {} columns", image->channels,
                      image->channels == 1 ? "" : "s", image->height, image->width);
      return;
    }
    const Extent& width = program_->values[trace_shape_.input().value].sizes.back();
    if (trace_shape_.inputs() == 1 && trace_shape_.is_one_row() && !trace_shape_.reads_tokens() &&
        !width.is_fixed()) {
      model_.length = fmt::format(
          "rows of exactly {} features, one for each sequence: it was exported for other numbers "
          "of features, too, and each needs its own export",
          width.size);
      return;
    }
    const uint32_t stepped = model_.causal ? functions_of(model_.graph).back().inputs : 0;
    for (size_t i = 0; i < claim_.inputs.size(); ++i) {
      claim_.inputs[i].is_causal = (stepped & 1u << i) != 0;
      claim_.takes_lengths = claim_.takes_lengths || takes_lengths(i);
    }
    if (!is_dynamic() && !is_vouched_for_) {
      for (const SizeGuard& guard : program_->guards) claim_.guards.push_back(guard.text);
      if (trace_shape_.fixes_rows()) {
        claim_.why_exact = "it has values for each pair of rows, or for groups of them";
      } else if (claim_.guards.empty()) {
        claim_.export_lines = trace_shape_.export_lines(is_turned_);
      }
    }
    if (claim_.is_claimed) model_.graph.array_flags |= kLengthsClaimed;
    model_.length = claim_.text();
  }

  const ModelOptions& options_;
  const std::vector<std::vector<uint64_t>>& expected_inputs_;  // shapes
  const bool compares_;
  const bool is_turned_;  // the archive has tokens before sequences
  std::string where_;
  std::shared_ptr<const ExportedProgram> program_;  // the part that this output needs
  TraceShape trace_shape_;
  ExportedModel model_;
  TracedProgram traced_;
  std::unique_ptr<TracedProgram> longer_;
  bool is_vouched_for_ = false;     // by --any-length or --expect
  bool is_of_concat_rows_ = false;  // concatenated rows have dense masks, biases or angles
  LengthClaim claim_;
};

}  // namespace

ExportedModel read_exported_model(const std::filesystem::path& path, const ModelOptions& options,
                                  const std::vector<std::vector<uint64_t>>& expected_inputs) {
  return read_exported_model(std::make_shared<const ExportedProgram>(read_exported(path)), options,
                             expected_inputs);
}

ExportedModel read_exported_model(const std::shared_ptr<const ExportedProgram>& program,
                                  const ModelOptions& options,
                                  const std::vector<std::vector<uint64_t>>& expected_inputs,
                                  bool compares) {
  const WorkBudget budget(reading_steps(*program));
  const auto asked = without_unread(program, options.output_indices);
  const std::vector<Interpretation> interpretations = interpretations_of(with_real_inputs(asked));
  std::optional<InputError> why;  // of the interpretation that traced most ops
  size_t reached = 0;
  for (const Interpretation& interpretation : interpretations) {
    const auto reader = [&] {
      return ModelReader(interpretation.program, interpretation.meaning, options, expected_inputs,
                         compares, interpretation.is_turned);
    };
    try {
      ModelReader one = reader();
      try {
        ExportedModel model = one.read();
        model.graph.arrays = arrays_of(*program, one.trace_shape(), model.graph.inputs);
        if (interpretation.is_turned) {
          if (model.columns_first) continue;
          model.tokens_first = true;
          model.graph.array_flags |= kTokensFirst;
          std::vector<uint32_t>& shape = model.graph.output_shape;
          if (shape.size() > 1 && shape[0] == kSequencesExtent) std::swap(shape[0], shape[1]);
        }
        if (!interpretation.words.empty()) model.account.given.push_back(interpretation.words);
        note_unread(model, *program, *asked, interpretation.meaning.sides);
        return model;
      } catch (const InputError& error) {
        if (interpretations.size() == 1) throw;
        const bool is_told =
            !why || (!interpretation.is_turned && refused_op_index(error) > reached);
        if (is_told) why = error, reached = refused_op_index(error);
      }
    } catch (const InputError&) {  // its sizes contradict this interpretation
      if (interpretations.size() == 1) throw;
    }
  }
  if (why) throw *why;
  throw InputError("{}: {}", quote(program->source), why_not_these_inputs(*program));
}

Graph build_graph(const ExportedModel& model) { return model.graph; }

}  // namespace arenite::convert
