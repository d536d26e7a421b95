// SPDX-License-Identifier: Apache-2.0
// The members of a .pt2 archive: the graph as JSON, and the tensors that it names. The bytes are
// untrusted: every offset and size is checked against the file.
#pragma once

#include <nlohmann/json.hpp>

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "convert/exported/read/exported_program.h"
#include "convert/files/checkpoint.h"

namespace arenite::convert {
struct Pt2Tensor {
  size_t index = 0;      // in `tensors`
  uint32_t storage = 0;  // tensors with equal numbers share all elements
  Shape shape;           // in the graph
  ElementType type = ElementType::kF32;
};

struct Pt2Archive {
  nlohmann::json model;
  std::shared_ptr<TensorStore> tensors;  // complex ones are stored as real [.., 2]
  std::map<std::string, Pt2Tensor> by_name;
  std::vector<Array> sample_inputs;  // empty if they cannot be read
};

// Maps PyTorch's number for a type. Throws InputError, beginning with `where`, for unsupported
// types.
ElementType element_type(const nlohmann::json& number, const std::string& where);

// Throws InputError for violations of the format.
Pt2Archive read_pt2_archive(std::span<const std::byte> file, const std::string& file_name);

// Builds the program from the archive's graph. Throws InputError as read_exported does.
ExportedProgram read_graph(const Pt2Archive& archive, const std::string& file_name);

// Returns the field `key`; null if `object` lacks it or is not an object.
const nlohmann::json* find_field(const nlohmann::json& object, std::string_view key);
// Return a required field, as JSON, integer or text. Throw InputError, beginning with `where`.
const nlohmann::json& field(const nlohmann::json& object, const char* key,
                            const std::string& where);
int64_t integer(const nlohmann::json& value, const std::string& where);
const std::string& text(const nlohmann::json& value, const std::string& where);

}  // namespace arenite::convert
