// SPDX-License-Identifier: Apache-2.0
// Checks that the kernels that are about to compute can be trusted: by the self-test of the model
// file or, if it has none, by comparing them on made-up operands with loops in double precision.
#pragma once

#include <string>

#include "arenite/session.h"
#include "cli/model_file.h"
#include "format/reader.h"
#include "kernels/kernel_set.h"

namespace arenite::tool {

// Runs the file's self-test in a session of its own. Throws InputError if the file has none.
SelfTest run_self_test(const ModelFile& file, KvType kv_cache, uint32_t threads = 1);

// op_of returns "op 3, 'qkv'"; describe_failure returns "op 3, 'qkv': token 0 differs by 0.5, where
// 0.001 is allowed" for a failed test.
std::string op_of(const ModelFile& file, const SelfTest& test);
std::string describe_failure(const ModelFile& file, const SelfTest& test);

// Throws an InputError that begins with `source` unless the kernels that the model's ops use give
// the same results as plain loops, up to rounding: products for each weight type and each input
// width, attention over caches of `kv_type`, and functions. Reads no weights.
void check_kernels(const KernelSet& kernels, const format::ModelReader& model, NeedSet needs,
                   TensorType kv_type, const std::string& source);

// Runs before a command computes with a file. Throws InputError if the self-test fails. If there is
// none, or if `reads_weights` is false, uses check_kernels instead.
void require_right_kernels(const ModelFile& file, KvType kv_cache, uint32_t threads,
                           bool reads_weights = true);

}  // namespace arenite::tool
