// SPDX-License-Identifier: Apache-2.0
// Reads the clock twice per op and, for a trace, twice per task of a worker.
#include "cli/profiler.h"

#include <map>

#include "cli/arguments.h"
#include "cli/inspect_facts.h"

namespace arenite::tool {
namespace {

// Drops the layer from an op's name: "3.qkv" becomes "qkv".
std::string without_layer(const std::string& name) {
  const size_t digits = name.find_first_not_of("0123456789");
  if (digits == 0 || digits == std::string::npos || name[digits] != '.') return name;
  return name.substr(digits + 1);
}

struct Row {
  std::string name;
  std::string kind;
  uint64_t calls = 0;
  double seconds = 0.0;
  double flops = 0.0;
};

void add_rows(TextTable& table, const std::map<std::string, Row>& by_name, double all_seconds) {
  std::vector<Row> rows;
  for (const auto& [name, row] : by_name) rows.push_back(row);
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& a, const Row& b) { return a.seconds > b.seconds; });
  for (const Row& row : rows) {
    table.add_row({row.name, row.kind, grouped(row.calls), fmt::format("{:.3f}", row.seconds * 1e3),
                   fmt::format("{:.1f}", 100.0 * row.seconds / all_seconds),
                   fmt::format("{:.2f}", row.seconds * 1e6 / static_cast<double>(row.calls)),
                   row.flops == 0.0 ? "" : fmt::format("{:.2f}", row.flops / row.seconds / 1e9)});
  }
}

constexpr size_t kBufferBytes = 1 << 20;

class BufferedFile {
 public:
  explicit BufferedFile(convert::AtomicFile& file) : file_(file) {}

  void write(const std::string& text) {
    buffer_ += text;
    if (buffer_.size() >= kBufferBytes) flush();
  }
  void flush() {
    file_.write(std::as_bytes(std::span(buffer_)));
    buffer_.clear();
  }

 private:
  convert::AtomicFile& file_;
  std::string buffer_;
};

}  // namespace

void add_profile_options(CLI::App& command, ProfileOptions& options) {
  command.add_flag("--profile", options.table,
                   "Show where the time goes, by kinds and names of ops");
  add_file(command, "--trace", options.trace,
           "Where to write every op of every call, for chrome://tracing or Perfetto");
}

void TraceWriter::add(TraceEvent event) {
  if (events_.size() < kEventsMax) {
    events_.push_back(std::move(event));
  } else {
    ++dropped_;
  }
}

// Writes one event per line, so that a trace can be searched as text.
void TraceWriter::write(convert::AtomicFile& file, uint32_t threads) const {
  BufferedFile out(file);
  out.write("{\"displayTimeUnit\": \"ns\", \"traceEvents\": [\n");
  for (uint32_t thread = 0; thread < threads; ++thread) {
    const std::string name = thread == 0 ? "session" : fmt::format("worker {}", thread);
    out.write(
        fmt::format("{}{{\"ph\": \"M\", \"name\": \"thread_name\", \"pid\": 1, \"tid\": {}, "
                    "\"args\": {{\"name\": \"{}\"}}}}",
                    thread == 0 ? "" : ",\n", thread, name));
  }
  for (const TraceEvent& event : events_) {
    out.write(
        fmt::format(",\n{{\"ph\": \"X\", \"name\": {}, \"cat\": \"{}\", \"pid\": 1, "
                    "\"tid\": {}, \"ts\": {:.3f}, \"dur\": {:.3f}, "
                    "\"args\": {{\"step\": {}, \"tokens\": {}}}}}",
                    document(event.name, -1), event.category, event.thread, event.begin_us,
                    event.duration_us, event.step, event.tokens));
  }
  out.write("\n]}\n");
  out.flush();
}

Profiler::Profiler(const ProfileOptions& options, const Model& model)
    : options_(options), reader_(model.file()), totals_(reader_.ops()) {}

void Profiler::attach(SessionOptions& options, const ParallelFor& parallel) {
  options.parallel = watch(parallel);
  if (!options_.wanted()) return;
  options.profile = {
      [](void* self, uint32_t index) { static_cast<Profiler*>(self)->op_begins(index); },
      [](void* self, uint32_t index) { static_cast<Profiler*>(self)->op_ends(index); }, this};
}

ParallelFor Profiler::watch(const ParallelFor& parallel) {
  inner_ = parallel;
  busy_.resize(parallel.threads);
  if (options_.trace.empty() || parallel.run == nullptr) return parallel;
  return {parallel.threads,
          [](void* self, uint32_t tasks, ParallelFor::Task task, void* job) {
            static_cast<Profiler*>(self)->run_watched(tasks, task, job);
          },
          this};
}

void Profiler::add_sequence(const Feed& feed) {
  if (options_.wanted()) next_.push_back(feed);
}

