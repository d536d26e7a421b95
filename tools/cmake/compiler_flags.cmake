# SPDX-License-Identifier: Apache-2.0
# Build type, sanitizers, ccache, and the flags that our own code is compiled with.

# Choices for the whole build belong to the top-level project only.
if(PROJECT_IS_TOP_LEVEL)
  get_property(arenite_multi_config GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
  if(NOT CMAKE_BUILD_TYPE AND NOT arenite_multi_config)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release, RelWithDebInfo or MinSizeRel" FORCE)
  endif()
  # CMake's own choice is -O3, which grows the runtime for nothing: the time is in the kernels.
  string(REPLACE "-O3" "-O2" CMAKE_CXX_FLAGS_RELEASE "${CMAKE_CXX_FLAGS_RELEASE}")
  string(REPLACE "-O3" "-O2" CMAKE_C_FLAGS_RELEASE "${CMAKE_C_FLAGS_RELEASE}")

  find_program(ARENITE_CCACHE ccache)
  mark_as_advanced(ARENITE_CCACHE)
  if(ARENITE_CCACHE AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
    # Without the first two, ccache keeps nothing that was compiled with a precompiled header;
    # with the others it serves every checkout, wherever that is.
    set(CMAKE_C_COMPILER_LAUNCHER
      "${CMAKE_COMMAND}" -E env CCACHE_SLOPPINESS=pch_defines,time_macros
      "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" CCACHE_NOHASHDIR=1 "${ARENITE_CCACHE}")
    set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_C_COMPILER_LAUNCHER})
  endif()
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
endif()

if(ARENITE_SANITIZE STREQUAL "address")
  add_compile_options(
    -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
elseif(ARENITE_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer)
  add_link_options(-fsanitize=thread)
elseif(ARENITE_SANITIZE)
  message(FATAL_ERROR "ARENITE_SANITIZE is ${ARENITE_SANITIZE}. Expected is address (with "
    "undefined behaviour), thread or OFF.")
endif()

if(ARENITE_BUILD_FUZZERS)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

# Language standard and warnings of every target of ours.
function(arenite_own_code target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wconversion
    $<$<BOOL:${ARENITE_WERROR}>:-Werror>)
endfunction()

# Headers that most sources of a target begin with, read once: `header...`, or those of another
# target with the same flags, REUSE_FROM it. Sources include what they use all the same.
function(arenite_precompile target)
  # ccache must see through a precompiled header, and one without the time of its making.
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>
    "$<$<COMPILE_LANG_AND_ID:CXX,Clang>:SHELL:-Xclang -fno-pch-timestamp>")
  if(ARGV1 STREQUAL "REUSE_FROM")
    target_precompile_headers(${target} REUSE_FROM ${ARGV2})
  else()
    target_precompile_headers(${target} PRIVATE ${ARGN})
  endif()
endfunction()

# The same for programs in C, which the C compiler links: the runtime needs no C++ library, but
# sanitizers do.
function(arenite_own_c_code target)
  set_target_properties(${target} PROPERTIES C_STANDARD 99 C_EXTENSIONS OFF)
  target_compile_options(${target} PRIVATE -pedantic -Wall -Wextra -Wconversion -Wstrict-prototypes
    $<$<BOOL:${ARENITE_WERROR}>:-Werror>)
  if(NOT ARENITE_SANITIZE)
    set_target_properties(${target} PROPERTIES LINKER_LANGUAGE C)
  endif()
endfunction()

# What an application links: usable in a shared object, and exporting nothing from it. Where there
# is no operating system there are no shared objects. Nothing is thrown through it, so it has no
# tables for unwinding, which would be loaded with it.
function(arenite_embeddable target)
  if(NOT CMAKE_SYSTEM_NAME MATCHES "^(Generic|Emscripten)$")
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  endif()
  set_target_properties(${target} PROPERTIES
    C_VISIBILITY_PRESET hidden
    CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON)
  target_compile_options(${target} PRIVATE -ffunction-sections -fdata-sections
    -fno-unwind-tables -fno-asynchronous-unwind-tables)
endfunction()

# Contracting a*b+c is left to us: the compiler's choice differs from one inlining to the next, and
# the results must not.
set(ARENITE_FLOAT_FLAGS -ffp-contract=off -fno-math-errno)
# The same for microkernels. Quantized weights come with sums that a damaged file may make as
# large as it likes, so integers wrap.
set(ARENITE_KERNEL_FLAGS -fwrapv ${ARENITE_FLOAT_FLAGS})

# arenite_sources(TARGET ROOT source...) compiles sources of a folder together, 80 KB at a time:
# most of the time to compile one goes into headers that all of them include. ROOT is tools or
# tests, and sources are named from there. Within a folder, names in anonymous namespaces must
# differ, therefore. What is compiled says `#include "convert/..."`, as in every checkout, so that
# ccache serves all of them. The sources themselves are the target's property ARENITE_SOURCES.
option(ARENITE_BY_FOLDER "Compile sources by folder, not one by one" ON)
mark_as_advanced(ARENITE_BY_FOLDER)
function(arenite_sources target root)
  set_property(TARGET ${target} APPEND PROPERTY ARENITE_SOURCES ${ARGN})
  set(root "${PROJECT_SOURCE_DIR}/${root}")
  if(NOT ARENITE_BY_FOLDER)
    list(TRANSFORM ARGN PREPEND "${root}/" OUTPUT_VARIABLE sources)
    target_sources(${target} PRIVATE ${sources})
    return()
  endif()
  set(groups "")
  foreach(source IN LISTS ARGN)
    cmake_path(GET source PARENT_PATH folder)
    string(MAKE_C_IDENTIFIER "${folder}" folder)
    file(SIZE "${root}/${source}" bytes)
    math(EXPR group "0${bytes_${folder}} / 80000")
    math(EXPR bytes_${folder} "0${bytes_${folder}} + ${bytes}")
    string(APPEND text_${folder}_${group} "#include \"${source}\"\n")
    list(APPEND groups ${folder}_${group})
  endforeach()
  list(REMOVE_DUPLICATES groups)
  foreach(group IN LISTS groups)
    set(file "${CMAKE_CURRENT_BINARY_DIR}/${target}_sources/${group}.cc")
    file(CONFIGURE OUTPUT "${file}" CONTENT "${text_${group}}" @ONLY)
    target_sources(${target} PRIVATE "${file}")
  endforeach()
endfunction()
