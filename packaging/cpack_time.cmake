# Read by cpack before it installs and archives: the time that CPack, rpmbuild and gzip use for what
# they write. A value in the process environment comes first.
if(NOT DEFINED ENV{SOURCE_DATE_EPOCH} AND CPACK_GDR_EPOCH)
  set(ENV{SOURCE_DATE_EPOCH} ${CPACK_GDR_EPOCH})
endif()
