# SPDX-License-Identifier: Apache-2.0
# The sources that `arenite bundle` writes, inside the program itself: a folder of data beside it
# would be one more thing to install, to find and to keep at the program's version.
#
# As a script, while the program is built: writes `output`, C++ that includes the files with the
# assembler. `inputs` is what arenite_bundle_sources wrote; each file is known by what includes it.

# arenite_bundle_sources(TARGET) gives a program the sources of the runtime, the microkernels of the
# kernel sets of x86-64, ARM64 and Cortex-M and of the scalar one, the headers of all, FlatBuffers'
# and the templates of tools/bundle.
function(arenite_bundle_sources target)
  get_target_property(sources arenite SOURCES)
  get_target_property(runtime_dir arenite SOURCE_DIR)
  list(FILTER sources EXCLUDE REGEX "kernels/(x86_64|arm|rvv|scalar)_.*\\.cc$")
  list(APPEND sources kernels/x86_64_sets.cc kernels/arm_sets.cc kernels/scalar_set.cc
    kernels/cortex_m_dsp.cc kernels/cortex_m_dsp_attention.cc
    kernels/cortex_m_mve.cc kernels/cortex_m_mve_attention.cc kernels/cortex_m_mve_functions.cc
    kernels/cortex_m_rows.cc kernels/soft_floats.cc kernels/soft_kernels.cc
    ops/integer_attention_rows.cc ops/integer_linear_rows.cc ops/integer_rows.cc
    sound/integer_frames.cc)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE "${runtime_dir}/include"
    "${runtime_dir}/include/*.h")
  file(GLOB_RECURSE templates CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}/tools"
    "${PROJECT_SOURCE_DIR}/tools/bundle/*")
  file(GLOB_RECURSE depends CONFIGURE_DEPENDS "${runtime_dir}/*.h"
    "${PROJECT_SOURCE_DIR}/tools/bundle/*" "${PROJECT_SOURCE_DIR}/examples/boards/mps2/*")
  foreach(source IN LISTS sources)
    list(APPEND depends "${runtime_dir}/${source}")
  endforeach()
  get_target_property(schema_headers arenite_model_schema SOURCES)
  list(GET schema_headers 0 schema_header)
  cmake_path(GET schema_header PARENT_PATH schema_dir)
  set(roots "${runtime_dir}" "${runtime_dir}/include" "${arenite_xnnpack_dir}"
    "${arenite_xnnpack_dir}/src" "${schema_dir}" "${PROJECT_BINARY_DIR}/host_headers"
    "${PROJECT_SOURCE_DIR}/tools" "${PROJECT_SOURCE_DIR}/tools/cmake")

  set(inputs "${CMAKE_CURRENT_BINARY_DIR}/bundle_inputs.cmake")
  set(output "${CMAKE_CURRENT_BINARY_DIR}/bundle_sources.cc")
  set(kernel_sets scalar dsp mve sse41 avx2 avx512 avx512vnni neon neondot neoni8mm)
  set(isas "")
  foreach(kernel_set IN LISTS kernel_sets)
    list(APPEND isas ${ARENITE_SET_${kernel_set}})
    list(APPEND of_isas ARENITE_SET_${kernel_set})
  endforeach()
  list(REMOVE_DUPLICATES isas)
  foreach(isa IN LISTS isas)
    list(APPEND of_isas ARENITE_KERNELS_${isa} ARENITE_KERNEL_FLAGS_${isa}
      ARENITE_KERNEL_HEADER_${isa})
  endforeach()
  set(text "")
  foreach(variable IN ITEMS sources headers templates roots kernel_sets isas ${of_isas}
      ARENITE_FLOAT_FLAGS ARENITE_KERNEL_FLAGS PROJECT_SOURCE_DIR arenite_xnnpack_dir)
    string(APPEND text "set(${variable} [==[${${variable}}]==])\n")
  endforeach()
  file(CONFIGURE OUTPUT "${inputs}" CONTENT "${text}" @ONLY)
  add_custom_command(
    OUTPUT "${output}"
    COMMAND "${CMAKE_COMMAND}" "-Dinputs=${inputs}" "-Doutput=${output}"
      -P "${CMAKE_CURRENT_FUNCTION_LIST_FILE}"
    DEPENDS "${inputs}" "${CMAKE_CURRENT_FUNCTION_LIST_FILE}" ${depends} ${schema_headers}
      arenite_model_schema
    COMMENT "Gathering the sources for arenite bundle"
    VERBATIM)
  set_source_files_properties("${output}" PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
  target_sources(${target} PRIVATE "${output}")
endfunction()

if(NOT CMAKE_SCRIPT_MODE_FILE)
  return()
endif()
cmake_minimum_required(VERSION 3.25)
include("${inputs}")

# XNNPACK's headers that declare kernels, thousands of them: a bundle declares its own.
string(CONCAT declarations
  "^xnnpack(/(gemm|raddstoreexpminusmax|reduce|transpose|vbinary|vcvt|vunary))?\\.h$")

set(asm "")
set(declared "")
set(table "")
set(count 0)
set(isa "")  # of a microkernel
macro(embed path file)
  string(APPEND asm "    \".balign 16\\n\"\n    \"arenite_bundled_${count}:\\n\"\n"
    "    \".incbin \\\"${file}\\\"\\n\"\n    \"arenite_bundled_${count}_end: .byte 0\\n\"\n"
    "    \".globl arenite_bundled_${count}, arenite_bundled_${count}_end\\n\"\n"
    "    \".hidden arenite_bundled_${count}, arenite_bundled_${count}_end\\n\"\n")
  string(APPEND declared
    "extern const char arenite_bundled_${count}[], arenite_bundled_${count}_end[];\n")
  string(APPEND table
    "    {\"${path}\", arenite_bundled_${count}, arenite_bundled_${count}_end, \"${isa}\"},\n")
  math(EXPR count "${count} + 1")
endmacro()

embed("LICENSE" "${PROJECT_SOURCE_DIR}/LICENSE")
embed("LICENSE.xnnpack" "${arenite_xnnpack_dir}/LICENSE")
foreach(name IN ITEMS board.cc board.h mps2.ld start.cc)
  embed("bundle/board/${name}" "${PROJECT_SOURCE_DIR}/examples/boards/mps2/${name}")
endforeach()
set(queue ${sources} ${headers} ${templates})
foreach(isa IN LISTS isas)
  list(APPEND queue ${ARENITE_KERNELS_${isa}})
  foreach(kernel IN LISTS ARENITE_KERNELS_${isa})
    set("isa_of_${kernel}" ${isa})
  endforeach()
  if(ARENITE_KERNEL_HEADER_${isa} AND NOT isa STREQUAL "scalar")
    cmake_path(GET ARENITE_KERNEL_HEADER_${isa} FILENAME header_of_${isa})
    list(APPEND queue ${header_of_${isa}})
  endif()
endforeach()
set(seen "")
while(queue)
  list(POP_FRONT queue path)
  if(path IN_LIST seen OR path MATCHES "${declarations}")
    continue()
  endif()
  list(APPEND seen "${path}")
  unset(file)
  foreach(root IN LISTS roots)
    if(EXISTS "${root}/${path}")
      set(file "${root}/${path}")
      break()
    endif()
  endforeach()
  if(NOT file)
    continue()  # of the compiler
  endif()
  set(isa "${isa_of_${path}}")
  embed("${path}" "${file}")
  if(path MATCHES "^bundle/")
    continue()
  endif()
  file(STRINGS "${file}" lines REGEX "^[ \t]*#[ \t]*include[ \t]*[<\"]")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "^[ \t]*#[ \t]*include[ \t]*[<\"]([^>\"]+).*" "\\1" included "${line}")
    if(NOT included STREQUAL "arenite_needs.h")
      list(APPEND queue "${included}")
    endif()
  endforeach()
