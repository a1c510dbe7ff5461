#include "plugin/profiler.h"

#include <gtest/gtest.h>

#include <vector>

#include "plugin/abi/profiler_net_ib.h"
#include "plugin/communicator.h"

namespace gdr::plugin {
namespace {

// What NCCL's callback was called with. NCCL's callback has no context either.
struct Call {
  void* event;  // *event on entry
  int type;
  void* phandle;
  int64_t plugin_id;
  void* data;
};

struct FakeNccl {
  std::vector<Call> calls;
  abi::ncclProfilerNetIbDescr_v1_t description{};
  void* starts = nullptr;  // what a start sets; null: *event is left alone, as without a profiler
  abi::ncclResult_t returns = abi::ncclSuccess;
};

FakeNccl g_nccl;

abi::ncclResult_t callback(void** event, int type, void* phandle, int64_t plugin_id, void* data) {
  g_nccl.calls.push_back({*event, type, phandle, plugin_id, data});
  if (type == abi::kProfilerEventStart) {
    g_nccl.description = *static_cast<abi::ncclProfilerNetIbDescr_v1_t*>(data);
    if (g_nccl.starts != nullptr) *event = g_nccl.starts;
  }
  return g_nccl.returns;
}

struct ProfilerTest : testing::Test {
  transport::WorkRequestObserver observer = profiler_observer(callback, 11);
  int phandle = 0;
  int event = 0;

  ProfilerTest() { g_nccl = {}; }
  void* start(void* of) {
    return observer.posted(observer.context, of, {2, uint64_t{1} << 40, 1, 0xabcdef, 4096});
  }
};

TEST_F(ProfilerTest, NoCallback_NobodyObserves) {
  EXPECT_EQ(profiler_observer(nullptr, 11).posted, nullptr);
}

TEST_F(ProfilerTest, Start_DescribesTheWorkAsNcclsIbTransportDoes) {
  g_nccl.starts = &event;
  EXPECT_EQ(start(&phandle), &event);
  ASSERT_EQ(g_nccl.calls.size(), 1u);
  EXPECT_EQ(g_nccl.calls[0].event, nullptr) << "NCCL may leave it alone";
  EXPECT_EQ(g_nccl.calls[0].type, 0);
  EXPECT_EQ(g_nccl.calls[0].phandle, &phandle);
  EXPECT_EQ(g_nccl.calls[0].plugin_id, 0x10001);
  EXPECT_EQ(g_nccl.description.type, 1);
  EXPECT_EQ(g_nccl.description.qp.device, 2);
  EXPECT_EQ(g_nccl.description.qp.wr_id, uint64_t{1} << 40);
  EXPECT_EQ(g_nccl.description.qp.opcode, 1);
  EXPECT_EQ(g_nccl.description.qp.qpNum, 0xabcdef);
  EXPECT_EQ(g_nccl.description.qp.length, 4096u);
}

TEST_F(ProfilerTest, NoEventOrAnError_IsNoEvent) {
  EXPECT_EQ(start(&phandle), nullptr);
  g_nccl.starts = &event;
  g_nccl.returns = abi::ncclInternalError;
  EXPECT_EQ(start(&phandle), nullptr);
}

TEST_F(ProfilerTest, Communicator_HasOptionsWithTheProfilerAndWithout) {
  CommunicatorSettings settings;
  settings.traffic_class = 7;
  settings.table_version = 11;
  settings.profiler = callback;
  const Communicator communicator = make_communicator({}, settings);
  EXPECT_EQ(communicator.connection->observer.posted, nullptr);
  EXPECT_EQ(communicator.profiled_connection->observer.context, observer.context);
  EXPECT_EQ(communicator.profiled_connection->traffic_class, 7);
}

}  // namespace
}  // namespace gdr::plugin
