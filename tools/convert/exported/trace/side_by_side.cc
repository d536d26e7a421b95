// SPDX-License-Identifier: Apache-2.0
// Rewrites the inputs and outputs of a program by ops before and after its own: concatenates
// several, drops unused inputs, and transposes tokens and sequences.
//
//   outputs [b, t, 3] and [b, t, 5]  ->  one output [b, t, 8]
//   inputs [b, t, 3] and [b, t, 5]   ->  one input [b, t, 8], sliced
//   input [t, b, columns]            ->  input [b, t, columns], transposed
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "convert/exported/trace/trace_shape.h"
#include "convert/files/error.h"

namespace arenite::convert {
namespace {

const ExportedValue& output_of(const ExportedProgram& program, size_t index) {
  return program.values[program.outputs[index].as<ValueRef>()->value];
}

// Concatenates the columns of several outputs. `places` are their indices in the program.
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
                      std::equal(sizes.begin(), sizes.end() - 1, joined.sizes.begin());
    if (!fits) {
      throw InputError(
          "{}: --output-index takes outputs {} and {}, whose rows differ; convert each to a model "
          "file of its own",
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

}  // namespace

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
      throw InputError(
          "{}: --output-index {} is out of range; the model outputs {} tensor{}, 0 to {}",
          quote(program->source), index, tensors.size(), tensors.size() == 1 ? "" : "s",
          tensors.empty() ? 0 : tensors.size() - 1);
    }
    places.push_back(tensors[index]);
  }
  const size_t outputs = tensors.size();
  ChosenOutput chosen;
  if (places.size() > 1) {
    chosen = side_by_side(std::move(program), places);
    chosen.words =
        fmt::format("outputs {} of {}, concatenated along the columns: {}, --output-index",
                    fmt::join(wanted, ", "), outputs, chosen.words);
  } else {
    chosen = {std::move(program), places[0], 1, ""};
    if (outputs > 1) {
      chosen.words = fmt::format(
          "output {} of {}{}", wanted.empty() ? 0 : wanted[0], outputs,
          wanted.empty() ? " (the first); --output-index chooses another" : ", --output-index");
    }
  }
  chosen.outputs = outputs;
  return chosen;
}

namespace {

// Returns an input of `among` with a dimension of this extent, and the dimension; null if there is
// none.
std::pair<const ExportedInput*, size_t> input_with(const ExportedProgram& program,
                                                   const std::set<uint32_t>& among,
                                                   const Extent& extent) {
  for (const ExportedInput* input : program.user_inputs()) {
    const std::vector<Extent>& sizes = program.values[input->value].sizes;
    const auto found = std::ranges::find(sizes, extent);
    if (among.contains(input->value) && found != sizes.end()) {
      return {input, static_cast<size_t>(found - sizes.begin())};
    }
  }
  return {};
}

}  // namespace

std::shared_ptr<const ExportedProgram> without_unread(
    const std::shared_ptr<const ExportedProgram>& program, const std::vector<uint32_t>& wanted) {
  const ChosenOutput chosen = choose_output(program, wanted);
  const uint32_t output = chosen.program->outputs[chosen.index].as<ValueRef>()->value;
  ExportedProgram kept = *program;
  std::set<uint32_t> read = {output};
  const ExportedProgram part = needed_part(*chosen.program, output);
  for (const Call& node : part.nodes) {
    if (node.op != "sym_size")
      for_each<ValueRef>(node, [&](ValueRef ref) { read.insert(ref.value); });
  }
  // Sizes of unused inputs are replaced by equal sizes of used ones.
  for (Call& node : kept.nodes) {
    const ValueRef* self = node.op == "sym_size" ? node.argument("self").as<ValueRef>() : nullptr;
    if (self == nullptr || read.contains(self->value)) continue;
    const std::vector<Extent>& sizes = program->values[self->value].sizes;
    const auto [other, d] =
        input_with(*program, read, sizes.at(node.dimension("dim", 0, sizes.size())));
    if (other == nullptr) {
      read.insert(self->value);
      continue;
    }
    node.arguments = {{"self", ValueRef{other->value}}, {"dim", static_cast<int64_t>(d)}};
  }
  const std::vector<const ExportedInput*> inputs = program->user_inputs();
  size_t removed = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (read.contains(inputs[i]->value) || removed + 1 == inputs.size()) continue;
    kept.inputs.erase(std::ranges::find(kept.inputs, inputs[i]->value, &ExportedInput::value));
    if (!kept.sample_inputs.empty()) {
      kept.sample_inputs.erase(kept.sample_inputs.begin() + static_cast<ptrdiff_t>(i - removed));
    }
    ++removed;
  }
  return removed == 0 ? program : std::make_shared<const ExportedProgram>(std::move(kept));
}

