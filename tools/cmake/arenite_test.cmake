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

# arenite_test(NAME SOURCES file... [LIBRARIES target...] [TIMEOUT seconds])
#
# Natively every TEST is a CTest test of its own. Under an emulator, where starting a process is
# what costs, the program is one test.
function(arenite_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT" "SOURCES;LIBRARIES")
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  add_executable(${name} ${arg_SOURCES})
  arenite_own_code(${name})
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/tests")
  target_link_libraries(${name} PRIVATE ${arg_LIBRARIES} GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE ARENITE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  if(CMAKE_CROSSCOMPILING)
    add_test(NAME ${name} COMMAND ${name} --gtest_brief=1)
    math(EXPR timeout "${arg_TIMEOUT} * 10")
    set_tests_properties(${name} PROPERTIES TIMEOUT ${timeout})
  else()
    gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST PROPERTIES TIMEOUT ${arg_TIMEOUT})
  endif()
endfunction()
