#include <dlfcn.h>
#include <gtest/gtest.h>

#include "tests/fakes/cuda/fake_driver.h"
#include "tests/fakes/nvml/fake_nvml.h"
#include "tests/unit/tools/doctor/checks/nvidia_files_for_tests.h"
#include "tools/doctor/facts/gpu_facts.h"

namespace gdr::tools::doctor {
namespace {

constexpr unsigned long long kGiB = 1ull << 30;
const topology::Bdf kFirst = *topology::Bdf::parse("0000:1a:00.0");

// The fakes of both libraries, by the names that the loader then knows them by.
class GpuQueries : public ::testing::Test {
 protected:
  GpuQueries() {
    fake_cuda::Driver::load();
    void* library = dlopen(FAKE_NVML_LIBRARY, RTLD_NOW);
    auto* state = reinterpret_cast<fake_nvml::State* (*)()>(dlsym(library, "fake_nvml_state"));
    nvml_ = state();
    fake_nvml::Gpu gpu;
    gpu.bus_id = "0000:1A:00.0";
    gpu.bar1_bytes = 128 * kGiB;
    *nvml_ = {};
    nvml_->gpus = {gpu};
    made_.host.is_live = true;
  }

  fake_nvml::State* nvml_;
  MadeHost made_;
};

TEST_F(GpuQueries, LoadedDriver_IsAskedForEachGpu) {
  add_driven_gpu(&made_);
  const GpuFacts facts = read_gpu_facts(made_.host);
  ASSERT_TRUE(facts.cuda.has_value());
  EXPECT_EQ(facts.cuda->version, 13000);
  EXPECT_EQ(facts.cuda->init_error, "");
  EXPECT_NE(facts.cuda->path, "");
  const GpuFact& gpu = facts.gpus.at(kFirst);
  EXPECT_EQ(gpu.exports_dmabuf, true);
  EXPECT_EQ(gpu.gpudirect, true);
  EXPECT_EQ(gpu.bar1_bytes, 128 * kGiB);
  EXPECT_EQ(nvml_->users, 0);
}

TEST_F(GpuQueries, Bar1ThatNvmlDoesNotReport_IsUnknown) {
  add_driven_gpu(&made_);
  nvml_->gpus[0].failing["nvmlDeviceGetBAR1MemoryInfo"] = 999;
  const GpuFacts facts = read_gpu_facts(made_.host);
  EXPECT_EQ(facts.gpus.at(kFirst).bar1_bytes, std::nullopt);
}

TEST_F(GpuQueries, WithoutALoadedDriver_NeitherLibraryIsInitialised) {
  made_.write("/sys/module/ib_core/refcnt", "0\n");
  const GpuFacts facts = read_gpu_facts(made_.host);
  EXPECT_TRUE(facts.cuda.has_value());
  EXPECT_TRUE(facts.gpus.empty());
}

TEST_F(GpuQueries, CopyOfAMachine_IsNotAsked) {
  add_driven_gpu(&made_);
  made_.host.is_live = false;
  const GpuFacts facts = read_gpu_facts(made_.host);
  EXPECT_FALSE(facts.cuda.has_value());
  EXPECT_FALSE(facts.runtime.has_value());
  EXPECT_TRUE(facts.gpus.empty() && facts.hcas.empty());
}

}  // namespace
}  // namespace gdr::tools::doctor
