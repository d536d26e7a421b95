// SPDX-License-Identifier: Apache-2.0
// The command-line program: reads the arguments, calls the subcommand, and turns errors into a
// message on stderr and an exit code: 1 for bad input, 2 for bad usage, 3 for a bug of ours.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>
#include <system_error>

#include "arenite/version.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/help.h"
#include "cli/process.h"
#include "cli/terminal.h"
#include "convert/files/error.h"
#include "convert/files/output_files.h"

namespace {

constexpr int kBadInput = 1;
constexpr int kBadUsage = 2;
constexpr int kBug = 3;

// Takes no memory: there may be none left.
int fail(int exit_code, const char* message, const char* detail = "") noexcept {
  arenite::tool::write_error({"arenite: ", message, detail, "\n"});
  return exit_code;
}

// Where memory is so short that not even an exception can be made. Objects that are there before
// main take memory, too, so it is set before them.
[[noreturn]] void end_without_exception() {
  if (std::current_exception() != nullptr) std::abort();
  std::_Exit(fail(kBadInput, "there is not enough memory for this"));
}

[[gnu::constructor(101)]] void watch_for_want_of_memory() {
  std::set_terminate(end_without_exception);
}

int run(int argc, char** argv) {
  CLI::App app(
      "Converts trained attention models and runs them in a fixed block of memory.\n"
      "\nExamples:\n"
      "  arenite convert attention.safetensors -o attention.arn --heads 12\n"
      "  arenite run attention.arn --input x.npy --output y.npy\n"
      "  arenite convert models/home-intent -o intent.arn\n"
      "  arenite generate intent.arn --special --prompt 'dim the kitchen light<|do|>'\n",
      "arenite");
  app.set_version_flag("--version", std::string("arenite ") + arenite::version());
  app.footer(
      "\n'arenite help COMMAND' tells of a command, and 'arenite help TOPIC' of formats, "
      "state-dicts, "
      "weights, limits, targets or json.\n"
      "\nExits with 1 for bad input, output that cannot be written, or a machine that is short of\n"
      "memory or threads; with 2 for bad usage, such as an output that is an input; with 3 for a "
      "bug\nof its own. Nothing that it was writing remains.\n");
  app.require_subcommand(1);
  app.formatter(std::make_shared<arenite::tool::HelpFormatter>(
      arenite::tool::terminal_columns(), arenite::tool::shows_colours(STDOUT_FILENO)));
  app.failure_message(arenite::tool::usage_message);
  arenite::tool::add_convert(app);
  arenite::tool::add_inspect(app);
  arenite::tool::add_verify(app);
  arenite::tool::add_strip(app);
  arenite::tool::add_repack(app);
  arenite::tool::add_embed(app);
  arenite::tool::add_bundle(app);
  arenite::tool::add_run(app);
  arenite::tool::add_generate(app);
  arenite::tool::add_embed_text(app);
  arenite::tool::add_classify(app);
  arenite::tool::add_bench(app);
  arenite::tool::add_help(app);
  if (argc < 2) {
    arenite::tool::write_error(app.help());
    return kBadUsage;
  }
  int exit_code = 0;
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    exit_code = app.exit(error) == 0 ? 0 : kBadUsage;
  }
  arenite::tool::flush_output();
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  arenite::tool::hold_standard_streams();
  arenite::tool::handle_signals();
  try {
    return run(argc, argv);
  } catch (const arenite::convert::SameFileError& error) {
    return fail(kBadUsage, error.what());
  } catch (const arenite::convert::InputError& error) {
    return fail(kBadInput, error.what());
  } catch (const std::bad_alloc&) {
    return fail(kBadInput, "there is not enough memory for this");
  } catch (const std::length_error&) {  // of a container that can never be so large
    return fail(kBadInput, "there is not enough memory for this");
  } catch (const std::system_error& error) {  // of streams, threads and file systems
    if (std::ferror(stdout) == 0) return fail(kBadInput, error.what());
    return fail(kBadInput,
                "cannot write to the standard output: ", std::strerror(error.code().value()));
  } catch (const std::exception& error) {
    return fail(kBug, "internal error: ", error.what());
  }
}
