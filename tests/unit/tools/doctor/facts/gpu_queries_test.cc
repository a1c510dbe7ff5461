#include <gtest/gtest.h>

#include "tests/fakes/cuda/fake_driver.h"
#include "tests/unit/tools/doctor/checks/nvidia_files_for_tests.h"
#include "tools/doctor/facts/gpu_facts.h"

namespace gdr::tools::doctor {
namespace {

const topology::Bdf kFirst = *topology::Bdf::parse("0000:1a:00.0");

// The fake of CUDA, by the name that the loader then knows it by.
class GpuQueries : public ::testing::Test {
 protected:
  GpuQueries() {
    fake_cuda::Driver::load();
    made_.host.is_live = true;
  }

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
}

TEST_F(GpuQueries, WithoutALoadedDriver_CudaIsNotInitialised) {
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
  EXPECT_TRUE(facts.gpus.empty() && facts.hcas.empty());
}

}  // namespace
}  // namespace gdr::tools::doctor
