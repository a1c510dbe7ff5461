# gdr_flags: what every target of the tree compiles with.
add_library(gdr_flags INTERFACE)
target_include_directories(gdr_flags INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(gdr_flags INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Wvla
  -fno-semantic-interposition)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 warns of std::string's operator+ without cause (GCC bug 105651).
  target_compile_options(gdr_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()
if(GDR_PACKAGE)
  # Paths in the files are relative to the source, so that builds in two folders are equal.
  target_compile_options(gdr_flags INTERFACE -ffile-prefix-map=${PROJECT_SOURCE_DIR}=.
    -ffile-prefix-map=${CMAKE_BINARY_DIR}=build -fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
  target_link_options(gdr_flags INTERFACE -Wl,--build-id=sha1 -Wl,-z,relro -Wl,-z,now)
endif()
# Log lines name a source by its path in the tree. This comes behind -ffile-prefix-map, which covers macros, too.
target_compile_options(gdr_flags INTERFACE -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=)
if(GDR_WERROR)
  target_compile_options(gdr_flags INTERFACE -Werror)
endif()
if(GDR_SANITIZE)
  target_compile_options(gdr_flags INTERFACE -fsanitize=${GDR_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  target_link_options(gdr_flags INTERFACE -fsanitize=${GDR_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Its warnings that follow values misfire on instrumented code; the release build has them.
    target_compile_options(gdr_flags INTERFACE -Wno-array-bounds -Wno-maybe-uninitialized
      -Wno-stringop-overflow -Wno-stringop-overread)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    # g++ defines these names, clang only since version 22.
    if(GDR_SANITIZE MATCHES "thread")
      target_compile_definitions(gdr_flags INTERFACE __SANITIZE_THREAD__=1)
    elseif(GDR_SANITIZE MATCHES "address")
      target_compile_definitions(gdr_flags INTERFACE __SANITIZE_ADDRESS__=1)
    endif()
  endif()
  # These files are large: lld links them in a fifth of the time that ld takes, gold in a third.
  find_program(GDR_FAST_LINKER NAMES ld.lld ld.gold)
  if(GDR_FAST_LINKER)
    string(REGEX REPLACE ".*/ld[.]" "-fuse-ld=" use_linker ${GDR_FAST_LINKER})
    target_link_options(gdr_flags INTERFACE ${use_linker})
  endif()
endif()

# For libraries that run once, or at start-up alone: optimised less than what moves and measures bytes, since at -O1
# they compile in 70 % of the time of -O3.
set(GDR_RUNS_ONCE $<$<CONFIG:Release>:-O1>)

# gdr_test_flags: linked last, for test programs, whose own speed and arithmetic do not matter.
set(GDR_TEST_OPTIONS -O0 CACHE STRING "Compile options of test programs, after all others")
add_library(gdr_test_flags INTERFACE)
target_compile_options(gdr_test_flags INTERFACE ${GDR_TEST_OPTIONS})
