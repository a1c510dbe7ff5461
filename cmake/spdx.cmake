# gdr_spdx_document(file): writes the SPDX document of the packages, with what is linked or compiled into
# each of them and its version.

# spdx_package(id name version licence): appends a package to `spdx_packages`.
macro(spdx_package id name version licence)
  list(APPEND spdx_packages "    {\"SPDXID\": \"SPDXRef-${id}\", \"name\": \"${name}\", \
\"versionInfo\": \"${version}\", \"downloadLocation\": \"NOASSERTION\", \"filesAnalyzed\": false, \
\"licenseConcluded\": \"${licence}\", \"licenseDeclared\": \"${licence}\", \"copyrightText\": \"NOASSERTION\"}")
endmacro()

# spdx_linked(component id...): appends what is linked into a component to `spdx_relationships`.
macro(spdx_linked component)
  foreach(id ${ARGN})
    list(APPEND spdx_relationships "    {\"spdxElementId\": \"SPDXRef-${component}\", \
\"relationshipType\": \"STATIC_LINK\", \"relatedSpdxElement\": \"SPDXRef-${id}\"}")
  endforeach()
endmacro()

function(gdr_spdx_document file)
  string(TIMESTAMP spdx_created "%Y-%m-%dT%H:%M:%SZ" UTC)
  string(TIMESTAMP spdx_epoch "%s" UTC)
  find_package(fmt REQUIRED)
  find_package(CLI11 REQUIRED)
  find_package(nlohmann_json REQUIRED)
  find_package(tl-expected QUIET)  # distributions may lack the files from which its version is known
  pkg_check_modules(pugixml QUIET pugixml)
  foreach(component plugin tools softhca)
    spdx_package(${component} ${GDR_PACKAGE_${component}} ${GDR_PACKAGE_VERSION} Apache-2.0)
  endforeach()
  spdx_package(pugixml pugixml "${pugixml_VERSION}" MIT)
  spdx_package(json nlohmann-json ${nlohmann_json_VERSION} MIT)
  spdx_package(fmt fmt ${fmt_VERSION} "MIT WITH fmt-exception")
  spdx_package(cli11 CLI11 ${CLI11_VERSION} BSD-3-Clause)
  spdx_package(expected tl-expected "${tl-expected_VERSION}" CC0-1.0)
  spdx_package(gcc libstdc++ ${CMAKE_CXX_COMPILER_VERSION} "GPL-3.0-or-later WITH GCC-exception-3.1")
  spdx_linked(plugin pugixml expected gcc)
  spdx_linked(tools pugixml json cli11 expected)
  spdx_linked(softhca json expected gcc)
  if(GDR_PACKAGE)
    spdx_linked(tools fmt gcc)
  endif()
  list(JOIN spdx_packages ",\n" spdx_packages)
  list(JOIN spdx_relationships ",\n" spdx_relationships)
  configure_file(${PROJECT_SOURCE_DIR}/packaging/spdx.json.in ${file} @ONLY)
endfunction()
