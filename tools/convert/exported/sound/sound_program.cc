// SPDX-License-Identifier: Apache-2.0
// Replaces samples by features as the program's input, and rewrites all symbolic sizes from samples
// to frames. A program with fixed sizes keeps them.
#include "convert/exported/sound/sound_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "convert/exported/sound/sound_chain.h"
#include "convert/files/error.h"
#include "convert/files/input_limits.h"

namespace arenite::convert {
namespace {

constexpr uint64_t kSoundArrayMax = uint64_t{1} << 24;
constexpr const char* kFrames = "frames";  // symbol
constexpr uint64_t kStepsPerNode = 256;
constexpr int64_t kSymbolMax = int64_t{1} << 31;
constexpr int64_t kMoreFrames = 3;  // frames that the second inspected length has more

// The number of samples: step * symbol + first, or a fixed number.
struct SampleCount {
  std::string symbol{};  // empty: fixed
  int64_t step = 1, first = 0, traced = 0;
};

SampleCount count_of(const Extent& extent) {
  const auto size = linear_size(extent);
  if (!size || size->step > kHopMax) return {.traced = extent.size};
  return {size->symbol, size->step, size->first, extent.size};
}

class SoundSplitter {
 public:
  SoundSplitter(const ExportedProgram& program, const ExportedInput& input)
      : program_(program), input_(input), made_(program) {}

  SoundProgram split(uint32_t rate) {
    count_ = count_of(samples().sizes.back());
    const SoundChain chain(program_, input_.value, shape_at(count_.traced));
    choose(chain);
    frames_ = found_.frames;
    if (!look_at_other_lengths()) {
      count_.symbol.clear();
      at_frames_ = at_more_ = std::make_shared<SoundChain>(chain);
    }
    put_features();
    replace_sizes();
    drop_unread();
    SoundProgram split = {nullptr, found_.table, {}};
    split.sound.numbers.rate = rate;
    split.words = fmt::format(
        "input {} is sound: the file computes its features as the program does", input_.name);
    split.program = std::make_shared<const ExportedProgram>(std::move(made_));
    return split;
  }

 private:
  const ExportedValue& samples() const { return program_.values[input_.value]; }
  Shape shape_at(int64_t count) const {
    Shape shape = samples().shape();
    shape.back() = count;
    return shape;
  }

  // Returns an op that makes an output depend on samples by a path around `features`; null if there
  // is none.
  const Call* reader_beside(uint32_t features, const SoundChain& chain) const {
    WorkBudget::take(kStepsPerNode * program_.nodes.size());
    std::set<uint32_t> needed;
    for (const Argument& output : program_.outputs) {
      for_each<ValueRef>(output, [&](ValueRef ref) { needed.insert(ref.value); });
    }
    const Call *beside = nullptr, *first = nullptr;
    for (auto node = program_.nodes.rbegin(); node != program_.nodes.rend(); ++node) {
      const auto is_needed = [&](uint32_t value) {
        return value != features && needed.contains(value);
      };
      if (node->op == "sym_size" || std::ranges::none_of(node->outputs, is_needed)) continue;
      for_each<ValueRef>(*node, [&](ValueRef ref) {
        needed.insert(ref.value);
        if (ref.value == features || chain.find(ref.value) == nullptr) return;
        first = &*node;
        if (!chain.why_not(*node).empty()) beside = &*node;
      });
    }
    if (!needed.contains(input_.value)) return nullptr;
    return beside != nullptr ? beside : first;
  }

  // Chooses the last features that all paths from samples to outputs pass through.
  void choose(const SoundChain& chain) {
    refuse_if(!chain.refusal().empty(), "{}, {}", quote(program_.source), chain.refusal());
    for (auto node = program_.nodes.rbegin(); node != program_.nodes.rend(); ++node) {
      for (const uint32_t value : node->outputs) {
        const auto features = chain.features(value);
        if (!features || reader_beside(value, chain) != nullptr) continue;
        features_ = value;
        found_ = *features;
        return;
      }
    }
    const Call* const beside = reader_beside(UINT32_MAX, chain);
    const std::string why = beside == nullptr ? "" : chain.why_not(*beside);
    throw InputError("{}, {}", quote(program_.source),
                     why.empty() ? "no output depends on features of the samples" : why);
  }

