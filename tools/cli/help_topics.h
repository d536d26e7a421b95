// SPDX-License-Identifier: Apache-2.0
// What is too long for the help of a command: `arenite help TOPIC` shows it.
#pragma once

#include <span>
#include <string>

namespace arenite::tool {

struct HelpTopic {
  const char* name;       // "formats"
  const char* what;       // in a line
  std::string (*text)();  // as wrapped() takes it
  const char* group;      // of options of `arenite convert` that come after it; empty: none
};

std::span<const HelpTopic> help_topics();

}  // namespace arenite::tool
