// The built library as NCCL finds it for NCCL_NET_PLUGIN=gdr, and how init ends, over the software
// HCA. LD_LIBRARY_PATH has the folders of the plugin and of the software HCA.
#include <gmock/gmock.h>

#include <cstdlib>

#include "tests/softhca/loaded_table.h"

namespace gdr {
namespace {

using ::testing::SizeIs;

constexpr char kFile[] = "libnccl-net-gdr.so";

// The process environment is read until an init has succeeded.
struct LoaderInit : ::testing::Test {
  void SetUp() override { unsetenv("NCCL_TOPO_FILE"); }
  abi::ncclResult_t init() { return plugin::init(*net_, PluginLog::logger(), &context_); }

  LoadedTable<12> net_{kFile};
  void* context_ = nullptr;
};

TEST_F(LoaderInit, OlderRelease_InitLogsItsTable) {
  const LoadedTable<8> older(kFile);
  ASSERT_EQ(older->init(PluginLog::logger()), abi::ncclSuccess) << PluginLog::text();
  EXPECT_THAT(PluginLog::lines(", table v8), "), SizeIs(1));
}

// The numbers of NCCL_IB_HCA, in its order; the names stay those of the verbs devices.
TEST_F(LoaderInit, RailsAndPlanesOfTheUser_AreReported) {
  setenv("NCCL_IB_HCA", "softhca0:1:5:2,softhca1:1:6", 1);
  ASSERT_EQ(init(), abi::ncclSuccess) << PluginLog::text();
  abi::ncclNetProperties_v12_t first{}, second{};
  ASSERT_EQ(net_->getProperties(0, &first), abi::ncclSuccess);
  ASSERT_EQ(net_->getProperties(1, &second), abi::ncclSuccess);
  EXPECT_STREQ(first.name, "softhca0");
  EXPECT_EQ(first.railId, 5);
  EXPECT_EQ(first.planeId, 2);
  EXPECT_STREQ(second.name, "softhca1");
  EXPECT_EQ(second.railId, 6);
  EXPECT_EQ(second.planeId, abi::kNetIdUndefined);
  EXPECT_EQ(net_->finalize(context_), abi::ncclSuccess);
}

// NCCL then goes on with the next plugin of the list, and with its own transports.
TEST_F(LoaderInit, NoDevice_IsDeclinedWithTheReasonAndLeavesNothing) {
  setenv("NCCL_IB_HCA", "=absent", 1);
  EXPECT_EQ(init(), abi::ncclSystemError);
  EXPECT_EQ(context_, nullptr);
  EXPECT_THAT(PluginLog::warnings("init: no usable RDMA device"), SizeIs(1));
  EXPECT_THAT(PluginLog::warnings("NCCL continues with another transport"), SizeIs(1));
  int devices = -1;
  EXPECT_EQ(net_->devices(&devices), abi::ncclSuccess);
  EXPECT_EQ(devices, 0);
  unsetenv("NCCL_IB_HCA");
  const LoadedTable<12> again(kFile);  // as NCCL loads it for its next communicator
  const NetCommunicator communicator(*again);
  EXPECT_EQ(again->devices(&devices), abi::ncclSuccess);
  EXPECT_GT(devices, 0);
}

}  // namespace
}  // namespace gdr
