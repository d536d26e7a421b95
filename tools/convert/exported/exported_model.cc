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
#include "convert/exported/read/exported_program.h"
#include "convert/exported/recover/refusals.h"
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

// The nodes of one kind, in order.
template <typename Kind>
std::vector<Kind*> nodes_of(Graph& graph) {
  std::vector<Kind*> found;
  for (const ValueId value : graph.order()) {
    if (auto* node = graph.as<Kind>(value)) found.push_back(node);
  }
  return found;
}

// ---- what a program's model gives out: one of its outputs, or several side by side ----

struct ChosenOutput {
  // The one given, or one that has the outputs that are asked for side by side as its last output.
  std::shared_ptr<const ExportedProgram> program;
  size_t index = 0;     // of the program's outputs
  size_t outputs = 1;   // tensors that the program given has
  std::string words{};  // for the account; empty where there was no choice
};

const ExportedValue& output_of(const ExportedProgram& program, size_t index) {
  return program.values[program.outputs[index].as<ValueRef>()->value];
}

bool same_extent(const Extent& a, const Extent& b) {
  return a.size == b.size && a.symbol == b.symbol;
}

// Columns of one tensor after those of the others; `places` are of the program's outputs.
ChosenOutput side_by_side(std::shared_ptr<const ExportedProgram> program,
                          const std::vector<size_t>& places) {
  ExportedValue joined = output_of(*program, places[0]);
  joined.name = "outputs";
  int64_t columns = 0;
  Argument::List parts;
  ChosenOutput chosen;
  for (const size_t place : places) {
    const ExportedValue& part = output_of(*program, place);
    const std::vector<Extent>& sizes = part.sizes;
    const bool fits = !sizes.empty() && sizes.size() == joined.sizes.size() &&
                      sizes.back().is_fixed() &&
                      std::equal(sizes.begin(), sizes.end() - 1, joined.sizes.begin(), same_extent);
    if (!fits) {
      throw InputError(
          "{}: --output-index: {} and {} cannot stand side by side, since their rows differ: "
          "convert them to model files of their own",
          quote(program->source), shape_text(output_of(*program, places[0]).shape()),
          shape_text(part.shape()));
    }
    const int64_t end = columns + sizes.back().size;
    chosen.words += fmt::format("{}columns {} to {}", columns == 0 ? "" : ", ", columns, end - 1);
    columns = end;
    parts.emplace_back(*program->outputs[place].as<ValueRef>());
  }
  joined.sizes.back().size = columns;
  ExportedProgram all = *program;
  const auto value = static_cast<uint32_t>(all.values.size());
  all.values.push_back(std::move(joined));
  all.nodes.push_back({.op = "cat",
                       .overload = "default",
                       .arguments = {{"tensors", std::move(parts)}, {"dim", int64_t{-1}}},
                       .outputs = {value}});
  all.outputs.emplace_back(ValueRef{value});
  chosen.index = all.outputs.size() - 1;
  chosen.program = std::make_shared<const ExportedProgram>(std::move(all));
  return chosen;
}

// `wanted` counts tensors from 0; none: the first. Throws InputError for one that is not there, and
// for several whose rows differ.
ChosenOutput choose_output(std::shared_ptr<const ExportedProgram> program,
                           const std::vector<uint32_t>& wanted) {
  std::vector<size_t> tensors;
  for (size_t i = 0; i < program->outputs.size(); ++i) {
    const ValueRef* ref = program->outputs[i].as<ValueRef>();
    if (ref && program->values[ref->value].kind == ValueKind::kTensor) tensors.push_back(i);
  }
  std::vector<size_t> places;
  for (const uint32_t index : wanted.empty() ? std::vector<uint32_t>{0} : wanted) {
    if (index >= tensors.size()) {
      throw InputError("{}: --output-index {}: the model gives out {} tensor{}: expected 0 to {}",
                       quote(program->source), index, tensors.size(),
                       tensors.size() == 1 ? "" : "s", tensors.empty() ? 0 : tensors.size() - 1);
    }
    places.push_back(tensors[index]);
  }
  const size_t outputs = tensors.size();
  ChosenOutput chosen;
  if (places.size() > 1) {
    chosen = side_by_side(std::move(program), places);
    chosen.words = fmt::format("outputs {} of {} side by side: {}, --output-index",
                               fmt::join(wanted, ", "), outputs, chosen.words);
  } else {
    chosen = {std::move(program), places[0], 1, ""};
    if (outputs > 1) {
      chosen.words = fmt::format(
          "output {} of {}{}", wanted.empty() ? 0 : wanted[0], outputs,
          wanted.empty() ? ", the first: --output-index takes another" : ", --output-index");
    }
  }
  chosen.outputs = outputs;
  return chosen;
}

