// SPDX-License-Identifier: Apache-2.0
// The command-line program: reads the arguments, calls the subcommand, and turns errors into one
// line on stderr and an exit code: 1 for bad input, 2 for bad usage, 3 for a bug of ours.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "arenite/commands.h"
#include "arenite/version.h"
#include "convert/error.h"

int main(int argc, char** argv) {
  CLI::App app(
      "Converts trained attention models and runs them in a fixed block of memory.\n"
      "\nExample:\n"
      "  arenite convert attention.safetensors -o attention.arn --heads 12\n"
      "  arenite run attention.arn --input x.npy --output y.npy\n",
      "arenite");
  app.set_version_flag("--version", std::string("arenite ") + arenite::version());
  app.require_subcommand(1);
  app.failure_message(CLI::FailureMessage::simple);
  arenite::tool::add_convert(app);
  arenite::tool::add_inspect(app);
  arenite::tool::add_embed(app);
  arenite::tool::add_run(app);
  arenite::tool::add_bench(app);
  try {
    app.parse(argc, argv);
    return std::fflush(stdout) == 0 ? 0 : 1;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const arenite::convert::InputError& error) {
    fmt::print(stderr, "arenite: {}\n", error.what());
    return 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "arenite: internal error: {}\n", error.what());
    return 3;
  }
}