template <typename Action>
void Profiler::keep_error(const Action& action) noexcept {
  if (error_) return;
  try {
    action();
  } catch (...) {
    error_ = std::current_exception();
  }
}

void Profiler::op_begins(uint32_t index) {
  op_index_ = index;
  if (index == reader_.first_op(reader_.function_of_op(index)) && !next_.empty()) {
    step_ = std::exchange(next_, {});
    step_start_ = Clock::now();
  }
  op_start_ = Clock::now();
}

void Profiler::op_ends(uint32_t index) {
  const Clock::time_point end = Clock::now();
  OpTotal& total = totals_[index];
  total.seconds += std::chrono::duration<double>(end - op_start_).count();
  if (std::exchange(total.step, steps_) != steps_) {
    ++total.calls;
    if (options_.table) total.flops += flops_of(index);
  }
  const bool is_last = index + 1 == reader_.end_of_ops(reader_.function_of_op(index));
  if (!options_.trace.empty()) keep_error([&] { add_events(index, end, is_last); });
  if (is_last) ++steps_;
}

void Profiler::add_events(uint32_t index, Clock::time_point end, bool is_last) {
  uint32_t tokens = 0;
  for (const Feed& sequence : step_) tokens += *std::ranges::max_element(sequence.tokens.of);
  const double begin_us = microseconds(op_start_);
  trace_.add({reader_.op_name(index), op_kind_name(reader_.op(index).kind), 0, begin_us,
              microseconds(end) - begin_us, steps_, tokens});
  if (!is_last) return;
  trace_.add({fmt::format("step {}", steps_), "step", 0, microseconds(step_start_),
              microseconds(end) - microseconds(step_start_), steps_, tokens});
}

// The op's own event already covers the calling thread's share of the work.
void Profiler::run_watched(uint32_t tasks, ParallelFor::Task task, void* job) {
  struct Watched {
    Profiler& profiler;
    ParallelFor::Task task;
    void* job;
  } watched{*this, task, job};
  for (Busy& busy : busy_) busy.worked = false;
  inner_.run(
      inner_.pool, tasks,
      [](void* data, uint32_t task_index, uint32_t thread_index) {
        const Watched& call = *static_cast<Watched*>(data);
        Busy& busy = call.profiler.busy_[thread_index];
        if (!busy.worked) busy.begin = Clock::now();
        busy.worked = true;
        call.task(call.job, task_index, thread_index);
        busy.end = Clock::now();
      },
      &watched);
  for (uint32_t thread = 1; thread < busy_.size(); ++thread) {
    const Busy& busy = busy_[thread];
    if (!busy.worked) continue;
    const double begin_us = microseconds(busy.begin);
    keep_error([&] {
      trace_.add({reader_.op_name(op_index_), op_kind_name(reader_.op(op_index_).kind), thread,
                  begin_us, microseconds(busy.end) - begin_us, steps_, 0});
    });
  }
}

double Profiler::flops_of(uint32_t index) const {
  double flops = 0.0;
  for (const Feed& feed : step_) flops += op_flops(reader_, index, feed);
  return flops;
}

double Profiler::microseconds(Clock::time_point time) const {
  return std::chrono::duration<double, std::micro>(time - start_).count();
}

std::string Profiler::table() const {
  double all_seconds = 0.0;
  std::map<std::string, Row> kinds, names;
  for (uint32_t i = 0; i < totals_.size(); ++i) {
    const OpTotal& total = totals_[i];
    const std::string kind = op_kind_name(reader_.op(i).kind);
    const std::string name = convert::printable(without_layer(reader_.op_name(i)), 40);
    for (Row* row : {&kinds[kind], &names[name + '\n' + kind]}) {
      row->name = row == &kinds[kind] ? "all" : name;
      row->kind = kind;
      row->calls += total.calls;
      row->seconds += total.seconds;
      row->flops += total.flops;
    }
    all_seconds += total.seconds;
  }
  TextTable table({"op", "kind", ">calls", ">ms", ">%", ">us/call", ">GFLOP/s"});
  add_rows(table, kinds, all_seconds);
  table.add_row({"", "", "", "", "", "", ""});
  add_rows(table, names, all_seconds);
  return fmt::format("\nProfile of {}: {:.3f} ms in ops\n{}", counted(steps_, "call"),
                     all_seconds * 1e3, table.text());
}

void Profiler::report(std::vector<convert::AtomicFile*> outputs) {
  if (error_) std::rethrow_exception(error_);
  std::optional<convert::AtomicFile> trace;
  if (!options_.trace.empty()) {
    outputs.push_back(&trace.emplace(options_.trace));
    trace_.write(*trace, std::max(inner_.threads, 1u));
  }
  convert::commit_together(outputs);
  if (options_.table && steps_ > 0) write_error(table());
  if (trace_.dropped() > 0) {
    print_error("{}: the last {} events were left out\n", options_.trace.string(),
                trace_.dropped());
  }
}

}  // namespace arenite::tool