namespace {

// Returns the input and the values that rearrange it, if the program only computes with their
// elements. Empty for other inputs, such as ids and masks.
std::set<uint32_t> values_of_numbers(const ExportedProgram& program, const ExportedInput& input) {
  const ExportedValue& own = program.values[input.value];
  const std::vector<Extent>& sizes = own.sizes;
  const size_t rank = sizes.size();
  const bool is_alone = program.user_inputs().size() == 1;
  const bool is_mask_like =
      rank < 3 || sizes[rank - 1] == sizes[rank - 2] ||
      std::all_of(sizes.begin() + 1, sizes.end() - 1, [](const Extent& e) { return e.size == 1; });
  if (own.kind != ValueKind::kTensor || !is_integer(own.type) || (is_mask_like && !is_alone)) {
    return {};
  }
  std::set<uint32_t> found = {input.value};
  for (const Call& node : program.nodes) {
    bool reads = false;
    for_each<ValueRef>(node, [&](ValueRef ref) { reads = reads || found.contains(ref.value); });
    if (!reads || node.op == "sym_size") continue;
    const bool computes =
        is_one_of(node.op, {"to", "_to_copy", "type_as", "mul", "div", "add", "sub"});
    const bool moves =
        is_one_of(node.op, {"view", "reshape", "flatten", "unflatten", "unsqueeze", "squeeze",
                            "transpose", "permute", "select", "slice", "expand", "contiguous"});
    for (const uint32_t made : node.outputs) {
      const ElementType type = program.values[made].type;
      if (computes && is_real(type)) continue;
      if (!moves || type != own.type) return {};
      found.insert(made);
    }
  }
  return found;
}

}  // namespace

std::shared_ptr<const ExportedProgram> with_real_inputs(
    const std::shared_ptr<const ExportedProgram>& program) {
  ExportedProgram real = *program;
  bool is_other = false;
  const std::vector<const ExportedInput*> inputs = program->user_inputs();
  for (size_t i = 0; i < inputs.size(); ++i) {
    for (const uint32_t value : values_of_numbers(*program, *inputs[i])) {
      real.values[value].type = ElementType::kF32;
      if (value != inputs[i]->value) continue;
      is_other = true;
      if (!real.sample_inputs.empty()) {
        real.sample_inputs[i] = real.sample_inputs[i].to(ElementType::kF32);
      }
    }
  }
  return is_other ? std::make_shared<const ExportedProgram>(std::move(real)) : program;
}

