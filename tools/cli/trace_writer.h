// SPDX-License-Identifier: Apache-2.0
// Collects events and writes them in the JSON of Chrome's trace viewer and Perfetto.
// Source: the document "Trace Event Format"; complete events ("X") and names of threads ("M").
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "convert/files/output_files.h"

namespace arenite::tool {

struct TraceEvent {
  std::string name;
  const char* category = "";
  uint32_t thread = 0;
  double begin_us = 0.0;
  double duration_us = 0.0;
  uint64_t step = 0;
  uint32_t tokens = 0;
};

class TraceWriter {
 public:
  // Events beyond kEventsMax are counted, but not kept.
  void add(TraceEvent event);

  // Leaves it to the caller to commit the file. Throws InputError.
  void write(convert::AtomicFile& file, uint32_t threads) const;

  uint64_t dropped() const { return dropped_; }

 private:
  static constexpr size_t kEventsMax = 2'000'000;  // more than the viewers can show

  std::vector<TraceEvent> events_;
  uint64_t dropped_ = 0;
};

}  // namespace arenite::tool
