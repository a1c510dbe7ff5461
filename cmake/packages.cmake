# `cpack -G DEB` and `cpack -G RPM`: a package for each component of cmake/install.cmake.
# packaging/build_packages calls them with what makes the packages reproducible.
set(GDR_PACKAGE_VERSION ${PROJECT_VERSION} CACHE STRING "Version of the packages")
set(GDR_PACKAGE_MAINTAINER "nccl-net-gdr maintainers <maintainers@nccl-net-gdr.invalid>" CACHE STRING
    "Name and address of who builds the packages")
set(GDR_PACKAGE_HOMEPAGE "" CACHE STRING "Address of the project's page, for the packages")

set(CPACK_PACKAGE_NAME nccl-net-gdr)
set(CPACK_PACKAGE_VENDOR "nccl-net-gdr maintainers")
set(CPACK_PACKAGE_CONTACT ${GDR_PACKAGE_MAINTAINER})
set(CPACK_PACKAGE_VERSION ${GDR_PACKAGE_VERSION})
set(CPACK_PACKAGE_HOMEPAGE_URL ${GDR_PACKAGE_HOMEPAGE})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_COMPONENTS_ALL plugin tools softhca)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_THREADS 1)  # several threads compress into other bytes

include(cmake/spdx.cmake)
gdr_spdx_document(${CMAKE_BINARY_DIR}/packaging/nccl-net-gdr.spdx.json)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/packaging/finish_files.cmake)

# --- Descriptions: a summary, and a text of paragraphs ---
set(summary_plugin "NCCL network plugin for GPUDirect RDMA over InfiniBand and RoCE")
set(text_plugin "NCCL loads this plugin in place of its built-in InfiniBand and RoCE transport.
It moves data between the memory of GPUs and the HCA, reports for every GPU
and HCA whether GPUDirect RDMA is in use and why not, and continues on another
rail when one fails. A job uses it with NCCL_NET_PLUGIN=gdr in its
environment; without that, installing it changes nothing.")
set(summary_tools "tools for NCCL network plugins and GPUDirect RDMA")
set(text_tools "The program nccl-gdr finds out why GPUDirect RDMA is not working or slow
(doctor), shows GPUs, HCAs, rails and what NCCL will choose (topo), measures a
network plugin without NCCL (perf) and tests one (conformance);
nccl-gdr-burn-in measures every rail and says which one is slow. With them come
environments and scripts that compare network transports by the programs of
nccl-tests, and the documentation.")
set(summary_softhca "software RDMA devices in place of RDMA hardware, for tests")
set(text_softhca "A libibverbs.so.1 whose devices exist in software only, for programs of one
machine. It lies in a folder that no loader searches, so that it never
replaces the libibverbs of the system: nccl-gdr with-softhca PROGRAM runs one
program over it.")

# --- Debian packages ---
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SOURCE nccl-net-gdr)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)

macro(gdr_debian_package component section)
  string(TOUPPER ${component} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${GDR_PACKAGE_${component}})
  set(CPACK_DEBIAN_${upper}_DESCRIPTION "${summary_${component}}\n${text_${component}}")
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${section})
endmacro()
gdr_debian_package(plugin libs)
gdr_debian_package(tools utils)
gdr_debian_package(softhca libs)
# Libraries that are opened at run time, and not needed over the software HCA or without GPUs. CUDA's
# libraries are not named: they come with the driver, which containers get from the host.
set(CPACK_DEBIAN_PLUGIN_PACKAGE_RECOMMENDS "libibverbs1, ibverbs-providers, libhwloc15")
set(CPACK_DEBIAN_PLUGIN_PACKAGE_SUGGESTS "nccl-net-gdr-tools, libnccl2 (>= 2.13)")
set(CPACK_DEBIAN_TOOLS_PACKAGE_DEPENDS "python3:any (>= 3.9)")
set(CPACK_DEBIAN_TOOLS_PACKAGE_RECOMMENDS "nccl-net-gdr, libibverbs1, libhwloc15")
set(CPACK_DEBIAN_TOOLS_PACKAGE_SUGGESTS "nccl-net-gdr-softhca")
set(CPACK_DEBIAN_SOFTHCA_PACKAGE_RECOMMENDS "nccl-net-gdr-tools")
set(CPACK_DEBIAN_SOFTHCA_PACKAGE_SUGGESTS "perftest, ibverbs-utils")

# --- RPM packages ---
set(CPACK_RPM_COMPONENT_INSTALL ON)
set(CPACK_RPM_FILE_NAME RPM-DEFAULT)
set(CPACK_RPM_PACKAGE_RELEASE 1)
set(CPACK_RPM_COMPRESSION_TYPE xz)
set(CPACK_RPM_INSTALL_WITH_EXEC ON)
# Folders that other packages own are not ours.
set(CPACK_RPM_EXCLUDE_FROM_AUTO_FILELIST_ADDITION
  /usr/share/bash-completion /usr/share/bash-completion/completions
  /usr/share/man /usr/share/man/man1 /usr/share/man/man7)
# CPack has one licence for all packages; packaging/copyright has what is in which of them.
set(CPACK_RPM_PACKAGE_LICENSE
    "Apache-2.0 AND MIT AND BSD-3-Clause AND CC0-1.0 AND GPL-3.0-or-later WITH GCC-exception-3.1")
# The host's name and the times of building would differ between two builds.
set(CPACK_RPM_SPEC_MORE_DEFINE "%define _buildhost reproducible
%define use_source_date_epoch_as_buildtime 1
%define clamp_mtime_to_source_date_epoch 1
%define _build_id_links none")
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/packaging/ldconfig CONTENT "/sbin/ldconfig\n")
# gdr_rpm_package(component recommends suggests): CPack has no variables for Recommends and Packager, and
# takes rpm 4.18 for one without Suggests, so that they follow another field.
macro(gdr_rpm_package component recommends suggests)
  set(CPACK_RPM_${component}_PACKAGE_NAME ${GDR_PACKAGE_${component}})
  string(SUBSTRING "${summary_${component}}" 0 1 initial)
  string(TOUPPER ${initial} initial)
  string(SUBSTRING "${summary_${component}}" 1 -1 rest)
  set(CPACK_RPM_${component}_PACKAGE_SUMMARY "${initial}${rest}")
  set(CPACK_RPM_${component}_PACKAGE_DESCRIPTION "${text_${component}}")
  set(CPACK_RPM_${component}_PACKAGE_GROUP "System/Libraries
Packager: ${GDR_PACKAGE_MAINTAINER}
Recommends: ${recommends}
Suggests: ${suggests}")
endmacro()
gdr_rpm_package(plugin "libibverbs, hwloc-libs" "nccl-net-gdr-tools")
gdr_rpm_package(tools "nccl-net-gdr, libibverbs, hwloc-libs" "nccl-net-gdr-softhca")
gdr_rpm_package(softhca "nccl-net-gdr-tools" "perftest, libibverbs-utils")
set(CPACK_RPM_tools_PACKAGE_REQUIRES "python3 >= 3.9")
set(CPACK_RPM_plugin_POST_INSTALL_SCRIPT_FILE ${CMAKE_BINARY_DIR}/packaging/ldconfig)
set(CPACK_RPM_plugin_POST_UNINSTALL_SCRIPT_FILE ${CMAKE_BINARY_DIR}/packaging/ldconfig)
# Without this, rpm would let this package fulfil what other packages require of libibverbs.so.1.
set(CPACK_RPM_softhca_PACKAGE_AUTOPROV no)

include(CPack)
