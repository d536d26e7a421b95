// SPDX-License-Identifier: Apache-2.0
// What this machine can do at best: the yardstick of every benchmark, measured in the same run.
#pragma once

#include <cstddef>
#include <span>

#include "arenite/parallel.h"

namespace arenite::tool {

struct MachineLimits {
  double peak_gflops = 0.0;        // float32 multiply-adds in registers, two operations each
  double read_gbytes_per_s = 0.0;  // a plain loop over memory far larger than the caches
};

// Takes about a fifth of a second on all threads of `parallel` together. Reads `share`, at most 1,
// of 256 MB: little memory is quick to make, and its speed is that of the caches.
MachineLimits measure_limits(const ParallelFor& parallel, double share);

// The peak alone; takes about 20 ms.
double measure_peak_gflops(const ParallelFor& parallel);

// How fast all threads together read `memory`, which should be as large as what they will read, and
// must have read_bytes(...) bytes. Takes about as long as reading 1 GB.
double measure_read_gbytes_per_s(const ParallelFor& parallel, std::span<const std::byte> memory);

// The same, in as long as reading 32 MB takes, or `memory` once.
double sample_read_gbytes_per_s(const ParallelFor& parallel, std::span<const std::byte> memory);

// `wanted`, rounded up so that each thread has a share.
size_t read_bytes(const ParallelFor& parallel, size_t wanted);

}  // namespace arenite::tool
