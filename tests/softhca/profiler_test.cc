// The tables that take a profiler, over the software HCA: what NCCL's callback is called with, from
// init to the completion of a message. The program runs in two environments, since init reads
// NCCL_PROFILER_PLUGIN once: in EVENTS there is a profiler or there is none.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "plugin/abi/profiler_net_ib.h"
#include "plugin/tables.h"
#include "tests/softhca/net_pair.h"

// The program is NCCL's library for the plugin, which asks the library of the callback for its
// release.
extern "C" __attribute__((visibility("default"))) int ncclGetVersion(int* version) {
  *version = 22602;
  return 0;
}

namespace gdr::plugin {
namespace {

struct Event {
  void* phandle;
  abi::ncclProfilerNetIbDescr_v1_t description;
  int stops = 0;
};

// NCCL's callback has no context.
std::vector<Event> g_events;

// Handles are positions, counted from 1.
abi::ncclResult_t callback(void** event, int type, void* phandle, int64_t, void* data) {
  if (type == abi::kProfilerEventStart) {
    g_events.push_back({phandle, *static_cast<abi::ncclProfilerNetIbDescr_v1_t*>(data)});
    *event = reinterpret_cast<void*>(g_events.size());
  } else {
    ++g_events.at(reinterpret_cast<size_t>(*event) - 1).stops;
  }
  return abi::ncclSuccess;
}

void ignore(abi::ncclDebugLogLevel, unsigned long, const char*, int, const char*, ...) {}

template <const auto& kNet>
struct TableToTest {
  using Type = std::remove_cvref_t<decltype(kNet)>;
  static constexpr const Type& net = kNet;
};

template <class Table>
struct ProfilerTables : testing::Test {
  std::optional<NetPair<typename Table::Type>> pair;

  void SetUp() override {
    g_events.clear();
    void* context = nullptr;
    ASSERT_EQ(init(Table::net, ignore, &context, abi::kTrafficClassUndefined, 1, callback),
              abi::ncclSuccess);
    pair.emplace(Table::net, context);
    ASSERT_NO_FATAL_FAILURE(pair->connect());
  }
};

using Tables = testing::Types<TableToTest<kNetV10>, TableToTest<kNetV11>, TableToTest<kNetV12>>;
TYPED_TEST_SUITE(ProfilerTables, Tables);

TYPED_TEST(ProfilerTables, OneMessage_AnEventAtEachEndWhereNcclHasAProfiler) {
  int of_send = 0;
  int of_receive = 0;
  void* receive_phandles[] = {&of_receive};
  ASSERT_NO_FATAL_FAILURE(this->pair->exchange(1, &of_send, receive_phandles));
  if (std::string(std::getenv("EVENTS")) == "none") {
    EXPECT_TRUE(g_events.empty());
    return;
  }
  ASSERT_EQ(g_events.size(), 2u);
  EXPECT_EQ(g_events[0].phandle, &of_receive);
  EXPECT_EQ(g_events[0].description.qp.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(g_events[1].phandle, &of_send);
  EXPECT_EQ(g_events[1].description.qp.opcode, IBV_WR_RDMA_WRITE_WITH_IMM);
  EXPECT_EQ(g_events[0].description.qp.length, NetPair<typename TypeParam::Type>::kBytes);
  EXPECT_EQ(g_events[1].description.qp.length, NetPair<typename TypeParam::Type>::kSent);
  for (const Event& event : g_events) EXPECT_EQ(event.stops, 1);
}

// NCCL's host RMA passes no phandles; NCCL without a profiler passes null ones.
TYPED_TEST(ProfilerTables, NoPhandles_NcclIsNotCalled) {
  void* null_phandles[] = {nullptr};
  ASSERT_NO_FATAL_FAILURE(this->pair->exchange(1));
  ASSERT_NO_FATAL_FAILURE(this->pair->exchange(2, nullptr, null_phandles));
  EXPECT_TRUE(g_events.empty());
}

}  // namespace
}  // namespace gdr::plugin
