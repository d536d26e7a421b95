# SPDX-License-Identifier: Apache-2.0
# The XNNPACK microkernels as the static library `arenite_xnnpack`, one C file per kernel.
include(CheckSourceCompiles)

set(ARENITE_KERNELS "all" CACHE STRING
  "Kernel sets to build, separated by semicolons; all: those of the architecture")

# The source folder: the one given, or the pinned one, fetched when it is not in .cache yet.
if(ARENITE_XNNPACK_SOURCE)
  set(arenite_xnnpack_dir "${ARENITE_XNNPACK_SOURCE}")
else()
  set(arenite_xnnpack_dir "${PROJECT_SOURCE_DIR}/.cache/xnnpack-4ea82e5")
  if(NOT EXISTS "${arenite_xnnpack_dir}")
    execute_process(
      COMMAND "${CMAKE_CURRENT_LIST_DIR}/fetch_xnnpack.sh" "${arenite_xnnpack_dir}"
      RESULT_VARIABLE fetch_result)
    if(NOT fetch_result EQUAL 0)
      message(FATAL_ERROR "The XNNPACK source could not be fetched; the reason is printed above.")
    endif()
  endif()
endif()

# CMAKE_SYSTEM_PROCESSOR is whatever a toolchain file says, or empty; the compiler knows.
set(arenite_saved_try_compile_type "${CMAKE_TRY_COMPILE_TARGET_TYPE}")
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)  # a bare-metal compiler may be unable to link
check_source_compiles(C "#if !defined(__x86_64__)\n#error\n#endif\nint unused;" ARENITE_IS_X86_64)
check_source_compiles(C "#if !defined(__aarch64__)\n#error\n#endif\nint unused;" ARENITE_IS_AARCH64)
check_source_compiles(C  # 32-bit ARM with room for NEON; Cortex-M has none
  "#if !defined(__arm__) || __ARM_ARCH < 7 || __ARM_ARCH_PROFILE != 'A'
   #error
   #endif
   int unused;"
  ARENITE_IS_ARM)
check_source_compiles(C
  "#if !defined(__ARM_FEATURE_DSP) || __ARM_ARCH_PROFILE != 'M'
   #error
   #endif
   int unused;"
  ARENITE_IS_CORTEX_M_DSP)
check_source_compiles(C "#if !defined(__ARM_FEATURE_MVE)\n#error\n#endif\nint unused;"
  ARENITE_IS_CORTEX_M_MVE)
check_source_compiles(C
  "#include \"${PROJECT_SOURCE_DIR}/runtime/kernels/soft_floats.h\"
   #if !defined(ARENITE_SOFT_FLOATS)
   #error
   #endif
   int unused;"
  ARENITE_HAS_SOFT_FLOATS)
check_source_compiles(C "#if __riscv_xlen != 64\n#error\n#endif\nint unused;" ARENITE_IS_RISCV64)
check_source_compiles(C "#if !defined(__wasm__)\n#error\n#endif\nint unused;" ARENITE_IS_WASM)
include(kernel_sources)

# The kernel sets of this architecture that are asked for, that models of ARENITE_MODEL are packed
# for, and that the compiler can build. Without ARENITE_MODEL the scalar one is always there.
set(arenite_architectures kAny)
if(ARENITE_IS_X86_64)
  list(APPEND arenite_architectures kX86_64)
elseif(ARENITE_IS_AARCH64)
  list(APPEND arenite_architectures kAarch64)
elseif(ARENITE_IS_ARM)
  list(APPEND arenite_architectures kArm)
elseif(ARENITE_IS_RISCV64)
  list(APPEND arenite_architectures kRiscV64)
endif()
if(ARENITE_IS_CORTEX_M_DSP)
  list(APPEND arenite_architectures kCortexMDsp)
endif()
if(ARENITE_IS_CORTEX_M_MVE)
  list(APPEND arenite_architectures kCortexMMve)
endif()
set(arenite_target_rows "${PROJECT_SOURCE_DIR}/runtime/core/targets.h")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${arenite_target_rows}")
file(STRINGS "${arenite_target_rows}" arenite_rows REGEX "^ *{Target::")
set(arenite_known_sets "")
foreach(row IN LISTS arenite_rows)
  if(NOT row MATCHES "{Target::[^,]+, \"[^\"]+\", \"([^\"]+)\", Architecture::([^,]+),")
    message(FATAL_ERROR "${arenite_target_rows} has a row without kernel set and architecture on "
      "its first line: ${row}")
  endif()
  if(CMAKE_MATCH_2 IN_LIST arenite_architectures)
    list(APPEND arenite_known_sets "${CMAKE_MATCH_1}")
  endif()
endforeach()
if(ARENITE_IS_WASM)
  list(APPEND arenite_known_sets simd128)  # for the target of the scalar set
endif()
set(arenite_wanted_sets ${ARENITE_KERNELS})
if(ARENITE_KERNELS STREQUAL "all")
  set(arenite_wanted_sets ${arenite_known_sets})
