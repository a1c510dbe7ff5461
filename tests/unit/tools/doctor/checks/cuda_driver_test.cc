#include <gmock/gmock.h>

#include "tests/unit/tools/doctor/checks/nvidia_files_for_tests.h"
#include "tools/doctor/checks/checks.h"

namespace gdr::tools::doctor {
namespace {

using ::testing::HasSubstr;

// A machine whose CUDA driver and kernel module are of one release.
struct CudaHost : MadeHost {
  CudaHost() {
    add_driven_gpu(this);
    host.is_live = true;
    host.gpus.cuda = CudaLibrary{.path = "/usr/lib/libcuda.so.570.133.20",
                                 .release = "570.133.20",
                                 .version = 12080,
                                 .init_error = "",
                                 .lacks = ""};
  }
  Observation first() const { return cuda_driver().run(host).front(); }
};

TEST(CudaDriver, LibraryOfTheKernelModule_IsOk) {
  CudaHost made;
  EXPECT_EQ(verdict_of(cuda_driver(), made.host), Verdict::kOk);
  EXPECT_EQ(made.first().evidence,
            "/usr/lib/libcuda.so.570.133.20 is of CUDA 12.8, and the kernel module 570.133.20");
}

TEST(CudaDriver, LibraryOfForwardCompatibility_IsOkWhereItStarts) {
  CudaHost made;
  made.host.gpus.cuda->release = "575.57.08";
  EXPECT_EQ(verdict_of(cuda_driver(), made.host), Verdict::kOk);
  EXPECT_THAT(made.first().evidence, HasSubstr("forward compatibility"));
}

TEST(CudaDriver, FailureOfCuInit_IsAFailureWithItsFix) {
  const std::pair<int, const char*> cases[] = {
      {34, "stubs"},    {100, "CUDA_VISIBLE_DEVICES"}, {802, "nvidia-fabricmanager"},
      {803, "restart"}, {804, "cuda-compat"},          {999, "dmesg"}};
  for (const auto& [result, fix] : cases) {
    CudaHost made;
    made.host.gpus.cuda->init_result = result;
    made.host.gpus.cuda->init_error = "CUDA_ERROR_X";
    EXPECT_EQ(verdict_of(cuda_driver(), made.host), Verdict::kFailure);
    EXPECT_THAT(made.first().evidence, HasSubstr("cuInit fails with CUDA_ERROR_X"));
    EXPECT_THAT(made.first().fix, HasSubstr(fix));
  }
}

TEST(CudaDriver, GpusHiddenByTheEnvironment_AreUnknown) {
  CudaHost made;
  made.host.gpus.cuda->init_result = 100;
  made.host.gpus.cuda->init_error = "CUDA_ERROR_NO_DEVICE";
  made.host.gpus.cuda->hides_gpus = true;
  EXPECT_EQ(verdict_of(cuda_driver(), made.host), Verdict::kUnknown);
}

TEST(CudaDriver, MissingLibrary_IsAFailureInAContainerOnly) {
  CudaHost made;
  made.host.gpus.cuda.reset();
  made.host.gpus.cuda_error = "libcuda.so.1: cannot open shared object file";
  EXPECT_EQ(verdict_of(cuda_driver(), made.host), Verdict::kWarning);
  made.host.process.container = Container::kKubernetes;
  EXPECT_EQ(verdict_of(cuda_driver(), made.host), Verdict::kFailure);
  EXPECT_THAT(made.first().fix, HasSubstr("--gpus all"));
}

TEST(CudaDriver, LibraryBeforeCuda11_7_IsAWarning) {
  CudaHost made;
  made.host.gpus.cuda->lacks = "libcuda.so.1 lacks cuMemGetHandleForAddressRange";
  EXPECT_EQ(verdict_of(cuda_driver(), made.host), Verdict::kWarning);
}

TEST(CudaDriver, ToolkitOfALaterMajorVersion_IsAWarning) {
  CudaHost made;
  made.host.gpus.runtime = CudaRuntime{"/usr/lib/libcudart.so.12.9", 12090};
  EXPECT_EQ(verdict_of(cuda_driver(), made.host), Verdict::kOk);
  made.write("/usr/local/cuda/version.json", R"({"cuda": {"version": "13.0.1"}})");
  EXPECT_EQ(verdict_of(cuda_driver(), made.host), Verdict::kWarning);
  made.write("/usr/local/cuda/version.json", "");
  made.host.gpus.runtime->version = 13000;
  EXPECT_EQ(verdict_of(cuda_driver(), made.host), Verdict::kWarning);
}

TEST(CudaDriver, CopyOfAMachine_IsUnknownAndWithoutAGpuOk) {
  CudaHost made;
  made.host.is_live = false;
  EXPECT_EQ(verdict_of(cuda_driver(), made.host), Verdict::kUnknown);
  EXPECT_EQ(verdict_of(cuda_driver(), MadeHost().host), Verdict::kNothing);
}

}  // namespace
}  // namespace gdr::tools::doctor
