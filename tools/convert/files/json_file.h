// SPDX-License-Identifier: Apache-2.0
// JSON files of other programs, read without trusting them.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

namespace arenite::convert {

// The value in `file`. Throws InputError for anything else, a key that comes twice in one object,
// nesting of more than a few levels, and files of unreasonable size.
nlohmann::json read_json_value(const std::filesystem::path& file);

// The same, of a file that must hold an object.
nlohmann::json read_json_object(const std::filesystem::path& file);

// `value` as JSON text, fit for a message.
std::string show(const nlohmann::json& value);

}  // namespace arenite::convert
