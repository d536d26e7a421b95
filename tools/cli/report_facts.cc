// SPDX-License-Identifier: Apache-2.0
// Groups tensors by the ops that read them, because names in a file need not say their role.
#include "cli/report_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>
#include <unordered_map>

#include "convert/masks/masks.h"
#include "core/targets.h"

namespace arenite::tool {
namespace {

using format::ModelReader;
using format::NumberType;

// RoPE's angles and ALiBi's slopes follow from the config.
bool is_computed(const format::OpView& op, uint32_t number) {
  return (op.kind == format::OpKind::kRope && number == format::RopeOp::kAngles) ||
         (op.kind == format::OpKind::kAttention && number == format::AttentionOp::kTerms &&
          op.choice<ScoreTerms>(format::AttentionOp::kTermsBy) == ScoreTerms::kSlopes);
}

void add_places(ReportFacts& facts) {
  const ModelFacts& model = facts.model;
  for (const TensorFacts& tensor : model.tensors) {
    facts.places.push_back({tensor.name, tensor.shape.type});
    facts.places.back().bytes = tensor.packed_bytes;
  }
  for (uint32_t index = 0; index < model.ops.size(); ++index) {
    const format::OpView& op = model.ops[index].op;
    const format::OpRow& row = format::row_of(op.kind);
    for (uint32_t i = 0; i < format::kOpNumbers; ++i) {
      const uint32_t tensor = op.numbers[i];
      if (!format::is_tensor(row.numbers[i].type) || tensor == format::kAbsent) continue;
      TensorPlace& place = facts.places[tensor];
      if (place.ops.empty()) place.is_computed = is_computed(op, i);
      place.ops.push_back(index);
    }
  }
}

std::string kernel_name(const TargetFacts& target, const format::TensorShape& shape) {
  if (shape.layout == format::Layout::kPlain) return "plain rows";
  const Packing packing = target.packed.packing(shape.type);
  return fmt::format("{} {} {}", packed_for(target.target), kernel_family(shape.type),
                     tile_name(packing));
}

void add_kernels(ReportFacts& facts) {
  const ModelFacts& model = facts.model;
  for (size_t t = 0; t < model.targets.size(); ++t) {
    const Target target = model.targets[t].target;
    for (size_t i = 0; i < model.tensors.size(); ++i) {
      const TensorFacts& tensor = model.tensors[i];
      auto use = std::ranges::find_if(facts.kernels, [&](const KernelUse& known) {
        return known.target == target && known.type == tensor.shape.type &&
               known.layout == tensor.shape.layout;
      });
      if (use == facts.kernels.end()) {
        facts.kernels.push_back({target, tensor.shape.type, tensor.shape.layout,
                                 kernel_name(model.targets[t], tensor.shape)});
        use = facts.kernels.end() - 1;
      }
      ++use->tensors;
      use->bytes += tensor.packed_bytes[t].value;
      facts.places[i].kernels.push_back({name(target), use->kernel});
    }
  }
}

// Collects groups by name, in the order of first use.
class Groups {
 public:
  explicit Groups(std::vector<TensorGroup>& groups) : groups_(groups) {}

  const std::string& add(const std::string& name, const TensorFacts& tensor, uint32_t shown) {
    const auto [known, is_new] = indexes_.try_emplace(name, groups_.size());
    if (is_new) groups_.push_back({name});
    TensorGroup& group = groups_[known->second];
    ++group.tensors;
    group.numbers += uint64_t{tensor.shape.outputs} * tensor.shape.inputs;
    group.bytes_by_type[static_cast<size_t>(tensor.shape.type)] += tensor.packed_bytes[shown].value;
    return group.name;
  }

