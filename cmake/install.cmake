# `cmake --install`: three components, plugin, tools and softhca, which cmake/packages.cmake makes
# into a package each.

add_custom_target(gdr_products DEPENDS nccl-net-gdr softhca nccl-gdr nccl-gdr-diagnose)

# gdr_build_missing(component target file): before what follows, `cmake --install` builds the target where its file
# is missing, as in the folder of ./run demo.
function(gdr_build_missing component target file)
  install(CODE "if(NOT EXISTS \"${file}\")
  execute_process(COMMAND \"${CMAKE_COMMAND}\" --build \"${CMAKE_BINARY_DIR}\" --target ${target} COMMAND_ERROR_IS_FATAL ANY)
endif()" COMPONENT ${component})
endfunction()
gdr_build_missing(plugin nccl-net-gdr $<TARGET_FILE:nccl-net-gdr>)
gdr_build_missing(softhca softhca $<TARGET_FILE:softhca>)
gdr_build_missing(tools nccl-gdr $<TARGET_FILE:nccl-gdr>)
gdr_build_missing(tools nccl-gdr-diagnose $<TARGET_FILE:nccl-gdr-diagnose>)

# The software HCA has the file name of the system's libibverbs. It lies in a folder of its own, which
# no loader searches and which the tool puts in front of LD_LIBRARY_PATH (nccl-gdr with-softhca). The
# link libibverbs.so belongs to it: NCCL looks for that name first, and would find the system's where
# its development package is installed.
set(CMAKE_INSTALL_SO_NO_EXE OFF)  # rpm finds what a library needs only where it may be executed
install(TARGETS nccl-net-gdr LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT plugin)
install(TARGETS softhca
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/${GDR_SOFTHCA_IN_LIBDIR} COMPONENT softhca)
install(TARGETS nccl-gdr nccl-gdr-diagnose RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools)

install(DIRECTORY nccl-tests-config DESTINATION ${CMAKE_INSTALL_DATADIR}/nccl-net-gdr COMPONENT tools
  USE_SOURCE_PERMISSIONS
  PATTERN __pycache__ EXCLUDE)
# A command is in PATH; its modules are found beside the file that the link leads to.
set(burn_in ${CMAKE_BINARY_DIR}/packaging/nccl-gdr-burn-in)
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/packaging)
file(RELATIVE_PATH data_from_bin ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_DATADIR})
file(CREATE_LINK ${data_from_bin}/nccl-net-gdr/nccl-tests-config/nccl-gdr-burn-in ${burn_in} SYMBOLIC)
install(FILES ${burn_in} DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools)
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
file(CREATE_LINK ${PROJECT_SOURCE_DIR}/nccl-tests-config/nccl-gdr-burn-in
  ${CMAKE_BINARY_DIR}/bin/nccl-gdr-burn-in SYMBOLIC)

# --- Licences and documents ---
set(doc ${CMAKE_INSTALL_DATADIR}/doc)
foreach(component plugin tools softhca)
  install(FILES packaging/copyright LICENSE ${CMAKE_BINARY_DIR}/packaging/nccl-net-gdr.spdx.json
    DESTINATION ${doc}/${GDR_PACKAGE_${component}} COMPONENT ${component})
endforeach()
install(FILES CHANGELOG.md DESTINATION ${doc}/${GDR_PACKAGE_tools} COMPONENT tools)
# Documents link each other by relative paths, so that they lie as in the source tree.
set(documents ${CMAKE_INSTALL_DATADIR}/nccl-net-gdr)
install(DIRECTORY docs DESTINATION ${documents} COMPONENT tools)
install(FILES README.md CONTRIBUTING.md CODE_OF_CONDUCT.md SECURITY.md CHANGELOG.md LICENSE DESTINATION ${documents} COMPONENT tools)
foreach(folder packaging softhca tests/fuzz tests/topologies tests/vm tools)
  install(FILES ${folder}/README.md DESTINATION ${documents}/${folder} COMPONENT tools)
endforeach()
install(FILES packaging/Dockerfile DESTINATION ${documents}/packaging COMPONENT tools)

install(FILES packaging/nccl-gdr.bash RENAME nccl-gdr
  DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT tools)

# --- Man pages: that of the plugin, and for each command what its --help prints ---
# A program with a sanitizer may not start while it is built, and is not for installing.
find_program(GZIP gzip)
if(NOT GZIP OR CMAKE_CROSSCOMPILING OR GDR_SANITIZE)
  return()
endif()
set(man ${CMAKE_BINARY_DIR}/man)
set(page ${man}/nccl-net-gdr.7.gz)
add_custom_command(OUTPUT ${page}
  COMMAND ${CMAKE_COMMAND} -E make_directory ${man}
  COMMAND ${GZIP} -9nc ${PROJECT_SOURCE_DIR}/packaging/nccl-net-gdr.7 > ${page}
  DEPENDS packaging/nccl-net-gdr.7 VERBATIM)
gdr_build_missing(plugin gdr_man_pages ${page})
install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man7 COMPONENT plugin)
set(pages ${page})

find_program(HELP2MAN help2man)
if(HELP2MAN)
  foreach(command "" -burn-in " doctor" " topo" " env" " with-softhca" " conformance" " perf"
      " perf sendrecv" " perf all_reduce")
    set(program nccl-gdr${command})
    string(REPLACE " " "-" name ${program})
    set(page ${man}/${name}.1)
    add_custom_command(OUTPUT ${page}.gz
      COMMAND ${CMAKE_COMMAND} -E make_directory ${man}
      COMMAND ${HELP2MAN} --no-info --version-string=${PROJECT_VERSION} --source=nccl-net-gdr
              --output=${page} "./${program}"
      COMMAND ${GZIP} -9nf ${page}
      DEPENDS nccl-gdr nccl-gdr-diagnose nccl-tests-config/nccl-gdr-burn-in
      WORKING_DIRECTORY $<TARGET_FILE_DIR:nccl-gdr> VERBATIM)
    list(APPEND pages ${page}.gz)
    gdr_build_missing(tools gdr_man_pages ${page}.gz)
    install(FILES ${page}.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT tools)
  endforeach()
else()
  message(STATUS "help2man was not found: no man pages of nccl-gdr are built and installed")
endif()
add_custom_target(gdr_man_pages ALL DEPENDS ${pages})
add_dependencies(gdr_products gdr_man_pages)
