// SPDX-License-Identifier: Apache-2.0
// Finds mask buffers by name, and reconciles them with options.
#include "convert/modules/attention_modules.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "convert/files/error.h"
#include "convert/spec/model_tensors.h"
#include "format/file_layout.h"

namespace arenite::convert {
namespace {

const char* const kBufferNames[] = {"mask", "bias", "tril", "causal_mask", "attn_mask"};

CompiledMask chosen_mask(MaskChoice choice, const ModelOptions& options, uint32_t positions) {
  switch (choice) {
    case MaskChoice::kUnsaid:
    case MaskChoice::kBidirectional:
      return band_mask(kUnlimited, kUnlimited, positions);
    case MaskChoice::kCausal:
      return band_mask(kUnlimited, 0, positions);
    case MaskChoice::kWindow:
      break;
  }
  return band_mask(options.window - 1, 0, positions);
}

struct FoundMask {
  Mask mask;
  std::string origin;
};

std::optional<FoundMask> read_buffer(ModelTensors& tensors, const std::string& head_prefix,
                                     const ModelOptions& options) {
  for (const char* name : kBufferNames) {
    const StoredTensor* tensor = tensors.buffer(head_prefix + name);
    if (tensor == nullptr) continue;
    MaskBuffer buffer =
        read_mask_buffer(*tensor, quote(tensors.source()), options.context, options.mask_ones);
    const uint32_t positions = buffer.dense.positions;
    const std::string origin = fmt::format("{}: {}", quote(tensors.source()), quote(tensor->name));
    if (options.mask != MaskChoice::kUnsaid &&
        !(expand_mask(chosen_mask(options.mask, options, positions).view(), positions) ==
          buffer.dense)) {
      throw InputError(
          "{}: the checkpoint's own mask {} is another one than {} asks for: found {} ({}); drop "
          "the option to use it",
          quote(tensors.source()), quote(tensor->name), option_text(options.mask, options.window),
          compile_mask(buffer.dense, origin).describe(), buffer.meaning);
    }
    return FoundMask{BufferMask{std::make_shared<DenseMask>(std::move(buffer.dense)), origin},
                     fmt::format("from buffer {}, where {}", quote(tensor->name), buffer.meaning)};
  }
  return std::nullopt;
}

}  // namespace

void read_masks(AttentionModule& module, ModelTensors& tensors, const ModelOptions& options,
                MaskChoice usual, const std::vector<std::string>& head_prefixes) {
  std::vector<FoundMask> found;
  for (const std::string& prefix : head_prefixes) {
    if (auto mask = read_buffer(tensors, prefix, options)) found.push_back(std::move(*mask));
  }
  if (!found.empty() && found.size() != head_prefixes.size()) {
    throw InputError("{}: {} of {} heads have a mask buffer: expected all or none",
                     quote(tensors.source()), found.size(), head_prefixes.size());
  }
  if (found.empty()) {
    const bool said = options.mask != MaskChoice::kUnsaid;
    found.push_back({chosen_mask(said ? options.mask : usual, options, options.context),
                     said ? "as " + option_text(options.mask, options.window) + " asks"
                          : "as usual for this module; there is no buffer"});
    std::vector<std::string>& account = said ? module.account.given : module.account.assumed;
    account.push_back(
        said ? option_text(options.mask, options.window)
             : fmt::format("{} mask, as usual for this module", describe(found[0].mask)));
  }
  module.positions_max = positions_of(found[0].mask);
  for (uint32_t head = 0; head < module.heads; ++head) {
    const FoundMask& of_head = found[found.size() == 1 ? 0 : head];
    if (positions_of(of_head.mask) != module.positions_max) {
      throw InputError(
          "{}: the masks of the heads differ in size: {} and {} positions; pass "
          "--context N to use the first N of each",
          quote(tensors.source()), module.positions_max, positions_of(of_head.mask));
    }
    const auto known = std::find(module.masks.begin(), module.masks.end(), of_head.mask);
    module.head_masks.push_back(static_cast<uint32_t>(known - module.masks.begin()));
    if (known != module.masks.end()) continue;
    if (module.masks.size() == format::kMasksMax) {
      throw InputError("{}: its heads have more than {} different masks, which is the most",
                       quote(tensors.source()), format::kMasksMax);
    }
    module.masks.push_back(of_head.mask);
    module.mask_origins.push_back(of_head.origin);
  }
}

}  // namespace arenite::convert
