// SPDX-License-Identifier: Apache-2.0
// Declares the subcommands, runs one, and turns exceptions into messages and exit codes.
#include "cli/commands.h"

#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <sstream>
#include <stdexcept>
#include <system_error>

#include "arenite/version.h"
#include "cli/arguments.h"
#include "convert/files/error.h"

namespace arenite::tool {
namespace {

// Makes control characters visible, because messages quote files and the command line.
std::string shown(const char* message) { return convert::visible(message, "\n"); }

int run(int argc, const char* const* argv) {
  CLI::App app(
      "Converts trained attention models and runs them in a fixed block of memory.\n"
      "\nExamples:\n"
      "  arenite convert attention.safetensors -o attention.arn --heads 12\n"
      "  arenite run attention.arn --input x.npy --output y.npy\n"
      "  arenite convert models/home-intent -o intent.arn\n"
      "  arenite generate intent.arn --special --prompt 'dim the kitchen light<|do|>'\n",
      "arenite");
  app.set_version_flag("--version", std::string("arenite ") + version());
  app.footer(
      "\n'arenite help COMMAND' explains a command, and 'arenite help TOPIC' formats, "
      "state-dicts, sound, weights, limits, targets or json.\n"
      "\nExits with 1 for bad input, output that cannot be written, or a machine that is short of "
      "memory or threads; with 2 for bad usage, such as an output that is an input; with 3 for a "
      "bug\nof its own. Nothing that it was writing remains.\n");
  app.require_subcommand(1);
  app.formatter(std::make_shared<HelpFormatter>(terminal_columns()));
  app.failure_message(usage_message);
  add_convert(app);
  add_inspect(app);
  add_verify(app);
  add_strip(app);
  add_repack(app);
  add_embed(app);
  add_bundle(app);
  add_run(app);
  add_generate(app);
  add_transcribe(app);
  add_tokenize(app);
  add_embed_text(app);
  add_classify(app);
  add_bench(app);
  add_help(app);
  if (argc < 2) {
    write_error(app.help());
    return kBadUsage;
  }
  int exit_code = 0;
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // Written through stdio, which remembers a failed write.
    std::ostringstream output, errors;
    exit_code = app.exit(error, output, errors) == 0 ? 0 : kBadUsage;
    fmt::print("{}", for_terminal(output.str()));
    write_error(shown(errors.str().c_str()));
  }
  flush_output();
  return exit_code;
}

}  // namespace

int fail(int exit_code, const char* message, const char* detail) noexcept {
  write_error({"arenite: ", message, detail, "\n"});
  return exit_code;
}

int run_program(int argc, const char* const* argv) {
  try {
    return run(argc, argv);
  } catch (const convert::SameFileError& error) {
    return fail(kBadUsage, shown(error.what()).c_str());
  } catch (const convert::InputError& error) {
    return fail(kBadInput, shown(error.what()).c_str());
  } catch (const std::bad_alloc&) {
    return fail(kBadInput, "there is not enough memory for this");
  } catch (const std::length_error&) {  // a container was asked for an impossible size
    return fail(kBadInput, "there is not enough memory for this");
  } catch (const std::system_error& error) {  // from streams, threads and file systems
    if (std::ferror(stdout) == 0) return fail(kBadInput, shown(error.what()).c_str());
    return fail(kBadInput,
                "cannot write to the standard output: ", std::strerror(error.code().value()));
  } catch (const std::exception& error) {
    return fail(kBug, "internal error: ", shown(error.what()).c_str());
  }
}

}  // namespace arenite::tool
