# SPDX-License-Identifier: Apache-2.0
# GoogleTest, and the function that makes a test program out of source files.

if(ARENITE_BUILD_TESTS)
  if(CMAKE_CROSSCOMPILING)
    # The packaged library is the build machine's; the package googletest brings the source.
    set(ARENITE_GTEST_SOURCE /usr/src/googletest CACHE PATH "Source of GoogleTest for cross builds")
    if(NOT EXISTS "${ARENITE_GTEST_SOURCE}/CMakeLists.txt")
      message(FATAL_ERROR "${ARENITE_GTEST_SOURCE} holds no GoogleTest source. Install the package "
        "googletest, or set -DARENITE_GTEST_SOURCE=DIR.")
    endif()
    set(BUILD_GMOCK OFF)
    set(INSTALL_GTEST OFF)
    add_subdirectory("${ARENITE_GTEST_SOURCE}" googletest EXCLUDE_FROM_ALL SYSTEM)
    if(NOT TARGET GTest::gtest_main)
      add_library(GTest::gtest_main ALIAS gtest_main)
    endif()
  else()
    find_package(GTest REQUIRED)
  endif()
  include(GoogleTest)
endif()

# What the tests are compiled with: they need not be fast, but soon there. Half of the time to
# compile them would go into the same headers, so they are precompiled: GoogleTest and the standard
# library for all, and what the converter is made with for those that say PRECOMPILED convert.
# An emulator takes longer to run them unoptimized than a compiler to optimize them.
if(ARENITE_SANITIZE OR (CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT CMAKE_CROSSCOMPILING))
  set(arenite_test_flags -O0)
elseif(CMAKE_BUILD_TYPE STREQUAL "Release")
  set(arenite_test_flags -O1)
endif()
set(arenite_test_headers <gtest/gtest.h> <algorithm> <cmath> <filesystem> <fstream> <span> <string>
  <vector>)

function(arenite_test_precompile name kind)
  set(headers arenite_${kind}_test_headers)
  if(NOT TARGET ${headers})
    set(empty "${PROJECT_BINARY_DIR}/${headers}.cc")
    file(TOUCH "${empty}")
    add_library(${headers} OBJECT "${empty}")
    arenite_own_code(${headers})
    target_compile_options(${headers} PRIVATE ${arenite_test_flags})
    target_link_libraries(${headers} PRIVATE GTest::gtest_main)
    if(kind STREQUAL "convert")
      target_link_libraries(${headers} PRIVATE arenite_tools_headers)
      arenite_precompile(${headers} ${arenite_test_headers} <fmt/format.h> <nlohmann/json.hpp>)
    else()
      arenite_precompile(${headers} ${arenite_test_headers})
    endif()
  endif()
  arenite_precompile(${name} REUSE_FROM ${headers})
endfunction()

# arenite_test_sources(TARGET source...): sources of this folder, compiled together.
function(arenite_test_sources name)
  set(sources "")
  foreach(source IN LISTS ARGN)
    cmake_path(ABSOLUTE_PATH source NORMALIZE)
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY "${PROJECT_SOURCE_DIR}/tests")
    list(APPEND sources "${source}")
  endforeach()
  arenite_sources(${name} tests ${sources})
endfunction()

# arenite_test(NAME SOURCES file... [LIBRARIES target...] [TIMEOUT seconds] [PRECOMPILED kind])
#
# Natively every TEST is a CTest test of its own, with the program's name as its label. Under an
# emulator or a sanitizer, where starting a process is what costs, the program is one test, which
# fails if all that is in it was skipped; under ThreadSanitizer it runs what says by its name that
# it uses threads.
function(arenite_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT;PRECOMPILED" "SOURCES;LIBRARIES")
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  if(ARENITE_SANITIZE)
    math(EXPR arg_TIMEOUT "${arg_TIMEOUT} * 4")
  endif()
  if(NOT arg_PRECOMPILED)
    set(arg_PRECOMPILED runtime)
  endif()
  add_executable(${name})
  arenite_test_sources(${name} ${arg_SOURCES})
  arenite_own_code(${name})
  target_compile_options(${name} PRIVATE ${arenite_test_flags})
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/tests")
  target_link_libraries(${name} PRIVATE ${arg_LIBRARIES} arenite_test_data GTest::gtest_main)
  arenite_test_precompile(${name} ${arg_PRECOMPILED})
  if(CMAKE_CROSSCOMPILING OR ARENITE_SANITIZE)
    set(filter "*")
    if(ARENITE_SANITIZE STREQUAL "thread")
      set(filter "*Thread*")
    endif()
    add_test(NAME ${name} COMMAND ${name} --gtest_brief=1 --gtest_filter=${filter})
    math(EXPR timeout "${arg_TIMEOUT} * 10")
    set_tests_properties(${name} PROPERTIES
      TIMEOUT ${timeout}
      LABELS ${name}
      FAIL_REGULAR_EXPRESSION "\\[  PASSED  \\] 0 tests")
    if(ARENITE_VECTOR_EMULATOR)  # and on longer vectors
      add_test(NAME ${name}_v256
        COMMAND ${ARENITE_VECTOR_EMULATOR}256 $<TARGET_FILE:${name}> --gtest_brief=1)
    endif()
  else()
    gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST
      PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS ${name})
  endif()
endfunction()
