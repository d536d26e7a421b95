// SPDX-License-Identifier: Apache-2.0
// Reverses decompositions, so that programs exported for other runtimes read like undecomposed
// ones. Nodes without a match stay unchanged.
//
//   where(all(scores == -inf), 0, softmax(scores))  ->  _safe_softmax(scores)
//   bmm(rows, view(expand(matrix)))                 ->  matmul(rows, matrix)
#pragma once

#include "convert/exported/read/exported_program.h"

namespace arenite::convert {

// Restores ops that PyTorch's run_decompositions() has decomposed.
void join_parts(ExportedProgram& program);

}  // namespace arenite::convert
