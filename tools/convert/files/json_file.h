// SPDX-License-Identifier: Apache-2.0
// JSON files of other programs, read without trusting them.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace arenite::convert {

// The value in `file`. Throws InputError for anything else, a key that comes twice in one object,
// nesting of more than a few levels, and files of unreasonable size.
nlohmann::json read_json_value(const std::filesystem::path& file);

// The same, of a file that must hold an object.
nlohmann::json read_json_object(const std::filesystem::path& file);

// The value that `text` is, by the same rules but that of size. `name` is for messages.
nlohmann::json parse_json(std::string_view text, const std::string& name);

// `value` as JSON text, fit for a message.
std::string show(const nlohmann::json& value);

}  // namespace arenite::convert
