# gdr_flags: what every target of the tree compiles with.
add_library(gdr_flags INTERFACE)
target_include_directories(gdr_flags INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(gdr_flags INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Wvla
  -fno-semantic-interposition)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 warns of std::string's operator+ without cause (GCC bug 105651).
  target_compile_options(gdr_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()
if(GDR_WERROR)
  target_compile_options(gdr_flags INTERFACE -Werror)
endif()
if(GDR_SANITIZE)
  target_compile_options(gdr_flags INTERFACE -fsanitize=${GDR_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  target_link_options(gdr_flags INTERFACE -fsanitize=${GDR_SANITIZE})
endif()