Shape output_shape(const ExportedModel& model) {
  const ExportedProgram& program = *model.program;
  return program.values[program.outputs[model.output_index].as<ValueRef>()->value].shape();
}

// What was put before the tokens has to be read; else no row of it is there.
void require_prefix(Graph& graph, const std::string& where) {
  if (graph.prefix_rows == 0 || !nodes_of<PrefixNode>(graph).empty()) return;
  throw InputError(
      "{}: rows of constants are put before the first token, and no result depends on them: leave "
      "them out of the exported part",
      where);
}

// Which rows go out, and what nobody reads is taken out. Where no row depends on later tokens, a
// call gives out the rows that it asks for: a program that gives those of last tokens alone has
// others, too. Throws InputError, which begins with `where`, for constants before the tokens that
// nothing depends on.
void settle_outputs(ExportedModel& model, const TraceShape& trace_shape, const std::string& where) {
  Graph& graph = model.graph;
  const std::vector<SelectNode*> selections = nodes_of<SelectNode>(graph);
  const bool takes_last = std::ranges::all_of(
      selections, [](const SelectNode* rows) { return rows->kind == SelectKind::kLast; });
  model.causal = takes_last && !trace_shape.reads_images() && graph.tokens_min <= 1 &&
                 std::ranges::all_of(graph.masks, [](const Mask& mask) { return is_causal(mask); });
  model.has_row_of_sequence = !selections.empty();
  model.tokens_first = trace_shape.tokens_first();
  const Shape output = output_shape(model);
  model.keeps_token_axis =
      model.has_row_of_sequence && output.size() == 3 && output[model.tokens_first ? 0 : 1] == 1;
  if (model.causal && selections.empty()) {
    graph.output = graph.add("select", SelectNode{SelectKind::kAsAsked}, {graph.output});
  } else if (model.causal) {
    for (SelectNode* const rows : selections) rows->kind = SelectKind::kAsAsked;
  }
  graph.remove_unread();
  graph.name_layers_apart();
  require_prefix(graph, where);
}

// Ids are looked up, and types are added to them; what is multiplied by 0 is not read. Throws
// InputError, which begins with `where`.
void require_inputs(Graph& graph, const TraceShape& trace_shape, const std::string& where) {
  bool has_tokens = false, has_types = false;
  for (const ValueId value : graph.order()) {
    const auto* embedding = graph.as<EmbeddingNode>(value);
    if (embedding == nullptr) continue;
    if (embedding->types && !embedding->tokens) {
      throw InputError(
          "{}: '{}': types of tokens are added to something else than the embedding of tokens",
          where, graph.node(value).name);
    }
    has_tokens = has_tokens || embedding->tokens;
    has_types = has_types || embedding->types;
  }
  if (!has_types) graph.token_types = 0;
  if (trace_shape.reads_tokens() && !has_tokens) {
    throw InputError("{}: input {}: its ids are looked up in no table of weights", where,
                     quote(trace_shape.input().name));
  }
}

// ---- the model, at one length after the other ----

constexpr int64_t kElementsMax = int64_t{1} << 24;              // that a second length may take
constexpr int64_t kPositionsMax = int64_t{1} << 30;             // more are as good as any number
constexpr size_t kGraphNodesMax = size_t{4} * format::kOpsMax;  // slices and their like are no ops

