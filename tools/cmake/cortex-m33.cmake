# SPDX-License-Identifier: Apache-2.0
# Cortex-M33 with a floating-point unit for single precision and the DSP extension. Tests run on
# QEMU's board mps2-an505, which starts in the secure state.
set(CMAKE_SYSTEM_PROCESSOR cortex-m33)
set(arenite_cpu_flags "-mcpu=cortex-m33 -mfpu=fpv5-sp-d16 -mfloat-abi=hard -mthumb")
include("${CMAKE_CURRENT_LIST_DIR}/arm-none-eabi.cmake")
string(APPEND CMAKE_EXE_LINKER_FLAGS_INIT
  " -Wl,--defsym=arenite_flash=0x10000000,--defsym=arenite_ram=0x38000000")
set(ARENITE_EMULATED_BOARD mps2-an505)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-system-arm -machine mps2-an505 -nographic -monitor none
  -serial none -semihosting-config enable=on,target=native -kernel)
