// SPDX-License-Identifier: Apache-2.0
// The constants of a program at any length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "convert/exported/array_ops.h"
#include "convert/exported/exported_program.h"
#include "convert/exported/lengths.h"

namespace arenite::convert {

// Values that depend on no input, at one length. Each is computed when it is asked for.
class ConstantsAt {
 public:
  ConstantsAt(std::shared_ptr<const ExportedProgram> program, Lengths lengths);

  // Throws InputError or NotRecognised where this cannot be computed.
  Array get(uint32_t value);

 private:
  Argument compute(uint32_t value);

  std::shared_ptr<const ExportedProgram> program_;
  Lengths lengths_;
  std::map<uint32_t, std::pair<const ExportedNode*, size_t>> makers_;  // node and output
  std::map<uint32_t, Argument> known_;
  OpBudget budget_;
};

}  // namespace arenite::convert
