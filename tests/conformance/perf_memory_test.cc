// nccl-gdr perf --memory over the fake CUDA driver and the plugin on the software HCA, and the
// errors of such runs. CTest puts both libraries into LD_LIBRARY_PATH.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <ostream>

#include "tests/conformance/run_tool.h"

namespace gdr::reference {
namespace {
using nlohmann::json;
using testing::HasSubstr;

struct Sides {
  const char* memory;
  const char* first;
  const char* second;
};

// Names the test cases.
void PrintTo(const Sides& sides, std::ostream* stream) { *stream << sides.memory; }

class EverySides : public testing::TestWithParam<Sides> {};

TEST_P(EverySides, AllSizes_AreVerifiedAndTheReportNamesTheMemory) {
  const Sides& sides = GetParam();
  // --slots: messages use several offsets of the buffer.
  ToolRun run =
      run_tool({"perf", "sendrecv", "--plugin", TEST_PLUGIN, "--memory", sides.memory, "-b", "0",
                "-e", "1M", "-f", "16", "-n", "20", "--slots", "4", "--json", "-"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  json report = json::parse(run.out);
  EXPECT_EQ(report["wrong"], 0);
  EXPECT_GT(report["verified"], 0);
  ASSERT_EQ(report["bandwidth"].size(), 7u);
  ASSERT_EQ(report["latency"].size(), 7u);
  auto registered_by = [](const std::string& memory) {
    return memory == "host" ? "host address" : "dma-buf";
  };
  EXPECT_EQ(report["ranks"][0]["memory"], sides.first);
  EXPECT_EQ(report["ranks"][1]["memory"], sides.second);
  EXPECT_EQ(report["ranks"][0]["registered_by"], registered_by(sides.first));
  EXPECT_EQ(report["ranks"][1]["registered_by"], registered_by(sides.second));
}

constexpr char kZero[] = "cuda:0 (0000:1a:00.0)";
constexpr char kOne[] = "cuda:1 (0000:1b:00.0)";
INSTANTIATE_TEST_SUITE_P(Sides, EverySides,
                         testing::Values(Sides{"host", "host", "host"}, Sides{"cuda", kZero, kOne},
                                         Sides{"cuda:1", kOne, kOne},
                                         Sides{"host,cuda:0", "host", kZero},
                                         Sides{"cuda:1,host", kOne, "host"},
                                         Sides{"cuda:1,cuda:0", kOne, kZero}));

TEST(PerfMemory, Header_DescribesEachSide) {
  ToolRun run = run_tool({"perf", "sendrecv", "--plugin", TEST_PLUGIN, "--memory", "cuda:0,host",
                          "-e", "64", "-n", "2"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("memory cuda:0 (0000:1a:00.0) registered by dma-buf\n"));
  EXPECT_THAT(run.out, HasSubstr("memory host registered by host address\n"));
}

TEST(PerfMemory, DriverWithoutDmaBuf_RegistersByPeermem) {
  ToolRun run = run_tool({"perf", "sendrecv", "--plugin", TEST_PLUGIN, "--memory", "cuda", "-e",
                          "64K", "-f", "16", "-n", "10", "--json", "-"},
                         {"FAKE_CUDA_DMABUF=0"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  json report = json::parse(run.out);
  EXPECT_EQ(report["wrong"], 0);
  EXPECT_GT(report["verified"], 0);
  EXPECT_EQ(report["ranks"][0]["registered_by"], "device address");
  EXPECT_EQ(report["ranks"][1]["registered_by"], "device address");
}

TEST(PerfMemory, DriverWithoutDmaBufOrPeermem_EndsWithTheReason) {
  ToolRun run = run_tool({"perf", "sendrecv", "--plugin", TEST_PLUGIN, "--memory", "cuda"},
                         {"FAKE_CUDA_DMABUF=0", "SOFTHCA_CONFIG={\"gpu\":{\"peermem\":false}}"});
  EXPECT_EQ(run.exit_code, 3) << run.err;
  EXPECT_THAT(run.err, HasSubstr("softhca0 of the plugin has ptrSupport HOST|DMABUF"));
  EXPECT_THAT(run.err, HasSubstr("does not export"));
}

// ENOMEM is attributed to the memory-lock limit where that is small and applies.
const auto kNamesBar1OrLimit =
    testing::AnyOf(HasSubstr("GPU's BAR1"), HasSubstr("memory-lock limit"));

TEST(PerfMemory, FullBar1_EndsWithThePairTheReasonAndTheFix) {
  ToolRun run = run_tool({"perf", "sendrecv", "--plugin", TEST_PLUGIN, "--memory", "cuda"},
                         {"SOFTHCA_CONFIG={\"gpu\":{\"bar1_bytes\":4096}}", "NCCL_DEBUG=WARN"});
  EXPECT_NE(run.exit_code, 0);
  std::string all = run.out + run.err;
  EXPECT_THAT(all, HasSubstr("GPU 0000:1a:00.0 and softhca0: GPU memory of "));
  EXPECT_THAT(all, kNamesBar1OrLimit);
  EXPECT_THAT(all, HasSubstr("NCCL_NET_GDR_LEVEL=LOC"));
}

TEST(PerfMemory, NoRegistrationPathLeft_EndsWithEachReason) {
  ToolRun run = run_tool({"perf", "sendrecv", "--plugin", TEST_PLUGIN, "--memory", "cuda"},
                         {"SOFTHCA_CONFIG={\"gpu\":{\"bar1_bytes\":4096}}",
                          "GDR_NCCL_GPU_MEMORY=dmabuf", "NCCL_DEBUG=WARN"});
  EXPECT_NE(run.exit_code, 0);
  std::string all = run.out + run.err;
  EXPECT_THAT(all, HasSubstr("nvidia-peermem: disabled by GDR_NCCL_GPU_MEMORY"));
}

TEST(PerfMemory, PluginWithoutGpuDirect_EndsWithItsPtrSupport) {
  ToolRun run = run_tool({"perf", "sendrecv", "--plugin", REFERENCE_PLUGIN, "--memory", "cuda:1"});
  EXPECT_EQ(run.exit_code, 3) << run.err;
  EXPECT_THAT(run.err, HasSubstr("--memory cuda:1 (0000:1b:00.0): device 0 ref0 of the plugin has "
                                 "ptrSupport HOST:"));
}

TEST(PerfMemory, OneSideFails_TheOtherSideEndsToo) {
  ToolRun run =
      run_tool({"perf", "sendrecv", "--plugin", REFERENCE_PLUGIN, "--memory", "host,cuda"});
  EXPECT_EQ(run.exit_code, 3) << run.err;
  EXPECT_THAT(run.err, HasSubstr("device 1 ref1 of the plugin has ptrSupport HOST:"));
}

TEST(PerfMemory, DeviceOutOfRange_EndsWithTheRange) {
  ToolRun run = run_tool({"perf", "sendrecv", "--plugin", TEST_PLUGIN, "--memory", "cuda:2"});
  EXPECT_EQ(run.exit_code, 3);
  EXPECT_THAT(run.err, HasSubstr("--memory cuda:2: there are CUDA devices 0..1"));
}

TEST(PerfMemory, NoCudaDriver_EndsWithTheReason) {
  // A file that is not a library precedes any libcuda of this machine in the search path.
  std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("no_cuda." + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  std::ofstream(folder / "libcuda.so.1") << "none\n";
  const char* path = std::getenv("LD_LIBRARY_PATH");
  ToolRun run = run_tool({"perf", "sendrecv", "--plugin", TEST_PLUGIN, "--memory", "cuda"},
                         {"LD_LIBRARY_PATH=" + folder.string() + ":" + (path ? path : "")});
  std::filesystem::remove_all(folder);
  EXPECT_EQ(run.exit_code, 3);
  EXPECT_THAT(run.err, HasSubstr("--memory cuda: no CUDA driver: "));
}

TEST(PerfMemory, UnusableValues_AreUsageErrors) {
  for (const char* memory : {"D", "cuda:", "cuda:-1", "gpu", "host,cuda,host", "host,"}) {
    ToolRun run = run_tool({"perf", "sendrecv", "--plugin", TEST_PLUGIN, "--memory", memory});
    EXPECT_EQ(run.exit_code, 2) << memory;
    EXPECT_THAT(run.err, HasSubstr("--memory: ")) << memory;
  }
}

TEST(PerfMemory, AllReduceOnCuda_IsRejectedNamingNcclTests) {
  ToolRun run =
      run_tool({"perf", "all_reduce", "--plugin", TEST_PLUGIN, "--memory", "host,cuda:0"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("all_reduce_perf of nccl-tests"));
  EXPECT_EQ(run_tool({"perf", "all_reduce", "--plugin", TEST_PLUGIN, "--memory", "host", "-e", "64",
                      "-n", "1"})
                .exit_code,
            0);
}
}  // namespace
}  // namespace gdr::reference
