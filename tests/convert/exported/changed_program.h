// SPDX-License-Identifier: Apache-2.0
// Archives of exported programs of which some values of their JSON are changed.
#pragma once

#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "convert/files/memory.h"
#include "convert/files/zip_archive.h"
#include "support/test_data.h"
#include "support/zip_builder.h"

namespace arenite::convert {

using nlohmann::json;

// The members of a fixture, some of them as JSON that a test changes.
struct Members {
  explicit Members(const std::string& fixture) {
    const std::string name = testing::convert_fixture(fixture.c_str()).string();
    const FileMap map(name);
    ZipArchive archive(map.bytes(), name);
    for (const auto& [member, described] : archive.members()) {
      const auto bytes = archive.read(member, described);
      std::string text(reinterpret_cast<const char*>(bytes.get()),
                       static_cast<size_t>(described.bytes));
      if (member.ends_with("model.json")) model = json::parse(text);
      if (member.ends_with("weights_config.json")) weights = json::parse(text);
      files.emplace_back(member, std::move(text));
    }
  }

  std::string bytes() const {
    testing::ZipBuilder builder;
    for (const auto& [member, text] : files) {
      const bool is_model = member.ends_with("model.json");
      const bool is_weights = member.ends_with("weights_config.json");
      builder.add(member, is_model ? model.dump() : is_weights ? weights.dump() : text);
    }
    return builder.bytes();
  }

  std::vector<std::pair<std::string, std::string>> files;
  json model, weights;
};

inline void collect(json& value, std::vector<json*>& found) {
  found.push_back(&value);
  if (value.is_structured()) {
    for (json& item : value) collect(item, found);
  }
}

// Returns a JSON value that no writer puts there.
inline json odd_value(std::mt19937& random, const std::vector<json*>& others) {
  const json kOdd[] = {-1,
                       0,
                       1,
                       int64_t{1} << 40,
                       INT64_MAX,
                       INT64_MIN,
                       UINT64_MAX,
                       1e300,
                       true,
                       "",
                       "x",
                       nullptr,
                       json::array(),
                       json::object(),
                       json::array({1, 2, 3}),
                       "Infinity"};
  const size_t choice = random() % (std::size(kOdd) + 4);
  return choice < std::size(kOdd) ? kOdd[choice] : *others[random() % others.size()];
}

}  // namespace arenite::convert
