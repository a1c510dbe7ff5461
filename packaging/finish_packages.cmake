# Read by cpack after it has written the packages: CPack 3.25 gives a Debian package that has a library in
# a folder of the loader two scripts that run ldconfig. The trigger does the same once for all packages that
# apt installs together, and leaves the package without scripts.

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

if(CPACK_GENERATOR STREQUAL DEB)
  foreach(package IN LISTS CPACK_PACKAGE_FILES)
    if(package MATCHES "/${CPACK_GDR_PACKAGE_plugin}_[^/]*$")
      set(unpacked ${package}.unpacked)
      file(REMOVE_RECURSE ${unpacked})
      run(dpkg-deb --raw-extract ${package} ${unpacked})
      file(REMOVE ${unpacked}/DEBIAN/postinst ${unpacked}/DEBIAN/postrm)
      file(WRITE ${unpacked}/DEBIAN/triggers "activate-noawait ldconfig\n")
      run(dpkg-deb --root-owner-group -Z${CPACK_DEBIAN_COMPRESSION_TYPE} --build ${unpacked} ${package})
      file(REMOVE_RECURSE ${unpacked})
    endif()
  endforeach()
endif()
