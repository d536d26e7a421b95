// SPDX-License-Identifier: Apache-2.0
// Times the ops of a session, for a table of the time per op and a trace of every op.
#pragma once

#include <chrono>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "arenite/session.h"
#include "cli/model_cost.h"
#include "cli/process.h"
#include "convert/files/output_files.h"
#include "format/reader.h"

namespace CLI {
class App;
}  // namespace CLI

namespace arenite::tool {

struct ProfileOptions {
  bool table = false;
  std::filesystem::path trace;  // empty: none

  bool wanted() const { return table || !trace.empty(); }
};

// Declares --profile and --trace. `options` must outlive the command.
void add_profile_options(CLI::App& command, ProfileOptions& options);

class Profiler {
 public:
  // `model` must outlive the profiler.
  Profiler(const ProfileOptions& options, const Model& model);
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  // Sets the hook and the pool of the session's options. Costs nothing if no profile is wanted.
  void attach(SessionOptions& options, const ParallelFor& parallel);

  // Announces a sequence of the session's next call. Call it once per sequence.
  void add_sequence(const Feed& feed);

  // Writes the trace and prints the table on the standard error, if wanted. The trace and `outputs`
  // are committed together or not at all. Throws InputError.
  void report(std::vector<convert::AtomicFile*> outputs = {});

 private:
  static constexpr size_t kEventsMax = 2'000'000;  // more than viewers can show

  struct OpTotal {
    uint64_t calls = 0;
    double seconds = 0.0;
    double flops = 0.0;
    size_t step = SIZE_MAX;  // of its last call; an op over blocks has several calls in a step
  };
  void op_begins(uint32_t index);
  void op_ends(uint32_t index);
  void add_event(const char* name, const char* category, Clock::time_point begin,
                 Clock::time_point end) noexcept;
  double flops_of(uint32_t index) const;
  std::string table() const;

  ProfileOptions options_;
  format::ModelReader reader_;
  std::vector<OpTotal> totals_;
  std::vector<Feed> next_;  // of the next call
  std::vector<Feed> step_;  // of the running call
  uint64_t steps_ = 0;
  Clock::time_point start_ = Clock::now();
  Clock::time_point op_start_, step_start_;
  std::string trace_;         // events as JSON for Chrome's trace viewer, each after a comma
  size_t events_ = 0;         // those beyond kEventsMax are counted, but not kept
  std::exception_ptr error_;  // waits for report(), as no exception may pass through the runtime
};

}  // namespace arenite::tool
