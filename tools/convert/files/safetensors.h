// SPDX-License-Identifier: Apache-2.0
// Reader of safetensors files: 8 bytes of header length, a JSON header, then the tensors' bytes.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "convert/files/checkpoint.h"

namespace arenite::convert {

// The tensors view `file`, the bytes of the whole file, which must outlive them. They come in the
// order of the header. Everything is checked: the header's fields, types, sizes, and that the
// tensors cover the data without overlap or hole. Throws InputError; `file_name` is for its
// messages.
CheckpointContents read_safetensors(std::span<const std::byte> file, const std::string& file_name);

}  // namespace arenite::convert
