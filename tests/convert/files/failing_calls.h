// SPDX-License-Identifier: Apache-2.0
// System calls that fail on demand. Programs that link failing_calls.cc need the linker's --wrap
// for each of them, as CMakeLists.txt has it; then calls from this program arrive here first.
#pragma once

namespace arenite::convert {

enum class Call { kWrite, kPwrite, kFtruncate, kFsync, kClose, kRename, kLink };

inline constexpr Call kAllCalls[] = {Call::kWrite, Call::kPwrite, Call::kFtruncate, Call::kFsync,
                                     Call::kClose, Call::kRename, Call::kLink};

const char* name(Call call);

// While one lives, the call number `index` of this kind from now on fails once with `error_number`.
// A close closes all the same, as on Linux. At most one lives at a time.
class FailingCall {
 public:
  FailingCall(Call call, int error_number, int index = 0);
  ~FailingCall();
  FailingCall(const FailingCall&) = delete;
  FailingCall& operator=(const FailingCall&) = delete;

  bool happened() const;
};

}  // namespace arenite::convert
