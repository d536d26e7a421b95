// SPDX-License-Identifier: Apache-2.0
// The members of a .pt2 archive: the graph as JSON, and the tensors that it names.
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
  uint32_t storage = 0;  // tensors with the same number have the very same elements
  Shape shape;           // as the graph has it
  ElementType type = ElementType::kF32;
};

struct Pt2Archive {
  nlohmann::json model;
  std::shared_ptr<TensorStore> tensors;  // a complex one has [..., 2] numbers of float
  std::map<std::string, Pt2Tensor> by_name;
  std::vector<Array> sample_inputs;  // empty where they are stored in a way that is not read
};

// PyTorch's number for a type. Throws InputError for types that are not read; `where` is for it.
ElementType element_type(const nlohmann::json& number, const std::string& where);

// Throws InputError for whatever breaks a rule of the format.
Pt2Archive read_pt2_archive(std::span<const std::byte> file, const std::string& file_name);

// The program that its graph says. Throws InputError as read_exported.
ExportedProgram read_graph(const Pt2Archive& archive, const std::string& file_name);

// The field `key` of `object`, or null: it has none, or is no object.
const nlohmann::json* find_field(const nlohmann::json& object, std::string_view key);
// The same, which has to be there. Throws InputError; `where` is for its message.
const nlohmann::json& field(const nlohmann::json& object, const char* key,
                            const std::string& where);
int64_t integer(const nlohmann::json& value, const std::string& where);
const std::string& text(const nlohmann::json& value, const std::string& where);

}  // namespace arenite::convert
