// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of "no heap": the trap, and files, options and arenas that are refused.
#ifndef ARENITE_TESTS_RUNTIME_NO_HEAP_FIXTURE_H_
#define ARENITE_TESTS_RUNTIME_NO_HEAP_FIXTURE_H_

#include <cstring>

#include "runtime/session/session_fixture.h"
#include "support/malloc_trap.h"
#include "support/pool.h"

namespace arenite::test {

// `Base` is a fixture with a kernel set as its parameter.
template <typename Base>
class NoHeapTest : public Base {
 protected:
  void SetUp() override {
    if (!NoHeapScope::traps_malloc()) GTEST_SKIP() << "this build cannot see calls of malloc";
  }

  static LoadOptions this_target() { return {.force_target = true, .target = Base::GetParam()}; }

  // Damages and cuts a sound file, and asks for more positions than its model has, and for arenas
  // too small or misaligned. Returns how much of that was accepted: nothing should be.
  static uint32_t accepted(std::span<const std::byte> sound, const SessionOptions& options,
                           uint32_t positions_beyond) {
    const TestModel model(sound, Base::GetParam());
    convert::AlignedBytes damaged(sound.size());
    convert::AlignedBytes arena(1 << 20);
    SessionOptions too_long = options;
    too_long.positions_max = positions_beyond;
    uint32_t count = 0;
    const NoHeapScope no_heap;
    Diagnostic why;
    for (size_t i = 0; i < sound.size(); i += 101) {
      std::memcpy(damaged.data(), sound.data(), sound.size());
      damaged.data()[i] ^= std::byte{0x40};
      count += Model::load(damaged.span(), &why, this_target()).ok() ? 1 : 0;
      count += Model::load(sound.first(i), &why, this_target()).ok() ? 1 : 0;
    }
    count += plan_arena(*model, too_long, &why).ok() ? 1 : 0;
    count += Session::create(*model, too_long, arena.span(), &why).ok() ? 1 : 0;
    count += Session::create(*model, options, arena.span().first(64), &why).ok() ? 1 : 0;
    count += Session::create(*model, options, arena.span().subspan(1), &why).ok() ? 1 : 0;
    return count;
  }
};

}  // namespace arenite::test

#endif  // ARENITE_TESTS_RUNTIME_NO_HEAP_FIXTURE_H_