 private:
  std::vector<TensorGroup>& groups_;
  std::unordered_map<std::string, size_t> indexes_;
};

void add_groups(ReportFacts& facts) {
  const ModelFacts& model = facts.model;
  const uint32_t shown = model.shown_target_index();
  Groups types(facts.types), layers(facts.layers), parts(facts.parts);
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    const TensorFacts& tensor = model.tensors[i];
    TensorPlace& place = facts.places[i];
    const std::string& owner = place.ops.empty() ? tensor.name : model.ops[place.ops[0]].name;
    const OpName name = split_op_name(owner);
    types.add(arenite::name(tensor.shape.type), tensor, shown);
    place.layer = layers.add(name.layer.empty() ? owner : "layer " + name.layer, tensor, shown);
    place.part = parts.add(name.part, tensor, shown);
  }
}

void add_file_parts(ReportFacts& facts) {
  const ModelFacts& model = facts.model;
  uint64_t rest = model.footer.file_bytes;
  const auto add = [&](const std::string& name, uint64_t bytes) {
    if (bytes == 0) return;
    facts.file_parts.push_back({name, bytes});
    rest -= std::min(rest, bytes);
  };
  add("metadata", model.footer.metadata_bytes);
  for (const TargetFacts& target : model.targets) {
    add(fmt::format("weights for {}", name(target.target)), target.packed.segment.bytes());
  }
  add("self-test", model.reader.self_test().segment.bytes());
  add("padding and footer", rest);
}

void add_masks(ReportFacts& facts) {
  for (uint32_t i = 0; i < facts.model.masks.size(); ++i) {
    const MaskView& mask = facts.model.masks[i].mask;
    MaskPicture picture;
    picture.positions = mask.positions == 0 ? facts.model.sizes.positions : mask.positions;
    const convert::MaskPairs pairs(mask, picture.positions);
    picture.visible = pairs.visible();
    picture.rows = pairs.draw(kMaskCells);
    for (const OpFacts& op : facts.model.ops) {
      picture.ops += format::number_of(op.op, NumberType::kMask) == i ? 1 : 0;
    }
    facts.masks.push_back(std::move(picture));
  }
}

// Adds distributions of large tensors; if there are too many, of tensors evenly spaced over the
// file, so that all depths are shown.
void add_distributions(ReportFacts& facts, uint32_t shown) {
  std::vector<uint32_t> large;
  for (uint32_t i = 0; i < facts.model.tensors.size(); ++i) {
    const format::TensorShape& shape = facts.model.tensors[i].shape;
    const bool is_large = uint64_t{shape.outputs} * shape.inputs >= kDistributedNumbersMin;
    if (is_large && shape.outputs > 1 && !facts.places[i].is_computed) large.push_back(i);
  }
  facts.distributed_of = static_cast<uint32_t>(large.size());
  const size_t shown_count = std::min<size_t>(large.size(), kDistributionsMax);
  for (size_t i = 0; i < shown_count; ++i) {
    const uint32_t tensor = large[i * large.size() / shown_count];
    Distribution distribution = distribution_of(facts.model.reader.weights(shown, tensor));
    if (distribution.counts.empty()) continue;
    distribution.tensor = facts.model.tensors[tensor].name;
    facts.distributions.push_back(std::move(distribution));
  }
}

void add_decode(ReportFacts& facts) {
  const ModelReader& reader = facts.model.reader;
  const uint32_t stepped = reader.functions() - 1;
  if (!reader.causal(stepped)) return;
  const TensorType kv_type = facts.model.sizes.kv_type();
  InputTokens first = facts.model.sizes.positions_of_inputs(), last = first;
  for (uint32_t i = 0; i < reader.inputs(); ++i) {
    if (!reader.takes(stepped, i)) continue;
    first.of[i] = 0;
    --last.of[i];
  }
  for (uint32_t i = 0; i < facts.model.targets.size(); ++i) {
    facts.decode.push_back(
        {name(facts.model.targets[i].target),
         {decode_bytes(reader, i, first, kv_type), decode_bytes(reader, i, last, kv_type)}});
  }
}

}  // namespace

OpName split_op_name(const std::string& name) {
  const size_t dot = name.find('.');
  const bool has_layer = dot != std::string::npos && dot > 0 && dot + 1 < name.size() &&
                         name.find_first_not_of("0123456789") == dot;
  if (!has_layer) return {"", name};
  return {name.substr(0, dot), name.substr(dot + 1)};
}

uint64_t TensorGroup::bytes() const {
  return std::accumulate(bytes_by_type.begin(), bytes_by_type.end(), uint64_t{0});
}

