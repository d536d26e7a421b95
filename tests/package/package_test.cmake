# SPDX-License-Identifier: Apache-2.0
# Builds and runs the consumer in one of three ways: find_package, pkg_config, add_subdirectory. The
# fourth looks at what is installed, and uninstalls it.
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

# What stands beside the libraries, and that uninstalling leaves no file.
function(install_and_uninstall)
  set(prefix "${work}/prefix")
  run("${CMAKE_COMMAND}" --install "${build_dir}" --prefix "${prefix}")
  foreach(notice IN ITEMS CLI11 FlatBuffers XNNPACK fmt libzip nlohmann-json utf8proc)
    set(file "${prefix}/share/doc/arenite/notices/${notice}")
    if(NOT EXISTS "${file}")
      message(FATAL_ERROR "${file} is missing")
    endif()
    file(READ "${file}" text)
    if(NOT text MATCHES "[Cc]opyright")
      message(FATAL_ERROR "${file} is no notice")
    endif()
  endforeach()
  foreach(file IN ITEMS man/man1/arenite.1 man/man1/arenite-convert.1 man/man7/arenite-targets.7
      bash-completion/completions/arenite zsh/site-functions/_arenite
      fish/vendor_completions.d/arenite.fish arenite/schemas/inspect.schema.json)
    if(NOT EXISTS "${prefix}/share/${file}")
      message(FATAL_ERROR "${prefix}/share/${file} is missing")
    endif()
  endforeach()
  run("${CMAKE_COMMAND}" -D "manifest=${build_dir}/install_manifest.txt"
    -P "${source_dir}/tools/cmake/uninstall.cmake")
  file(GLOB_RECURSE left LIST_DIRECTORIES false "${prefix}/*")
  if(left)
    message(FATAL_ERROR "uninstalling left ${left}")
  endif()
endfunction()

if(way STREQUAL "uninstall")
  install_and_uninstall()
  return()
elseif(way STREQUAL "find_package")
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
