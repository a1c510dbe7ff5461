// How the plugin knows whether NCCL has a profiler.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include "plugin/profiler.h"

namespace gdr::plugin {
namespace {

TEST(ProfilerLibrary, Named_MayBeLoadedUnlessItIsNone) {
  EXPECT_TRUE(profiler_may_be_loaded("example"));
  EXPECT_TRUE(profiler_may_be_loaded("folder/of/profilers/example.so"));
  EXPECT_FALSE(profiler_may_be_loaded("none"));
  EXPECT_FALSE(profiler_may_be_loaded("None"));
}

TEST(ProfilerLibrary, NotNamed_IsLoadedWhereTheDefaultLibraryIs) {
  EXPECT_FALSE(profiler_may_be_loaded(""));
  void* library = dlopen(PROFILER_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  EXPECT_TRUE(profiler_may_be_loaded(""));
  EXPECT_FALSE(profiler_may_be_loaded("none"));
  dlclose(library);
  EXPECT_FALSE(profiler_may_be_loaded("")) << "the check must not keep it loaded";
}

}  // namespace
}  // namespace gdr::plugin
