// SPDX-License-Identifier: Apache-2.0
// Compares, and says who is followed.
#include "convert/tokenizers/frame_check.h"

#include <algorithm>

#include "convert/files/error.h"
#include "convert/files/json_file.h"

namespace arenite::convert {

FrameCheck::FrameCheck(TokenizerSpec& spec)
    : spec_(spec),
      begin_((spec.flags & format::kAddBos) != 0 ? spec.bos : kNoToken),
      end_((spec.flags & format::kAddEnd) != 0 ? spec.ends.front() : kNoToken) {}

void FrameCheck::begin_is(const HfObject& config, std::string_view field,
                          std::span<const TokenId> tokens) {
  check_place(config, field, tokens, "begin", begin_);
}

void FrameCheck::end_is(const HfObject& config, std::string_view field,
                        std::span<const TokenId> tokens) {
  check_place(config, field, tokens, "end", end_);
}

void FrameCheck::check_additions(const HfObject& config) {
  const struct {
    const char* field;
    const char* place;
    TokenId actual;
  } additions[] = {{"add_bos_token", "begin", begin_}, {"add_eos_token", "end", end_}};
  for (const auto& addition : additions) {
    const bool is_added = addition.actual != kNoToken;
    if (config.flag(addition.field, is_added) == is_added) continue;
    note(config, addition.field, addition.place, addition.actual);
  }
}

void FrameCheck::check_place(const HfObject& config, std::string_view field,
                             std::span<const TokenId> tokens, const char* place, TokenId actual) {
  if (actual == kNoToken || tokens.empty()) return;
  if (std::find(tokens.begin(), tokens.end(), actual) != tokens.end()) return;
  note(config, field, place, actual);
}

void FrameCheck::note(const HfObject& config, std::string_view field, const char* place,
                      TokenId actual) {
  const std::string with =
      actual == kNoToken
          ? "no token"
          : fmt::format("token {}, {}", actual,
                        actual < spec_.tokens.size() ? quote(spec_.tokens[actual]) : "unknown");
  spec_.notes.push_back(fmt::format("{}: {} is {}; yet texts {} with {}, as {} says",
                                    config.file_name(), field, show(config.at(field)), place, with,
                                    quote(spec_.origin)));
}

}  // namespace arenite::convert
