#include "tools/doctor/burn_in_gpu.h"

#include <gmock/gmock.h>

#include <cstdlib>

#include "tests/unit/tools/doctor/made_host.h"
#include "tools/doctor/cuda_number.h"

namespace gdr::tools::doctor {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A machine on which CUDA shows the GPU 0000:5d:00.0 alone, as its first one.
void show_one_gpu(MadeHost* made) {
  made->host.gpus.cuda.emplace();
  made->host.gpus.gpus[*topology::Bdf::parse("0000:1a:00.0")] = {};  // NVML knows it
  made->host.gpus.gpus[*topology::Bdf::parse("0000:5d:00.0")].cuda_number = 0;
}

BurnInCase case_at(const MadeHost& made, const std::string& address) {
  BurnInCase one;
  one.end.gpu = 3;  // of the machine
  one.end.gpu_address = address;
  one.end.cuda_number = cuda_number(made.host.gpus, address);
  return one;
}

TEST(BurnInGpu, VisibleGpu_HasTheNumberOfCuda) {
  MadeHost made;
  show_one_gpu(&made);
  const BurnInCase one = case_at(made, "0000:5d:00.0");
  EXPECT_EQ(one.end.cuda_number, 0);
  EXPECT_TRUE(check_gpus_of_case(made.host, one).has_value());
  EXPECT_TRUE(check_gpus_of_case(made.host, {}).has_value());  // memory of the host
}

TEST(BurnInGpu, HiddenGpu_IsRefusedWithTheReason) {
  MadeHost made;
  show_one_gpu(&made);
  unsetenv("CUDA_VISIBLE_DEVICES");
  for (const char* hidden : {"0000:1a:00.0", "0000:ab:00.0"}) {
    const Status job = check_gpus_of_case(made.host, case_at(made, hidden));
    ASSERT_FALSE(job.has_value());
    EXPECT_EQ(job.error().code, Code::kSystem);
    EXPECT_THAT(job.error().text, AllOf(HasSubstr(hidden), HasSubstr("as in a job")));
  }
  setenv("CUDA_VISIBLE_DEVICES", "3", 1);
  const Status named = check_gpus_of_case(made.host, case_at(made, "0000:1a:00.0"));
  unsetenv("CUDA_VISIBLE_DEVICES");
  EXPECT_THAT(named.error().text, HasSubstr("Fix: unset CUDA_VISIBLE_DEVICES"));
}

TEST(BurnInGpu, HiddenGpuOfTheReceiver_IsRefused) {
  MadeHost made;
  show_one_gpu(&made);
  BurnInCase one = case_at(made, "0000:5d:00.0");
  one.receiver = one.end;
  EXPECT_TRUE(check_gpus_of_case(made.host, one).has_value());
  one.receiver = case_at(made, "0000:1a:00.0").end;
  EXPECT_FALSE(check_gpus_of_case(made.host, one).has_value());
}

TEST(BurnInGpu, UnusableCuda_IsTheReason) {
  MadeHost made;
  made.host.gpus.cuda_error = "libcuda.so.1 is not found";
  const Status status = check_gpus_of_case(made.host, case_at(made, "0000:1a:00.0"));
  ASSERT_FALSE(status.has_value());
  EXPECT_THAT(status.error().text, HasSubstr("CUDA cannot be used: libcuda.so.1 is not found"));
}

}  // namespace
}  // namespace gdr::tools::doctor
