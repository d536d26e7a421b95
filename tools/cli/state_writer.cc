// SPDX-License-Identifier: Apache-2.0
// No exception may pass through the runtime: what the hook catches waits for the end of the call.
#include "cli/state_writer.h"

#include <utility>

#include "convert/files/error.h"
#include "format/reader.h"

namespace arenite::tool {

StateWriter::StateWriter(const RunOptions& options, const Model& model,
                         const std::vector<uint64_t>& tokens_shape, WriteRows write_rows)
    : write_rows_(std::move(write_rows)) {
  if (options.hidden_states.empty()) return;
  const format::ModelReader reader(model.file());
  if (reader.hidden_states() == 0) {
    throw convert::InputError("{}: the file names no hidden states: convert it again",
                              convert::quote(options.model.string()));
  }
  std::vector<uint64_t> shape = {reader.hidden_states()};
  for (const uint64_t extent : tokens_shape) {
    shape.push_back(extent);
    rows_ *= extent;
  }
  shape.push_back(reader.hidden_state(0).view.width);
  writer_.emplace(options.hidden_states, shape);
}

HiddenStateHook StateWriter::hook() {
  if (!writer_) return {};
  return {[](void* context, uint32_t index, const float* data, uint32_t, uint32_t features) {
            static_cast<StateWriter*>(context)->write(index, data, features);
          },
          this};
}

void StateWriter::rethrow() const {
  if (error_) std::rethrow_exception(error_);
}

convert::AtomicFile* StateWriter::file() { return writer_ ? &writer_->file() : nullptr; }

void StateWriter::write(uint32_t index, const float* data, uint32_t features) {
  if (error_) return;
  try {
    write_rows_(*writer_, index * rows_, data, features);
  } catch (...) {
    error_ = std::current_exception();
  }
}

}  // namespace arenite::tool
