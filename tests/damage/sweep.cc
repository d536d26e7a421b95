// SPDX-License-Identifier: Apache-2.0
// All variants run in one process, because a process each would take a thousand times as long. A
// fault ends the process, which first prints the variant's name.
#include "damage/sweep.h"

#include <fmt/format.h>
#include <sys/time.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#define ARENITE_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENITE_SANITIZED 1
#endif
#endif
#if defined(ARENITE_SANITIZED)
#include <sanitizer/common_interface_defs.h>
#endif

namespace arenite::test {
namespace {

// More positions than a mask tile has.
constexpr size_t kArenaBytesMax = size_t{1} << 20;
constexpr uint32_t kPositions = 34;
constexpr uint32_t kRingChunk = 120;
constexpr itimerval kTimeMax = {{0, 0}, {20, 0}};

const Sweep* current = nullptr;

void name_variant() {
  if (current != nullptr) std::fprintf(stderr, "damage: %s\n", current->in_hand().c_str());
}

void name_variant_and_die(int signal) {
  name_variant();
  std::fprintf(stderr, "damage: ended by signal %d%s\n", signal,
               signal == SIGPROF ? ", too slow" : "");
  std::signal(SIGABRT, SIG_DFL);
  std::abort();
}

// The sanitizers keep their handlers, which say more.
void watch() {
#if defined(ARENITE_SANITIZED)
  __sanitizer_set_death_callback(name_variant);
#else
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) {
    std::signal(signal, name_variant_and_die);
  }
#endif
  std::signal(SIGABRT, name_variant_and_die);
  std::signal(SIGPROF, name_variant_and_die);
}

bool can_be_repaired(Damage kind) {
  return kind == Damage::kByte || kind == Damage::kTargets || kind == Damage::kOffsets ||
         kind == Damage::kFields;
}

}  // namespace

Sweep::Sweep(std::string name, std::span<const std::byte> file)
    : name_(std::move(name)),
      effort_{.arena_bytes_max = kArenaBytesMax, .positions = kPositions, .ring_chunk = kRingChunk},
      variants_(file) {
  watch();
  current = this;
  if (load_and_run(file, effort_) != Fate::kRan) std::abort();
  effort_.sound = file;
}

Sweep::~Sweep() {
  current = nullptr;
  const itimerval never = {};
  setitimer(ITIMER_PROF, &never, nullptr);
}

void Sweep::take(uint64_t number) {
  number_ = number;
  repaired_ = false;
  setitimer(ITIMER_PROF, &kTimeMax, nullptr);
  const Damage kind = variants_.kind(number);
  const auto load = [&](std::span<const std::byte> file, size_t row) {
    const Fate fate = load_and_run(file, effort_);
    ++counts_[row][static_cast<size_t>(fate)];
    return fate;
  };
  const std::span<std::byte> file = variants_.make(number);
  const Fate fate = load(file, static_cast<size_t>(kind));
  // Repair sets the checksums and formulas. Load verifies them, so an accepted file needs no
  // repair.
  if (fate == Fate::kRefused && can_be_repaired(kind) && variants_.repair()) {
    repaired_ = true;
    load(file, kRepaired);
  }
  // Nothing makes these right by chance.
  if ((kind == Damage::kCut || kind == Damage::kFooterByte) && fate != Fate::kRefused) std::abort();
}

std::string Sweep::in_hand() const {
  return fmt::format("{}, variant {}: {}{}", name_, number_, variants_.name(number_),
                     repaired_ ? ", repaired" : "");
}

}  // namespace arenite::test