namespace {

// Concatenates two arrays along the last dimension.
Array columns_beside(const Array& first, const Array& second) {
  Shape shape = first.shape();
  const auto a = static_cast<size_t>(shape.back());
  const auto b = static_cast<size_t>(second.shape().back());
  shape.back() += second.shape().back();
  const Array::Reals left = first.to_reals(), right = second.to_reals();
  Array::Reals all;
  for (size_t i = 0; i < elements_of(shape); ++i) {
    const size_t row = i / (a + b), column = i % (a + b);
    all.push_back(column < a ? left[row * a + column] : right[row * b + column - a]);
  }
  return Array::real(std::move(shape), std::move(all)).to(first.type());
}

// Whether an input [sequences, tokens] is a padding mask of 0 and 1.
bool is_mask(const ExportedProgram& program, const ExportedInput& input) {
  const ExportedValue& value = program.values[input.value];
  if (value.sizes.size() != 2 || is_real(value.type) || program.sample_inputs.empty()) return false;
  const std::vector<SideRole> roles = possible_roles(program, input);
  return std::ranges::any_of(
      roles, [](SideRole role) { return role == SideRole::kKept || role == SideRole::kHidden; });
}

// Returns the extents [.., columns] of an input that may be concatenated: features, integers except
// for kFeatures, or a mask for kMasks. Empty for any other input.
std::vector<Extent> rows_and_columns(const ExportedProgram& program, const ExportedInput& input,
                                     Columns kind) {
  const ExportedValue& value = program.values[input.value];
  std::vector<Extent> sizes = value.sizes;
  const bool is_whole = kind == Columns::kMasks ? is_mask(program, input) : is_integer(value.type);
  if (is_whole && sizes.size() == 2) sizes.push_back({1, ""});
  const bool is_taken = is_real(value.type) || (kind != Columns::kFeatures && is_whole);
  const bool fits =
      value.kind == ValueKind::kTensor && is_taken && sizes.size() == 3 && sizes.back().is_fixed();
  return fits ? sizes : std::vector<Extent>{};
}

// Replaces the first of the inputs `values` by `all`, and removes the others.
void replace_inputs(ExportedProgram& program, const std::vector<uint32_t>& values,
                    const ExportedInput& all) {
  for (size_t n = values.size(); n-- > 0;) {
    const std::vector<const ExportedInput*> inputs = program.user_inputs();
    const auto number =
        std::ranges::find(inputs, values[n], &ExportedInput::value) - inputs.begin();
    const auto place = std::ranges::find(program.inputs, values[n], &ExportedInput::value);
    if (n == 0) {
      *place = all;
      continue;
    }
    program.inputs.erase(place);
    if (!program.sample_inputs.empty()) {
      program.sample_inputs.erase(program.sample_inputs.begin() + number);
    }
  }
}

InputsSideBySide joined_inputs(const ExportedProgram& program, Columns kind) {
  const bool is_one = kind == Columns::kOneInput;
  const std::vector<const ExportedInput*> inputs = program.user_inputs();
  ExportedProgram joined = program;
  std::optional<size_t> first;  // index of the first concatenated input
  ExportedValue all;
  std::vector<Call> slices;
  std::vector<uint32_t> starts;    // the concatenated inputs
  std::vector<ExportedValue> ids;  // inputs of integers and masks, as columns in float32
  std::vector<uint32_t> masks;     // columns of masks
  std::vector<std::string> columns;
  const auto value = static_cast<uint32_t>(program.values.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ExportedValue& own = program.values[inputs[i]->value];
    if (is_one && (first || !is_integer(own.type) || own.sizes.size() != 3)) continue;
    const std::vector<Extent> sizes = rows_and_columns(program, *inputs[i], kind);
    const bool fits =
        !sizes.empty() && (first ? std::equal(sizes.begin(), sizes.end() - 1, all.sizes.begin())
                                 : kind != Columns::kMasks || is_real(own.type));
    if (!fits) continue;
    if (!first) {
      all = {.name = "", .type = ElementType::kF32, .sizes = sizes};
      all.sizes.back().size = 0;
    }
    const int64_t begin = all.sizes.back().size, end = begin + sizes.back().size;
    const bool are_ids = !is_real(own.type);
    if (kind == Columns::kMasks && are_ids) masks.push_back(static_cast<uint32_t>(begin));
    const auto columns_value = static_cast<uint32_t>(value + 1 + ids.size());
    Call cut = {.op = "slice",
                .overload = "Tensor",
                .arguments = {{"self", ValueRef{value}}, {"dim", int64_t{2}}},
                .outputs = {are_ids ? columns_value : inputs[i]->value}};
    if (own.sizes.size() == 2) {
      cut.op = "select";
      cut.arguments.push_back({"index", begin});
    } else {
      cut.arguments.insert(cut.arguments.end(), {{"start", begin}, {"end", end}});
    }
    slices.push_back(cut);
    starts.push_back(inputs[i]->value);
    if (are_ids) {
      ids.push_back(own);
      ids.back().type = ElementType::kF32;
      slices.push_back({.op = "to",
                        .overload = "dtype",
                        .arguments = {{"self", ValueRef{columns_value}}, {"dtype", own.type}},
                        .outputs = {inputs[i]->value}});
    }
    columns.push_back(fmt::format("{} is columns {} to {}", inputs[i]->name, begin, end - 1));
    all.name += (first ? "," : "") + inputs[i]->name;
    all.sizes.back().size = end;
    if (!program.sample_inputs.empty()) {
      Array& sample = joined.sample_inputs[first.value_or(i)];
      Shape shape = program.sample_inputs[i].shape();
      if (shape.size() == 2) shape.push_back(1);
      const Array more = program.sample_inputs[i].with_shape(shape).to(ElementType::kF32);
      sample = first ? columns_beside(sample, more) : more;
    }
    if (!first) first = i;
  }
  const bool needs_ids = kind != Columns::kFeatures;
  if (starts.size() < (is_one ? 1 : 2) || (needs_ids && ids.empty())) return {};
  replace_inputs(joined, starts, {.value = value, .name = all.name, .mark_columns = masks});
  joined.values.push_back(all);
  joined.values.insert(joined.values.end(), ids.begin(), ids.end());
  joined.nodes.insert(joined.nodes.begin(), slices.begin(), slices.end());
  return {std::make_shared<const ExportedProgram>(std::move(joined)),
          fmt::format("inputs are concatenated along the columns: {}", fmt::join(columns, ", "))};
}

}  // namespace

