#include "base/loaded_library.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

namespace gdr {
namespace {

// A library of glibc's that nothing needs any more.
constexpr char kUnused[] = "libutil.so.1";

int g_matched = 0;  // names that were looked at

TEST(LoadedLibrary, LibraryIsLoadedAndUnloaded_AnswerFollows) {
  LoadedLibrary unused([](std::string_view name) { return name == kUnused; });
  EXPECT_FALSE(unused.is_loaded());
  void* library = dlopen(kUnused, RTLD_NOW);
  ASSERT_NE(library, nullptr) << dlerror();
  EXPECT_TRUE(unused.is_loaded());
  EXPECT_TRUE(unused.is_loaded()) << "the answer is kept";
  dlclose(library);
  EXPECT_FALSE(unused.is_loaded()) << "the question must not keep it loaded";
}

TEST(LoadedLibrary, NothingWasLoadedSince_NoLibraryIsLookedAt) {
  LoadedLibrary none([](std::string_view) {
    ++g_matched;
    return false;
  });
  EXPECT_FALSE(none.is_loaded());
  EXPECT_GT(g_matched, 1);
  g_matched = 0;
  EXPECT_FALSE(none.is_loaded());
  EXPECT_EQ(g_matched, 0);
}

}  // namespace
}  // namespace gdr
