# SPDX-License-Identifier: Apache-2.0
# Cortex-M4 with a floating-point unit for single precision. Tests run on QEMU's board mps2-an386.
set(CMAKE_SYSTEM_PROCESSOR cortex-m4f)
set(arenite_cpu_flags "-mcpu=cortex-m4 -mfpu=fpv4-sp-d16 -mfloat-abi=hard -mthumb")
include("${CMAKE_CURRENT_LIST_DIR}/arm-none-eabi.cmake")
set(ARENITE_EMULATED_BOARD mps2-an386)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-system-arm -machine mps2-an386 -nographic -monitor none
  -serial none -semihosting-config enable=on,target=native -kernel)
