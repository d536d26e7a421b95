// SPDX-License-Identifier: Apache-2.0
// Whether the kernels that are about to compute can be trusted: by the self-test of a model file
// or, where it has none, on made-up operands against plain loops in double precision.
#pragma once

#include <string>

#include "arenite/session.h"
#include "cli/model_file.h"
#include "format/reader.h"
#include "kernels/kernel_set.h"

namespace arenite::tool {

// The self-test of a file, in a session of its own. Throws InputError where it has none.
SelfTest run_self_test(const ModelFile& file, KvType kv_cache, uint32_t threads = 1);

// "op 3, 'qkv'", and of a test that failed "op 3, 'qkv': token 0 differs by 0.5, where 0.001 is
// allowed".
std::string op_of(const ModelFile& file, const SelfTest& test);
std::string describe_failure(const ModelFile& file, const SelfTest& test);

// Throws InputError, which begins with `source`, unless what the model's ops use of a kernel set
// computes the same as plain loops, up to rounding: products for each type of weights and each
// number of inputs, attention over caches of a type, and functions. Reads no weights.
void check_kernels(const KernelSet& kernels, const format::ModelReader& model, uint64_t needs,
                   TensorType kv_type, const std::string& source);

// Comes before what a command computes with a file. Throws InputError if its self-test fails or,
// where it has none or weights are not to be read, if check_kernels does.
void require_right_kernels(const ModelFile& file, KvType kv_cache, uint32_t threads,
                           bool reads_weights = true);

}  // namespace arenite::tool
