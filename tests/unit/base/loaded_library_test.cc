#include "base/loaded_library.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

namespace gdr {
namespace {

// A library of glibc's that nothing needs any more.
constexpr char kUnused[] = "libutil.so.1";

bool is_loaded() {
  return has_loaded([](std::string_view name) { return name == kUnused; });
}

TEST(HasLoaded, LibraryIsLoadedAndUnloaded_AnswerFollows) {
  EXPECT_FALSE(is_loaded());
  void* library = dlopen(kUnused, RTLD_NOW);
  ASSERT_NE(library, nullptr) << dlerror();
  EXPECT_TRUE(is_loaded());
  dlclose(library);
  EXPECT_FALSE(is_loaded()) << "the question must not keep it loaded";
}

}  // namespace
}  // namespace gdr