endwhile()

# Macros as definitions, options as GCC's pragma has them: for compilers that nobody gives flags.
set(definitions "")
foreach(flag IN LISTS ARENITE_KERNEL_FLAGS_scalar)
  if(flag MATCHES "^-D([^=]+)=(.*)$")
    string(APPEND definitions "#define ${CMAKE_MATCH_1} ${CMAKE_MATCH_2}\\n")
  elseif(flag MATCHES "^-f")
    list(APPEND ARENITE_KERNEL_FLAGS "${flag}")
  else()
    message(FATAL_ERROR "${flag}: a bundle can give its kernels macros and options that begin -f")
  endif()
endforeach()
set(isa_table "")
foreach(isa IN LISTS isas)
  set(flags "${ARENITE_KERNEL_FLAGS_${isa}}")
  if(isa STREQUAL "scalar")
    set(flags "")  # the above
  elseif(isa STREQUAL "neon")
    set(flags "")  # of AArch64, whatever this build is for
  endif()
  list(JOIN flags " " flags)
  string(APPEND isa_table "    {\"${isa}\", \"${flags}\", \"${header_of_${isa}}\"},\n")
endforeach()
set(set_table "")
foreach(kernel_set IN LISTS kernel_sets)
  list(JOIN ARENITE_SET_${kernel_set} " " words)
  string(APPEND set_table "    {\"${kernel_set}\", \" ${words} \"},\n")
endforeach()
list(JOIN ARENITE_FLOAT_FLAGS " " float_flags)
list(JOIN ARENITE_KERNEL_FLAGS " " kernel_flags)

file(WRITE "${output}" "// Made by bundle_sources.cmake.
#include \"cli/bundle_sources.h\"

asm(\".section .rodata\\n\"
${asm}    \".text\\n\");
extern \"C\" {
${declared}}

namespace arenite::tool {
namespace {

constexpr EmbeddedSource kSources[] = {
${table}};
constexpr BundledIsa kIsas[] = {
${isa_table}};
constexpr BundledSet kSets[] = {
${set_table}};

}  // namespace

std::span<const EmbeddedSource> embedded_sources() { return kSources; }
std::span<const BundledIsa> bundled_isas() { return kIsas; }
std::span<const BundledSet> bundled_sets() { return kSets; }

const char* const kKernelDefinitions = \"${definitions}\";
const char* const kFloatFlags = \"${float_flags}\";
const char* const kKernelFlags = \"${kernel_flags}\";

}  // namespace arenite::tool
")
