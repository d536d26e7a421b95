# SPDX-License-Identifier: Apache-2.0
# Cortex-M55 with vector instructions for integers and floats. Tests run on QEMU's board mps3-an547,
# whose vectors are in a small memory; the rest is in that of 1 GB.
set(CMAKE_SYSTEM_PROCESSOR cortex-m55)
set(arenite_cpu_flags "-mcpu=cortex-m55 -mfloat-abi=hard -mthumb")
include("${CMAKE_CURRENT_LIST_DIR}/arm-none-eabi.cmake")
string(APPEND CMAKE_EXE_LINKER_FLAGS_INIT
  " -Wl,--defsym=arenite_vector_memory=0,--defsym=arenite_flash=0x60000000"
  " -Wl,--defsym=arenite_flash_bytes=0x1000000"
  " -Wl,--defsym=arenite_ram=0x21000000")
set(ARENITE_EMULATED_BOARD mps3-an547)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-system-arm -machine mps3-an547 -nographic -monitor none
  -serial none -semihosting-config enable=on,target=native -kernel)
