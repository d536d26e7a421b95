// SPDX-License-Identifier: Apache-2.0
// From power-on to main on ARM's MPS2 boards with a Cortex-M4 or M7, as QEMU has them.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "board.h"

// From mps2.ld; only their addresses mean anything.
extern "C" {
extern std::byte arenite_stack_top[];
extern std::byte arenite_data_load[];
extern std::byte arenite_data_begin[];
extern std::byte arenite_data_end[];
extern std::byte arenite_bss_begin[];
extern std::byte arenite_bss_end[];

[[noreturn]] void arenite_reset();
// Called on a fault. A program may define its own.
[[noreturn, gnu::weak]] void arenite_fault();
}

int main();

namespace {

void enable_floating_point() {
  volatile uint32_t& coprocessor_access = *reinterpret_cast<volatile uint32_t*>(0xE000ED88);
  coprocessor_access = coprocessor_access | 0xFu << 20;  // CP10 and CP11, all modes
  asm volatile("dsb\n isb" ::: "memory");
}

}  // namespace

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
  enable_floating_point();
  std::memcpy(arenite_data_begin, arenite_data_load,
              static_cast<size_t>(arenite_data_end - arenite_data_begin));
  std::memset(arenite_bss_begin, 0, static_cast<size_t>(arenite_bss_end - arenite_bss_begin));
  board::leave(main());
}

void arenite_fault() {
  board::write("fault\n");
  board::leave(2);
}