endif()
foreach(kernel_set IN LISTS arenite_wanted_sets)
  if(NOT kernel_set IN_LIST arenite_known_sets)
    list(JOIN arenite_known_sets ", " known)
    message(FATAL_ERROR "ARENITE_KERNELS names ${kernel_set}, which this architecture lacks. "
      "Expected is all, or some of ${known}, separated by semicolons.")
  endif()
endforeach()
if(ARENITE_MODEL)
  arenite_common_kernel_sets(arenite_wanted_sets)
else()
  list(APPEND arenite_wanted_sets scalar)
endif()
list(REMOVE_DUPLICATES arenite_wanted_sets)
set(arenite_kernel_sets "")
set(arenite_isas "")
foreach(kernel_set IN LISTS arenite_wanted_sets)
  set(compiles TRUE)
  foreach(isa IN LISTS ARENITE_SET_${kernel_set})
    if(isa STREQUAL "scalar")
      continue()  # plain C, whatever the compiler
    endif()
    list(JOIN ARENITE_KERNEL_FLAGS_${isa} " " CMAKE_REQUIRED_FLAGS)
    check_source_compiles(C "${ARENITE_KERNEL_TEST_${isa}}\nint unused;" ARENITE_COMPILES_${isa})
    unset(CMAKE_REQUIRED_FLAGS)
    if(NOT ARENITE_COMPILES_${isa})
      set(compiles FALSE)
    endif()
  endforeach()
  if(compiles)
    list(APPEND arenite_kernel_sets ${kernel_set})
    list(APPEND arenite_isas ${ARENITE_SET_${kernel_set}})
  else()
    message(STATUS "Kernel set ${kernel_set} is left out: the compiler cannot build it")
  endif()
endforeach()
if(NOT arenite_kernel_sets)
  message(FATAL_ERROR "No kernel set is left that the models of ARENITE_MODEL are packed for. "
    "Convert them with --target portable, too.")
endif()
list(REMOVE_DUPLICATES arenite_isas)
set(CMAKE_TRY_COMPILE_TARGET_TYPE "${arenite_saved_try_compile_type}")

foreach(isa IN LISTS arenite_isas)
  set(kernel_options ${ARENITE_KERNEL_FLAGS_${isa}})
  if(ARENITE_KERNEL_HEADER_${isa})
    list(APPEND kernel_options -include "${ARENITE_KERNEL_HEADER_${isa}}")
  endif()
  foreach(source IN LISTS ARENITE_KERNELS_${isa})
    if(NOT source MATCHES "^src/")  # of our own
      list(APPEND arenite_kernel_files "${PROJECT_SOURCE_DIR}/${source}")
      set_source_files_properties("${PROJECT_SOURCE_DIR}/${source}" PROPERTIES
        COMPILE_OPTIONS "${kernel_options}")
      continue()
    endif()
    if(NOT EXISTS "${arenite_xnnpack_dir}/${source}")
      message(FATAL_ERROR "XNNPACK source folder ${arenite_xnnpack_dir} lacks ${source}. "
        "Expected is upstream commit 4ea82e595b36106653175dcb04b2aa532660d0d8. "
        "Set ARENITE_XNNPACK_SOURCE to a checkout of it, or leave it empty to have it fetched.")
    endif()
    list(APPEND arenite_kernel_files "${arenite_xnnpack_dir}/${source}")
    set_source_files_properties("${arenite_xnnpack_dir}/${source}" PROPERTIES
      COMPILE_OPTIONS "${kernel_options}")
  endforeach()
endforeach()

add_library(arenite_xnnpack_headers INTERFACE)
target_include_directories(arenite_xnnpack_headers SYSTEM INTERFACE
  "${arenite_xnnpack_dir}/src" "${arenite_xnnpack_dir}/include"
  "${CMAKE_CURRENT_LIST_DIR}/xnnpack_stubs")
# XNNPACK's headers declare some AVX-512 kernels only when this is set.
target_compile_definitions(arenite_xnnpack_headers INTERFACE
  $<$<BOOL:${ARENITE_IS_X86_64}>:XNN_ENABLE_AVX512F=1>)

add_library(arenite_xnnpack STATIC ${arenite_kernel_files})
target_link_libraries(arenite_xnnpack PRIVATE $<BUILD_INTERFACE:arenite_xnnpack_headers>)
arenite_embeddable(arenite_xnnpack)
set_target_properties(arenite_xnnpack PROPERTIES
  C_STANDARD 99 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF)
# Not our code: no warnings, no asserts, and optimized even in a debug build.
target_compile_options(arenite_xnnpack PRIVATE -w -O2 ${ARENITE_KERNEL_FLAGS})
if(ARENITE_SANITIZE STREQUAL "thread")
  # They read past their rows; what they need is said in runtime/kernels/thread_check.h.
  target_compile_options(arenite_xnnpack PRIVATE -fno-sanitize=thread)
endif()
target_compile_definitions(arenite_xnnpack PRIVATE NDEBUG)
