# SPDX-License-Identifier: Apache-2.0
# 32-bit RISC-V with an FPU for float, without an operating system, with Debian's compiler and
# picolibc. Tests run on QEMU's board virt. riscv32-soft.cmake is without the FPU.
#
# Debian has no C++ library for this compiler. The runtime needs headers of one alone: <algorithm>,
# <array>, <bit>, <cassert>, <cmath>, <cstddef>, <cstdint>, <cstring>, <iterator>, <limits>,
# <memory>, <span>, <string_view>, <tuple>, <type_traits>, <utility> and what these include. They
# are those of libstdc++-arm-none-eabi-dev, the same release of GCC: what that package says of its
# target (bits/c++config.h) was found out for newlib, which picolibc's headers descend from. Those
# of the build machine's g++ expect glibc's <features.h> and locales.
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR riscv32)
set(CMAKE_C_COMPILER riscv64-unknown-elf-gcc)
set(CMAKE_CXX_COMPILER riscv64-unknown-elf-g++)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
if(NOT arenite_cpu)
  set(arenite_cpu "-march=rv32imafc -mabi=ilp32f")
endif()
# Without options of its own the compiler refers to small data by a register that nobody sets here.
set(arenite_cpu_flags "${arenite_cpu} -msmall-data-limit=0 --specs=picolibc.specs")
file(GLOB arenite_cxx_headers /usr/lib/arm-none-eabi/include/c++/12*)
set(CMAKE_C_FLAGS_INIT "${arenite_cpu_flags}")
set(CMAKE_CXX_FLAGS_INIT "${arenite_cpu_flags} -fno-threadsafe-statics -nostdinc++ \
-isystem ${arenite_cxx_headers} -isystem ${arenite_cxx_headers}/arm-none-eabi")
set(CMAKE_CXX_STANDARD_LIBRARIES_INIT "-lm -lc -lgcc")  # and no -lstdc++
set(CMAKE_EXE_LINKER_FLAGS_INIT "-Wl,--gc-sections -nodefaultlibs \
-Wl,--defsym=arenite_flash=0x80000000,--defsym=arenite_flash_bytes=16M \
-Wl,--defsym=arenite_ram=0x81000000")
set(ARENITE_EMULATED_BOARD virt)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-system-riscv32 -machine virt -bios none -nographic
  -monitor none -serial none -semihosting-config enable=on,target=native -kernel)
