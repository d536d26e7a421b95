// SPDX-License-Identifier: Apache-2.0
// Forks, sets up files and limits in the child, and reads its output until both streams are closed.
#include "support/program.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <utility>

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

template <typename Resource>
void limit(Resource resource, uint64_t most) {
  if (most == 0) return;
  const rlimit both = {static_cast<rlim_t>(most), static_cast<rlim_t>(most)};
  setrlimit(resource, &both);
}

void set_limits(const Command& command) {
  if (command.file_bytes_max != 0) std::signal(SIGXFSZ, SIG_IGN);  // writing fails with EFBIG
  limit(RLIMIT_FSIZE, command.file_bytes_max);
  limit(RLIMIT_AS, command.address_bytes_max);
  limit(RLIMIT_NPROC, command.processes_max);
  constexpr uid_t kNobody = 54321;  // who has no process yet
  if (command.unprivileged && (setgid(kNobody) != 0 || setuid(kNobody) != 0)) _exit(126);
}

// Lets what is written to the channel go to a file, if one is named.
void redirect(Channel& channel, const std::filesystem::path& file) {
  if (file.empty()) return;
  close(channel.writer);
  channel.writer = open(file.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
}

// In the child, after fork: nothing here may use the heap of a process with threads, which one with
// a body may not have.
[[noreturn]] void become(const Command& command, char* const* words, int output, int errors) {
  dup2(output, STDOUT_FILENO);
  dup2(errors, STDERR_FILENO);
  if (command.output == Stream::kClosed) close(STDOUT_FILENO);
  if (command.errors == Stream::kClosed) close(STDERR_FILENO);
  if (!command.folder.empty() && chdir(command.folder.c_str()) != 0) _exit(126);
  set_limits(command);
  for (const std::string& variable : command.environment) {
    putenv(const_cast<char*>(variable.c_str()));
  }
  if (command.body) _exit(command.body());
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
  Channel errors = command.terminal ? open_terminal() : open_pipe();
  redirect(output, command.output_file);
  redirect(errors, command.errors_file);
  if (command.output == Stream::kReaderGone) close(std::exchange(output.reader, -1));
  if (command.errors == Stream::kReaderGone) close(std::exchange(errors.reader, -1));
  if (command.body) std::fflush(stdout);  // or the child would write it, too
  const pid_t child = fork();
  if (child == 0) become(command, words.data(), output.writer, errors.writer);
  close(output.writer);
  close(errors.writer);
  ProgramResult result;
  if (command.meanwhile) command.meanwhile(child);
  collect(output.reader, errors.reader, result);
  if (output.reader >= 0) close(output.reader);
  if (errors.reader >= 0) close(errors.reader);
  int status = 0;
  rusage usage = {};
  wait4(child, &status, 0, &usage);
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  result.peak_bytes = static_cast<uint64_t>(usage.ru_maxrss) * 1024;
  return result;
}

ProgramResult run(const std::vector<std::string>& words) { return run(Command{words}); }

}  // namespace arenite::testing
