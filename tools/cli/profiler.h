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

struct TraceEvent {
  std::string name;
  const char* category = "";
  uint32_t thread = 0;
  double begin_us = 0.0;
  double duration_us = 0.0;
  uint64_t step = 0;
  uint32_t tokens = 0;
};

// Collects events and writes them as JSON for Chrome's trace viewer and Perfetto. Source: the
// document "Trace Event Format"; complete events ("X") and thread names ("M").
class TraceWriter {
 public:
  // Counts events beyond kEventsMax, but does not keep them.
  void add(TraceEvent event);

  // Writes the trace into `file`; the caller commits it. Throws InputError.
  void write(convert::AtomicFile& file, uint32_t threads) const;

  uint64_t dropped() const { return dropped_; }

 private:
  static constexpr size_t kEventsMax = 2'000'000;  // more than viewers can show

  std::vector<TraceEvent> events_;
  uint64_t dropped_ = 0;
};

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
  struct OpTotal {
    uint64_t calls = 0;
    double seconds = 0.0;
    double flops = 0.0;
    size_t step = SIZE_MAX;  // of its last call; an op over blocks has several calls in a step
  };
  // The time a thread worked on an op. Each has its own cache line.
  struct alignas(64) Busy {
    Clock::time_point begin, end;
    bool worked = false;
  };

  ParallelFor watch(const ParallelFor& parallel);
  void op_begins(uint32_t index);
  void op_ends(uint32_t index);
  void add_events(uint32_t index, Clock::time_point end, bool is_last);
  template <typename Action>
  void keep_error(const Action& action) noexcept;
  void run_watched(uint32_t tasks, ParallelFor::Task task, void* job);
  double flops_of(uint32_t index) const;
  double microseconds(Clock::time_point time) const;
  std::string table() const;

  ProfileOptions options_;
  format::ModelReader reader_;
  std::vector<OpTotal> totals_;
  std::vector<Feed> next_;  // of the next call
  std::vector<Feed> step_;  // of the running call
  uint64_t steps_ = 0;
  uint32_t op_index_ = 0;
  Clock::time_point start_ = Clock::now();
  Clock::time_point op_start_, step_start_;
  ParallelFor inner_;
  std::vector<Busy> busy_;
  TraceWriter trace_;
  std::exception_ptr error_;  // waits for report(), as no exception may pass through the runtime
};

}  // namespace arenite::tool
