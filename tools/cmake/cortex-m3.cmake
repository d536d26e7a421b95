# SPDX-License-Identifier: Apache-2.0
# Cortex-M3, which has no floating-point unit. Tests run on QEMU's board mps2-an385.
set(CMAKE_SYSTEM_PROCESSOR cortex-m3)
set(arenite_cpu_flags "-mcpu=cortex-m3 -mthumb")
include("${CMAKE_CURRENT_LIST_DIR}/arm-none-eabi.cmake")
set(ARENITE_EMULATED_BOARD mps2-an385)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-system-arm -machine mps2-an385 -nographic -monitor none
  -serial none -semihosting-config enable=on,target=native -kernel)
