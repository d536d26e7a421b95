// SPDX-License-Identifier: Apache-2.0
// Pages for man, in the macros of man(7).
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "cli/help_topics.h"

namespace arenite::tool {

// Of the program, whose page lists the commands and topics, or of one of its commands.
std::string man_page(const CLI::App& command);

// Of a topic; `convert` has the options of its group.
std::string man_page(const HelpTopic& topic, const CLI::App& convert);

}  // namespace arenite::tool
