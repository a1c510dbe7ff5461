// nccl-gdr perf --memory over the fake CUDA driver and the plugin on the software HCA, and the
// errors of such runs. CTest puts both libraries into LD_LIBRARY_PATH.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/conformance/run_tool.h"
#include "tests/fakes/temp_folder.h"

namespace gdr::reference {
namespace {
using nlohmann::json;
using testing::HasSubstr;

// nccl-gdr perf sendrecv on that memory.
ToolRun perf(const std::string& memory, const Words& options = {}, const Words& env = {},
             const char* plugin = TEST_PLUGIN) {
  Words words = {"perf", "sendrecv", "--plugin", plugin, "--memory", memory};
  words.insert(words.end(), options.begin(), options.end());
  return run_tool(words, env);
}

constexpr char kDmaBuf[] = "dma-buf";
constexpr char kPeermem[] = "device address";

// A run over that memory, and the memory of both ranks as the report has it.
struct Sides {
  const char* memory;
  const char* first;
  const char* second;
  const char* cuda_by = kDmaBuf;
  Words env = {};
};

constexpr char kZero[] = "cuda:0 (0000:1a:00.0)";
constexpr char kOne[] = "cuda:1 (0000:1b:00.0)";

const Words kNoDmaBuf = {"FAKE_CUDA_DMABUF=0"};
const Words kSplit = {"NCCL_IB_QPS_PER_CONNECTION=4", "NCCL_IB_SPLIT_DATA_ON_QPS=1",
                      "NCCL_IB_ADAPTIVE_ROUTING=0"};

class EverySides : public testing::TestWithParam<Sides> {};

TEST_P(EverySides, AllSizes_AreVerifiedAndTheReportNamesTheMemory) {
  const Sides& sides = GetParam();
  ToolRun run =
      perf(sides.memory, {"-b", "0", "-e", "1M", "-f", "16", "-n", "20", "--json", "-"}, sides.env);
  ASSERT_EQ(run.exit_code, 0) << run.err;
  json report = json::parse(run.out);
  EXPECT_EQ(report["wrong"], 0);
  EXPECT_GT(report["verified"], 0);
  ASSERT_EQ(report["bandwidth"].size(), 7u);
  ASSERT_EQ(report["latency"].size(), 7u);
  for (int rank : {0, 1}) {
    const std::string memory = rank == 0 ? sides.first : sides.second;
    EXPECT_EQ(report["ranks"][rank]["memory"], memory);
    EXPECT_EQ(report["ranks"][rank]["registered_by"],
              memory == "host" ? "host address" : sides.cuda_by);
  }
}

INSTANTIATE_TEST_SUITE_P(Sides, EverySides,
                         testing::Values(Sides{"host", "host", "host"}, Sides{"cuda", kZero, kOne},
                                         Sides{"cuda:1", kOne, kOne},
                                         Sides{"host,cuda:0", "host", kZero},
                                         Sides{"cuda:1,host", kOne, "host"},
                                         Sides{"cuda:1,cuda:0", kOne, kZero},
                                         Sides{"cuda", kZero, kOne, kPeermem, kNoDmaBuf},
                                         Sides{"host,cuda", "host", kOne, kPeermem, kNoDmaBuf},
                                         Sides{"host,cuda", "host", kOne, kDmaBuf, kSplit}));

TEST(PerfMemory, Header_DescribesEachSide) {
  ToolRun run = perf("cuda:0,host", {"-e", "64", "-n", "2"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("memory cuda:0 (0000:1a:00.0) registered by dma-buf\n"));
  EXPECT_THAT(run.out, HasSubstr("memory host registered by host address\n"));
}

// A run that fails, and texts of the reason.
struct Refused {
  const char* memory;
  int code;
  std::vector<const char*> texts;
  Words env = {};
  const char* plugin = TEST_PLUGIN;
};

TEST(PerfMemory, WhatCannotBeRegistered_EndsWithTheReason) {
  constexpr char kFullBar1[] = "SOFTHCA_CONFIG={\"gpu\":{\"bar1_bytes\":4096}}";
  const Refused rows[] = {
      {"cuda",
       3,
       {"softhca0 of the plugin has ptrSupport HOST|DMABUF", "does not export"},
       {"FAKE_CUDA_DMABUF=0", "SOFTHCA_CONFIG={\"gpu\":{\"peermem\":false}}"}},
      {"cuda",
       1,
       {"GPU 0000:1a:00.0 and softhca0: GPU memory of ", "NCCL_NET_GDR_LEVEL=LOC"},
       {kFullBar1, "NCCL_DEBUG=WARN"}},
      {"cuda",
       1,
       {"nvidia-peermem: disabled by GDR_NCCL_GPU_MEMORY"},
       {kFullBar1, "GDR_NCCL_GPU_MEMORY=dmabuf", "NCCL_DEBUG=WARN"}},
      {"cuda:1",
       3,
       {"--memory cuda:1 (0000:1b:00.0): device 0 ref0 of the plugin has ptrSupport HOST:"},
       {},
       REFERENCE_PLUGIN},
      {"host,cuda", 3, {"device 1 ref1 of the plugin has ptrSupport HOST:"}, {}, REFERENCE_PLUGIN},
      {"cuda:2", 2, {"--memory cuda:2: there are CUDA devices 0..1"}},
  };
  for (const Refused& row : rows) {
    const ToolRun run = perf(row.memory, {}, row.env, row.plugin);
    EXPECT_EQ(run.exit_code, row.code) << run.err;
    for (const char* text : row.texts) EXPECT_THAT(run.out + run.err, HasSubstr(text));
    // ENOMEM is attributed to the memory-lock limit where that is small and applies.
    if (row.env.empty() || row.env[0] != kFullBar1) continue;
    EXPECT_THAT(run.out + run.err,
                testing::AnyOf(HasSubstr("GPU's BAR1"), HasSubstr("memory-lock limit")));
  }
}

TEST(PerfMemory, NoCudaDriver_EndsWithTheReason) {
  // A file that is not a library precedes any libcuda of this machine in the search path.
  const TempFolder folder;
  std::ofstream(folder.path() / "libcuda.so.1") << "none\n";
  const char* path = std::getenv("LD_LIBRARY_PATH");
  ToolRun run =
      perf("cuda", {}, {"LD_LIBRARY_PATH=" + folder.path().string() + ":" + (path ? path : "")});
  EXPECT_EQ(run.exit_code, 3);
  EXPECT_THAT(run.err, HasSubstr("--memory cuda: no CUDA driver: "));
}
}  // namespace
}  // namespace gdr::reference
