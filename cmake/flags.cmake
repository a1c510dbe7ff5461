# gdr_flags: what every target of the tree compiles with.
add_library(gdr_flags INTERFACE)
target_include_directories(gdr_flags INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(gdr_flags INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Wvla
  -fno-semantic-interposition -g)
if(GDR_WERROR)
  target_compile_options(gdr_flags INTERFACE -Werror)
endif()
if(GDR_SANITIZE)
  target_compile_options(gdr_flags INTERFACE -fsanitize=${GDR_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  target_link_options(gdr_flags INTERFACE -fsanitize=${GDR_SANITIZE})
endif()
