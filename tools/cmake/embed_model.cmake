# SPDX-License-Identifier: Apache-2.0
# Converts a checkpoint and embeds the result into a program, when the program is built.

# The program arenite that runs on the build machine: the one being built, or the one given.
if(ARENITE_HOST_TOOL)
  set(arenite_host_tool "${ARENITE_HOST_TOOL}")
elseif(TARGET arenite_cli AND NOT CMAKE_CROSSCOMPILING)
  set(arenite_host_tool arenite_cli)
else()
  set(arenite_host_tool "")
endif()

# arenite_embed_model(TARGET NAME CHECKPOINT [OBJECT ABI] [CONVERT argument...] [EMBED argument...])
#
# Makes NAME.arn and NAME.h in the current build folder, and lets TARGET include NAME.h. With OBJECT
# the bytes are not in the header but in an object file for that machine (`arenite embed --abi`).
function(arenite_embed_model target name checkpoint)
  cmake_parse_arguments(PARSE_ARGV 3 arg "" "OBJECT" "CONVERT;EMBED")
  set(model "${CMAKE_CURRENT_BINARY_DIR}/${name}.arn")
  set(embedded "${CMAKE_CURRENT_BINARY_DIR}/${name}.h")
  if(arg_OBJECT)
    set(object "${CMAKE_CURRENT_BINARY_DIR}/${name}.o")
    list(APPEND embedded "${object}")
    list(APPEND arg_EMBED --data "${object}" --abi ${arg_OBJECT})
    set_source_files_properties("${object}" PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
  endif()
  add_custom_command(
    OUTPUT "${model}" ${embedded}
    COMMAND ${arenite_host_tool} convert "${checkpoint}" -o "${model}" ${arg_CONVERT}
    COMMAND ${arenite_host_tool} embed "${model}" -o "${CMAKE_CURRENT_BINARY_DIR}/${name}.h"
      --name ${name} ${arg_EMBED}
    DEPENDS "${checkpoint}" ${arenite_host_tool}
    COMMENT "Embedding ${name}"
    VERBATIM)
  target_sources(${target} PRIVATE ${embedded})
  target_include_directories(${target} PRIVATE "${CMAKE_CURRENT_BINARY_DIR}")
endfunction()
