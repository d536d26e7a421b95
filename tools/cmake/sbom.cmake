# SPDX-License-Identifier: Apache-2.0
# The bill of materials that is installed: what is linked into the archives and the program, in the
# versions that this build has found, as SPDX 2.3 in JSON. SOURCE_DATE_EPOCH sets its date.

set(arenite_sbom_packages "")
set(arenite_sbom_relations "")

# The version that a header says: the numbers of its macros that match, in their order.
function(arenite_header_version out header macros)
  set(version "")
  if(EXISTS "${header}")
    file(STRINGS "${header}" lines REGEX "^ *# *define +${macros}[ \t]+\"?[0-9.]+")
    foreach(line IN LISTS lines)
      string(REGEX REPLACE "^.*[ \t]\"?([0-9.]+)\"?.*$" "\\1" number "${line}")
      list(APPEND version "${number}")
    endforeach()
  endif()
  list(JOIN version "." version)
  set(${out} "${version}" PARENT_SCOPE)
endfunction()

# arenite_sbom_relate(FROM RELATION TO) by the names of packages.
macro(arenite_sbom_relate from relation to)
  list(APPEND arenite_sbom_relations "    {\"spdxElementId\": \"SPDXRef-${from}\", \
\"relationshipType\": \"${relation}\", \"relatedSpdxElement\": \"SPDXRef-${to}\"}")
endmacro()

# arenite_sbom_package(NAME VERSION LICENCE PURPOSE LOCATION PURL [SHA256]); a location or purl of
# NOASSERTION is not known.
macro(arenite_sbom_package name version licence purpose location purl)
  set(entry "    {\"SPDXID\": \"SPDXRef-${name}\", \"name\": \"${name}\", ")
  if("${version}" STREQUAL "")
    message(WARNING "The version of ${name} is not known, and the bill of materials lacks it.")
  else()
    string(APPEND entry "\"versionInfo\": \"${version}\", ")
  endif()
  string(APPEND entry "\"primaryPackagePurpose\": \"${purpose}\",\n     \
\"downloadLocation\": \"${location}\", \"filesAnalyzed\": false,\n     \
\"licenseConcluded\": \"NOASSERTION\", \"licenseDeclared\": \"${licence}\", \
\"copyrightText\": \"NOASSERTION\"")
  if(NOT "${ARGN}" STREQUAL "")
    string(APPEND entry ",\n     \"checksums\": [{\"algorithm\": \"SHA256\", \
\"checksumValue\": \"${ARGN}\"}]")
  endif()
  if(NOT "${purl}" STREQUAL "NOASSERTION")
    string(APPEND entry ",\n     \"externalRefs\": [{\"referenceCategory\": \"PACKAGE-MANAGER\", \
\"referenceType\": \"purl\", \"referenceLocator\": \"${purl}\"}]")
  endif()
  list(APPEND arenite_sbom_packages "${entry}}")
endmacro()

