// SPDX-License-Identifier: Apache-2.0
// What flatc makes of model.fbs, with FlatBuffers' own limit of a buffer in the CPU's word: its
// verifier divides by that limit, and a division of 64 bits takes 750 bytes on a 32-bit CPU.
#pragma once

#include <flatbuffers/base.h>

#include <bit>
#include <cstddef>
#include <cstdint>

static_assert(std::endian::native == std::endian::little,
              "a model file is little-endian and is used where it lies: this CPU is big-endian");

#undef FLATBUFFERS_MAX_BUFFER_SIZE
#define FLATBUFFERS_MAX_BUFFER_SIZE (size_t{INT32_MAX})

#include "model_generated.h"
