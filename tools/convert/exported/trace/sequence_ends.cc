// SPDX-License-Identifier: Apache-2.0
// Recognises a lookup of the last token of each sequence, at an index that the program computes
// from the token ids. The model then outputs the last row, and the caller ends sequences at the
// token that the rule gives.
//
//   h[torch.arange(b), (ids != 0).sum(1) - 1]  ->  h[:, -1], rule kCount of id 0
//   h[torch.arange(b), ids.argmax(1)]          ->  h[:, -1], rule kLargest
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>
#include <set>

#include "convert/exported/aten/op_rules.h"
#include "convert/exported/trace/tracer.h"

namespace arenite::convert {
namespace {

constexpr size_t kEndProbes = 24;

// The part of a program that computes an index for each sequence of ids.
struct Places {
  ExportedProgram part;
  Shape shape;  // of the ids, [sequences, tokens]
  ElementType type;
  int64_t vocab_size = 0;

  size_t tokens() const { return static_cast<size_t>(shape[1]); }
  // Returns the index that the part computes if all sequences are `ids`; nullopt if the indices
  // differ.
  std::optional<int64_t> of(const Array::Integers& ids) const {
    Array::Integers all;
    for (int64_t b = 0; b < shape[0]; ++b) all.insert(all.end(), ids.begin(), ids.end());
    const std::vector<Array> given = {Array::integer(shape, std::move(all)).to(type)};
    const Array::Reals places =
        interpret(part, given, interpreting_budget(part, elements_of(shape))).at(0).to_reals();
    const bool are_alike =
        std::ranges::all_of(places, [&](double place) { return place == places[0]; });
    if (places.empty() || !are_alike) return std::nullopt;
    const auto place = static_cast<int64_t>(places[0]);
    return place < 0 ? place + shape[1] : place;
  }
};

// Returns the integer constants of the part that may be token ids.
std::set<int64_t> ids_in(const Places& places) {
  std::set<int64_t> ids;
  const auto add = [&](double number) {
    if (number >= 0.0 && number < static_cast<double>(places.vocab_size) &&
        number == std::floor(number)) {
      ids.insert(static_cast<int64_t>(number));
    }
  };
  for (const Call& node : places.part.nodes) {
    for (const NamedArgument& argument : node.arguments) {
      if (const int64_t* whole = argument.value.as<int64_t>()) add(static_cast<double>(*whole));
      if (const double* real = argument.value.as<double>()) add(*real);
    }
  }
  return ids;
}

// Returns random sequences. Some end in a special id, some contain it, and some do not.
std::vector<Array::Integers> probes_of(const Places& places, const std::set<int64_t>& special) {
  std::mt19937_64 random(19);
  std::vector<Array::Integers> probes(kEndProbes);
  for (size_t i = 0; i < probes.size(); ++i) {
    for (size_t t = 0; t < places.tokens(); ++t) {
      probes[i].push_back(
          static_cast<int64_t>(random() % static_cast<uint64_t>(places.vocab_size)));
    }
    if (special.empty()) continue;
    const int64_t id = *std::next(special.begin(), static_cast<ptrdiff_t>(i % special.size()));
    for (size_t t = random() % places.tokens(); t < places.tokens(); ++t) {
      if (i % 3 == 0 || (i % 3 == 1 && random() % 2 == 0)) probes[i][t] = id;
    }
    // Sequences with no other id are avoided, as programs differ for them.
    if (probes[i][0] == id) probes[i][0] = (id + 1) % places.vocab_size;
    // Other probes do not contain the id, since it could be the largest id of all sequences.
    if (i % 4 == 3) std::ranges::replace(probes[i], id, (id + 1) % places.vocab_size);
  }
  return probes;
}

// Returns the rule that gives the index of the part for all probes; nullopt if no rule or several
// do.
std::optional<SequenceEnd> end_by(const Places& places) {
  if (places.vocab_size < 2 || places.tokens() < 2) return std::nullopt;
  const std::set<int64_t> special = ids_in(places);
  std::vector<SequenceEnd> ends = {{SequenceEnd::Rule::kLargest, 0}};
  for (const int64_t id : special) {
    for (const auto rule : {SequenceEnd::Rule::kCount, SequenceEnd::Rule::kLast,
                            SequenceEnd::Rule::kFirst, SequenceEnd::Rule::kBefore}) {
      ends.push_back({rule, static_cast<uint32_t>(id)});
    }
  }
  for (const Array::Integers& ids : probes_of(places, special)) {
    const std::optional<int64_t> place = places.of(ids);
    std::erase_if(ends, [&](const SequenceEnd& end) {
      return !place || static_cast<int64_t>(end.tokens(ids)) != *place + 1;
    });
  }
  return ends.size() == 1 ? std::optional(ends[0]) : std::nullopt;
}

// Returns the index operand of an op that selects one token of each sequence from [sequences,
// tokens, ..]; nullopt for any other op. `are_sequences` tells whether a value is 0, 1, 2, .. for
// all sequences.
std::optional<uint32_t> places_in(const Call& node,
                                  const std::function<bool(uint32_t)>& are_sequences) {
  const auto value_in = [](const Argument& argument) {
    const ValueRef* const ref = argument.as<ValueRef>();
    return ref != nullptr ? std::optional(ref->value) : std::nullopt;
  };
  if (node.op == "gather") {
    const Argument* const index = node.find("index");
    return index != nullptr && node.integer("dim", 0) == 1 ? value_in(*index) : std::nullopt;
  }
  const Argument* const given = node.op == "index" ? node.find("indices") : nullptr;
  const auto* const list = given != nullptr ? given->as<Argument::List>() : nullptr;
  if (list == nullptr || list->size() != 2) return std::nullopt;
  const auto sequences = value_in((*list)[0]);
  return sequences && are_sequences(*sequences) ? value_in((*list)[1]) : std::nullopt;
}

}  // namespace

Call Tracer::with_last_tokens(const Call& node) {
  if (node.op != "gather" && node.op != "index") return node;
  const auto known = [&](uint32_t value) -> const TracedValue* {
    const auto* const ref = values_[value].as<TracedRef>();
    return ref != nullptr ? &**ref : nullptr;
  };
  const Argument* const given = node.find("self");
  const ValueRef* const of = given != nullptr ? given->as<ValueRef>() : nullptr;
  const TracedValue* const self = of != nullptr ? known(of->value) : nullptr;
  if (self == nullptr || self->is_constant()) return node;
  const Shape shape = shape_of(*self);
  const auto index = places_in(node, [&](uint32_t value) {
    const TracedValue* const sequences = known(value);
    if (sequences == nullptr || !sequences->is_constant()) return false;
    Array::Integers expected(static_cast<size_t>(shape.at(0)));
    std::iota(expected.begin(), expected.end(), 0);
    return array_of(*sequences).to_integers() == expected;
  });
  const TracedValue* const places = index ? known(*index) : nullptr;
  if (places == nullptr || places->is_constant() || shape.size() < 2) return node;
  // The indices must depend on a single input of ids.
  ExportedProgram part = needed_part(*program_, *index);
  std::set<uint32_t> read;
  for (const Call& each : part.nodes) {
    for_each<ValueRef>(each, [&](ValueRef ref) { read.insert(ref.value); });
  }
  const auto inputs = program_->user_inputs();
  std::erase_if(part.inputs, [&](const ExportedInput& input) {
    return std::ranges::count(inputs, input.value, &ExportedInput::value) != 0 &&
           !read.contains(input.value);
  });
  part.outputs = {ValueRef{*index}};
  if (part.user_inputs().size() != 1) return node;
  const uint32_t ids = part.user_inputs()[0]->value;
  const auto number = trace_shape_.number_of(ids);
  if (!number || !trace_shape_.of(*number).reads_tokens()) return node;
  GraphInput& input = builder.graph.inputs[*number];
  const Shape of_ids = trace_shape_.of(*number).input_shape();
  if (of_ids.size() != 2 || shape[0] != of_ids[0] || shape[1] != of_ids[1]) return node;
  const std::optional<SequenceEnd> end =
      end_by({std::move(part), of_ids, program_->values[ids].type, int64_t{input.vocab_size}});
  const bool is_new = input.end.rule == SequenceEnd::Rule::kNone;
  if (!end || (!is_new && input.end != *end)) return node;
  input.end = *end;
  Call last = node;
  const int64_t place = shape[1] - 1;
  if (node.op == "index") {
    last.op = "select";
    last.arguments = {{"self", *given}, {"dim", int64_t{1}}, {"index", place}};
  } else {
    last.op = "slice";
    last.arguments = {{"self", *given}, {"dim", int64_t{1}}, {"start", place}, {"end", place + 1}};
  }
  return last;
}

}  // namespace arenite::convert
