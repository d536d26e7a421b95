// SPDX-License-Identifier: Apache-2.0
// ARM's MPS2 boards with a Cortex-M4 or M7, as QEMU has them: start-up code, and semihosting, by
// which a debugger, or QEMU, writes text and ends the program.
// Source: "Semihosting for AArch32 and AArch64", ARM, release 2.0.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "device/device_test.h"

// From mps2.ld; only their addresses mean anything.
extern "C" {
extern std::byte arenite_stack_top[];
extern std::byte arenite_data_load[];
extern std::byte arenite_data_begin[];
extern std::byte arenite_data_end[];
extern std::byte arenite_bss_begin[];
extern std::byte arenite_bss_end[];

[[noreturn]] void arenite_reset();
[[noreturn]] void arenite_fault();
}

namespace arenite::device {
namespace {

constexpr uint32_t kSysWrite0 = 0x04;
constexpr uint32_t kSysExitExtended = 0x20;
constexpr uintptr_t kApplicationExit = 0x20026;

void semihosting_call(uint32_t operation, const void* argument) {
  register uint32_t r0 asm("r0") = operation;
  register const void* r1 asm("r1") = argument;
  asm volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
}

[[noreturn]] void leave(uintptr_t code) {
  const uintptr_t arguments[2] = {kApplicationExit, code};
  while (true) semihosting_call(kSysExitExtended, arguments);
}

void enable_floating_point() {
  volatile uint32_t& coprocessor_access = *reinterpret_cast<volatile uint32_t*>(0xE000ED88);
  coprocessor_access = coprocessor_access | 0xFu << 20;  // CP10 and CP11, all modes
  asm volatile("dsb\n isb" ::: "memory");
}

}  // namespace

// SYS_WRITE0 takes strings that end with a zero, so text goes out in pieces.
void write(const char* bytes, size_t count) {
  while (count != 0) {
    char piece[64];
    const size_t now = count < sizeof(piece) - 1 ? count : sizeof(piece) - 1;
    std::memcpy(piece, bytes, now);
    piece[now] = '\0';
    semihosting_call(kSysWrite0, piece);
    bytes += now;
    count -= now;
  }
}

}  // namespace arenite::device

// The first words of memory: the stack pointer, then the handlers of reset, NMI and the faults.
// Interrupts stay off.
struct VectorTable {
  std::byte* stack_top;
  void (*handlers[15])();
};
extern "C" [[gnu::section(".vectors"), gnu::used]] const VectorTable arenite_vectors = {
    arenite_stack_top,
    {arenite_reset, arenite_fault, arenite_fault, arenite_fault, arenite_fault, arenite_fault,
     arenite_fault, arenite_fault, arenite_fault, arenite_fault, arenite_fault, arenite_fault,
     arenite_fault, arenite_fault, arenite_fault}};

void arenite_reset() {
  arenite::device::enable_floating_point();
  std::memcpy(arenite_data_begin, arenite_data_load,
              static_cast<size_t>(arenite_data_end - arenite_data_begin));
  std::memset(arenite_bss_begin, 0, static_cast<size_t>(arenite_bss_end - arenite_bss_begin));
  arenite::device::leave(arenite::device::run_tests() ? 0 : 1);
}

void arenite_fault() {
  constexpr std::string_view kMessage = "fault\n0 passed, 1 failed\n";
  arenite::device::write(kMessage.data(), kMessage.size());
  arenite::device::leave(2);
}
