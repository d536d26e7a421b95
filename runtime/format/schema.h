// SPDX-License-Identifier: Apache-2.0
// Includes the header that flatc generates from model.fbs, with FlatBuffers' limit on the size of a
// buffer as a size_t: its verifier divides by that limit, and a 64-bit division takes 750 bytes of
// code on a 32-bit CPU.
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
