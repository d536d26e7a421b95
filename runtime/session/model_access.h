// SPDX-License-Identifier: Apache-2.0
// How the runtime itself looks into a loaded Model.
#pragma once

#include "arenite/model.h"
#include "format/reader.h"

namespace arenite {

struct ModelAccess {
  static format::ModelReader reader(const Model& model) { return format::ModelReader(model.file_); }
  static uint32_t packed_index(const Model& model) { return model.packed_index_; }
  static Model make(std::span<const std::byte> file, uint32_t packed_index, Target target) {
    Model model;
    model.file_ = file;
    model.packed_index_ = packed_index;
    model.target_ = target;
    return model;
  }
};

}  // namespace arenite