  // Whether sizes can be written in frames, which requires that the symbol is linear in the number
  // of frames. Refuses features that depend on the number of samples in another way.
  bool look_at_other_lengths() {
    const auto range = program_.symbols.find(count_.symbol);
    if (range == program_.symbols.end()) return false;
    const SoundNumbers& numbers = found_.table.numbers;
    const int64_t hop = numbers.hop, all = std::lcm(hop, count_.step);
    // Inspect lengths that the symbol can express: the example's frames with as few trailing
    // samples as possible, and more frames.
    const int64_t rest = count_.traced - int64_t{numbers.window} + 2 * int64_t{numbers.padding()};
    const int64_t spare = rest % hop - rest % hop % count_.step;
    const int64_t samples = all == hop ? count_.traced - spare : count_.traced;
    const int64_t step = (kMoreFrames * hop + all - 1) / all * all;
    const auto symbol_of = [&](int64_t of) { return (of - count_.first) / count_.step; };
    int64_t more = samples + step;
    if (range->second.max && symbol_of(more) > *range->second.max) more = samples - step;
    if (symbol_of(more) < range->second.min) return false;
    at_frames_ = chain_of(samples);
    at_more_ = chain_of(more);
    refuse_if(at_frames_ == nullptr || at_more_ == nullptr,
              "{}: features of {} samples are not computed like those of {}",
              quote(program_.source), count_.traced, at_frames_ == nullptr ? samples : more);
    more_ = frames_ + (more - samples) / hop;
    symbol_step_ = hop / count_.step;
    symbol_first_ = symbol_of(samples) - symbol_step_ * frames_;
    const auto frames_of = [&](int64_t symbol) {
      const int64_t of = count_.step * std::clamp(symbol, int64_t{0}, kSymbolMax) + count_.first;
      return static_cast<int64_t>(numbers.frames(static_cast<uint64_t>(std::max<int64_t>(0, of))));
    };
    range_ = {std::max<int64_t>(1, frames_of(range->second.min)), {}};
    if (range->second.max) range_.max = frames_of(*range->second.max);
    return all == hop;
  }

  // Returns the chain for an input of `samples`; null if its features differ.
  std::shared_ptr<SoundChain> chain_of(int64_t samples) const {
    auto chain = std::make_shared<SoundChain>(program_, input_.value, shape_at(samples));
    const auto features = chain->features(features_);
    const SoundNumbers& numbers = found_.table.numbers;
    const bool is_same =
        features && features->is_turned == found_.is_turned &&
        features->frames == static_cast<int64_t>(numbers.frames(static_cast<uint64_t>(samples))) &&
        features->table.filters == found_.table.filters &&
        features->table.tables == found_.table.tables &&
        std::memcmp(&features->table.numbers, &numbers, sizeof numbers) == 0;
    return is_same ? chain : nullptr;
  }

  // ---- the program of features ----

  bool is_dynamic() const { return !count_.symbol.empty(); }

  uint32_t add_value(ExportedValue value) {
    made_.values.push_back(std::move(value));
    return static_cast<uint32_t>(made_.values.size() - 1);
  }
  Argument add_number(const char* op, std::vector<NamedArgument> arguments) {
    const uint32_t value = add_value({.name = "", .kind = ValueKind::kInteger});
    before_.push_back({.op = op, .arguments = std::move(arguments), .outputs = {value}});
    return ValueRef{value};
  }
  Argument size_of_features(int64_t dim) {
    auto& known = sizes_[dim];
    if (known.is_none()) {
      known = add_number("sym_size", {{"self", ValueRef{input_value_}}, {"dim", dim}});
    }
    return known;
  }

  // Substitutes frames for samples in a symbolic size.
  void express_in_frames(Extent& extent) const {
    if (symbols_in(extent).empty()) return;
    if (!is_dynamic()) {
      if (traced_symbol_.empty() || extent.symbol.find(traced_symbol_) == std::string::npos) return;
      extent.symbol.clear();
      return;
    }
    const std::string by = fmt::format("Add(Mul(Integer({}), Symbol('{}')), Integer({}))",
                                       symbol_step_, kFrames, symbol_first_);
    if (extent.symbol == count_.symbol) extent.symbol = by;
    const std::string symbol = fmt::format("Symbol('{}'", count_.symbol);
    for (size_t at = extent.symbol.find(symbol); at != std::string::npos;
         at = extent.symbol.find(symbol, at + by.size())) {
      extent.symbol.replace(at, extent.symbol.find(')', at) + 1 - at, by);
    }
  }

