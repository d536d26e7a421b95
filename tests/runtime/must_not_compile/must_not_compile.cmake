# SPDX-License-Identifier: Apache-2.0
# Compiles `file` as it stands, which must work, and with ARENITE_MISUSE, which must not.
cmake_minimum_required(VERSION 3.25)

# Nothing but the misuse may fail: warnings that a project might not turn on are left out, and an
# ignored result is an error as it is in most projects.
set(command "${compiler}" -std=c++20 -fsyntax-only -Werror=unused-result -I "${include_dir}")

execute_process(COMMAND ${command} "${file}" RESULT_VARIABLE result ERROR_VARIABLE output)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "${file} must compile without ARENITE_MISUSE:\n${output}")
endif()

execute_process(COMMAND ${command} -D ARENITE_MISUSE "${file}"
  RESULT_VARIABLE result ERROR_VARIABLE output)
if(result EQUAL 0)
  message(FATAL_ERROR "${file} must not compile with ARENITE_MISUSE.")
endif()
