// SPDX-License-Identifier: Apache-2.0
// Programs that were decomposed, which people export for other runtimes, as if they had not been.
#pragma once

#include "convert/exported/read/exported_program.h"

namespace arenite::convert {

// What run_decompositions() of PyTorch makes of an op becomes that op again.
void join_parts(ExportedProgram& program);

}  // namespace arenite::convert