namespace {

Call transposed_rows(uint32_t from, uint32_t to) {
  return {.op = "transpose",
          .overload = "int",
          .arguments = {{"self", ValueRef{from}}, {"dim0", int64_t{0}}, {"dim1", int64_t{1}}},
          .outputs = {to}};
}

Array transposed_rows(const Array& array) {
  const Shape& shape = array.shape();
  const int64_t width = shape.size() > 2 ? shape[2] : 1;
  Shape walk = {shape[1], shape[0], width};
  const Movement turn = {
      .shape = walk, .walk = walk, .strides = {width, shape[1] * width, int64_t{1}}};
  walk.resize(shape.size());
  return Array::real(walk, turn.apply<double>(array.to_reals())).to(array.type());
}

}  // namespace

namespace {

// Returns the extent with `value` substituted for `symbols`.
Extent with_symbols(const Extent& extent, const std::set<std::string>& symbols, int64_t value) {
  Extent known = extent;
  for (const std::string& symbol : symbols) {
    if (known.symbol == symbol) return {.size = value};
    const std::string begin = fmt::format("Symbol('{}'", symbol);
    for (size_t at = known.symbol.find(begin); at != std::string::npos;
         at = known.symbol.find(begin)) {
      const size_t end = std::min(known.symbol.find(')', at), known.symbol.size() - 1);
      known.symbol.replace(at, end - at + 1, fmt::format("Integer({})", value));
    }
  }
  if (known == extent) return extent;
  const auto size = evaluate_size(known.symbol, [](std::string_view) { return std::nullopt; });
  return size ? Extent{.size = *size} : known;
}

// Repeats or slices the rows along dimension `d` until there are `rows`.
Array with_rows(const Array& array, size_t d, int64_t rows) {
  Shape shape = array.shape();
  size_t inner = 1;
  for (size_t i = d + 1; i < shape.size(); ++i) inner *= static_cast<size_t>(shape[i]);
  const auto given = static_cast<size_t>(shape[d]), wanted = static_cast<size_t>(rows);
  shape[d] = rows;
  const Array::Reals from = array.to_reals();
  Array::Reals taken(elements_of(shape));
  for (size_t i = 0; i < taken.size(); ++i) {
    const size_t outer = i / inner / wanted, row = i / inner % wanted % given;
    taken[i] = from[(outer * given + row) * inner + i % inner];
  }
  return Array::real(std::move(shape), std::move(taken)).to(array.type());
}

// Returns the symbols of dimension `dim` that stand for the number of sequences: those of the first
// input that has some, and those of other inputs that occur in no other dimension.
std::set<std::string> symbols_of_sequences(const ExportedProgram& program, size_t dim) {
  const auto other_symbols = [&](const ExportedInput& input) {
    std::set<std::string> found;
    const std::vector<Extent>& sizes = program.values[input.value].sizes;
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (d != dim) found.merge(symbols_in(sizes[d]));
    }
    return found;
  };
  std::set<std::string> all_others, found;
  for (const ExportedInput* input : program.user_inputs()) all_others.merge(other_symbols(*input));
  for (const ExportedInput* input : program.user_inputs()) {
    const std::vector<Extent>& sizes = program.values[input->value].sizes;
    if (sizes.size() < 2) continue;
    const std::set<std::string> others = found.empty() ? other_symbols(*input) : all_others;
    for (const std::string& symbol : symbols_in(sizes[dim])) {
      if (!others.contains(symbol)) found.insert(symbol);
    }
  }
  return found;
}

}  // namespace

