// SPDX-License-Identifier: Apache-2.0
// What flatc makes of model.fbs, with FlatBuffers' own limit of a buffer in the CPU's word: its
// verifier divides by that limit, and a division of 64 bits takes 750 bytes on a 32-bit CPU.
#pragma once

#include <flatbuffers/base.h>

#include <cstddef>
#include <cstdint>

#undef FLATBUFFERS_MAX_BUFFER_SIZE
#define FLATBUFFERS_MAX_BUFFER_SIZE (size_t{INT32_MAX})

#include "model_generated.h"
