// SPDX-License-Identifier: Apache-2.0
// The ways to print the facts of a model file.
#pragma once

#include <string>

#include "cli/inspect_facts.h"

namespace arenite::tool {

// Sections for a person, at most 100 columns wide (a longer path apart).
std::string facts_as_text(const ModelFacts& facts);

// Its section on the arena.
std::string arena_as_text(const ModelFacts& facts);

// A few lines: what it is, and its memory on the target that runs here (or the first).
std::string facts_in_brief(const ModelFacts& facts);

// One JSON object; `arenite inspect --help` names its keys.
std::string facts_as_json(const ModelFacts& facts);

}  // namespace arenite::tool