  void put_features() {
    const std::set<std::string> symbols = symbols_in(samples().sizes.back());
    traced_symbol_ = symbols.empty() ? "" : *symbols.begin();
    for (ExportedValue& value : made_.values)
      std::ranges::for_each(value.sizes, [&](Extent& size) { express_in_frames(size); });
    for (SizeGuard& guard : made_.guards)
      std::ranges::for_each(guard.sizes, [&](Extent& size) { express_in_frames(size); });
    const Extent sounds = samples().sizes.size() > 1 ? samples().sizes[0] : Extent{1};
    const Extent frames = {frames_, is_dynamic() ? kFrames : ""};
    const int64_t width = found_.table.numbers.features();
    const std::vector<Extent> sizes = {sounds, frames, {width}};
    const Shape shape = at_frames_->find(features_)->labels.shape();
    const Shape rows = {found_.sounds, frames_, width}, turned = {found_.sounds, width, frames_};
    const bool is_given = shape == rows && !found_.is_turned;
    input_value_ = is_given ? features_ : add_value({.name = "features", .sizes = sizes});
    made_.values[input_value_].sizes = sizes;
    for (ExportedInput& input : made_.inputs) {
      if (input.value == input_.value) input.value = input_value_;
    }
    made_.sample_inputs.clear();
    made_.symbols.erase(traced_symbol_);
    if (is_dynamic()) made_.symbols[kFrames] = range_;
    if (is_given) return;
    Argument rows_of = ValueRef{input_value_};
    if (found_.is_turned) {
      const uint32_t value =
          shape == turned
              ? features_
              : add_value({.name = "features_turned", .sizes = {sounds, {width}, frames}});
      before_.push_back(
          {.op = "transpose",
           .overload = "int",
           .arguments = {{"self", rows_of}, {"dim0", int64_t{1}}, {"dim1", int64_t{2}}},
           .outputs = {value}});
      rows_of = ValueRef{value};
      if (shape == turned) return;
    }
    Argument::List dims;
    for (size_t dim = 0; dim < shape.size(); ++dim) dims.push_back(size_at(features_, dim));
    before_.push_back({.op = "view",
                       .overload = "default",
                       .arguments = {{"self", rows_of}, {"size", dims}},
                       .outputs = {features_}});
  }

  // Expresses a size of a value computed from samples by sizes of the features.
  Argument size_at(uint32_t value, size_t dim) {
    const int64_t size = at_frames_->find(value)->labels.shape()[dim];
    const int64_t more = at_more_->find(value)->labels.shape()[dim];
    const std::vector<Extent>& sizes = program_.values[value].sizes;
    const std::string symbol = dim < sizes.size() ? sizes[dim].symbol : "";
    const std::string sounds = samples().sizes.size() > 1 ? samples().sizes[0].symbol : "";
    if (!sounds.empty() && symbol == sounds) return size_of_features(0);
    const bool has_sounds = !sounds.empty() && symbol.find(sounds) != std::string::npos;
    if (!is_dynamic() || (size == more && !has_sounds)) return size;
    const int64_t step = (more - size) / (more_ - frames_);
    refuse_if(has_sounds || size + step * (more_ - frames_) != more,
              "{}: '{}' has a size that does not follow from the number of frames",
              quote(program_.source), program_.values[value].name);
    const int64_t first = size - step * frames_;
    Argument number = size_of_features(1);
    if (step != 1) number = add_number("_operator.mul", {{"a", number}, {"b", step}});
    if (first != 0) number = add_number("_operator.add", {{"a", number}, {"b", first}});
    return number;
  }

