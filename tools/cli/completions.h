// SPDX-License-Identifier: Apache-2.0
// What a shell needs to complete the words of a command line.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace arenite::tool {

std::string bash_completion(const CLI::App& program);
std::string zsh_completion(const CLI::App& program);
std::string fish_completion(const CLI::App& program);

}  // namespace arenite::tool
