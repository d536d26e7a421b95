// SPDX-License-Identifier: Apache-2.0
// The command-line program: reads the arguments, calls the subcommand, and turns errors into a
// message on stderr and an exit code: 1 for bad input, 2 for bad usage, 3 for a bug of ours.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <system_error>

#include "arenite/arguments.h"
#include "arenite/commands.h"
#include "arenite/version.h"
#include "convert/error.h"

namespace {

constexpr int kBadInput = 1;
constexpr int kBadUsage = 2;
constexpr int kBug = 3;

int fail(int exit_code, const char* message) {
  fmt::print(stderr, "arenite: {}\n", message);
  return exit_code;
}

// What was printed may still lie in a buffer; a full disk shows only here.
int finish(int exit_code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return exit_code;
  fmt::print(stderr, "arenite: cannot write to the standard output: {}\n", std::strerror(errno));
  return kBadInput;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Converts trained attention models and runs them in a fixed block of memory.\n"
      "\nExamples:\n"
      "  arenite convert attention.safetensors -o attention.arn --heads 12\n"
      "  arenite run attention.arn --input x.npy --output y.npy\n"
      "  arenite convert models/home-intent -o intent.arn\n"
      "  arenite generate intent.arn --special --prompt 'dim the kitchen light<|do|>'\n",
      "arenite");
  app.set_version_flag("--version", std::string("arenite ") + arenite::version());
  app.require_subcommand(1);
  app.failure_message(arenite::tool::usage_message);
  arenite::tool::add_convert(app);
  arenite::tool::add_inspect(app);
  arenite::tool::add_verify(app);
  arenite::tool::add_strip(app);
  arenite::tool::add_embed(app);
  arenite::tool::add_run(app);
  arenite::tool::add_generate(app);
  arenite::tool::add_embed_text(app);
  arenite::tool::add_classify(app);
  arenite::tool::add_bench(app);
  try {
    if (argc < 2) {
      fmt::print(stderr, "{}", app.help());
      return kBadUsage;
    }
    app.parse(argc, argv);
    return finish(0);
  } catch (const CLI::ParseError& error) {
    return finish(app.exit(error) == 0 ? 0 : kBadUsage);
  } catch (const arenite::convert::InputError& error) {
    return fail(kBadInput, error.what());
  } catch (const std::bad_alloc&) {
    return fail(kBadInput, "there is not enough memory for this");
  } catch (const std::system_error& error) {  // of streams, threads and file systems
    return fail(kBadInput, error.what());
  } catch (const std::exception& error) {
    return fail(kBug, fmt::format("internal error: {}", error.what()).c_str());
  }
}