FewSequences with_sequences(const ExportedProgram& program, size_t dim) {
  const std::set<std::string> symbols = symbols_of_sequences(program, dim);
  if (symbols.empty()) return {};
  std::set<int64_t> taken;  // extents of dimensions
  for (const ExportedInput* input : program.user_inputs()) {
    for (const Extent& extent : program.values[input->value].sizes) taken.insert(extent.size);
  }
  int64_t value = 2;
  while (taken.contains(value)) ++value;
  ExportedProgram fixed = program;
  fixed.has_any_batch = true;
  for (ExportedValue& each : fixed.values) {
    for (Extent& extent : each.sizes) extent = with_symbols(extent, symbols, value);
  }
  // Drops guards that depend on the number of sequences only.
  std::erase_if(fixed.guards, [&](const SizeGuard& guard) {
    return !guard.sizes.empty() && std::ranges::all_of(guard.sizes, [&](const Extent& size) {
      return !size.is_fixed() && with_symbols(size, symbols, value).is_fixed();
    });
  });
  std::optional<Extent> sequences;
  int64_t other = 0;
  const std::vector<const ExportedInput*> inputs = program.user_inputs();
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::vector<Extent>& given = program.values[inputs[i]->value].sizes;
    for (size_t d = 0; d < given.size(); ++d) {
      const Extent& now = fixed.values[inputs[i]->value].sizes[d];
      if (now == given[d]) continue;
      if (d == dim && !sequences) {
        sequences = now;
        other = with_symbols(given[d], symbols, value + 1).size;
      }
      if (!fixed.sample_inputs.empty()) {
        fixed.sample_inputs[i] = with_rows(fixed.sample_inputs[i], d, now.size);
      }
    }
  }
  if (dim == 1) return {sequences_first(fixed, sequences), other};
  return {std::make_shared<const ExportedProgram>(std::move(fixed)), other};
}

