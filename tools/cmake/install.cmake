# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` puts in place: headers, archives, the shared library if it was asked for,
# the program, CMake package, pkg-config files, pages for man, completions, schemas, the Python
# files, notices and the bill of materials.
include(CMakePackageConfigHelpers)

set(arenite_config_dir "${CMAKE_INSTALL_LIBDIR}/cmake/arenite")

install(DIRECTORY "${PROJECT_SOURCE_DIR}/runtime/include/arenite"
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.h")
install(TARGETS arenite arenite_c arenite_xnnpack EXPORT arenite-targets
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
if(BUILD_SHARED_LIBS AND TARGET arenite_shared)
  install(TARGETS arenite_shared EXPORT arenite-targets
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
  set(arenite_pc_files arenite.pc arenite-shared.pc)
else()
  set(arenite_pc_files arenite.pc)
endif()
install(FILES "${PROJECT_SOURCE_DIR}/tools/python/arenite.py"
  DESTINATION "${CMAKE_INSTALL_DATADIR}/arenite")
if(ARENITE_BUILD_TOOLS)
  set_target_properties(arenite_cli PROPERTIES EXPORT_NAME program)
  install(TARGETS arenite_cli EXPORT arenite-targets
    RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
  # Messages of the program name it there: kScriptFolders of exported_folder.cc.
  install(FILES "${PROJECT_SOURCE_DIR}/tools/python/arenite_export.py"
    DESTINATION "${CMAKE_INSTALL_DATADIR}/arenite")
  # Man pages, completions of shells and JSON Schemas, which the program writes: now, so that they
  # are there and of this program whatever was built.
  if(NOT CMAKE_CROSSCOMPILING)
    set(arenite_share_dir "${PROJECT_BINARY_DIR}/share")
    install(CODE "file(REMOVE_RECURSE \"${arenite_share_dir}\")
      execute_process(COMMAND \"$<TARGET_FILE:arenite_cli>\" help --write-files
        \"${arenite_share_dir}\" COMMAND_ERROR_IS_FATAL ANY)")
    install(DIRECTORY "${arenite_share_dir}/" DESTINATION "${CMAKE_INSTALL_DATADIR}")
  endif()
endif()

install(EXPORT arenite-targets NAMESPACE arenite:: DESTINATION "${arenite_config_dir}")
# The targets need nothing from elsewhere, so the package file only names them.
file(WRITE "${PROJECT_BINARY_DIR}/arenite-config.cmake"
  "include(\"\${CMAKE_CURRENT_LIST_DIR}/arenite-targets.cmake\")\n"
  "include(\"\${CMAKE_CURRENT_LIST_DIR}/embed_model.cmake\")\n")
# Before 1.0 a new minor version may change the interface.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/arenite-config-version.cmake"
  COMPATIBILITY SameMinorVersion)
install(
  FILES "${PROJECT_BINARY_DIR}/arenite-config.cmake"
        "${PROJECT_BINARY_DIR}/arenite-config-version.cmake"
        "${CMAKE_CURRENT_LIST_DIR}/embed_model.cmake"
  DESTINATION "${arenite_config_dir}")

# The prefix is told from the place of the file, so that an installed tree can be moved.
file(RELATIVE_PATH arenite_pc_to_prefix
  "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
string(REGEX REPLACE "/$" "" arenite_pc_to_prefix "${arenite_pc_to_prefix}")
foreach(pc_file IN LISTS arenite_pc_files)
  configure_file("${CMAKE_CURRENT_LIST_DIR}/${pc_file}.in" "${PROJECT_BINARY_DIR}/${pc_file}" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/${pc_file}"
    DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
endforeach()

install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
include(notices)
include(sbom)

if(PROJECT_IS_TOP_LEVEL)
  add_custom_target(uninstall
    COMMAND "${CMAKE_COMMAND}" -D "manifest=${PROJECT_BINARY_DIR}/install_manifest.txt"
      -P "${CMAKE_CURRENT_LIST_DIR}/uninstall.cmake"
    COMMENT "Removing what the last installation put in place")
endif()
