# Read by cpack between installing into its staging folder and archiving that: gives all files
# and folders modes and times that do not depend on who builds.

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

foreach(component IN LISTS CPACK_COMPONENTS_ALL)
  set(root ${CPACK_TEMPORARY_DIRECTORY}/${component})
  if(NOT IS_DIRECTORY ${root})
    message(FATAL_ERROR "${root} does not exist: nothing was installed for ${component}")
  endif()
  run(find ${root} -type d -exec chmod 755 {} +)
  run(find ${root} -type f -perm /111 -exec chmod 755 {} +)
  run(find ${root} -type f -not -perm /111 -exec chmod 644 {} +)
  # The names of the compilers are in .comment.
  run(find ${root} -type f ( -name "*.so*" -o -path "*/bin/*" ) -exec strip --remove-section=.comment {} +)
  if(DEFINED ENV{SOURCE_DATE_EPOCH})
    run(find ${root} -exec touch -hd @$ENV{SOURCE_DATE_EPOCH} {} +)
  endif()
endforeach()
