// How the plugin knows whether NCCL has a profiler.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include "plugin/profiler.h"

namespace gdr::plugin {
namespace {

TEST(ProfilerLibrary, NamedOrDefault_MayBeLoadedUnlessItIsNone) {
  EXPECT_TRUE(profiler_may_be_loaded("example"));
  EXPECT_TRUE(profiler_may_be_loaded("folder/of/profilers/example.so"));
  EXPECT_FALSE(profiler_may_be_loaded("None"));
  EXPECT_FALSE(profiler_may_be_loaded("")) << "the default library is not loaded";
  void* library = dlopen(PROFILER_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  EXPECT_TRUE(profiler_may_be_loaded(""));
  EXPECT_FALSE(profiler_may_be_loaded("none"));
  dlclose(library);
  EXPECT_FALSE(profiler_may_be_loaded("")) << "the check must not keep it loaded";
}

// A library with NCCL's release and callback.
struct ProfilerOfRelease : testing::Test {
  void* library = dlopen(NCCL_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  abi::ncclProfilerCallback_t callback =
      reinterpret_cast<abi::ncclProfilerCallback_t>(dlsym(library, "profiler_callback"));
  int* calls = static_cast<int*>(dlsym(library, "calls"));
  int one = 1;
  void* complete[2] = {nullptr, &one};
  void* incomplete[2] = {nullptr, nullptr};

  transport::WorkRequestObserver observer(int release, int table_version) {
    *static_cast<int*>(dlsym(library, "release")) = release;
    return profiler_observer(callback, table_version);
  }
  static void* post(const transport::WorkRequestObserver& observer, void* phandle) {
    return observer.posted(observer.context, phandle, transport::ObservedWorkRequest{});
  }
};

TEST_F(ProfilerOfRelease, Nccl227_IncompletePhandleIsNotReported) {
  for (int release : {22703, 22707}) {
    transport::WorkRequestObserver found = observer(release, 10);
    *calls = 0;
    EXPECT_EQ(post(found, incomplete), nullptr);
    EXPECT_EQ(*calls, 0);
    EXPECT_EQ(post(found, complete), static_cast<void*>(complete));
    EXPECT_EQ(*calls, 1);
  }
}

// Their phandles have another layout, or are always complete.
TEST_F(ProfilerOfRelease, OtherReleases_ReportEveryPhandle) {
  EXPECT_NE(observer(22705, 10).posted, observer(22602, 10).posted);
  EXPECT_EQ(observer(22602, 10).posted, observer(22803, 10).posted);
  EXPECT_EQ(observer(22803, 11).posted, observer(23007, 12).posted);
}

int callback_of_no_nccl(void**, int, void*, int64_t, void*) { return 0; }

TEST(ProfilerLibrary, UnknownRelease_IsNotObservedByTheTableOf227) {
  auto callback = reinterpret_cast<abi::ncclProfilerCallback_t>(callback_of_no_nccl);
  EXPECT_EQ(profiler_observer(callback, 10).posted, nullptr);
  EXPECT_NE(profiler_observer(callback, 11).posted, nullptr);
}

}  // namespace
}  // namespace gdr::plugin
