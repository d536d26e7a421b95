# SPDX-License-Identifier: Apache-2.0
# The notices of what is linked: their licences ask to be kept with the binary form. They are taken
# from where Debian's packages put them, so that they are those of the version that is linked.

# arenite_install_notice(NAME PACKAGE) installs the notice of a library. Elsewhere than on Debian
# ARENITE_NOTICE_<NAME> says where it is.
function(arenite_install_notice name package)
  string(MAKE_C_IDENTIFIER "ARENITE_NOTICE_${name}" variable)
  string(TOUPPER "${variable}" variable)
  set("${variable}" "/usr/share/doc/${package}/copyright" CACHE FILEPATH
    "Copyright notice and licence of ${name}")
  mark_as_advanced("${variable}")
  if(EXISTS "${${variable}}")
    install(FILES "${${variable}}" DESTINATION "${CMAKE_INSTALL_DOCDIR}/notices" RENAME "${name}")
  else()
    message(WARNING "The notice of ${name} is not at ${${variable}}, and what is installed needs "
      "it: set -D${variable}=FILE to its licence.")
  endif()
endfunction()

arenite_install_notice(FlatBuffers libflatbuffers-dev)
if(ARENITE_BUILD_TOOLS)
  arenite_install_notice(CLI11 libcli11-dev)
  arenite_install_notice(Eigen libeigen3-dev)
  arenite_install_notice(fmt libfmt-dev)
  arenite_install_notice(nlohmann-json nlohmann-json3-dev)
  if(ARENITE_LIBZIP_LIBRARY)
    arenite_install_notice(libzip libzip-dev)
  endif()
  if(ARENITE_UTF8PROC_LIBRARY)
    arenite_install_notice(utf8proc libutf8proc-dev)
  endif()
endif()
install(FILES "${arenite_xnnpack_dir}/LICENSE"
  DESTINATION "${CMAKE_INSTALL_DOCDIR}/notices" RENAME XNNPACK)
