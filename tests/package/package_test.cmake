# SPDX-License-Identifier: Apache-2.0
# Builds and runs the consumer in one of three ways: find_package, pkg_config, add_subdirectory. The
# fourth looks at what is installed, and uninstalls it; the fifth builds elsewhere, and compares.
#
# The first two install into a prefix below the build folder; then the prefix is renamed, because an
# installed tree must work wherever it is moved.
cmake_minimum_required(VERSION 3.25)

set(work "${build_dir}/package_test/${way}")
set(consumer "${source_dir}/tests/package/consumer")
set(checkpoint "${source_dir}/models/recall/recall.safetensors")
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
  run("${CMAKE_COMMAND}" --build "${work}/build" -j 2 --target consumer c_consumer cxx11_consumer)
endfunction()

# A file in the folder of a model that changes is converted again, and only then.
function(change_weights)
  run("${CMAKE_COMMAND}" --build "${work}/build" --target consumer)
  if(output MATCHES "Converting")
    message(FATAL_ERROR "nothing has changed, and the model was converted again:\n${output}")
  endif()
  file(TOUCH "${work}/weights/recall.safetensors")
  run("${CMAKE_COMMAND}" --build "${work}/build" --target consumer)
  if(NOT output MATCHES "Converting recall.*Embedding recall")
    message(FATAL_ERROR "the weights have changed, and the model was not converted:\n${output}")
  endif()
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
  if(has_program)
    run(pkg-config --variable=program arenite)
    string(STRIP "${output}" arenite)
    run("${arenite}" convert "${checkpoint}" -o "${work}/build/recall.arn" --heads 2 --target all)
    run("${arenite}" embed "${work}/build/recall.arn" -o "${work}/build/recall.h")
    run("${arenite}" embed "${work}/build/recall.arn" -o "${work}/build/recall_in_c.h"
      --name recall_in_c --language c)
    list(APPEND flags "-I${work}/build")
  endif()
  run("${cxx_compiler}" -std=c++20 -o "${work}/build/consumer" "${consumer}/consumer.cc" ${flags})
  run("${c_compiler}" -std=c99 -o "${work}/build/c_consumer" "${consumer}/c_consumer.c" ${flags})
  run("${cxx_compiler}" -std=c++11 -o "${work}/build/cxx11_consumer"
    "${consumer}/cxx11_consumer.cc" ${flags})
endfunction()

# What stands beside the libraries, and that uninstalling leaves no file.
function(install_and_uninstall)
  set(prefix "${work}/prefix")
  file(REMOVE_RECURSE "${build_dir}/share")  # as after `make demo`, which builds the program alone
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
  run(python3 "${source_dir}/tests/package/check_sbom.py" "${prefix}")
  run("${CMAKE_COMMAND}" -D "manifest=${build_dir}/install_manifest.txt"
    -P "${source_dir}/tools/cmake/uninstall.cmake")
  file(GLOB_RECURSE left LIST_DIRECTORIES false "${prefix}/*")
  if(left)
    message(FATAL_ERROR "uninstalling left ${left}")
  endif()
endfunction()

# The same sources in another folder give the same archive, byte by byte.
function(compare_with_build_elsewhere)
  foreach(part IN ITEMS CMakeLists.txt LICENSE runtime tools/cmake)
    get_filename_component(folder "${work}/elsewhere/${part}" DIRECTORY)
    file(COPY "${source_dir}/${part}" DESTINATION "${folder}")
  endforeach()
  # A cache of objects would give those of the first build.
  set(ENV{CCACHE_DISABLE} 1)
  run("${CMAKE_COMMAND}" -G "${generator}" -S "${work}/elsewhere" -B "${work}/elsewhere/objects"
    "-DCMAKE_BUILD_TYPE=${build_type}" "-DCMAKE_C_COMPILER=${c_compiler}"
    "-DCMAKE_CXX_COMPILER=${cxx_compiler}" "-DARENITE_XNNPACK_SOURCE=${xnnpack_dir}"
    -DARENITE_BUILD_TOOLS=OFF -DARENITE_BUILD_TESTS=OFF -DARENITE_BUILD_EXAMPLES=OFF
    -DCMAKE_OPTIMIZE_DEPENDENCIES=ON)  # or the kernels would be compiled, too
  run("${CMAKE_COMMAND}" --build "${work}/elsewhere/objects" -j 2 --target arenite)
  foreach(folder IN ITEMS "${build_dir}" "${work}/elsewhere/objects")
    file(SHA256 "${folder}/runtime/libarenite.a" digest)
    list(APPEND digests "${digest}")
  endforeach()
  list(REMOVE_DUPLICATES digests)
  list(LENGTH digests different)
  if(NOT different EQUAL 1)
    message(FATAL_ERROR "libarenite.a of two folders differs: ${digests}")
  endif()
  # What takes longer to build does not name its folder, at least; `make reproducible` builds it.
  foreach(file IN ITEMS arenite libarenite_xnnpack.a runtime/libarenite.a)
    execute_process(COMMAND grep -c -F "${source_dir}" "${build_dir}/${file}"
      RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
    if(NOT result EQUAL 1)
      message(FATAL_ERROR "${file} names the folder that it was built in: ${output}")
    endif()
  endforeach()
endfunction()

if(way STREQUAL "two_folders_give_the_same_bytes")
  compare_with_build_elsewhere()
  return()
elseif(way STREQUAL "uninstall")
  install_and_uninstall()
  return()
elseif(way STREQUAL "find_package")
  install_to_moved_prefix()
  set(arguments "-Darenite_DIR=${work}/prefix/${library_dir}/cmake/arenite")
  if(has_program)
    file(COPY "${checkpoint}" DESTINATION "${work}/weights")
    list(APPEND arguments "-DCHECKPOINT=${work}/weights")
  endif()
  build_with_cmake(${arguments})
  if(has_program)
    change_weights()
  endif()
elseif(way STREQUAL "pkg_config")
  install_to_moved_prefix()
  build_with_pkg_config()
elseif(way STREQUAL "add_subdirectory")
  # As some parents do, which takes a fifth of the time, too.
  build_with_cmake("-DARENITE_FOLDER=${source_dir}" "-DARENITE_XNNPACK_SOURCE=${xnnpack_dir}"
    -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=0 -DARENITE_KERNELS=scalar)
else()
  message(FATAL_ERROR "unknown way '${way}'")
endif()

set(expected "arenite ${version}\n")
if(has_program AND NOT way STREQUAL "add_subdirectory")
  string(APPEND expected "a model inside\n")
endif()
foreach(program IN ITEMS consumer c_consumer cxx11_consumer)
  run(${emulator} "${work}/build/${program}")
  if(NOT output STREQUAL expected)
    message(FATAL_ERROR "${program} printed '${output}', expected '${expected}'")
  endif()
endforeach()
