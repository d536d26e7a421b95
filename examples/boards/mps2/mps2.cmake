# SPDX-License-Identifier: Apache-2.0
# Programs for ARM's MPS2 boards, and for QEMU's RISC-V board virt, without an operating system.

# arenite_mps2_program(TARGET) gives a program the board's start-up code, functions and memory.
#
# No start-up files and nothing that implements a system call: what needs a heap does not link.
function(arenite_mps2_program target)
  set(board "${CMAKE_CURRENT_FUNCTION_LIST_DIR}")
  set(start "${board}/start.cc")
  if(ARENITE_EMULATED_BOARD STREQUAL "virt")
    set(start "${board}/../virt/start.cc")
  endif()
  target_sources(${target} PRIVATE "${board}/board.cc" "${start}")
  target_include_directories(${target} PRIVATE "${board}")
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fno-exceptions -fno-rtti>
    -ffunction-sections -fdata-sections)
  set(linker_script "${board}/mps2.ld")
  target_link_options(${target} PRIVATE -nostartfiles -z noexecstack -T "${linker_script}")
  set_target_properties(${target} PROPERTIES LINK_DEPENDS "${linker_script}")
endfunction()
