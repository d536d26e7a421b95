// SPDX-License-Identifier: Apache-2.0
// Undoes decompositions, so that programs exported for other runtimes read like undecomposed ones.
// Nodes without a match stay as they are.
//
//    where(all(scores == -inf), 0, softmax(scores))  ->  _safe_softmax(scores)
//    bmm(rows, view(expand(matrix)))                 ->  matmul(rows, matrix)
#pragma once

#include "convert/exported/read/exported_program.h"

namespace arenite::convert {

// Replaces parts that PyTorch's run_decompositions() made of an op by that op.
void join_parts(ExportedProgram& program);

}  // namespace arenite::convert
