// SPDX-License-Identifier: Apache-2.0
// Exported programs for a fuzzer to change, and ops to insert.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "convert/exported/read/pt2_archive.h"

namespace arenite::fuzz {

using nlohmann::json;

// Sound programs, and all ops that they call.
class SeedPrograms {
 public:
  // The archives in all folders below `folder`: those of few nodes, and the calls of all of them.
  explicit SeedPrograms(const std::filesystem::path& folder);

  // The one that a number stands for, mostly whichever others there are.
  convert::Pt2Archive& program(uint16_t number);
  // A call of an op; each op is as likely as any other.
  const json& call(uint16_t op, uint16_t which) const;
  // "torch.ops.aten.add.Tensor", also of ops that no seed has.
  const std::string& target(uint16_t op) const;

 private:
  // Items with the hash of their name, which selects them.
  template <typename T>
  using Named = std::vector<std::pair<uint32_t, T>>;

  Named<convert::Pt2Archive> programs_;
  Named<std::vector<json>> calls_;  // nodes with the same target
  Named<std::string> targets_;
};

}  // namespace arenite::fuzz
