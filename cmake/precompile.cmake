# Most of the time of a build is compiling what is read and instantiated again in every source. The
# release build precompiles for test programs alone, and so finds a missing #include elsewhere.
option(GDR_PRECOMPILE "Precompile the headers that many sources include" OFF)

set(gdr_standard_headers <algorithm> <array> <atomic> <cerrno> <charconv> <chrono> <cstdint> <cstdio>
  <cstdlib> <cstring> <filesystem> <fstream> <functional> <map> <memory> <mutex> <optional> <random>
  <set> <sstream> <string> <string_view> <thread> <utility> <vector>)

# gdr_precompile(<name> [TESTS] [HEADERS <a.h> ...] [LIBS lib ...])
# A set of headers besides the standard ones, compiled once, for gdr_use_precompiled(). TESTS: for
# test programs, which the compiler's flags set apart from libraries.
function(gdr_precompile name)
  cmake_parse_arguments(P "TESTS" "" "HEADERS;LIBS" ${ARGN})
  if(NOT GDR_PRECOMPILE AND NOT P_TESTS)
    return()
  endif()
  set(source ${CMAKE_BINARY_DIR}/precompiled/${name}.cc)
  if(P_TESTS)
    file(CONFIGURE OUTPUT ${source} CONTENT "int main() { return 0; }\n")
    add_executable(${name} ${source})
    set_target_properties(${name} PROPERTIES
      RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/precompiled)
  else()
    file(CONFIGURE OUTPUT ${source} CONTENT "\n")
    add_library(${name} OBJECT ${source})
  endif()
  target_link_libraries(${name} PRIVATE gdr_flags ${P_LIBS})
  target_precompile_headers(${name} PRIVATE ${P_HEADERS} ${gdr_standard_headers})
endfunction()

# gdr_use_precompiled(<name> <target>...)
function(gdr_use_precompiled name)
  if(TARGET ${name})
    foreach(target IN LISTS ARGN)
      target_precompile_headers(${target} REUSE_FROM ${name})
    endforeach()
  endif()
endfunction()
