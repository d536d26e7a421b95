// SPDX-License-Identifier: Apache-2.0
// One event a line, so that a trace can be searched as text.
#include "cli/trace_writer.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace arenite::tool {
namespace {

constexpr size_t kBufferBytes = 1 << 20;

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

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

void TraceWriter::add(TraceEvent event) {
  if (events_.size() < kEventsMax) {
    events_.push_back(std::move(event));
  } else {
    ++dropped_;
  }
}

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
                    quoted(event.name), event.category, event.thread, event.begin_us,
                    event.duration_us, event.step, event.tokens));
  }
  out.write("\n]}\n");
  out.flush();
}

}  // namespace arenite::tool
