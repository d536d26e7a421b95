// SPDX-License-Identifier: Apache-2.0
// Forks, arranges files and limits in the child, and reads until both ends of it are closed.
#include "support/program.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <stdexcept>

namespace arenite::testing {
namespace {

struct Channel {
  int reader = -1;
  int writer = -1;
};

Channel open_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  return {ends[0], ends[1]};
}

Channel open_terminal() {
  const int leader = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (leader < 0 || grantpt(leader) != 0 || unlockpt(leader) != 0) {
    throw std::runtime_error("no terminal");
  }
  return {leader, open(ptsname(leader), O_RDWR | O_NOCTTY | O_CLOEXEC)};
}

// In the child, after fork: nothing here may use the heap of a process with threads.
[[noreturn]] void become(const Command& command, char* const* words, int output, int errors) {
  dup2(output, STDOUT_FILENO);
  dup2(errors, STDERR_FILENO);
  if (!command.folder.empty() && chdir(command.folder.c_str()) != 0) _exit(126);
  if (command.file_bytes_max != 0) {
    std::signal(SIGXFSZ, SIG_IGN);  // writing then fails with EFBIG
    const rlim_t bytes_max = static_cast<rlim_t>(command.file_bytes_max);
    const rlimit limit = {bytes_max, bytes_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  for (const std::string& variable : command.environment) {
    putenv(const_cast<char*>(variable.c_str()));
  }
  execvp(words[0], words);
  _exit(127);
}

void collect(int output, int errors, ProgramResult& result) {
  pollfd ends[2] = {{output, POLLIN, 0}, {errors, POLLIN, 0}};
  while (ends[0].fd >= 0 || ends[1].fd >= 0) {
    poll(ends, 2, -1);
    for (pollfd& end : ends) {
      if (end.fd < 0 || end.revents == 0) continue;
      char buffer[4096];
      const ssize_t count = read(end.fd, buffer, sizeof(buffer));
      if (count <= 0) {  // a terminal without writers is an error
        end.fd = -1;
        continue;
      }
      result.output.append(buffer, static_cast<size_t>(count));
      if (&end == &ends[1]) result.errors.append(buffer, static_cast<size_t>(count));
    }
  }
}

}  // namespace

ProgramResult run(const Command& command) {
  std::vector<char*> words;
  for (const std::string& word : command.words) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  Channel output = open_pipe();
  const Channel errors = command.terminal ? open_terminal() : open_pipe();
  if (!command.output_file.empty()) {
    close(output.writer);
    output.writer = open(command.output_file.c_str(), O_WRONLY | O_CLOEXEC);
  }
  const pid_t child = fork();
  if (child == 0) become(command, words.data(), output.writer, errors.writer);
  close(output.writer);
  close(errors.writer);
  ProgramResult result;
  collect(output.reader, errors.reader, result);
  close(output.reader);
  close(errors.reader);
  int status = 0;
  rusage usage = {};
  wait4(child, &status, 0, &usage);
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  result.peak_bytes = static_cast<uint64_t>(usage.ru_maxrss) * 1024;
  return result;
}

ProgramResult run(const std::vector<std::string>& words) { return run(Command{words}); }

}  // namespace arenite::testing