class ModelReader {
 public:
  ModelReader(std::shared_ptr<const ExportedProgram> program, std::vector<SideInput> sides,
              const ModelOptions& options,
              const std::vector<std::vector<uint64_t>>& expected_inputs, bool compares)
      : options_(options),
        expected_inputs_(expected_inputs),
        compares_(compares),
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
    const uint32_t output = chosen.program->outputs[model_.output_index].as<ValueRef>()->value;
    program_ = std::make_shared<const ExportedProgram>(needed_part(*chosen.program, output));
    trace_shape_ = TraceShape(program_, trace_shape_.sides());
    free_tokens();
    // What is found out at other lengths may leave fewer of them.
    const ExportedModel begun = model_;
    do {
      model_ = begun;
    } while (!build() || (compares_ && !is_exact() && !holds_at_other_lengths()));
    describe_length();
    return std::move(model_);
  }

 private:
  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    throw InputError("{}: {}", where_, fmt::format(format, std::forward<Args>(args)...));
  }

  // Makes the graph for all lengths, or for the example's alone. False: those for all is no such.
  bool build() {
    traced_ = follow_input();
    require_few_nodes(traced_.graph);
    choose_positions();
    Followed& last = try_other_length() ? *longer_ : traced_;
    settle_masks(last.graph);
    settle_terms(last.graph);
    GraphBuilder& builder = last.tracer->builder;
    builder.graph = last.graph;
    const auto at_length = [program = program_, shape = trace_shape_](uint32_t value, int64_t n) {
      return constant_at(*program, shape.at(n), value);
    };
    try {
      fill_position_tables(builder, static_cast<uint32_t>(positions_), at_length);
    } catch (const NotRecognised& error) {
      refuse("{}", error.what());
    }
    model_.program = program_;
    model_.graph = builder.graph;
    model_.graph.positions_max = static_cast<uint32_t>(positions_);
    model_.graph.architecture = "exported PyTorch program";
    model_.graph.tokens_min = static_cast<uint32_t>(tokens_min());
    settle_outputs(model_, trace_shape_, where_);
    require_inputs(model_.graph, trace_shape_, where_);
    if (!compares_) return true;
    const bool is_shorter = positions_ != 0 && positions_ < trace_shape_.tokens();
    const auto found =
        compare_with_program(model_, is_shorter ? trace_shape_.at(positions_) : trace_shape_);
    if (!found) return true;
    if (is_exact() || !trace_shape_.is_dynamic()) {
      refuse(
          "what was recognised is not what the program computes: outputs differ by {:.1e}, and "
          "reach {:.1e}. This is a limit of the converter: please report the model",
          found->difference, found->value);
    }
    claim_.why_exact =
        fmt::format("with tables for {}, {}", counted_tokens(positions_), found->text());
    return false;
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
    const OtherLengths found = compare_at_other_lengths(model_, trace_shape_, claim_.shortest,
                                                        longest, program_->checksum);
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
    refuse("it becomes {} ops and parts of values: the runtime has at most {} ops",
           graph.order().size(), format::kOpsMax);
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
    if (longest && *longest < 1) refuse("its range says at most {} tokens", *longest);
    limit_ = tighter(std::max<int64_t>(0, traced_.positions_max - prefix()), longest.value_or(0));
    limit_ = tighter(limit_, claim_.longest);
    positions_ = limit_;
    if (options_.context != 0) {
      if (limit_ != 0 && options_.context > limit_) {
        refuse("--context: found {}, expected at most {}, which the model has", options_.context,
               limit_);
      }
      const int64_t least = trace_shape_.is_dynamic() ? trace_shape_.range().min : 1;
      if (options_.context < least) {
        refuse("--context: found {}, expected at least {}, which its range says", options_.context,
               least);
      }
      positions_ = options_.context;
    }
    const bool needs_end =
        !traced_.tracer->builder.tables.empty() || !nodes_of<RotateNode>(traced_.graph).empty() ||
        std::ranges::any_of(nodes_of<AttentionNode>(traced_.graph),
                            [](const AttentionNode* node) { return node->terms != nullptr; });
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
    refuse("--context: found {}, but the model is of exactly {} tokens: {}", options_.context,
           positions_, claim_.why_exact);
  }

  void settle_masks(Graph& graph) {
    for (Mask& mask : graph.masks) {
      if (const auto rule = mask_rule(mask)) {
        mask = *rule;
      } else {
        const int64_t rows = positions_of(mask) - prefix();
        if (rows < 1) refuse("its mask has no row for tokens");
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
    for (const AttentionNode* attention : nodes_of<AttentionNode>(graph)) {
      if (!attention->terms) continue;
      const int64_t positions = attention->terms->positions;
      if (positions < 1) refuse("what it adds to scores has no row for tokens");
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
    for (AttentionNode* attention : nodes_of<AttentionNode>(graph)) {
      if (attention->terms) attention->terms = cut.at(attention->terms);
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
  const bool compares_;
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
  return read_exported_model(std::make_shared<const ExportedProgram>(read_exported(path)), options,
                             expected_inputs);
}

ExportedModel read_exported_model(const std::shared_ptr<const ExportedProgram>& program,
                                  const ModelOptions& options,
                                  const std::vector<std::vector<uint64_t>>& expected_inputs,
                                  bool compares) {
  const WorkBudget budget(reading_steps(*program));
  const std::vector<std::vector<SideInput>> meanings = possible_sides(*program);
  std::optional<InputError> why;  // of the reading that came the farthest
  size_t reached = 0;
  for (const std::vector<SideInput>& sides : meanings) {
    const auto reader = [&] {
      return ModelReader(program, sides, options, expected_inputs, compares);
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
