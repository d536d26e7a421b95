// SPDX-License-Identifier: Apache-2.0
// From power-on to main on QEMU's board virt with a 32-bit RISC-V, which starts at the first byte
// of its memory. The rest is shared with ARM's MPS2 boards: the folder mps2 beside this one.
#include <cstddef>
#include <cstring>

#include "board.h"

// From mps2.ld; only their addresses mean anything.
extern "C" {
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

// Interrupts stay off; what else stops a program leads to arenite_fault. With an FPU it is switched
// on.
extern "C" [[gnu::section(".vectors"), gnu::used, gnu::naked]] void arenite_start() {
  asm volatile(
      ".option arch, +zicsr\n"
      "la sp, arenite_stack_top\n"
      "la t0, arenite_trap\n"
      "csrw mtvec, t0\n"
#if defined(__riscv_flen)
      "li t0, 0x2000\n"
      "csrs mstatus, t0\n"
#endif
      "j arenite_reset\n"
      ".balign 4\n"
      "arenite_trap: la sp, arenite_stack_top\n"
      "j arenite_fault\n");
}

void arenite_reset() {
  std::memcpy(arenite_data_begin, arenite_data_load,
              static_cast<size_t>(arenite_data_end - arenite_data_begin));
  std::memset(arenite_bss_begin, 0, static_cast<size_t>(arenite_bss_end - arenite_bss_begin));
  board::leave(main());
}

void arenite_fault() {
  board::write("fault\n");
  board::leave(2);
}