# What fetch_xnnpack.sh says of the pinned source, or what git says of another one.
function(arenite_sbom_xnnpack)
  set(upstream "https://github.com/google/XNNPACK")
  cmake_path(GET arenite_xnnpack_dir FILENAME folder)
  if(folder STREQUAL "xnnpack-4ea82e5")
    file(STRINGS "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/fetch_xnnpack.sh" lines
      REGEX "^(version|sha256)=|upstream commit")
    string(REGEX MATCH "version=([^;]+)" match "${lines}")
    set(version "${CMAKE_MATCH_1}")
    string(REGEX MATCH "sha256=([0-9a-f]+)" match "${lines}")
    set(sha256 "${CMAKE_MATCH_1}")
    string(REGEX MATCH "commit ([0-9a-f]+)" match "${lines}")
    arenite_sbom_package(XNNPACK "${version}" BSD-3-Clause SOURCE
      "https://deb.debian.org/debian/pool/main/x/xnnpack/xnnpack_${version}.orig.tar.xz"
      "pkg:github/google/XNNPACK@${CMAKE_MATCH_1}" "${sha256}")
  else()
    find_program(ARENITE_GIT git)
    mark_as_advanced(ARENITE_GIT)
    set(version "")
    if(ARENITE_GIT AND EXISTS "${arenite_xnnpack_dir}/.git")
      execute_process(COMMAND "${ARENITE_GIT}" -C "${arenite_xnnpack_dir}" rev-parse HEAD
        OUTPUT_VARIABLE version OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    endif()
    set(purl NOASSERTION)
    if(version)
      set(purl "pkg:github/google/XNNPACK@${version}")
    endif()
    arenite_sbom_package(XNNPACK "${version}" BSD-3-Clause SOURCE "git+${upstream}" "${purl}")
  endif()
  set(arenite_sbom_packages "${arenite_sbom_packages}" PARENT_SCOPE)
endfunction()

# arenite_sbom_linked(NAME LIBRARY) says how the program has a library: nothing means its headers.
macro(arenite_sbom_linked name library)
  if("${library}" STREQUAL "")
    arenite_sbom_relate(arenite-program CONTAINS ${name})
  elseif("${library}" MATCHES "\\.a$")
    arenite_sbom_relate(arenite-program STATIC_LINK ${name})
  else()
    arenite_sbom_relate(arenite-program DYNAMIC_LINK ${name})
  endif()
endmacro()

set(headers "${PROJECT_BINARY_DIR}/host_headers")
arenite_sbom_package(arenite "${PROJECT_VERSION}" Apache-2.0 LIBRARY NOASSERTION NOASSERTION)
arenite_sbom_relate(DOCUMENT DESCRIBES arenite)
arenite_sbom_xnnpack()
arenite_sbom_relate(arenite CONTAINS XNNPACK)
arenite_header_version(version "${headers}/flatbuffers/base.h"
  "FLATBUFFERS_VERSION_(MAJOR|MINOR|REVISION)")
arenite_sbom_package(FlatBuffers "${version}" Apache-2.0 LIBRARY
  "git+https://github.com/google/flatbuffers@v${version}" "pkg:github/google/flatbuffers@v${version}")
arenite_sbom_relate(arenite CONTAINS FlatBuffers)

if(ARENITE_BUILD_TOOLS)
  arenite_sbom_package(arenite-program "${PROJECT_VERSION}" Apache-2.0 APPLICATION
    NOASSERTION NOASSERTION)
  arenite_sbom_relate(DOCUMENT DESCRIBES arenite-program)
  arenite_sbom_relate(arenite-program CONTAINS arenite)
  arenite_header_version(version "${headers}/CLI/Version.hpp" "CLI11_VERSION")
  arenite_sbom_package(CLI11 "${version}" BSD-3-Clause LIBRARY
    "git+https://github.com/CLIUtils/CLI11@v${version}" "pkg:github/CLIUtils/CLI11@v${version}")
  arenite_sbom_linked(CLI11 "")
  arenite_header_version(version "${headers}/nlohmann/detail/abi_macros.hpp"
    "NLOHMANN_JSON_VERSION_(MAJOR|MINOR|PATCH)")
  arenite_sbom_package(nlohmann-json "${version}" MIT LIBRARY
    "git+https://github.com/nlohmann/json@v${version}" "pkg:github/nlohmann/json@v${version}")
  arenite_sbom_linked(nlohmann-json "")
  # One number: 90100 is 9.1.0.
  arenite_header_version(number "${headers}/fmt/core.h" "FMT_VERSION")
  set(version "")
  if(number)
    math(EXPR major "${number} / 10000")
    math(EXPR minor "${number} / 100 % 100")
    math(EXPR patch "${number} % 100")
    set(version "${major}.${minor}.${patch}")
  endif()
  arenite_sbom_package(fmt "${version}" MIT LIBRARY
    "git+https://github.com/fmtlib/fmt@${version}" "pkg:github/fmtlib/fmt@${version}")
  arenite_sbom_linked(fmt "${ARENITE_FMT_LIBRARY}")
  arenite_header_version(version "${headers}/Eigen/src/Core/util/Macros.h"
    "EIGEN_(WORLD|MAJOR|MINOR)_VERSION")
  arenite_sbom_package(Eigen "${version}" MPL-2.0 LIBRARY
    "git+https://gitlab.com/libeigen/eigen@${version}" "pkg:gitlab/libeigen/eigen@${version}")
  arenite_sbom_linked(Eigen "")
  if(ARENITE_LIBZIP_LIBRARY)
    arenite_header_version(version "${ARENITE_LIBZIP_INCLUDE}/zipconf.h" "LIBZIP_VERSION")
    arenite_sbom_package(libzip "${version}" BSD-3-Clause LIBRARY
      "git+https://github.com/nih-at/libzip@v${version}" "pkg:github/nih-at/libzip@v${version}")
    arenite_sbom_linked(libzip "${ARENITE_LIBZIP_LIBRARY}")
  endif()
  if(ARENITE_UTF8PROC_LIBRARY)
    arenite_header_version(version "${ARENITE_UTF8PROC_INCLUDE}/utf8proc.h"
      "UTF8PROC_VERSION_(MAJOR|MINOR|PATCH)")
    arenite_sbom_package(utf8proc "${version}" "MIT AND Unicode-DFS-2015" LIBRARY
      "git+https://github.com/JuliaStrings/utf8proc@v${version}"
      "pkg:github/JuliaStrings/utf8proc@v${version}")
    arenite_sbom_linked(utf8proc "${ARENITE_UTF8PROC_LIBRARY}")
  endif()
endif()

list(JOIN arenite_sbom_packages ",\n" packages)
list(JOIN arenite_sbom_relations ",\n" relations)
string(UUID id NAMESPACE 6ba7b811-9dad-11d1-80b4-00c04fd430c8 TYPE SHA1
  NAME "${packages}${relations}")
string(TIMESTAMP created "%Y-%m-%dT%H:%M:%SZ" UTC)
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/arenite.spdx.json" @ONLY CONTENT [[
{
  "spdxVersion": "SPDX-2.3",
  "dataLicense": "CC0-1.0",
  "SPDXID": "SPDXRef-DOCUMENT",
  "name": "arenite-@PROJECT_VERSION@",
  "documentNamespace": "https://spdx.org/spdxdocs/arenite-@PROJECT_VERSION@-@id@",
  "comment": "The compiler's own libraries, such as libstdc++ and the C library, are not listed.",
  "creationInfo": {"created": "@created@", "creators": ["Tool: CMake-@CMAKE_VERSION@"]},
  "packages": [
@packages@
  ],
  "relationships": [
@relations@
  ]
}
]])
install(FILES "${PROJECT_BINARY_DIR}/arenite.spdx.json" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
