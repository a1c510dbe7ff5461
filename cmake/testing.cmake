# The headers that nearly every test program includes, compiled once.
set(gdr_test_headers_source ${CMAKE_BINARY_DIR}/precompiled/gdr_test_headers.cc)
file(CONFIGURE OUTPUT ${gdr_test_headers_source} CONTENT "int main() { return 0; }\n")
add_executable(gdr_test_headers ${gdr_test_headers_source})
set_target_properties(gdr_test_headers PROPERTIES
  RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/precompiled)
target_link_libraries(gdr_test_headers PRIVATE gdr_flags GTest::gmock gdr_test_flags)
target_precompile_headers(gdr_test_headers PRIVATE <gmock/gmock.h> <gtest/gtest.h>
  <algorithm> <array> <atomic> <cerrno> <charconv> <chrono> <cstdint> <cstdio> <cstdlib> <cstring>
  <filesystem> <fstream> <functional> <map> <memory> <mutex> <optional> <random> <set> <sstream>
  <string> <string_view> <thread> <utility> <vector>)

# Builds all programs of the tier unit, wherever GDR_UNIT_TESTS says that they belong.
add_custom_target(unit_tests)

# gdr_test_program(<name> SOURCES a.cc ... [LIBS lib ...]): one GoogleTest program.
function(gdr_test_program name)
  cmake_parse_arguments(T "" "" "SOURCES;LIBS" ${ARGN})
  add_executable(${name} ${T_SOURCES})
  target_link_libraries(${name} PRIVATE gdr_flags ${T_LIBS} GTest::gmock GTest::gtest_main
    gdr_test_flags)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_precompile_headers(${name} REUSE_FROM gdr_test_headers)
endfunction()

# gdr_test(NAME subject_test SOURCES a.cc ... [LIBS lib ...] [TIER unit|softhca|vm] [ENV "A=B" ...]
#          [TIMEOUT seconds] [SHARDS n] [PROCESS_EACH])
# One GoogleTest program, and a CTest test of the same name that runs it, labelled with the tier. With SHARDS, n
# tests that run a part of it each; with PROCESS_EACH one for each of its tests, <NAME>.<Suite>.<Test>, where
# what a test leaves in its process would decide the next one.
# gdr_test(NAME other_test PROGRAM subject_test [FILTER tests] [TIER ...] [ENV ...])
# The tests of that program once more, in another environment; called in the same folder.
function(gdr_test)
  cmake_parse_arguments(T "PROCESS_EACH" "NAME;PROGRAM;FILTER;TIER;TIMEOUT;SHARDS" "SOURCES;LIBS;ENV" ${ARGN})
  if(NOT T_TIER)
    set(T_TIER unit)
  endif()
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 300)
  endif()
  if(NOT T_PROGRAM)
    set(T_PROGRAM ${T_NAME})
    gdr_test_program(${T_NAME} SOURCES ${T_SOURCES} LIBS ${T_LIBS})
    if(T_TIER STREQUAL unit)
      add_dependencies(unit_tests ${T_NAME})
    else()
      set_target_properties(${T_NAME} PROPERTIES EXCLUDE_FROM_ALL OFF)
    endif()
  endif()
  if(T_TIER STREQUAL unit AND NOT GDR_UNIT_TESTS)
    return()
  endif()
  if(T_PROCESS_EACH)
    gdr_test_per_process()
    return()
  endif()
  if(NOT T_SHARDS)
    set(T_SHARDS 1)
  endif()
  if(T_FILTER)
    set(filter --gtest_filter=${T_FILTER})
  endif()
  foreach(shard RANGE 1 ${T_SHARDS})
    set(name ${T_NAME})
    if(T_SHARDS GREATER 1)
      math(EXPR index "${shard} - 1")
      set(name ${T_NAME}.${shard})
      list(APPEND T_ENV GTEST_TOTAL_SHARDS=${T_SHARDS} GTEST_SHARD_INDEX=${index})
    endif()
    add_test(NAME ${name} COMMAND ${T_PROGRAM} ${filter})
    set_tests_properties(${name} PROPERTIES LABELS ${T_TIER} TIMEOUT ${T_TIMEOUT} ENVIRONMENT "${T_ENV}")
  endforeach()
endfunction()

# The part of gdr_test() for PROCESS_EACH; it takes the variables of its caller.
macro(gdr_test_per_process)
  if(T_FILTER)
    set(filter TEST_FILTER ${T_FILTER})
  endif()
  gtest_discover_tests(${T_PROGRAM} TEST_PREFIX ${T_NAME}. DISCOVERY_MODE PRE_TEST ${filter}
    TEST_LIST ${T_NAME}_tests PROPERTIES LABELS ${T_TIER} TIMEOUT ${T_TIMEOUT})
  if(T_ENV)
    # As a property of gtest_discover_tests the list would lose all but its first element.
    set(script ${CMAKE_CURRENT_BINARY_DIR}/${T_NAME}_environment.cmake)
    file(GENERATE OUTPUT ${script} CONTENT
      "foreach(test IN LISTS ${T_NAME}_tests)
  set_tests_properties(\"\${test}\" PROPERTIES ENVIRONMENT [==[${T_ENV}]==])
endforeach()
")
    set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${script})
  endif()
endmacro()

# Adds every direct subfolder of the calling folder that has a CMakeLists.txt.
function(gdr_add_subfolders)
  file(GLOB lists CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} */CMakeLists.txt)
  foreach(list IN LISTS lists)
    get_filename_component(folder ${list} DIRECTORY)
    add_subdirectory(${folder})
  endforeach()
endfunction()
