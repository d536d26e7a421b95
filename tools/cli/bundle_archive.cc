// SPDX-License-Identifier: Apache-2.0
// Builds the static library of a bundle for build systems whose compilers lack C++20. Uses the
// board's compilers and the bundle's Makefile.
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

#include "cli/boards.h"
#include "convert/files/error.h"
#include "convert/files/temporary_names.h"

namespace arenite::tool {
namespace {

namespace fs = std::filesystem;
using convert::InputError;

constexpr const char* kArchive = "libarenite.a";

bool is_on_path(const std::string& program) {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (access((fs::path(folder) / program).c_str(), X_OK) == 0) return true;
  }
  return false;
}

std::string packages_of(const Board& board) {
  return board.compilers == std::string("arm-none-eabi-")
             ? "Debian's packages gcc-arm-none-eabi, libnewlib-arm-none-eabi and "
               "libstdc++-arm-none-eabi-newlib have it, and make"
             : fmt::format("ESP-IDF brings it: install.sh {}, and then . export.sh", board.name);
}

// Returns the rest of the first flag that begins with `beginning`; empty if there is none.
std::string flag_of(const Board& board, const std::string& beginning) {
  std::istringstream words(board.flags);
  for (std::string word; words >> word;) {
    if (word.starts_with(beginning)) return word.substr(beginning.size());
  }
  return "";
}

// Returns Arduino's {build.mcu}, with {build.fpu}-{build.float-abi} below it if both are given.
std::string folder_of_core(const Board& board) {
  const std::string cpu = flag_of(board, "-mcpu=");
  const std::string fpu = flag_of(board, "-mfpu=");
  if (cpu.empty()) return board.name;
  return fpu.empty() ? cpu : fmt::format("{}/{}-{}", cpu, fpu, flag_of(board, "-mfloat-abi="));
}

struct ChildRun {
  int exit_code = 256;  // above 255: did not exit, or no such program
  std::string output;   // standard output and error
};

// Runs a program from PATH and waits for it.
ChildRun run_child(std::vector<std::string> words) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ChildRun result;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return result;
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, ends[1], STDERR_FILENO);
  posix_spawnattr_t attributes;  // the child blocks no signals, unlike this process
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t child = 0;
  const bool runs =
      posix_spawnp(&child, arguments[0], &files, &attributes, arguments.data(), environ) == 0;
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  close(ends[1]);
  char buffer[4096];
  for (ssize_t count = 1; count != 0;) {
    count = read(ends[0], buffer, sizeof(buffer));
    if (count > 0) result.output.append(buffer, static_cast<size_t>(count));
    if (count < 0 && errno != EINTR) break;
  }
  close(ends[0]);
  int status = 0;
  while (runs && waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  if (runs && WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  return result;
}

std::string bytes_in_file(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// Returns the first line with "error", or else the last one.
std::string error_in(const std::string& output) {
  std::istringstream lines(output);
  std::string found;
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty()) found = line;
    if (line.find("error") != line.npos) break;
  }
  return convert::printable(found, 200);
}

// Compiles the bundle in a temporary folder beside `output` and returns the library's bytes.
std::string compiled_archive(const Board& board, std::span<const FolderFile> files,
                             const fs::path& output) {
  convert::TemporaryEntry temporary;
  const convert::SignalsWait until_done;
  const fs::path place = output.has_filename() ? output : output.parent_path();
  if (const int error_number = temporary.make_folder(place)) {
    throw InputError("cannot write {}: {}", convert::quote(output.string()),
                     std::strerror(error_number));
  }
  const fs::path folder = temporary.path() / "bundle";
  convert::write_folder(folder, files);
  const std::string compilers = board.compilers;
  const std::string jobs = fmt::format("-j{}", std::max(1u, std::thread::hardware_concurrency()));
  const ChildRun made =
      run_child({"make", "-C", folder.string(), jobs, "lib", "BUILD=build",
                 "CC=" + compilers + "gcc", "CXX=" + compilers + "g++", "AR=" + compilers + "ar"});
  if (made.exit_code == 0) return bytes_in_file(folder / "build" / kArchive);
  throw InputError("--archive: {}g++ did not compile the bundle: {}; {}", compilers,
                   error_in(made.output), packages_of(board));
}

}  // namespace

void require_compilers(const Board& board) {
  const std::string compilers = board.compilers;
  if (compilers.empty()) {
    throw InputError(
        "--archive --board {}: found no compilers of its own, expected a board whose compilers "
        "make the archive (arenite help bundle lists them)",
        board.name);
  }
  for (const std::string& program :
       {compilers + "gcc", compilers + "g++", compilers + "ar", std::string("make")}) {
    if (is_on_path(program)) continue;
    throw InputError("--archive --board {}: found no {} on PATH: {}", board.name, program,
                     packages_of(board));
  }
}

void add_archive(const Board& board, const fs::path& output, std::vector<FolderFile>& files) {
  std::vector<FolderFile> made = {{fmt::format("src/{}/{}", folder_of_core(board), kArchive),
                                   compiled_archive(board, files, output)}};
  for (FolderFile& file : files) {
    const bool is_for_c = file.path == "arenite_model.h" || file.path == "arenite/version.h" ||
                          file.path.starts_with("arenite/arenite");
    if (is_for_c) made.push_back({"src/" + file.path, file.text});
    if (file.path == "library.properties") {
      file.text += "precompiled=true\nldflags=-larenite -lm\n";
    }
  }
  std::ranges::move(made, std::back_inserter(files));
}

}  // namespace arenite::tool