const char* cpus_of(Target target) { return kTargetRows[static_cast<size_t>(target)].cpus; }

const char* kernel_family(TensorType type) {
  constexpr const char* kFamilies[] = {"f32-gemm", "f32-qc8w-gemm", "qd8-f32-qc8w-gemm",
                                       "qd8-f32-qb4w-gemm", ""};
  static_assert(std::size(kFamilies) == kTensorTypes);
  return kFamilies[static_cast<size_t>(type)];
}

std::string tile_name(Packing packing) {
  const std::string group = packing.kr == 1 ? "" : fmt::format("c{}", packing.kr);
  return fmt::format("{}x{}{}", packing.mr, packing.nr, group);
}

ReportFacts gather_report(const VerifiedFile& file, const SizeOptions& sizes,
                          std::optional<ConversionFacts> conversion) {
  ReportFacts facts(gather_facts(file, sizes));
  const uint32_t shown = facts.model.shown_target_index();
  add_places(facts);
  add_kernels(facts);
  add_groups(facts);
  add_file_parts(facts);
  add_masks(facts);
  add_distributions(facts, shown);
  add_decode(facts);
  facts.conversion = std::move(conversion);
  return facts;
}

// --- Distributions of weights ---
//
// Large tensors are sampled, so that a page with all distributions takes less than a minute.

namespace {

// Standard deviations that a histogram spans. Outliers would squeeze all others into few bins.
constexpr double kDeviationsShown = 5.0;

// Returns the count of rows to read; all rows if they are few.
uint32_t rows_to_sample(const WeightView& view) {
  const uint64_t enough = (kSampledNumbers + view.columns - 1) / view.columns;
  return static_cast<uint32_t>(
      std::min<uint64_t>(view.rows, std::max<uint64_t>(enough, kSampledRows)));
}

std::vector<float> sample(const WeightView& view) {
  const uint32_t rows = rows_to_sample(view);
  std::vector<float> numbers(size_t{rows} * view.columns);
  for (uint32_t i = 0; i < rows; ++i) {
    const auto row = static_cast<uint32_t>(uint64_t{i} * view.rows / rows);
    const auto weights = std::span(numbers).subspan(size_t{i} * view.columns, view.columns);
    read_row(view, row, weights.data());
  }
  return numbers;
}

// REQUIRES: at least one element; all elements are finite.
void measure(std::span<const float> numbers, Distribution& distribution) {
  const double count = static_cast<double>(numbers.size());
  double sum = 0.0;
  for (const float number : numbers) sum += number;
  distribution.mean = sum / count;
  double squares = 0.0;
  for (const float number : numbers) {
    squares += (number - distribution.mean) * (number - distribution.mean);
  }
  distribution.deviation = std::sqrt(squares / count);
  const auto [least, most] = std::ranges::minmax_element(numbers);
  distribution.least = *least;
  distribution.most = *most;
  const double largest = std::max(std::abs(distribution.least), std::abs(distribution.most));
  distribution.limit =
      std::min(largest, std::abs(distribution.mean) + kDeviationsShown * distribution.deviation);
  if (distribution.limit <= 0.0) distribution.limit = 1.0;  // all elements are zero
}

void count(std::span<const float> numbers, Distribution& distribution) {
  distribution.counts.assign(kDistributionBins, 0);
  const double width = 2.0 * distribution.limit / kDistributionBins;
  for (const float number : numbers) {
    if (std::abs(number) > distribution.limit) {
      ++distribution.beyond;
      continue;
    }
    const auto bin = static_cast<size_t>((number + distribution.limit) / width);
    ++distribution.counts[std::min<size_t>(bin, kDistributionBins - 1)];
  }
}

}  // namespace

Distribution distribution_of(const WeightView& view) {
  std::vector<float> numbers = sample(view);
  Distribution distribution;
  distribution.numbers = uint64_t{view.rows} * view.columns;
  distribution.sampled = numbers.size();
  distribution.not_finite =
      std::erase_if(numbers, [](float number) { return !std::isfinite(number); });
  if (numbers.empty()) return distribution;
  measure(numbers, distribution);
  count(numbers, distribution);
  return distribution;
}

}  // namespace arenite::tool
