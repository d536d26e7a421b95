# SPDX-License-Identifier: Apache-2.0
# ARENITE_MODEL: what of the runtime its models need, and which kernel sets.
#
# Sets arenite_model_kernel_sets, and writes arenite_needs.h for runtime/core/needs.h.

set(ARENITE_MODEL "" CACHE STRING
  "Model files, separated by semicolons: only what they need is linked; empty: everything")
set(ARENITE_HOST_TOOL "" CACHE FILEPATH "Program arenite of the build machine, for cross builds")

# The program that tells what is in a model file, while CMake runs.
function(arenite_find_inspector result)
  set(program "${ARENITE_HOST_TOOL}")
  if(NOT program)
    find_program(ARENITE_PROGRAM arenite NO_CMAKE_FIND_ROOT_PATH DOC "Program arenite")
    mark_as_advanced(ARENITE_PROGRAM)
    set(program "${ARENITE_PROGRAM}")
  endif()
  if(NOT EXISTS "${program}")
    message(FATAL_ERROR "ARENITE_MODEL needs the program arenite of the build machine, which reads "
      "model files; there is none at '${ARENITE_HOST_TOOL}', nor on PATH. Build it with `make` in "
      "${PROJECT_SOURCE_DIR} and set -DARENITE_HOST_TOOL=${PROJECT_SOURCE_DIR}/build/arenite.")
  endif()
  set(${result} "${program}" PARENT_SCOPE)
endfunction()

# Appends to `list` what the list `key` in `json` holds: its strings, or a field of its objects.
function(arenite_append_strings list json key)
  string(JSON count ERROR_VARIABLE error LENGTH "${json}" ${key})
  if(error)
    message(FATAL_ERROR "inspect --json says nothing under '${key}': the program arenite of "
      "ARENITE_HOST_TOOL is of another version than this source. Build it again.")
  endif()
  set(values "${${list}}")
  if(count GREATER 0)
    math(EXPR last "${count} - 1")
    foreach(i RANGE ${last})
      string(JSON value GET "${json}" ${key} ${i} ${ARGN})
      list(APPEND values "${value}")
    endforeach()
  endif()
  list(REMOVE_DUPLICATES values)
  set(${list} "${values}" PARENT_SCOPE)
endfunction()

set(arenite_model_needs "")
set(arenite_model_kernel_sets "")
if(ARENITE_MODEL)
  arenite_find_inspector(inspector)
  foreach(model IN LISTS ARENITE_MODEL)
    cmake_path(ABSOLUTE_PATH model BASE_DIRECTORY "${CMAKE_SOURCE_DIR}")
    execute_process(COMMAND "${inspector}" inspect --json "${model}"
      RESULT_VARIABLE result OUTPUT_VARIABLE json ERROR_VARIABLE error)
    if(NOT result EQUAL 0)
      message(FATAL_ERROR "ARENITE_MODEL names a file that cannot be read as a model:\n${error}")
    endif()
    arenite_append_strings(arenite_model_needs "${json}" needs)
    arenite_append_strings(arenite_model_kernel_sets "${json}" targets kernel_set)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${model}" "${inspector}")
  endforeach()
  list(JOIN arenite_model_needs ", " needs)
  message(STATUS "ARENITE_MODEL needs ${needs}")
endif()

set(everything true)
set(names "\"\"")
if(ARENITE_MODEL)
  set(everything false)
  list(JOIN arenite_model_needs "\",\n    \"" names)
  set(names "\"${names}\"")
endif()
set(arenite_needs_dir "${PROJECT_BINARY_DIR}/needs")
file(CONFIGURE OUTPUT "${arenite_needs_dir}/arenite_needs.h" @ONLY CONTENT
"// Made by CMake: what the models of ARENITE_MODEL need.
#pragma once

namespace arenite {

inline constexpr bool kEverythingLinked = @everything@;
inline constexpr const char* kLinkedNeeds[] = {
    @names@};

}  // namespace arenite
")

# Keeps those of the kernel sets that some model is packed for.
function(arenite_common_kernel_sets sets)
  set(common "")
  foreach(kernel_set IN LISTS ${sets})
    if(kernel_set IN_LIST arenite_model_kernel_sets)
      list(APPEND common ${kernel_set})
    endif()
  endforeach()
  if(NOT common)
    list(JOIN arenite_model_kernel_sets ", " packed)
    list(JOIN ${sets} ", " built)
    message(FATAL_ERROR "The models of ARENITE_MODEL are packed for the kernels ${packed}, and "
      "this build has ${built}. Convert them for it, too: arenite convert ... --target portable, "
      "or another that `arenite convert --help` names.")
  endif()
  set(${sets} ${common} PARENT_SCOPE)
endfunction()
