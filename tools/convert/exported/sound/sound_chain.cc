// SPDX-License-Identifier: Apache-2.0
// Rules for samples, spectra, bands and logarithms.
#include "convert/exported/sound/sound_chain.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "convert/exported/aten/movement.h"
#include "convert/exported/aten/op_rules.h"
#include "convert/exported/sound/sound_labels.h"

namespace arenite::convert {
namespace {

constexpr uint64_t kSoundElementsMax = uint64_t{1} << 25;  // labels of all values

bool is_energy(const SoundValue& value) {
  return value.stage == SoundStage::kSpectrum || value.stage == SoundStage::kBands;
}

const char* why_not_read(SoundStage stage) {
  switch (stage) {
    case SoundStage::kSamples:
      return "it reads samples that are not in frames of a Fourier transform";
    case SoundStage::kComplex:
    case SoundStage::kParts:
    case SoundStage::kSquares:
      return "it reads parts of a Fourier transform, such as phases: expected its magnitudes or "
             "powers only";
    default:
      return "the sound front end has no such step";
  }
}

[[noreturn]] void refuse(const Call& node, const SoundValue& reads) {
  node.refuse("{}", why_not_read(reads.stage));
}

SoundValue with_labels(const SoundValue& from, SoundStage stage, Shape shape, Array::Reals labels) {
  SoundValue made = from;
  made.stage = stage;
  made.weights.reset();
  made.labels = Array::real(std::move(shape), std::move(labels), ElementType::kF64);
  return made;
}

Array transposed(const Array& matrix, OpBudget& budget) {
  return apply_for_array({.op = "mT", .arguments = {{"self", matrix}}}, budget);
}

}  // namespace

SoundChain::SoundChain(const ExportedProgram& program, uint32_t input, const Shape& shape)
    : program_(program), samples_(shape.back()) {
  budget_.elements = budget_.live_elements = kSoundElementsMax;
  const size_t elements = elements_of(shape);
  sounds_ = samples_ == 0 ? 0 : static_cast<int64_t>(elements) / samples_;
  budget_.take_elements(elements);
  Array::Reals labels(elements);
  for (size_t i = 0; i < elements; ++i) labels[i] = static_cast<double>(i + 1);
  values_[input].labels = Array::real(shape, std::move(labels), ElementType::kF64);
  for (const Call& node : program.nodes) step(node);
}

const SoundValue* SoundChain::find(uint32_t value) const {
  const auto found = values_.find(value);
  return found == values_.end() ? nullptr : &found->second;
}

std::string SoundChain::why_not(const Call& node) const {
  const auto found = why_not_.find(&node);
  return found == why_not_.end() ? "" : found->second;
}

void SoundChain::step(const Call& node) {
  for (const uint32_t value : node.outputs) makers_[value] = &node;
  const SoundValue* reads = nullptr;
  for_each<ValueRef>(node, [&](ValueRef ref) {
    if (const SoundValue* found = find(ref.value)) reads = found;
  });
  if (reads == nullptr || node.outputs.empty() || is_one_of(node.op, {"sym_size", "sym_numel"}))
    return;
  try {
    const Follow rule = rule_of(node);
    if (rule == nullptr) refuse(node, *reads);
    Values made = (this->*rule)(node);
    if (made.size() < node.outputs.size()) refuse(node, *reads);
    for (size_t i = 0; i < node.outputs.size(); ++i) values_[node.outputs[i]] = std::move(made[i]);
  } catch (const InputError& error) {
    why_not_[&node] = error.what();
  }
}

SoundChain::Follow SoundChain::rule_of(const Call& node) {
  struct Rule {
    std::vector<std::string_view> ops;
    Follow follow;
  };
  static const std::vector<Rule> kRules = {
      {{"pad", "constant_pad_nd", "reflection_pad1d"}, &SoundChain::padded},
      {{"mul", "div", "multiply", "divide"}, &SoundChain::times},
      {{"add", "sub"}, &SoundChain::plus},
      {{"pow", "square"}, &SoundChain::power},
      {{"sqrt"}, &SoundChain::root},
      {{"abs"}, &SoundChain::absolute},
      {{"real", "imag", "view_as_real"}, &SoundChain::part},
      {{"sum"}, &SoundChain::sum},
      {{"log", "log2", "log10", "log1p"}, &SoundChain::logarithm},
      {{"clamp", "clamp_min", "clip", "maximum"}, &SoundChain::larger},
      {{"amax"}, &SoundChain::peak},
      {{"matmul", "mm", "bmm", "linear"}, &SoundChain::product},
      {{"stft"}, &SoundChain::transform},
      {{"_fft_r2c", "fft_rfft"}, &SoundChain::transform_of_frames},
      {{"conv1d", "convolution"}, &SoundChain::convolution}};
  if (node.op == "max") return node.has("other") ? &SoundChain::larger : &SoundChain::peak;
  for (const Rule& rule : kRules) {
    if (std::ranges::find(rule.ops, node.op) != rule.ops.end()) return rule.follow;
  }
  return moves_elements(node.op) ? &SoundChain::moved : nullptr;
}

// ---- operands ----

const SoundValue* SoundChain::chain(const Call& node, std::string_view name) const {
  const Argument* argument = node.find(name);
  const ValueRef* ref = argument == nullptr ? nullptr : argument->as<ValueRef>();
  return ref == nullptr ? nullptr : find(ref->value);
}

const SoundValue& SoundChain::operand(const Call& node, std::string_view name) const {
  const SoundValue* found = chain(node, name);
  if (found == nullptr) node.refuse("argument '{}' does not depend on the samples", name);
  return *found;
}

// Evaluates a constant. Throws InputError if it depends on the samples' values; it may depend on
// their number.
Argument SoundChain::constant(uint32_t value) {
  const auto known = constants_.find(value);
  if (known != constants_.end()) return known->second;
  refuse_if(find(value) != nullptr,
            "it reads a second value that depends on samples: expected one");
  const Level level;
  const auto maker = makers_.find(value);
  if (maker == makers_.end()) {
    const auto input = std::ranges::find(program_.inputs, value, &ExportedInput::value);
    refuse_if(input == program_.inputs.end() || input->kind == InputKind::kUser,
              "it reads another input: expected samples only");
    return constants_[value] = program_.load(*input);
  }
  const Call& node = *maker->second;
  const bool is_size = node.op == "sym_size" && chain(node, "self") != nullptr;
  if (is_size) {
    const Shape& shape = chain(node, "self")->labels.shape();
    return constants_[value] = shape[node.dimension("dim", 0, shape.size())];
  }
  const std::vector<Argument> made =
      apply_op(bind<ValueRef>(node, [&](ValueRef ref) { return constant(ref.value); }), budget_);
  for (size_t i = 0; i < std::min(made.size(), node.outputs.size()); ++i) {
    constants_[node.outputs[i]] = made[i];
  }
  const auto found = constants_.find(value);
  if (found == constants_.end()) node.refuse("it has fewer results than are read");
  return found->second;
}

// Whether the argument depends on a trained weight.
bool SoundChain::is_learned(const Argument& argument) const {
  bool is_any = false;
  for_each<ValueRef>(argument, [&](ValueRef ref) {
    const Level level;
    const auto maker = makers_.find(ref.value);
    const auto input = std::ranges::find(program_.inputs, ref.value, &ExportedInput::value);
    is_any = is_any || (input != program_.inputs.end() && input->kind == InputKind::kParameter);
    if (maker == makers_.end() || maker->second->op == "sym_size") return;
    for (const NamedArgument& of : maker->second->arguments) {
      is_any = is_any || is_learned(of.value);
    }
  });
  return is_any;
}

// Binds the call to labels and constants.
Call SoundChain::bound(const Call& node, const Array& labels) {
  return bind<ValueRef>(node, [&](ValueRef ref) {
    return find(ref.value) != nullptr ? Argument(labels) : constant(ref.value);
  });
}

Array SoundChain::array(const Call& node, std::string_view name) {
  const Call one =
      bind<ValueRef>(Call{.op = node.op, .arguments = {{std::string(name), node.argument(name)}}},
                     [&](ValueRef ref) { return constant(ref.value); });
  if (const auto* found = one.arguments[0].value.as<Array>()) return *found;
  return Array::real({}, {one.real(name)});
}

// Returns a number, or the common value of an array of at most `rank_max` dimensions.
std::optional<double> SoundChain::number(const Call& node, std::string_view name, size_t rank_max) {
  const Array found = array(node, name);
  const Array::Reals numbers = found.to_reals();
  const bool is_one = found.rank() <= rank_max && !numbers.empty() &&
                      std::ranges::count(numbers, numbers[0]) == std::ssize(numbers) &&
                      std::isfinite(numbers[0]);
  return is_one ? std::optional(numbers[0]) : std::nullopt;
}

// ---- ops that move elements ----

SoundChain::Values SoundChain::moved(const Call& node) {
  size_t operands = 0;
  const SoundValue* any = nullptr;
  for_each<ValueRef>(node, [&](ValueRef ref) {
    const SoundValue* found = find(ref.value);
    if (found != nullptr) any = found, ++operands;
  });
  const bool is_alone = chain(node, "self") == any || chain(node, "input") == any;
  const SoundValue& from = *any;
  if (!is_alone) refuse(node, from);
  const Call call = bound(node, from.labels);
  const bool is_real_still = !node.type("dtype") || is_real(*node.type("dtype"));
  if (operands != 1 || !is_real_still || moved_arrays(call).size() != 1) refuse(node, from);
  const std::vector<Argument> labels = apply_op(call, budget_);
  std::vector<Argument> weights;
  if (from.weights) weights = apply_op(bound(node, *from.weights), budget_);
  Values made(labels.size(), from);
  for (size_t i = 0; i < made.size(); ++i) {
    made[i].labels = *labels[i].as<Array>();
    const bool is_padded = std::ranges::count(made[i].labels.reals(), 0.0) != 0;
    if (is_padded && from.stage != SoundStage::kSamples) refuse(node, from);
    if (from.weights) made[i].weights = *weights[i].as<Array>();
  }
  return made;
}

SoundChain::Values SoundChain::padded(const Call& node) {
  const SoundValue& from = operand(node);
  const std::string mode =
      node.op == "reflection_pad1d" ? "reflect" : node.text("mode", "constant");
  if (mode == "constant" && node.real("value", 0.0) == 0.0) return moved(node);
  const Call call = bound(node, from.labels);
  const std::vector<int64_t> pad = call.integers(call.has("pad") ? "pad" : "padding");
  const int64_t count = from.labels.shape().back();
  const bool fits =
      pad.size() == 2 && pad[0] >= 0 && pad[1] >= 0 && std::max(pad[0], pad[1]) < count;
  if (mode != "reflect" || !fits || from.weights || from.stage != SoundStage::kSamples) {
    node.refuse("it pads samples neither with zeros nor by reflection");
  }
  Shape shape = from.labels.shape();
  shape.back() += pad[0] + pad[1];
  budget_.take_elements(elements_of(shape));
  const Array::Reals& labels = from.labels.reals();
  Array::Reals made;
  for (size_t row = 0; row < labels.size(); row += static_cast<size_t>(count)) {
    for (int64_t i = -pad[0]; i < count + pad[1]; ++i) {
      const int64_t at = i < 0 ? -i : i < count ? i : 2 * (count - 1) - i;
      made.push_back(labels[row + static_cast<size_t>(at)]);
    }
  }
  return {with_labels(from, from.stage, shape, std::move(made))};
}

// ---- arithmetic ----

SoundChain::Values SoundChain::times(const Call& node) {
  const SoundValue *a = chain(node, "self"), *b = chain(node, "other");
  if (a != nullptr && a == b && node.op.starts_with("mul")) return power(node);
  const SoundValue& from = operand(node, a != nullptr ? "self" : "other");
  const bool divides = node.op.starts_with("div");
  if ((a != nullptr && b != nullptr) || (divides && a == nullptr) || node.has("rounding_mode")) {
    refuse(node, from);
  }
  const char* const name = a != nullptr ? "other" : "self";
  const auto given = number(node, name, from.labels.rank());
  if (!given && !divides && from.stage == SoundStage::kSamples) {
    return windowed(node, from, array(node, name));
  }
  const double by = !given ? 0.0 : divides ? 1.0 / *given : *given;
  const bool is_signed = from.stage <= SoundStage::kParts ||
                         (from.stage == SoundStage::kLogarithms && from.range == 0.0);
  if (!std::isfinite(by) || by == 0.0 || (by < 0.0 && !is_signed) ||
      from.stage >= SoundStage::kPeak) {
    refuse(node, from);
  }
  SoundValue made = from;
  if (from.stage == SoundStage::kLogarithms) {
    for (double* each : {&made.factor, &made.offset, &made.range}) *each *= by;
  } else {
    for (double* each : {&made.scale, &made.floor, &made.added}) *each *= by;
  }
  return {made};
}

SoundChain::Values SoundChain::windowed(const Call& node, const SoundValue& from, const Array& by) {
  if (!is_real(by.type())) refuse(node, from);
  const Shape shape = broadcast(from.labels.shape(), by.shape());
  budget_.take_elements(4 * elements_of(shape));
  SoundValue made = from;
  made.labels = stretched(from.labels, shape);
  Array::Reals weights = stretched(by, shape).to_reals();
  if (from.weights) {
    const Array before = stretched(*from.weights, shape);
    for (size_t i = 0; i < weights.size(); ++i) weights[i] *= before.reals()[i];
  }
  made.weights = Array::real(shape, std::move(weights), ElementType::kF64);
  return {made};
}

SoundChain::Values SoundChain::plus(const Call& node) {
  const SoundValue *a = chain(node, "self"), *b = chain(node, "other");
  const double alpha = node.real("alpha", 1.0);
  const bool subtracts = node.op == "sub";
  if (a != nullptr && b != nullptr && alpha == 1.0 && !subtracts) {
    return add_squares(node, *a, *b);
  }
  const SoundValue& from = operand(node, a != nullptr ? "self" : "other");
  if ((a != nullptr && b != nullptr) || (a == nullptr && (subtracts || alpha != 1.0))) {
    refuse(node, from);
  }
  const auto given = number(node, a != nullptr ? "other" : "self", from.labels.rank());
  if (!given) refuse(node, from);
  const double by = *given * (subtracts ? -alpha : alpha);
  SoundValue made = from;
  if (by == 0.0) return {made};
  if (from.stage == SoundStage::kLogarithms) {
    made.offset += by;
  } else if (from.stage == SoundStage::kPeak) {
    made.range -= by;
  } else if (is_energy(from) && by > 0.0 && from.floor == 0.0 && from.added == 0.0) {
    made.stage = SoundStage::kBands;
    made.added = by;
  } else {
    refuse(node, from);
  }
  return {made};
}

// Handles x ** 2, x * x and x ** 0.5.
SoundChain::Values SoundChain::power(const Call& node) {
  const SoundValue& from = operand(node);
  const auto exponent = node.op == "pow" ? number(node, "exponent", 0) : 2.0;
  if (exponent == 1.0) return {from};
  if (exponent == 0.5) return root(node);
  SoundValue made = from;
  made.scale *= from.scale;
  if (exponent == 2.0 && from.stage == SoundStage::kParts) {
    made.stage = SoundStage::kSquares;
  } else if (exponent == 2.0 && from.stage == SoundStage::kSpectrum && from.is_magnitude) {
    made.is_magnitude = false;
  } else {
    refuse(node, from);
  }
  return {made};
}

SoundChain::Values SoundChain::root(const Call& node) {
  SoundValue made = operand(node);
  if (made.stage != SoundStage::kSpectrum || made.is_magnitude) refuse(node, made);
  made.scale = std::sqrt(made.scale);
  made.is_magnitude = true;
  return {made};
}

SoundChain::Values SoundChain::absolute(const Call& node) {
  const SoundValue& from = operand(node);
  if (is_energy(from)) return {from};
  if (from.stage != SoundStage::kComplex) refuse(node, from);
  Array::Reals labels = from.labels.reals();
  for (double& label : labels) {
    const int64_t bin = kernels_[static_cast<size_t>(place_of(label))].bin;
    label = label_of(frame_of(label), bin);
  }
  SoundValue made =
      with_labels(from, SoundStage::kSpectrum, from.labels.shape(), std::move(labels));
  made.scale = std::abs(from.scale);
  made.is_magnitude = true;
  return {made};
}

SoundChain::Values SoundChain::part(const Call& node) {
  const SoundValue& from = operand(node);
  if (from.stage != SoundStage::kComplex) refuse(node, from);
  Shape shape = from.labels.shape();
  if (node.op == "view_as_real") shape.push_back(2);
  budget_.take_elements(elements_of(shape));
  Array::Reals labels;
  for (const double label : from.labels.reals()) {
    if (node.op != "imag") labels.push_back(label);
    if (node.op != "real") labels.push_back(label + 1.0);
  }
  return {with_labels(from, SoundStage::kParts, shape, std::move(labels))};
}

// Adds the squares of the real and imaginary parts along a dimension of extent 2.
SoundChain::Values SoundChain::sum(const Call& node) {
  const SoundValue& from = operand(node);
  const Shape& shape = from.labels.shape();
  const std::vector<int64_t> dims = node.has("dim") ? node.integers("dim") : std::vector<int64_t>{};
  if (dims.size() != 1 || node.has("dtype")) refuse(node, from);
  const size_t dim = node.dimension(dims[0], shape.size());
  if (from.stage != SoundStage::kSquares || shape[dim] != 2) refuse(node, from);
  const auto half = [&](int64_t index) {
    SoundValue made = from;
    const auto number = static_cast<int64_t>(dim);
    made.labels = apply_for_array({.op = node.flag("keepdim", false) ? "narrow" : "select",
                                   .arguments = {{"self", from.labels},
                                                 {"dim", number},
                                                 {"index", index},
                                                 {"start", index},
                                                 {"length", int64_t{1}}}},
                                  budget_);
    return made;
  };
  return add_squares(node, half(0), half(1));
}

SoundChain::Values SoundChain::add_squares(const Call& node, const SoundValue& a,
                                           const SoundValue& b) {
  const bool are_squares = a.stage == SoundStage::kSquares && b.stage == SoundStage::kSquares;
  if (!are_squares || a.scale != b.scale || a.labels.shape() != b.labels.shape()) refuse(node, a);
  const Array::Reals &real = a.labels.reals(), &imaginary = b.labels.reals();
  const auto pair_at = [&](size_t i) {
    return Pair(static_cast<size_t>(place_of(real[i])),
                static_cast<size_t>(place_of(imaginary[i])));
  };
  std::set<Pair> pairs;
  for (size_t i = 0; i < real.size(); ++i) {
    if (frame_of(real[i]) != frame_of(imaginary[i])) refuse(node, a);
    pairs.insert(pair_at(i));
  }
  if (pairs.empty()) refuse(node, a);
  pair_kernels(node, pairs);
  Array::Reals labels(real.size());
  SoundValue made = a;
  for (size_t i = 0; i < real.size(); ++i) {
    const Bin& bin = bins_.at(pair_at(i));
    made.transform = bin.transform;
    labels[i] = label_of(frame_of(real[i]), bin.number);
  }
  return {with_labels(made, SoundStage::kSpectrum, a.labels.shape(), std::move(labels))};
}

// ---- bands and logarithms ----

SoundChain::Values SoundChain::logarithm(const Call& node) {
  SoundValue made = operand(node);
  if (!is_energy(made)) refuse(node, made);
  if (node.op == "log1p" && made.floor == 0.0 && made.added == 0.0) {
    made.added = 1.0;
  } else if (node.op == "log1p") {
    refuse(node, made);
  }
  if (made.floor == 0.0 && made.added == 0.0) {
    refusal_ =
        node.describe() +
        ": the logarithm of silence is -infinity: use clamp(min), or add a constant before it";
    refuse(node, made);
  }
  made.stage = SoundStage::kLogarithms;
  made.factor = node.op == "log2"    ? 1.0 / std::numbers::ln2
                : node.op == "log10" ? 1.0 / std::numbers::ln10
                                     : 1.0;
  return {made};
}

// Handles maximum: clamps energies at a number, or logarithms at the peak minus its range.
SoundChain::Values SoundChain::larger(const Call& node) {
  const SoundValue *a = chain(node, "self"), *b = chain(node, "other");
  const SoundValue& from = operand(node, a != nullptr ? "self" : "other");
  if (a != nullptr && b != nullptr) {
    return a->stage == SoundStage::kPeak ? ranged(node, *b, *a) : ranged(node, *a, *b);
  }
  const bool is_clamp = node.op.starts_with("cl");
  const auto least = number(node,
                            is_clamp       ? "min"
                            : a != nullptr ? "other"
                                           : "self",
                            from.labels.rank());
  if (!least || (is_clamp && node.has("max")) || !is_energy(from)) refuse(node, from);
  if (*least <= 0.0) return {from};
  if (from.floor != 0.0 || from.added != 0.0) refuse(node, from);
  SoundValue made = from;
  made.stage = SoundStage::kBands;
  made.floor = *least;
  return {made};
}

SoundChain::Values SoundChain::peak(const Call& node) {
  const SoundValue& from = operand(node);
  if (from.stage != SoundStage::kLogarithms || from.range != 0.0) refuse(node, from);
  const int64_t frames = transforms_[from.transform].frames;
  Array::Reals sounds;
  for (const double label : from.labels.reals()) {
    sounds.push_back(static_cast<double>(1 + frame_of(label) / frames));
  }
  const Array of = Array::real(from.labels.shape(), std::move(sounds), ElementType::kF64);
  const auto reduced = [&](const char* op) {
    Call call = bound(node, of);
    call.op = op;
    std::erase_if(call.arguments, [](const NamedArgument& argument) {
      return !is_one_of(argument.name, {"self", "dim", "keepdim"});
    });
    if (const auto dim = call.find("dim"); dim == nullptr || node.integers("dim").empty()) {
      std::erase_if(call.arguments, [](const NamedArgument& a) { return a.name == "dim"; });
      Argument::List all;
      for (size_t d = 0; d < of.rank(); ++d) all.emplace_back(static_cast<int64_t>(d));
      call.arguments.push_back({"dim", all});
    }
    return apply_for_array(call, budget_);
  };
  SoundValue made = from;
  made.stage = SoundStage::kPeak;
  made.labels = reduced("amax");
  made.elements = from.labels.elements();
  const bool is_of_one = made.labels.reals() == reduced("amin").reals();
  if (!is_of_one || made.labels.elements() != static_cast<size_t>(sounds_) ||
      node.outputs.size() != 1) {
    node.refuse(
        "the maximum is not over one whole sound: export the model for one sound, or take it "
        "within each");
  }
  return {made};
}

SoundChain::Values SoundChain::ranged(const Call& node, const SoundValue& from,
                                      const SoundValue& peak) {
  const bool fits = from.stage == SoundStage::kLogarithms && peak.stage == SoundStage::kPeak &&
                    from.range == 0.0 && peak.range > 0.0 && from.factor > 0.0 &&
                    from.transform == peak.transform && from.bands == peak.bands &&
                    from.scale == peak.scale && from.factor == peak.factor &&
                    from.offset == peak.offset && from.floor == peak.floor &&
                    from.added == peak.added && from.labels.elements() == peak.elements;
  const Shape& shape = from.labels.shape();
  if (!fits || broadcast(shape, peak.labels.shape()) != shape) refuse(node, from);
  const Array of = stretched(peak.labels, shape);
  const int64_t frames = transforms_[from.transform].frames;
  for (size_t i = 0; i < of.elements(); ++i) {
    const int64_t sound = frame_of(from.labels.reals()[i]) / frames;
    if (static_cast<int64_t>(of.reals()[i]) != 1 + sound) refuse(node, from);
  }
  SoundValue made = from;
  made.range = peak.range;
  made.elements = peak.elements;
  return {made};
}

// Handles a product with an untrained matrix: bins to bands, or logarithms to coefficients.
SoundChain::Values SoundChain::product(const Call& node) {
  const bool is_linear = node.op == "linear", is_matmul = node.op == "matmul";
  const char* const first = is_linear ? "input" : "self";
  const char* const second = is_linear ? "weight" : is_matmul ? "other" : "mat2";
  const bool is_left = chain(node, first) != nullptr;  // labels @ matrix
  const SoundValue& from = operand(node, is_left ? first : second);
  const char* const name = is_left ? second : first;
  const bool makes_bands = from.stage == SoundStage::kSpectrum;
  if ((!makes_bands && from.stage != SoundStage::kLogarithms) || node.has("bias") ||
      chain(node, name) != nullptr || is_learned(node.argument(name))) {
    refuse(node, from);
  }
  Array matrix = array(node, name);
  Array labels = is_left ? from.labels : transposed(from.labels, budget_);
  if (is_left && !is_linear) matrix = transposed(matrix, budget_);  // now [results, columns]
  const Shape& shape = labels.shape();
  if (matrix.rank() < 2 || matrix.rank() > shape.size() || matrix.shape().back() != shape.back() ||
      !is_real(matrix.type())) {
    refuse(node, from);
  }
  // If there are several matrices, all must be equal.
  const auto results = static_cast<size_t>(matrix.shape()[matrix.rank() - 2]);
  const auto columns = static_cast<size_t>(shape.back());
  const Array::Reals weights = matrix.to_reals();
  const size_t size = results * columns;
  const bool has_negative = std::ranges::any_of(weights, [](double w) { return !(w >= 0.0); });
  if (makes_bands && has_negative) refuse(node, from);  // negative energies
  for (size_t i = size; i < weights.size(); ++i) {
    if (weights[i] != weights[i - size]) refuse(node, from);
  }
  const Array::Reals& rows = labels.reals();
  if (size == 0 || rows.empty()) refuse(node, from);
  const int64_t start = place_of(rows[0]);
  budget_.take_elements(rows.size() / columns * results);
  Array::Reals made;
  for (size_t row = 0; row < rows.size(); row += columns) {
    for (size_t j = 0; j < columns; ++j) {
      const auto place = start + static_cast<int64_t>(j);
      if (rows[row + j] != label_of(frame_of(rows[row]), place)) refuse(node, from);
    }
    for (size_t j = 0; j < results; ++j) {
      made.push_back(label_of(frame_of(rows[row]), static_cast<int64_t>(j)));
    }
  }
  size_t inputs = from.bands ? from.bands->rows : columns;
  if (makes_bands) inputs = static_cast<size_t>(transforms_[from.transform].points / 2 + 1);
  if (static_cast<size_t>(start) + columns > inputs || results > inputs ||
      (!makes_bands && columns != inputs)) {
    refuse(node, from);
  }
  auto full = std::make_shared<SoundMatrix>(SoundMatrix{results, inputs, {}});
  full->values.resize(results * inputs);
  for (size_t i = 0; i < size; ++i) {
    full->values[i / columns * inputs + static_cast<size_t>(start) + i % columns] = weights[i];
  }
  Shape result = shape;
  result.back() = static_cast<int64_t>(results);
  SoundValue value = with_labels(from, makes_bands ? SoundStage::kBands : SoundStage::kCoefficients,
                                 result, std::move(made));
  if (!is_left) value.labels = transposed(value.labels, budget_);
  (makes_bands ? value.bands : value.cosines) = full;
  return {value};
}

}  // namespace arenite::convert
