# SPDX-License-Identifier: Apache-2.0
# Cortex-M0+ (ARMv6-M), which has no floating-point unit. Tests run on QEMU's Cortex-M3, mps2-an385,
# which executes the same instructions.
set(CMAKE_SYSTEM_PROCESSOR cortex-m0plus)
set(arenite_cpu_flags "-mcpu=cortex-m0plus -mthumb")
include("${CMAKE_CURRENT_LIST_DIR}/arm-none-eabi.cmake")
set(ARENITE_EMULATED_BOARD mps2-an385)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-system-arm -machine mps2-an385 -nographic -monitor none
  -serial none -semihosting-config enable=on,target=native -kernel)
