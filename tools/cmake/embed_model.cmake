# SPDX-License-Identifier: Apache-2.0
# Converts a checkpoint and embeds the result into a program, when the program is built. Installed
# with the package, too.

# arenite_find_program(VARIABLE): the program arenite that runs on the build machine, or "". It is
# what ARENITE_HOST_TOOL says, the one being built or installed beside this file, or one on PATH.
function(arenite_find_program variable)
  if(ARENITE_HOST_TOOL)
    set(${variable} "${ARENITE_HOST_TOOL}" PARENT_SCOPE)
  elseif(TARGET arenite::program AND NOT CMAKE_CROSSCOMPILING)
    set(${variable} arenite::program PARENT_SCOPE)
  else()
    find_program(program_on_path arenite NO_CACHE)
    set(${variable} "${program_on_path}" PARENT_SCOPE)
    if(NOT program_on_path)
      set(${variable} "" PARENT_SCOPE)
    endif()
  endif()
endfunction()

# arenite_files_of_model(VARIABLE WORD...): the files that a conversion with these words may read.
# Of a folder all that are not hidden; of a file the shards, configuration and tokenizer that may be
# beside it, too. CMake looks again whenever it builds, so that none is missed.
function(arenite_files_of_model variable)
  set(files "")
  string(REPLACE "," ";" words "${ARGN}")  # --expect x.npy,y.npy
  foreach(word IN LISTS words)
    get_filename_component(path "${word}" ABSOLUTE)
    if(NOT EXISTS "${path}")
      continue()
    endif()
    if(IS_DIRECTORY "${path}")
      set(folder "${path}")
      file(GLOB_RECURSE names LIST_DIRECTORIES false RELATIVE "${folder}" CONFIGURE_DEPENDS
        "${folder}/*")
    else()
      list(APPEND files "${path}")
      get_filename_component(folder "${path}" DIRECTORY)
      set(patterns *.json *.model *.pkl vocab.txt merges.txt)
      if(path MATCHES "\\.index\\.json$")
        list(APPEND patterns *.safetensors *.bin)
      endif()
      list(TRANSFORM patterns PREPEND "${folder}/")
      file(GLOB names LIST_DIRECTORIES false RELATIVE "${folder}" CONFIGURE_DEPENDS ${patterns})
    endif()
    foreach(name IN LISTS names)
      cmake_path(IS_PREFIX CMAKE_BINARY_DIR "${folder}/${name}" is_made_here)
      if(NOT is_made_here AND NOT name MATCHES "(^|/)\\.")
        list(APPEND files "${folder}/${name}")
      endif()
    endforeach()
  endforeach()
  list(REMOVE_DUPLICATES files)
  set(${variable} "${files}" PARENT_SCOPE)
endfunction()

# arenite_embed_model(TARGET FILE [NAME name] [OBJECT ABI] [CONVERT argument...]
#                     [EMBED argument...])
#
# Makes NAME.h in the current build folder, and lets TARGET include it. FILE is a model file, .arn,
# or a checkpoint or its folder, which is converted to NAME.arn first, and again when a file of it
# changes. Files that the arguments name are looked for in the current source folder, as FILE is.
# NAME is the stem of FILE unless given, and what names in the header begin with; the report of the
# conversion is in NAME.txt. With OBJECT the bytes are not in the header but in an object file for
# that machine (`arenite embed --abi`).
function(arenite_embed_model target file)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "NAME;OBJECT" "CONVERT;EMBED")
  arenite_find_program(program)
  if(NOT program)
    message(FATAL_ERROR "arenite_embed_model needs the program arenite of the build machine: "
      "set -DARENITE_HOST_TOOL=FILE")
  endif()
  get_filename_component(file "${file}" ABSOLUTE)
  get_filename_component(stem "${file}" NAME_WE)
  string(MAKE_C_IDENTIFIER "${stem}" name)
  if(arg_NAME)
    set(name "${arg_NAME}")
  endif()
  set(header "${CMAKE_CURRENT_BINARY_DIR}/${name}.h")
  set(embedded "${header}")
  if(arg_OBJECT)
    set(object "${CMAKE_CURRENT_BINARY_DIR}/${name}.o")
    list(APPEND embedded "${object}")
    list(APPEND arg_EMBED --data "${object}" --abi ${arg_OBJECT})
    set_source_files_properties("${object}" PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
  endif()
  set(model "${file}")
  if(NOT file MATCHES "\\.arn$")
    set(model "${CMAKE_CURRENT_BINARY_DIR}/${name}.arn")
    arenite_files_of_model(files "${file}" ${arg_CONVERT})
    add_custom_command(
      OUTPUT "${model}"
      COMMAND ${program} convert "${file}" -o "${model}" ${arg_CONVERT}
        > "${CMAKE_CURRENT_BINARY_DIR}/${name}.txt"
      DEPENDS "${file}" ${files} ${program}
      WORKING_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}"
      COMMENT "Converting ${name}"
      VERBATIM)
  endif()
  add_custom_command(
    OUTPUT ${embedded}
    COMMAND ${program} embed "${model}" -o "${header}" --name ${name} ${arg_EMBED}
    DEPENDS "${model}" ${program}
    COMMENT "Embedding ${name}"
    VERBATIM)
  target_sources(${target} PRIVATE ${embedded})
  target_include_directories(${target} PRIVATE "${CMAKE_CURRENT_BINARY_DIR}")
endfunction()
