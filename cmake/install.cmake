# `cmake --install`: three components, plugin, tools and softhca, which cmake/packages.cmake makes
# into a package each.

# The software HCA has the file name of the system's libibverbs. It lies in a folder of its own, which
# no loader searches and which the tool puts in front of LD_LIBRARY_PATH (nccl-gdr with-softhca). The
# link libibverbs.so belongs to it: NCCL looks for that name first, and would find the system's where
# its development package is installed.
install(TARGETS nccl-net-gdr LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT plugin)
install(TARGETS softhca
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/${GDR_SOFTHCA_IN_LIBDIR} COMPONENT softhca)
install(TARGETS nccl-gdr RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools)

install(DIRECTORY nccl-tests-config DESTINATION ${CMAKE_INSTALL_DATADIR}/nccl-net-gdr COMPONENT tools
  USE_SOURCE_PERMISSIONS
  PATTERN __pycache__ EXCLUDE)

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
install(FILES README.md CONTRIBUTING.md CHANGELOG.md LICENSE DESTINATION ${documents} COMPONENT tools)
foreach(folder packaging softhca tests/topologies tests/vm tools)
  install(FILES ${folder}/README.md DESTINATION ${documents}/${folder} COMPONENT tools)
endforeach()
install(FILES packaging/Dockerfile DESTINATION ${documents}/packaging COMPONENT tools)

# --- Completion: printed by the program itself, so that it has the program's options ---
# A program with a sanitizer may not start while it is built, and is not for installing.
if(CMAKE_CROSSCOMPILING OR GDR_SANITIZE)
  return()
endif()
set(completion ${CMAKE_BINARY_DIR}/completion)
set(gdr_completion_bash nccl-gdr ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
set(gdr_completion_fish nccl-gdr.fish ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
set(gdr_completion_zsh _nccl-gdr ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
foreach(shell bash fish zsh)
  list(GET gdr_completion_${shell} 0 file)
  list(GET gdr_completion_${shell} 1 folder)
  add_custom_command(OUTPUT ${completion}/${file}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${completion}
    COMMAND nccl-gdr completion ${shell} > ${completion}/${file}
    DEPENDS nccl-gdr VERBATIM)
  list(APPEND generated ${completion}/${file})
  install(FILES ${completion}/${file} DESTINATION ${folder} COMPONENT tools)
endforeach()

# --- Man pages ---
find_program(PANDOC pandoc)
find_program(GZIP gzip)
if(PANDOC AND GZIP)
  file(GLOB pages CONFIGURE_DEPENDS docs/man/*.[17].md)
  foreach(source IN LISTS pages)
    get_filename_component(page ${source} NAME_WLE)
    string(REGEX MATCH ".$" section ${page})
    set(output ${CMAKE_BINARY_DIR}/man/${page}.gz)
    add_custom_command(OUTPUT ${output}
      COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/man
      COMMAND ${PANDOC} -s -t man -V "footer=nccl-net-gdr ${PROJECT_VERSION}" ${source}
              -o ${CMAKE_BINARY_DIR}/man/${page}
      COMMAND ${GZIP} -9nf ${CMAKE_BINARY_DIR}/man/${page}
      DEPENDS ${source} VERBATIM)
    list(APPEND generated ${output})
    if(section EQUAL 7)
      set(component plugin)
    else()
      set(component tools)
    endif()
    install(FILES ${output} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section} COMPONENT ${component})
  endforeach()
else()
  message(STATUS "pandoc or gzip was not found: no man pages are built and installed")
endif()
add_custom_target(gdr_installed_texts ALL DEPENDS ${generated})