std::shared_ptr<const ExportedProgram> sequences_first(const ExportedProgram& program,
                                                       std::optional<Extent> known) {
  ExportedProgram turned = program;
  const std::vector<const ExportedInput*> inputs = program.user_inputs();
  std::vector<Call> before;
  std::optional<Extent> sequences = known;
  for (size_t i = 0; i < inputs.size(); ++i) {
    ExportedValue own = program.values[inputs[i]->value];
    const size_t rank = is_real(own.type) ? 3 : 2;
    if (own.type == ElementType::kBool || own.sizes.size() != rank) continue;
    if (known && own.sizes[1] != *known) continue;
    // Unless `known` is given, fewer sequences than tokens are assumed.
    const bool are_more =
        known || !own.sizes[0].is_fixed() || own.sizes[0].size > own.sizes[1].size;
    const bool fits = own.sizes[1].is_fixed() && own.sizes[1].size > 1 && are_more &&
                      sequences.value_or(own.sizes[1]) == own.sizes[1];
    if (!fits) return nullptr;
    sequences = own.sizes[1];
    std::swap(own.sizes[0], own.sizes[1]);
    const auto value = static_cast<uint32_t>(turned.values.size());
    turned.values.push_back(own);
    std::ranges::find(turned.inputs, inputs[i]->value, &ExportedInput::value)->value = value;
    before.push_back(transposed_rows(value, inputs[i]->value));
    if (!turned.sample_inputs.empty()) {
      turned.sample_inputs[i] = transposed_rows(turned.sample_inputs[i]);
    }
  }
  if (before.empty()) return nullptr;
  turned.nodes.insert(turned.nodes.begin(), before.begin(), before.end());
  for (Argument& output : turned.outputs) {
    const ValueRef* const given = output.as<ValueRef>();
    if (given == nullptr) continue;
    ExportedValue own = turned.values[given->value];
    const bool is_turned =
        own.sizes.size() > 1 && own.sizes[1] == *sequences && own.sizes[0] != *sequences;
    if (!is_turned) continue;
    std::swap(own.sizes[0], own.sizes[1]);
    const auto value = static_cast<uint32_t>(turned.values.size());
    turned.nodes.push_back(transposed_rows(given->value, value));
    turned.values.push_back(std::move(own));
    output = ValueRef{value};
  }
  return std::make_shared<const ExportedProgram>(std::move(turned));
}

InputsSideBySide inputs_side_by_side(const ExportedProgram& program, Columns kind) {
  InputsSideBySide joined = joined_inputs(program, kind);
  if (joined.program || kind != Columns::kIds) return joined;
  return joined_inputs(program, Columns::kOneInput);
}

std::vector<Interpretation> interpretations_of(
    const std::shared_ptr<const ExportedProgram>& program) {
  std::vector<Interpretation> interpretations;
  const auto add = [&](std::shared_ptr<const ExportedProgram> read, const std::string& words,
                       bool is_turned, int64_t other_sequences) {
    if (read == nullptr) return;
    for (InputMeaning& meaning : possible_meanings(*read)) {
      meaning.other_sequences = other_sequences;
      interpretations.push_back({read, std::move(meaning), words, is_turned});
    }
  };
  for (const auto& [read, other] : {with_sequences(*program, 0), FewSequences{program}}) {
    if (read == nullptr) continue;
    add(read, "", false, other);
    for (const Columns kind : {Columns::kFeatures, Columns::kIds, Columns::kMasks}) {
      const InputsSideBySide beside = inputs_side_by_side(*read, kind);
      add(beside.program, beside.words, false, other);
    }
    if (other == 0)
      add(sequences_first(*read), "", true, 0);  // otherwise sequences are first already
  }
  const FewSequences second = with_sequences(*program, 1);
  add(second.program, "", true, second.other);
  for (size_t i = 0, count = interpretations.size(); i < count; ++i) {
    Interpretation other = interpretations[i];
    const auto meaning = with_marks(*other.program, other.meaning);
    if (!meaning) continue;
    other.meaning = *meaning;
    interpretations.push_back(std::move(other));
  }
  return interpretations;
}

}  // namespace arenite::convert
