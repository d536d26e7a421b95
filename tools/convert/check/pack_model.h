// SPDX-License-Identifier: Apache-2.0
// A program becomes a model file, with the self-test that the real runtime gives it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "arenite/target.h"
#include "convert/files/memory.h"
#include "convert/program/program.h"

namespace arenite::convert {

// Makes the longest sequence `context` positions; 0: as it is. Throws InputError, which begins with
// `path`, for more than the model has; `positions_max` 0 is a model for any number.
void limit_context(uint32_t& positions_max, uint32_t context, const std::string& path);

// The model file, with a self-test. Throws InputError, which begins with `path`, for a model beyond
// the format.
AlignedBytes pack_model(const Program& program, const std::vector<Target>& targets,
                        const std::string& path);

}  // namespace arenite::convert
