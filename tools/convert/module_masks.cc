// SPDX-License-Identifier: Apache-2.0
// Finds mask buffers by name, and reconciles them with options.
#include "convert/module_masks.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "convert/error.h"
#include "convert/mask_buffer.h"

namespace arenite::convert {
namespace {

const char* const kBufferNames[] = {"mask", "bias", "tril", "causal_mask", "attn_mask"};

CompiledMask chosen_mask(MaskChoice choice, const ModuleOptions& options, uint32_t positions) {
  switch (choice) {
    case MaskChoice::kUnsaid:
    case MaskChoice::kBidirectional:
      return band_mask(kUnlimited, kUnlimited, positions);
    case MaskChoice::kCausal:
      return band_mask(kUnlimited, 0, positions);
    case MaskChoice::kWindow:
      break;
  }
  // A window as long as the context hides nothing more than causality does.
  const bool all = positions != 0 && options.window >= positions;
  return band_mask(all ? kUnlimited : options.window - 1, 0, positions);
}

std::optional<CompiledMask> read_buffer(ModuleTensors& tensors, const std::string& head_prefix,
                                        const ModuleOptions& options, std::string& origin) {
  for (const char* name : kBufferNames) {
    const CheckpointTensor* tensor = tensors.take(head_prefix + name);
    if (tensor == nullptr) continue;
    const MaskBuffer buffer =
        read_mask_buffer(*tensor, tensors.file(), options.context, options.mask_ones);
    origin = fmt::format("buffer {} ({})", quote(tensor->name), buffer.meaning);
    const CompiledMask mask =
        compile_mask(buffer.dense, fmt::format("{}: {}", tensors.file(), quote(tensor->name)));
    if (options.mask != MaskChoice::kUnsaid &&
        !(expand_mask(chosen_mask(options.mask, options, mask.positions).view(), mask.positions) ==
          buffer.dense)) {
      throw InputError(
          "{}: {} is a mask of its own ({}), which differs from the one asked for: "
          "leave the option out",
          tensors.file(), quote(tensor->name), mask.describe());
    }
    return mask;
  }
  return std::nullopt;
}

}  // namespace

void read_masks(AttentionModule& module, ModuleTensors& tensors, const ModuleOptions& options,
                MaskChoice usual, const std::vector<std::string>& head_prefixes) {
  std::vector<CompiledMask> masks;
  for (const std::string& prefix : head_prefixes) {
    if (auto mask = read_buffer(tensors, prefix, options, module.mask_origin)) {
      masks.push_back(std::move(*mask));
    }
  }
  if (!masks.empty() && masks.size() != head_prefixes.size()) {
    throw InputError("{}: {} of {} heads have a mask buffer: expected all or none", tensors.file(),
                     masks.size(), head_prefixes.size());
  }
  if (masks.empty()) {
    const bool said = options.mask != MaskChoice::kUnsaid;
    masks.push_back(chosen_mask(said ? options.mask : usual, options, options.context));
    module.mask_origin = said ? "as asked" : "usual for this module";
  }
  module.positions_max = masks[0].positions;
  for (uint32_t head = 0; head < module.heads; ++head) {
    const CompiledMask& mask = masks[masks.size() == 1 ? 0 : head];
    if (mask.positions != module.positions_max) {
      throw InputError(
          "{}: the masks of the heads differ in size: {} and {} positions; pass "
          "--context N to use the first N of each",
          tensors.file(), module.positions_max, mask.positions);
    }
    const auto known = std::find(module.masks.begin(), module.masks.end(), mask);
    module.head_masks.push_back(static_cast<uint32_t>(known - module.masks.begin()));
    if (known == module.masks.end()) module.masks.push_back(mask);
  }
}

}  // namespace arenite::convert
