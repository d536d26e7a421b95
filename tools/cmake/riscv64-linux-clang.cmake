# SPDX-License-Identifier: Apache-2.0
# The same as riscv64-linux-gnu.cmake by Clang, which has the intrinsics of RISC-V's vectors;
# libraries and linker are those of Debian's GCC. Tests run on vectors of 128 bits, and some on
# others.
include("${CMAKE_CURRENT_LIST_DIR}/riscv64-linux-gnu.cmake")
set(CMAKE_C_COMPILER clang-19)
set(CMAKE_CXX_COMPILER clang++-19)
set(CMAKE_C_COMPILER_TARGET riscv64-linux-gnu)
set(CMAKE_CXX_COMPILER_TARGET riscv64-linux-gnu)
set(ARENITE_VECTOR_EMULATOR ${CMAKE_CROSSCOMPILING_EMULATOR}
  -cpu rv64,v=true,vext_spec=v1.0,elen=64,vlen=)
list(APPEND CMAKE_CROSSCOMPILING_EMULATOR -cpu rv64,v=true,vext_spec=v1.0,elen=64,vlen=128)
