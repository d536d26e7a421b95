# SPDX-License-Identifier: Apache-2.0
# Header-only packages of the build machine, usable by native and by cross builds alike.
#
# A cross compiler must not see /usr/include, which holds the build machine's C library. So just the
# folders of the header-only packages are linked into the build folder, which is what gets included.

# Adds the headers <folder>/... to the include path of interface library `target`. `package` is the
# Debian package to name when they are missing.
function(arenite_link_host_headers target folder header package)
  string(MAKE_C_IDENTIFIER "ARENITE_${folder}_ROOT" root)
  string(TOUPPER "${root}" root)
  # The system's folders are named because CMake has none for a system without files.
  find_path(${root} "${folder}/${header}" PATHS /usr/local/include /usr/include
    PATH_SUFFIXES eigen3 NO_CMAKE_FIND_ROOT_PATH DOC "Folder that holds ${folder}/${header}")
  mark_as_advanced(${root})
  if(NOT ${root})
    message(FATAL_ERROR "The header ${folder}/${header} is missing. Install the package ${package} "
      "or set -D${root}=DIR to the folder that holds ${folder}/.")
  endif()
  set(links "${PROJECT_BINARY_DIR}/host_headers")
  file(MAKE_DIRECTORY "${links}")
  file(CREATE_LINK "${${root}}/${folder}" "${links}/${folder}" SYMBOLIC)
  target_include_directories(${target} SYSTEM INTERFACE "${links}")
endfunction()