  void replace_sizes() {
    std::vector<Call> kept;
    std::map<uint32_t, Argument> sizes;
    for (const Call& node : program_.nodes) {
      const auto* self = node.find("self") == nullptr ? nullptr : node.find("self")->as<ValueRef>();
      const bool is_size = node.op == "sym_size" && node.outputs.size() == 1 && self != nullptr &&
                           self->value != features_ && at_frames_->find(self->value) != nullptr &&
                           at_more_->find(self->value) != nullptr;
      if (is_size) {
        const size_t rank = at_frames_->find(self->value)->labels.rank();
        sizes[node.outputs[0]] = size_at(self->value, node.dimension("dim", 0, rank));
      } else if (std::ranges::find(node.outputs, features_) == node.outputs.end()) {
        kept.push_back(node);
      }
    }
    const auto size_of = [&](ValueRef ref) {
      const auto found = sizes.find(ref.value);
      return found == sizes.end() ? Argument(ref) : found->second;
    };
    for (Call& node : kept) {
      for (NamedArgument& argument : node.arguments) {
        argument.value = bind<ValueRef>(argument.value, size_of);
      }
    }
    made_.nodes = std::move(before_);
    made_.nodes.insert(made_.nodes.end(), kept.begin(), kept.end());
  }

  void drop_unread() {
    std::set<uint32_t> needed;
    for (const Argument& output : made_.outputs) {
      for_each<ValueRef>(output, [&](ValueRef ref) { needed.insert(ref.value); });
    }
    std::vector<Call> kept;
    for (auto node = made_.nodes.rbegin(); node != made_.nodes.rend(); ++node) {
      const auto is_needed = [&](uint32_t value) { return needed.contains(value); };
      if (std::ranges::none_of(node->outputs, is_needed)) continue;
      for_each<ValueRef>(*node, [&](ValueRef ref) { needed.insert(ref.value); });
      kept.push_back(std::move(*node));
    }
    made_.nodes.assign(std::make_move_iterator(kept.rbegin()),
                       std::make_move_iterator(kept.rend()));
    refuse_if(needed.contains(input_.value),
              "{}: it reads samples in addition to their features: expected features only",
              quote(program_.source));
  }

  const ExportedProgram& program_;
  const ExportedInput& input_;
  ExportedProgram made_;
  SampleCount count_;
  std::string traced_symbol_;
  uint32_t features_ = 0, input_value_ = 0;
  SoundChain::Features found_;
  int64_t frames_ = 0, more_ = 0;  // at the inspected lengths
  std::shared_ptr<SoundChain> at_frames_, at_more_;
  int64_t symbol_step_ = 0, symbol_first_ = 0;
  SymbolRange range_;                  // of frames
  std::map<int64_t, Argument> sizes_;  // of the features
  std::vector<Call> before_;           // nodes before the program's
};

}  // namespace

std::optional<SoundProgram> split_sound(const ExportedProgram& program, uint32_t rate) {
  const bool transforms = std::ranges::any_of(program.nodes, [](const Call& node) {
    return is_one_of(node.op, {"stft", "_fft_r2c", "fft_rfft"});
  });
  if (!transforms && rate == 0) return std::nullopt;
  const std::vector<const ExportedInput*> inputs = program.user_inputs();
  refuse_if(inputs.size() != 1,
            "{}: found {} input tensors: expected samples only, as it computes features of them",
            quote(program.source), inputs.size());
  const ExportedValue& samples = program.values[inputs[0]->value];
  const std::vector<Extent>& sizes = samples.sizes;
  const bool fits = is_real(samples.type) && !sizes.empty() && sizes.size() <= 3 &&
                    (sizes.size() < 3 || (sizes[1].is_fixed() && sizes[1].size == 1)) &&
                    sizes.back().size > 1;
  refuse_if(!fits,
            "{}: found an input {} of {}: expected samples, [sounds, samples], or a full "
            "description by --sound",
            quote(program.source), shape_text(samples.shape()), name(samples.type));
  const WorkBudget budget(kReadingSteps);
  const ElementLimit limit(std::max(kSoundArrayMax, program.largest_weight()));
  SoundProgram split = SoundSplitter(program, *inputs[0]).split(rate);
  refuse_if(rate == 0,
            "{}: it computes features of samples: pass --sound rate=N only, in samples a second",
            quote(program.source));
  return split;
}

}  // namespace arenite::convert
