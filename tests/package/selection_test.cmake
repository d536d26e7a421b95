# SPDX-License-Identifier: Apache-2.0
# Builds the runtime with parts of it chosen, by ARENITE_MODEL, ARENITE_KERNELS, an old compiler or
# `arenite bundle`; as a part of firmware, and where shared libraries are asked for. `case` says
# which.
cmake_minimum_required(VERSION 3.25)

set(work "${build_dir}/package_test/${case}")
file(REMOVE_RECURSE "${work}")
file(MAKE_DIRECTORY "${work}")

# Runs a command; its output must match `expected`, and it must succeed unless `fails` is set.
function(run expected)
  execute_process(COMMAND ${ARGN}
    RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  # CMake wraps the lines of its messages.
  string(REGEX REPLACE "[ \n]+" " " flat "${output}")
  if((fails AND result EQUAL 0) OR (NOT fails AND NOT result EQUAL 0) OR
     NOT flat MATCHES "${expected}")
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\nended with ${result}, expected '${expected}':\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

# The models: a small module, a decoder that needs much more, and an encoder.
function(convert_models targets)
  run("recall.arn" "${host_tool}" convert "${source_dir}/models/recall/recall.safetensors" --heads 2
    --target ${targets} -o "${work}/recall.arn")
  run("intent.arn" "${host_tool}" convert "${source_dir}/models/home-intent"
    --target ${targets} -o "${work}/intent.arn")
  run("vibration.arn" "${host_tool}" convert "${source_dir}/models/vibration"
    --target ${targets} -o "${work}/vibration.arn")
endfunction()

# Configures tests/package/`project`, without a network where that can be had.
function(configure project expected)
  set(offline unshare --map-root-user --net)
  execute_process(COMMAND ${offline} true RESULT_VARIABLE result OUTPUT_QUIET ERROR_QUIET)
  if(NOT result EQUAL 0)
    set(offline "")
  endif()
  run("${expected}" ${offline} "${CMAKE_COMMAND}" -G "${generator}"
    -S "${source_dir}/tests/package/${project}" -B "${work}/build"
    "-DCMAKE_C_COMPILER_LAUNCHER=${launcher}" "-DCMAKE_CXX_COMPILER_LAUNCHER=${launcher}"
    -DCMAKE_BUILD_TYPE=MinSizeRel "-DARENITE_FOLDER=${source_dir}" ${one_source}
    "-DARENITE_XNNPACK_SOURCE=${xnnpack_dir}" ${ARGN})
endfunction()

# An argument for configure that sets a list: a command line would lose its semicolons on the way.
function(preset_list variable)
  file(WRITE "${work}/lists.cmake" "set(${variable} \"${ARGN}\" CACHE STRING \"\" FORCE)\n")
endfunction()

# The sources of a library compiled as one take a tenth of the time.
set(one_source -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=0)
set(native "-DCMAKE_C_COMPILER=${c_compiler}" "-DCMAKE_CXX_COMPILER=${cxx_compiler}")
set(tool "-DARENITE_HOST_TOOL=${host_tool}")
set(left_out "unsupported: this build has only what its ARENITE_MODEL needs: name this model ")
string(APPEND left_out "there, too")

if(case STREQUAL "only_what_models_need_is_linked")
  convert_models(portable,x86-64-v3)
  configure(one_model "ARENITE_MODEL needs op linear, op attention " ${native} ${tool}
    "-DARENITE_MODEL=${work}/recall.arn")
  run("" "${CMAKE_COMMAND}" --build "${work}/build" -j 2 --target one_model)
  # The whole runtime gives the same bits.
  run("^digest [0-9a-f]+ digest [0-9a-f]+ $" "${whole_program}" "${work}/recall.arn"
    "${work}/intent.arn")
  string(REGEX REPLACE "\n" " " digests "${output}")
  string(REGEX MATCH "^digest [0-9a-f]+" digest "${digests}")
  run("^${digest} ${left_out}; ops.kind\\[0\\] $"
    "${work}/build/one_model" "${work}/recall.arn" "${work}/intent.arn")

  # The same build folder, for both.
  preset_list(ARENITE_MODEL "${work}/recall.arn" "${work}/intent.arn")
  configure(one_model "ARENITE_MODEL needs .*norm rms.*tokenizer byte pairs"
    -C "${work}/lists.cmake")
  run("" "${CMAKE_COMMAND}" --build "${work}/build" -j 2 --target one_model)
  run("^${digests}${left_out}; ops.norm\\[3\\] $" "${work}/build/one_model" "${work}/recall.arn"
    "${work}/intent.arn" "${work}/vibration.arn")

  # Quantized weights and caches are parts, too.
  run("few.arn" "${host_tool}" convert "${source_dir}/models/recall/recall.safetensors" --heads 2
    --target portable,x86-64-v3 --weights q8 --kv int8 -o "${work}/few.arn")
  run("^${left_out}; tensors.type\\[0\\] $" "${work}/build/one_model" "${work}/few.arn")
  preset_list(ARENITE_MODEL "${work}/few.arn")
  configure(one_model "ARENITE_MODEL needs .*weights q8, cache int8" -C "${work}/lists.cmake")
  run("" "${CMAKE_COMMAND}" --build "${work}/build" -j 2 --target one_model)
  run("^digest [0-9a-f]+ $" "${whole_program}" "${work}/few.arn")
  string(STRIP "${output}" digest)
  run("^${digest} $" "${work}/build/one_model" "${work}/few.arn")
elseif(case STREQUAL "models_of_another_cpu_are_refused")
  convert_models(arm64)
  set(fails TRUE)
  configure(one_model "packed for the kernels neon, and this build has scalar.*--target portable"
    ${native} ${tool} "-DARENITE_MODEL=${work}/recall.arn")
elseif(case STREQUAL "a_missing_tool_is_named")
  set(fails TRUE)
  configure(one_model "ARENITE_MODEL needs the program arenite.*set -DARENITE_HOST_TOOL="
    ${native} "-DARENITE_MODEL=${work}/recall.arn" -DARENITE_HOST_TOOL=/nowhere/arenite)
elseif(case STREQUAL "a_missing_model_is_named")
  set(fails TRUE)
  configure(one_model "ARENITE_MODEL names a file that cannot be read as a model.*absent.arn"
    ${native} ${tool} "-DARENITE_MODEL=${work}/absent.arn")
elseif(case STREQUAL "scalar_kernels_alone")
  convert_models(portable)
  configure(one_model "" ${native} -DARENITE_KERNELS=scalar)
  run("" "${CMAKE_COMMAND}" --build "${work}/build" -j 2 --target one_model)
  run("^digest [0-9a-f]+ $" "${work}/build/one_model" "${work}/recall.arn")
elseif(case STREQUAL "unknown_kernels_are_refused")
  set(fails TRUE)
  preset_list(ARENITE_KERNELS scalar mmx)
  configure(one_model "ARENITE_KERNELS names mmx, which this architecture lacks.*Expected is all"
    ${native} -C "${work}/lists.cmake")
elseif(case STREQUAL "an_old_compiler_loses_kernels")
  file(WRITE "${work}/old_cc" "#!/bin/sh\ncase \" $* \" in *' -mavx512f '*)\n"
    "  echo 'error: unrecognized command-line option -mavx512f' >&2; exit 1;;\nesac\n"
    "exec '${c_compiler}' \"$@\"\n")
  file(CHMOD "${work}/old_cc" PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
  preset_list(ARENITE_KERNELS scalar avx512)
  configure(one_model "Kernel set avx512 is left out: the compiler cannot build it"
    -C "${work}/lists.cmake" "-DCMAKE_C_COMPILER=${work}/old_cc"
    "-DCMAKE_CXX_COMPILER=${cxx_compiler}")
  run("" "${CMAKE_COMMAND}" --build "${work}/build" -j 2 --target one_model)
  convert_models(x86-64-v4)
  set(packed "the file is packed for x86-64-v4, this CPU and build run portable")
  run("^unsupported: .*; ${packed}.*: arenite convert"
    "${work}/build/one_model" "${work}/recall.arn")
elseif(case STREQUAL "a_shared_library_is_found_and_linked")
  # By CMake and by pkg-config, in a prefix that was moved after the installation.
  run("" "${CMAKE_COMMAND}" -G "${generator}" -S "${source_dir}" -B "${work}/library" ${native}
    "-DCMAKE_C_COMPILER_LAUNCHER=${launcher}" "-DCMAKE_CXX_COMPILER_LAUNCHER=${launcher}"
    ${one_source} "-DARENITE_XNNPACK_SOURCE=${xnnpack_dir}" -DARENITE_KERNELS=scalar
    -DBUILD_SHARED_LIBS=ON -DARENITE_BUILD_TOOLS=OFF -DARENITE_BUILD_TESTS=OFF
    -DARENITE_BUILD_EXAMPLES=OFF -DCMAKE_INSTALL_LIBDIR=lib)
  run("" "${CMAKE_COMMAND}" --build "${work}/library" -j 2)
  run("" "${CMAKE_COMMAND}" --install "${work}/library" --prefix "${work}/first")
  file(RENAME "${work}/first" "${work}/prefix")
  set(library "${work}/prefix/lib")
  set(consumer "${source_dir}/tests/package/consumer/c_consumer.c")
  file(WRITE "${work}/CMakeLists.txt"
    "cmake_minimum_required(VERSION 3.25)\nproject(c LANGUAGES C)\n"
    "set(CMAKE_C_STANDARD 99)\n"
    "find_package(arenite REQUIRED)\nadd_executable(linked \"${consumer}\")\n"
    "target_link_libraries(linked arenite::shared)\n")
  run("" "${CMAKE_COMMAND}" -G "${generator}" -S "${work}" -B "${work}/build" ${native}
    "-Darenite_DIR=${library}/cmake/arenite")
  run("" "${CMAKE_COMMAND}" --build "${work}/build")
  run("^arenite [0-9.]+ $" "${work}/build/linked")
  execute_process(COMMAND "${CMAKE_COMMAND}" -E env "PKG_CONFIG_PATH=${library}/pkgconfig"
    pkg-config --cflags --libs arenite-shared OUTPUT_VARIABLE flags COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(flags UNIX_COMMAND "${flags}")
  run("" "${c_compiler}" -std=c99 "${consumer}" ${flags}
    "-Wl,-rpath,${library}" -o "${work}/linked")
  run("^arenite [0-9.]+ $" "${work}/linked")
elseif(case STREQUAL "a_parent_of_shared_libraries_links_a_static_one")
  configure(shared_parent "BUILD_SHARED_LIBS=ON is for the other libraries: Arenite is a static one"
    ${native} -DBUILD_SHARED_LIBS=ON -DARENITE_KERNELS=scalar)
  run("" "${CMAKE_COMMAND}" --build "${work}/build" -j 2 --target shared_parent)
  run("^arenite [0-9.]+ from a shared library $" "${work}/build/shared_parent")
elseif(case STREQUAL "a_bundle_compiles_as_it_is")
  # No option but the language, in the folder itself. The sources of C++ are compiled as one, which
  # takes a tenth of the time; Matrix.programs compiles each by itself.
  convert_models(portable)
  run("microkernels" "${host_tool}" bundle "${work}/vibration.arn" "${work}/recall.arn"
    -o "${work}/bundle")
  file(GLOB sources RELATIVE "${work}/bundle" "${work}/bundle/*.c" "${work}/bundle/*.cc")
  set(as_one "")
  foreach(source IN LISTS sources)
    if(source MATCHES "cc$")
      string(APPEND as_one "#include \"${source}\"\n")
    else()
      run("^$" "${CMAKE_COMMAND}" -E chdir "${work}/bundle" ${launcher} "${c_compiler}"
        -c ${source})
    endif()
  endforeach()
  file(WRITE "${work}/bundle/as_one.cc" "${as_one}")
  run("^$" "${CMAKE_COMMAND}" -E chdir "${work}/bundle" ${launcher} "${cxx_compiler}" -std=c++20
    -c as_one.cc)
  file(GLOB objects "${work}/bundle/*.o")
  run("^$" "${cxx_compiler}" ${objects} -o "${work}/self_test")
  string(CONCAT passed "^vibration: self-test passed, digest [0-9a-f]+ "
    "recall: self-test passed, digest [0-9a-f]+ $")
  run("${passed}" "${work}/self_test")
elseif(case STREQUAL "vendors_builds_take_a_bundle")
  # By stand-ins for ESP-IDF, Zephyr and the Pico SDK, whose functions tests/package/components has.
  set(components "${source_dir}/tests/package/components")
  run("recall.arn" "${host_tool}" convert "${source_dir}/models/recall/recall.safetensors" --heads 2
    --target portable -o "${work}/recall.arn")
  run("" "${host_tool}" bundle "${work}/recall.arn" -o "${work}/bundle" --board pico)
  set(source_of_esp_idf "${components}")
  set(source_of_zephyr "${components}")
  set(source_of_pico "${work}/bundle/pico")
  foreach(way IN ITEMS esp_idf zephyr pico)
    run("" "${CMAKE_COMMAND}" -E env "PICO_SDK_PATH=${components}/pico_sdk"
      "${CMAKE_COMMAND}" -G "${generator}" -S "${source_of_${way}}" -B "${work}/${way}" ${native}
      ${one_source} "-Dway=${way}" "-Dbundle=${work}/bundle" --no-warn-unused-cli)
    run("" "${CMAKE_COMMAND}" --build "${work}/${way}" -j 2)
    run("^recall: self-test passed, digest [0-9a-f]+ $" "${work}/${way}/firmware")
  endforeach()
elseif(case STREQUAL "firmware")
  convert_models(portable)
  run("recall" "${host_tool}" embed "${work}/recall.arn" -o "${work}/recall.h")
  configure(firmware "" "-DRECALL_FOLDER=${work}"
    "-DCMAKE_TOOLCHAIN_FILE=${source_dir}/tools/cmake/cortex-m7.cmake")
  run("" "${CMAKE_COMMAND}" --build "${work}/build" -j 2)
  run("^digest " "${whole_program}" "${work}/recall.arn")
  set(expected "${output}")
  run("^digest " qemu-system-arm -machine mps2-an500 -nographic -monitor none -serial none
    -semihosting-config enable=on,target=native -kernel "${work}/build/firmware")
  if(NOT output STREQUAL expected)
    message(FATAL_ERROR "the firmware says ${output}, expected ${expected}")
  endif()
  set(fails TRUE)
  string(CONCAT message "the models and the code are larger than the board's flash:.*"
    "are larger than the board's RAM:.*region .FLASH' overflowed by [0-9]+ bytes.*"
    "region .RAM' overflowed by [0-9]+ bytes")
  run("${message}" "${CMAKE_COMMAND}" --build "${work}/build" --target too_large)
else()
  message(FATAL_ERROR "unknown case '${case}'")
endif()
