# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` puts in place: headers, archives, program, CMake package, pkg-config file.
include(CMakePackageConfigHelpers)

set(arenite_config_dir "${CMAKE_INSTALL_LIBDIR}/cmake/arenite")

install(DIRECTORY "${PROJECT_SOURCE_DIR}/runtime/include/arenite"
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.h")
install(TARGETS arenite arenite_xnnpack EXPORT arenite-targets
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
if(ARENITE_BUILD_TOOLS)
  install(TARGETS arenite_cli RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()

install(EXPORT arenite-targets NAMESPACE arenite:: DESTINATION "${arenite_config_dir}")
# The targets need nothing from elsewhere, so the package file only names them.
file(WRITE "${PROJECT_BINARY_DIR}/arenite-config.cmake"
  "include(\"\${CMAKE_CURRENT_LIST_DIR}/arenite-targets.cmake\")\n")
# Before 1.0 a new minor version may change the interface.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/arenite-config-version.cmake"
  COMPATIBILITY SameMinorVersion)
install(
  FILES "${PROJECT_BINARY_DIR}/arenite-config.cmake"
        "${PROJECT_BINARY_DIR}/arenite-config-version.cmake"
  DESTINATION "${arenite_config_dir}")

# The prefix is told from the place of the file, so that an installed tree can be moved.
file(RELATIVE_PATH arenite_pc_to_prefix
  "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
string(REGEX REPLACE "/$" "" arenite_pc_to_prefix "${arenite_pc_to_prefix}")
configure_file("${CMAKE_CURRENT_LIST_DIR}/arenite.pc.in" "${PROJECT_BINARY_DIR}/arenite.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/arenite.pc"
  DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")

# The licence of the microkernels asks to be kept with their binary form.
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(FILES "${arenite_xnnpack_dir}/LICENSE"
  DESTINATION "${CMAKE_INSTALL_DOCDIR}" RENAME LICENSE.xnnpack)
