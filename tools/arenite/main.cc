// SPDX-License-Identifier: Apache-2.0
// The command-line program: reads the arguments and calls the subcommand.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "convert/producer.h"

int main(int argc, char** argv) {
  CLI::App app("Converts attention models for the Arenite runtime.", "arenite");
  app.set_version_flag("--version", arenite::convert::producer());
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  fmt::print("{}", app.help());
  return 0;
}
