// SPDX-License-Identifier: Apache-2.0
// Reader of the zip archives that torch.save writes (.pt, .pth, .bin).
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "convert/files/checkpoint.h"

namespace arenite::convert {

// Reads the tensors of `file`, the bytes of the whole archive, into buffers of the result; `file`
// may go afterwards. Only members that tensors use are read. Throws InputError, also when this
// build has no libzip; `file_name` is for its messages.
CheckpointContents read_pytorch_zip(std::span<const std::byte> file, const std::string& file_name);

}  // namespace arenite::convert
