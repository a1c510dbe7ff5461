// The tables that take a profiler, over the software HCA: what NCCL's callback is called with, from
// init to the completion of a message. The program runs in two environments, since init reads
// NCCL_PROFILER_PLUGIN once: in EVENTS there is a profiler or there is none.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <array>
#include <cstdlib>
#include <string>
#include <vector>

#include "plugin/abi/profiler_net_ib.h"
#include "plugin/tables.h"

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

struct V10 {
  static constexpr const abi::ncclNet_v10_t& net = kNetV10;
  static abi::ncclResult_t init(void**) { return net.init(ignore, callback); }
  static abi::ncclResult_t listen(void*, void* handle, void** comm) {
    return net.listen(0, handle, comm);
  }
  static abi::ncclResult_t connect(void*, void* handle, void** comm) {
    return net.connect(0, nullptr, handle, comm, nullptr);
  }
};

template <const auto& kNet>
struct WithContext {
  static constexpr const auto& net = kNet;
  static abi::ncclResult_t init(void** context) {
    return net.init(context, 1, nullptr, ignore, callback);
  }
  static abi::ncclResult_t listen(void* context, void* handle, void** comm) {
    return net.listen(context, 0, handle, comm);
  }
  static abi::ncclResult_t connect(void* context, void* handle, void** comm) {
    return net.connect(context, 0, handle, comm, nullptr);
  }
};

template <class Table>
struct ProfilerTables : testing::Test {
  static constexpr const auto& net = Table::net;
  static constexpr size_t kBytes = 4096;

  void* context = nullptr;
  void* sender = nullptr;
  void* receiver = nullptr;
  void* send_memory = nullptr;
  void* receive_memory = nullptr;
  std::array<char, kBytes> source{};
  std::array<char, kBytes> target{};

  ProfilerTables() {
    g_events.clear();
    source.fill('s');
    char handle[abi::kHandleMaxBytes] = {};
    void* listener = nullptr;
    EXPECT_EQ(Table::init(&context), abi::ncclSuccess);
    EXPECT_EQ(Table::listen(context, handle, &listener), abi::ncclSuccess);
    while (sender == nullptr || receiver == nullptr) {
      if (sender == nullptr) require(Table::connect(context, handle, &sender));
      if (receiver == nullptr) require(net.accept(listener, &receiver, nullptr));
    }
    require(net.closeListen(listener));
    require(net.regMr(sender, source.data(), kBytes, abi::kPtrHost, &send_memory));
    require(net.regMr(receiver, target.data(), kBytes, abi::kPtrHost, &receive_memory));
  }
  ~ProfilerTables() override {
    EXPECT_EQ(net.deregMr(sender, send_memory), abi::ncclSuccess);
    EXPECT_EQ(net.deregMr(receiver, receive_memory), abi::ncclSuccess);
    EXPECT_EQ(net.closeSend(sender), abi::ncclSuccess);
    EXPECT_EQ(net.closeRecv(receiver), abi::ncclSuccess);
  }

  static void require(abi::ncclResult_t result) {
    if (result == abi::ncclSuccess) return;
    ADD_FAILURE() << "a call of the set-up returned " << result;
    std::exit(1);
  }
  static void finish(void* request) {
    int size = 0;
    for (int done = 0; done == 0;) require(net.test(request, &done, &size));
  }
  void exchange(void* send_phandle, void** receive_phandles) {
    void* data = target.data();
    size_t size = kBytes;
    int tag = 7;
    void* receive = nullptr;
    void* send = nullptr;
    require(
        net.irecv(receiver, 1, &data, &size, &tag, &receive_memory, receive_phandles, &receive));
    while (send == nullptr) {
      require(net.isend(sender, source.data(), 100, tag, send_memory, send_phandle, &send));
    }
    finish(send);
    finish(receive);
    EXPECT_EQ(std::string(target.data(), 101), std::string(100, 's') + '\0');
  }
};

using Tables = testing::Types<V10, WithContext<kNetV11>, WithContext<kNetV12>>;
TYPED_TEST_SUITE(ProfilerTables, Tables);

TYPED_TEST(ProfilerTables, OneMessage_AnEventAtEachEndWhereNcclHasAProfiler) {
  int of_send = 0;
  int of_receive = 0;
  void* receive_phandles[] = {&of_receive};
  this->exchange(&of_send, receive_phandles);
  if (std::string(std::getenv("EVENTS")) == "none") {
    EXPECT_TRUE(g_events.empty());
    return;
  }
  ASSERT_EQ(g_events.size(), 2u);
  EXPECT_EQ(g_events[0].phandle, &of_receive);
  EXPECT_EQ(g_events[0].description.qp.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(g_events[0].description.qp.length, TestFixture::kBytes);
  EXPECT_EQ(g_events[1].phandle, &of_send);
  EXPECT_EQ(g_events[1].description.qp.opcode, IBV_WR_RDMA_WRITE_WITH_IMM);
  EXPECT_EQ(g_events[1].description.qp.length, 100u);
  for (const Event& event : g_events) EXPECT_EQ(event.stops, 1);
}

// NCCL's host RMA passes none.
TYPED_TEST(ProfilerTables, NoPhandles_NcclIsNotCalled) {
  this->exchange(nullptr, nullptr);
  EXPECT_TRUE(g_events.empty());
}

}  // namespace
}  // namespace gdr::plugin
