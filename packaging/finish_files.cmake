# Read by cpack between installing into its staging folder and archiving that: adds the files that
# only Debian packages have, and gives all files and folders modes and times that do not depend on
# who builds.

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

function(add_debian_files root package)
  set(doc ${root}/usr/share/doc/${package})
  # Debian has the text of this licence in /usr/share/common-licenses.
  file(REMOVE ${doc}/LICENSE)
  file(COPY_FILE ${CPACK_GDR_SOURCE_DIR}/CHANGELOG.md ${doc}/changelog)
  file(REMOVE ${doc}/CHANGELOG.md)
  string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
  set(version ${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})
  file(WRITE ${doc}/changelog.Debian "nccl-net-gdr (${version}) unstable; urgency=medium

  * Build of nccl-net-gdr; changelog.gz has the changes.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")
  run(gzip -9nf ${doc}/changelog ${doc}/changelog.Debian)
  if(EXISTS ${CPACK_GDR_SOURCE_DIR}/packaging/lintian/${package})
    file(COPY ${CPACK_GDR_SOURCE_DIR}/packaging/lintian/${package}
      DESTINATION ${root}/usr/share/lintian/overrides)
  endif()
endfunction()

foreach(component IN LISTS CPACK_COMPONENTS_ALL)
  set(root ${CPACK_TEMPORARY_DIRECTORY}/${component})
  if(NOT IS_DIRECTORY ${root})
    message(FATAL_ERROR "${root} does not exist: nothing was installed for ${component}")
  endif()
  if(CPACK_GENERATOR STREQUAL DEB)
    add_debian_files(${root} ${CPACK_GDR_PACKAGE_${component}})
  endif()
  run(find ${root} -type d -exec chmod 755 {} +)
  run(find ${root} -type f -perm /111 -exec chmod 755 {} +)
  run(find ${root} -type f -not -perm /111 -exec chmod 644 {} +)
  # The names of the compilers are in .comment.
  run(find ${root} -type f ( -name "*.so*" -o -path "*/bin/*" ) -exec strip --remove-section=.comment {} +)
  # Distributions differ in the modes of shared libraries.
  if(CPACK_GENERATOR STREQUAL DEB)
    set(mode 644)
  else()
    set(mode 755)
  endif()
  run(find ${root} -type f -name "*.so*" -exec chmod ${mode} {} +)
  if(DEFINED ENV{SOURCE_DATE_EPOCH})
    run(find ${root} -exec touch -hd @$ENV{SOURCE_DATE_EPOCH} {} +)
  endif()
endforeach()
