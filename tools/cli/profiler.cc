// SPDX-License-Identifier: Apache-2.0
// Reads the clock twice per op.
#include "cli/profiler.h"

#include <map>

#include "cli/arguments.h"
#include "cli/report_facts.h"

namespace arenite::tool {
namespace {

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

}  // namespace

void add_profile_options(CLI::App& command, ProfileOptions& options) {
  command.add_flag("--profile", options.table,
                   "Show where the time goes, by kinds and names of ops");
  add_file(command, "--trace", options.trace,
           "Where to write every op of every call, for chrome://tracing or Perfetto");
}

Profiler::Profiler(const ProfileOptions& options, const Model& model)
    : options_(options), reader_(model.file()), totals_(reader_.ops()) {}

void Profiler::attach(SessionOptions& options, const ParallelFor& parallel) {
  options.parallel = parallel;
  if (!options_.wanted()) return;
  options.profile = {
      [](void* self, uint32_t index) { static_cast<Profiler*>(self)->op_begins(index); },
      [](void* self, uint32_t index) { static_cast<Profiler*>(self)->op_ends(index); }, this};
}

void Profiler::add_sequence(const Feed& feed) {
  if (options_.wanted()) next_.push_back(feed);
}

void Profiler::op_begins(uint32_t index) {
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
  if (!options_.trace.empty()) {
    add_event(reader_.op_name(index), op_kind_name(reader_.op(index).kind), op_start_, end);
    if (is_last) add_event("step", "step", step_start_, end);
  }
  if (is_last) ++steps_;
}

// Source: the document "Trace Event Format"; complete events ("X"), one on each line.
void Profiler::add_event(const char* name, const char* category, Clock::time_point begin,
                         Clock::time_point end) noexcept {
  if (++events_ > kEventsMax || error_) return;
  uint32_t tokens = 0;
  for (const Feed& sequence : step_) tokens += *std::ranges::max_element(sequence.tokens.of);
  const auto micros = [](Clock::duration time) {
    return std::chrono::duration<double, std::micro>(time).count();
  };
  try {
    trace_ += fmt::format(
        "{}{{\"ph\": \"X\", \"name\": {}, \"cat\": \"{}\", \"pid\": 1, \"tid\": 0, \"ts\": {:.3f}, "
        "\"dur\": {:.3f}, \"args\": {{\"step\": {}, \"tokens\": {}}}}}",
        trace_.empty() ? "" : ",\n", document(name, -1), category, micros(begin - start_),
        micros(end - begin), steps_, tokens);
  } catch (...) {
    error_ = std::current_exception();
  }
}

double Profiler::flops_of(uint32_t index) const {
  double flops = 0.0;
  for (const Feed& feed : step_) flops += op_flops(reader_, index, feed);
  return flops;
}

std::string Profiler::table() const {
  double all_seconds = 0.0;
  std::map<std::string, Row> kinds, names;
  for (uint32_t i = 0; i < totals_.size(); ++i) {
    const OpTotal& total = totals_[i];
    const std::string kind = op_kind_name(reader_.op(i).kind);
    const std::string name = convert::printable(split_op_name(reader_.op_name(i)).part, 40);
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
    for (const std::string_view part :
         {std::string_view("{\"displayTimeUnit\": \"ns\", \"traceEvents\": [\n"),
          std::string_view(trace_), std::string_view("\n]}\n")}) {
      trace->write(std::as_bytes(std::span(part)));
    }
  }
  convert::commit_together(outputs);
  if (options_.table && steps_ > 0) write_error(table());
  if (events_ > kEventsMax) {
    print_error("{}: the last {} events were left out\n", options_.trace.string(),
                events_ - kEventsMax);
  }
}

}  // namespace arenite::tool
