// SPDX-License-Identifier: Apache-2.0
// Text by semihosting, by which a debugger, or QEMU, reads and writes for a program and ends it;
// and the board's timer. RISC-V has the same calls, and the board virt no such timer.
// Sources: "Semihosting for AArch32 and AArch64", ARM, release 2.0; "Cortex-M System Design Kit
// Technical Reference Manual", ARM DDI 0479, APB timer.
#include "board.h"

namespace board {
namespace {

constexpr uint32_t kSysOpen = 0x01;
constexpr uint32_t kSysWrite = 0x05;
constexpr uint32_t kSysRead = 0x06;
constexpr uint32_t kSysExitExtended = 0x20;
constexpr uintptr_t kApplicationExit = 0x20026;

// The console is a file of this name; how it is opened tells input from output.
constexpr char kConsole[] = ":tt";
constexpr uintptr_t kOpenToRead = 0;
constexpr uintptr_t kOpenToWrite = 4;
constexpr uint32_t kNotOpen = UINT32_MAX;  // and what SYS_OPEN returns if it cannot

constinit uint32_t input = kNotOpen;
constinit uint32_t output = kNotOpen;

uint32_t semihosting_call(uint32_t operation, const uintptr_t* arguments) {
#if defined(__riscv)
  register uint32_t a0 asm("a0") = operation;
  register const uintptr_t* a1 asm("a1") = arguments;
  // Three instructions of four bytes each tell the call from another breakpoint.
  asm volatile(
      ".balign 16\n.option push\n.option norvc\nslli x0, x0, 0x1f\nebreak\nsrai x0, x0, 7\n"
      ".option pop"
      : "+r"(a0)
      : "r"(a1)
      : "memory");
  return a0;
#else
  register uint32_t r0 asm("r0") = operation;
  register const uintptr_t* r1 asm("r1") = arguments;
  asm volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
  return r0;
#endif
}

bool open_console(uint32_t& handle, uintptr_t mode) {
  if (handle == kNotOpen) {
    const uintptr_t arguments[3] = {reinterpret_cast<uintptr_t>(kConsole), mode,
                                    sizeof(kConsole) - 1};
    handle = semihosting_call(kSysOpen, arguments);
  }
  return handle != kNotOpen;
}

// Timer 0 counts down from its first value, and then from its reload value.
struct Timer {
  uint32_t control;
  uint32_t value;
  uint32_t reload;
};
constexpr uintptr_t kTimer0 = 0x40000000;
constexpr uint32_t kTimerEnabled = 1;

}  // namespace

// The call returns how many bytes are missing: all of them at the end, and some where input came
// line by line.
size_t read(std::span<char> bytes) {
  if (!open_console(input, kOpenToRead)) return 0;
  const uintptr_t arguments[3] = {input, reinterpret_cast<uintptr_t>(bytes.data()), bytes.size()};
  const uint32_t missing = semihosting_call(kSysRead, arguments);
  return missing <= bytes.size() ? bytes.size() - missing : 0;
}

void write(std::string_view bytes) {
  if (!open_console(output, kOpenToWrite)) return;
  const uintptr_t arguments[3] = {output, reinterpret_cast<uintptr_t>(bytes.data()), bytes.size()};
  (void)semihosting_call(kSysWrite, arguments);
}

void leave(int status) {
  const uintptr_t arguments[2] = {kApplicationExit, static_cast<uintptr_t>(status)};
  while (true) (void)semihosting_call(kSysExitExtended, arguments);
}

uint32_t ticks() {
  volatile Timer& timer = *reinterpret_cast<volatile Timer*>(kTimer0);
  if (timer.control != kTimerEnabled) {
    timer.reload = UINT32_MAX;
    timer.value = UINT32_MAX;
    timer.control = kTimerEnabled;
  }
  return UINT32_MAX - timer.value;
}

}  // namespace board

size_t board_read(char* bytes, size_t size) { return board::read({bytes, size}); }
void board_write(const char* text, size_t bytes) { board::write({text, bytes}); }
uint32_t board_ticks() { return board::ticks(); }
