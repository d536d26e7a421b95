# SPDX-License-Identifier: Apache-2.0
# Cross-compiles for ARM microcontrollers without an operating system, with Debian's compiler and
# newlib. Included by the file of each CPU, which sets
# arenite_cpu_flags and CMAKE_SYSTEM_PROCESSOR.
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_C_COMPILER arm-none-eabi-gcc)
set(CMAKE_CXX_COMPILER arm-none-eabi-g++)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)  # a program needs a board's start-up code
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_C_FLAGS_INIT "${arenite_cpu_flags}")
set(CMAKE_CXX_FLAGS_INIT "${arenite_cpu_flags} -fno-threadsafe-statics")
set(CMAKE_ASM_FLAGS_INIT "${arenite_cpu_flags}")
set(CMAKE_EXE_LINKER_FLAGS_INIT "-Wl,--gc-sections")
