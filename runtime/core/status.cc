// SPDX-License-Identifier: Apache-2.0
// Texts of the library: its version, names of statuses and targets, and the one-line description of
// a failure.
#include "arenite/status.h"

#include <bit>

#include "arenite/version.h"
#include "core/message.h"
#include "core/targets.h"

namespace arenite {
namespace {

// Appends text to a caller's buffer and never writes past its end.
class Line {
 public:
  explicit Line(std::span<char> out) : out_(out) {}

  void add(const char* text) {
    for (; *text != '\0'; ++text) add(*text);
  }
  // Divides in 16-bit parts: on 32-bit CPUs a 64-bit division would link a routine of 750 bytes.
  void add(uint64_t number) {
    constexpr uint32_t kParts = 4;
    uint32_t parts[kParts];  // most significant first
    for (uint32_t i = kParts; i-- > 0; number >>= 16) parts[i] = number & 0xffff;
    char digits[20];
    int count = 0;
    uint32_t left = 0;  // nonzero if digits are left
    do {
      left = 0;
      uint32_t rest = 0;
      for (uint32_t& part : parts) {
        const uint32_t value = rest << 16 | part;
        part = value / 10;
        rest = value % 10;
        left |= part;
      }
      digits[count++] = static_cast<char>('0' + rest);
    } while (left != 0);
    while (count > 0) add(digits[--count]);
  }
  void add_targets(uint32_t targets) {
    bool first = true;
    for (uint32_t i = 0; i < kTargets; ++i) {
      if ((targets >> i & 1u) == 0) continue;
      if (!first) add(", ");
      add(name(static_cast<Target>(i)));
      first = false;
    }
    if (first) add("none");
  }
  size_t finish() {
    if (!out_.empty()) out_[length_] = '\0';
    return length_;
  }

 private:
  void add(char c) {
    if (length_ + 1 < out_.size()) out_[length_++] = c;
  }

  std::span<char> out_;
  size_t length_ = 0;
};

// Appends the parts of a diagnostic that only builds with messages have.
[[maybe_unused]] void add_words(Line& line, const Diagnostic& why) {
  if (why.reason != nullptr) {
    line.add(": ");
    line.add(why.reason);
  }
  if (why.field != nullptr) {
    line.add("; ");
    line.add(why.field);
    line.add("[");
    line.add(uint64_t{why.index});
    line.add("]");
  }
}

}  // namespace

// The version comes from the project() line of the top CMakeLists.txt.
const char* version() { return ARENITE_VERSION; }

const char* name(Status status) {
  switch (status) {
    case Status::kOk:
      return "ok";
    case Status::kInvalidArgument:
      return "invalid argument";
    case Status::kBadModel:
      return "bad model";
    case Status::kVersionMismatch:
      return "version mismatch";
    case Status::kUnsupported:
      return "unsupported";
    case Status::kArenaTooSmall:
      return "arena too small";
    case Status::kContextFull:
      return "context full";
  }
  return "unknown status";
}

namespace {

// A copy, since GCC's hidden visibility does not cover variable templates.
constexpr auto kTargetNames = kTargetColumn<&TargetRow::name>;

}  // namespace

const char* name(Target target) {
  const uint32_t index = static_cast<uint32_t>(target);
  return index < kTargets ? kTargetNames[index] : "unknown";
}

void clear(Diagnostic* why) {
  if (why != nullptr) *why = {};
}

#if defined(ARENITE_NO_MESSAGES)
void fill(Diagnostic* why, uint32_t index, uint64_t found, uint64_t expected) {
  if (why == nullptr) return;
  *why = {};
  why->index = index;
  why->found = found;
  why->expected = expected;
}

void fill(Diagnostic* why, uint32_t index, uint32_t found, uint32_t expected) {
  fill(why, index, uint64_t{found}, uint64_t{expected});
}
#else
void fill(Diagnostic* why, uint32_t index, uint64_t found, uint64_t expected, const char* reason,
          const char* field) {
  if (why == nullptr) return;
  *why = {};
  why->reason = reason;
  why->field = field;
  why->index = index;
  why->found = found;
  why->expected = expected;
}

void fill(Diagnostic* why, uint32_t index, uint32_t found, uint32_t expected, const char* reason,
          const char* field) {
  fill(why, index, uint64_t{found}, uint64_t{expected}, reason, field);
}
#endif

size_t describe(Status status, const Diagnostic& why, std::span<char> out) {
  Line line(out);
  line.add(name(status));
  if constexpr (!std::is_empty_v<Message>) add_words(line, why);
  if ((why.found | why.expected) != 0) {
    line.add("; found ");
    line.add(why.found);
    line.add(", expected ");
    line.add(why.expected);
  }
  if (why.bytes_needed != 0) {
    line.add("; needs ");
    line.add(uint64_t{why.bytes_needed});
    line.add(" bytes");
  }
  if (why.file_targets != 0) {
    line.add("; the file is packed for ");
    line.add_targets(why.file_targets);
    line.add(", this CPU and build run ");
    line.add_targets(why.cpu_targets);
    // Higher targets are faster. If the file and the CPU share a target, another one was forced.
    if ((why.file_targets & why.cpu_targets) == 0 && why.cpu_targets != 0) {
      line.add(": arenite convert --target ");
      line.add(name(static_cast<Target>(std::bit_width(why.cpu_targets) - 1)));
    }
  }
  return line.finish();
}

}  // namespace arenite
