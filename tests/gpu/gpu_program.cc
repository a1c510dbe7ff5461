#include "tests/gpu/gpu_program.h"

#include <cstdio>

namespace gpu_test {
namespace {

int g_failures = 0;

}  // namespace

void check(bool ok, const std::string& what) {
  if (ok) return;
  std::printf("FAILED: %s\n", what.c_str());
  ++g_failures;
}

int run_on_gpus(const std::function<gdr::Status(const gdr::cuda::CudaDriver&, int devices)>& run) {
  const gdr::Result<gdr::cuda::CudaDriver>& driver = gdr::cuda::CudaDriver::shared();
  gdr::Result<int> devices = driver ? driver->device_count() : gdr::Result<int>(0);
  if (!devices || *devices == 0) {
    std::printf("no GPU: %s\n", driver ? "no device" : driver.error().text.c_str());
    return 77;
  }
  gdr::Status status = run(*driver, *devices);
  if (!status) check(false, status.error().text);
  std::printf("%s\n", g_failures == 0 ? "passed" : "failed");
  return g_failures == 0 ? 0 : 1;
}

}  // namespace gpu_test
