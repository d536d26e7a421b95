# SPDX-License-Identifier: Apache-2.0
# Builds and runs the consumer in one of three ways: find_package, pkg_config, add_subdirectory.
#
# The first two install into a prefix below the build folder; then the prefix is renamed, because an
# installed tree must work wherever it is moved.
cmake_minimum_required(VERSION 3.25)

set(work "${build_dir}/package_test/${way}")
set(consumer "${source_dir}/tests/package/consumer")
set(program "${work}/build/consumer")
file(REMOVE_RECURSE "${work}")
file(MAKE_DIRECTORY "${work}")

function(run)
  execute_process(COMMAND ${ARGV}
    RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    list(JOIN ARGV " " command)
    message(FATAL_ERROR "${command}\nended with ${result}:\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

function(install_to_moved_prefix)
  run("${CMAKE_COMMAND}" --install "${build_dir}" --prefix "${work}/first_prefix")
  file(RENAME "${work}/first_prefix" "${work}/prefix")
endfunction()

function(build_with_cmake)
  set(arguments "-DCMAKE_BUILD_TYPE=Release" ${ARGV})
  if(toolchain_file)
    list(APPEND arguments "-DCMAKE_TOOLCHAIN_FILE=${toolchain_file}")
  else()
    list(APPEND arguments
      "-DCMAKE_C_COMPILER=${c_compiler}" "-DCMAKE_CXX_COMPILER=${cxx_compiler}")
  endif()
  run("${CMAKE_COMMAND}" -G "${generator}" -S "${consumer}" -B "${work}/build" ${arguments})
  run("${CMAKE_COMMAND}" --build "${work}/build" -j 2 --target consumer)
endfunction()

function(build_with_pkg_config)
  set(ENV{PKG_CONFIG_PATH} "${work}/prefix/${library_dir}/pkgconfig")
  run(pkg-config --modversion arenite)
  if(NOT output MATCHES "^${version}\n$")
    message(FATAL_ERROR "pkg-config says version ${output}, expected ${version}")
  endif()
  run(pkg-config --cflags --libs arenite)
  separate_arguments(flags UNIX_COMMAND "${output}")
  file(MAKE_DIRECTORY "${work}/build")
  run("${cxx_compiler}" -std=c++20 -o "${program}" "${consumer}/consumer.cc" ${flags})
endfunction()

if(way STREQUAL "find_package")
  install_to_moved_prefix()
  build_with_cmake("-Darenite_DIR=${work}/prefix/${library_dir}/cmake/arenite")
elseif(way STREQUAL "pkg_config")
  install_to_moved_prefix()
  build_with_pkg_config()
elseif(way STREQUAL "add_subdirectory")
  build_with_cmake("-DARENITE_FOLDER=${source_dir}" "-DARENITE_XNNPACK_SOURCE=${xnnpack_dir}")
else()
  message(FATAL_ERROR "unknown way '${way}'")
endif()

run(${emulator} "${program}")
if(NOT output STREQUAL "arenite ${version}\n")
  message(FATAL_ERROR "the consumer printed '${output}', expected 'arenite ${version}'")
endif()
