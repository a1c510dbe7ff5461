// Configured faults, links and RoCE.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <climits>
#include <filesystem>
#include <fstream>

#include "tests/unit/softhca/configured.h"
#include "tests/unit/softhca/memory.h"

namespace softhca_test {
namespace {

using Clock = std::chrono::steady_clock;

// How often the port of the first device has gone down, by its counter.
std::string link_downed(Endpoint& endpoint) {
  return sysfs(endpoint.context(), "ports/1/counters/link_downed");
}

// The root of the created sysfs tree, as a program finds it.
std::filesystem::path sysfs_of(Endpoint& endpoint) {
  return std::filesystem::path(endpoint.context()->device->ibdev_path) / "../../..";
}

TEST_F(Configured, PortDownAfterBytes_EventThenNoAnswer) {
  use(R"({"faults": [
      {"kind": "port_down", "device": "softhca0", "after_bytes": 1000}]})");
  Pair pair({}, {.device = 1});
  EXPECT_EQ(link_downed(pair.a), "0");
  Buffer from(pair.a, 600);
  Buffer to(pair.b, 600);
  Request request(IBV_WR_RDMA_WRITE, from.sge(), to);
  EXPECT_EQ(status_of(pair.a, request), IBV_WC_SUCCESS);
  post(pair.a, request);
  EXPECT_EQ(pair.a.wait_event(), IBV_EVENT_PORT_ERR);
  EXPECT_EQ(link_downed(pair.a), "1");
  pair.a.wait();
  ibv_port_attr port = {};
  ASSERT_EQ(ibv_query_port(pair.a.context(), 1, &port), 0);
  EXPECT_EQ(port.state, IBV_PORT_DOWN);
  EXPECT_EQ(port.phys_state, 2) << "Polling";
  EXPECT_EQ(sysfs(pair.a.context(), "ports/1/state"), "1: DOWN");
  if (pair.a.state() != IBV_QPS_ERR) {
    EXPECT_EQ(status_of(pair.a, request), IBV_WC_RETRY_EXC_ERR);
  }
  // It does not answer requests of the other end either.
  EXPECT_EQ(write_nothing(pair.b), IBV_WC_RETRY_EXC_ERR);
}

TEST_F(Configured, PortReturns_QpsTakenThroughResetWorkAgain) {
  use(R"({"faults": [{"kind": "port_flap", "device": "softhca0", "down_ms": 30,
      "at_request": {"opcode": "write", "moment": "begun"}}]})");
  Pair pair({}, {.device = 1});
  EXPECT_EQ(write_nothing(pair.a), IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(pair.a.wait_event(), IBV_EVENT_PORT_ERR);
  EXPECT_EQ(pair.a.wait_event(), IBV_EVENT_PORT_ACTIVE);
  for (Endpoint* end : {&pair.a, &pair.b}) {
    ASSERT_EQ(end->to_state(IBV_QPS_ERR), 0);
    ASSERT_EQ(end->to_state(IBV_QPS_RESET), 0);
  }
  pair.a.connect(pair.b.address());
  pair.b.connect(pair.a.address());
  ASSERT_EQ(pair.b.recv_empty(1), 0);
  EXPECT_EQ(status_of(pair.a, Request(IBV_WR_SEND, {})), IBV_WC_SUCCESS);
  EXPECT_EQ(pair.b.wait().status, IBV_WC_SUCCESS);
  Pair fresh({}, {.device = 1});
  EXPECT_EQ(write_nothing(fresh.a), IBV_WC_SUCCESS);
}

TEST_F(Configured, PortFlap_EveryContextGetsEachChange) {
  use(R"({"faults": [{"kind": "port_flap", "device": "softhca0", "down_ms": 5, "up_ms": 5,
      "count": 3, "at_request": {}}]})");
  Pair pair;
  post(pair.a, Request(IBV_WR_RDMA_WRITE, {}));
  for (Endpoint* end : {&pair.a, &pair.b}) {
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(end->wait_event(), IBV_EVENT_PORT_ERR);
      EXPECT_EQ(end->wait_event(), IBV_EVENT_PORT_ACTIVE);
    }
  }
  EXPECT_EQ(pair.a.query_port().state, IBV_PORT_ACTIVE);
}

TEST_F(Configured, RateShare_SlowsFromTheEventOn) {
  use(R"({"devices": [{"rate_gbps": 10}], "faults": [
      {"kind": "rate", "device": "softhca0", "share": 0.1, "at_request": {"nth": 2}}]})");
  Buffers pair(1 << 20);
  Request request = pair.request();
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(status_of(pair.a, request), IBV_WC_SUCCESS);
  }
  auto start = Clock::now();
  EXPECT_EQ(status_of(pair.a, request), IBV_WC_SUCCESS);
  // 1 MiB at a tenth of 10^10 bit/s.
  EXPECT_GE(Clock::now() - start, std::chrono::microseconds(8388));
}

TEST_F(Configured, AckTimeoutFactor_ShortensTheRetries) {
  use(R"({"devices": [{"ack_timeout_factor": 0.0001}], "faults": [
      {"kind": "port_down", "device": "softhca0"}]})");
  // 4.096 us x 2^24 x 8 are nine minutes.
  Pair pair({.timeout = 24}, {});
  EXPECT_EQ(write_nothing(pair.a), IBV_WC_RETRY_EXC_ERR);
}

TEST_F(Configured, FaultsFile_LinesAreFaultsAsTheyAreAppended) {
  const std::string path = testing::TempDir() + "softhca_faults_" + std::to_string(getpid());
  use(R"({"faults_file": ")" + path + R"("})");
  std::ofstream file(path);
  Pair pair({}, {.device = 1});
  EXPECT_EQ(write_nothing(pair.a), IBV_WC_SUCCESS);
  // A wrong line is reported and skipped.
  file << R"({"kind": "port_dwon", "device": "softhca0"})" << '\n'
       << R"({"kind": "client_reregister", "device": "softhca0"})" << std::endl;
  EXPECT_EQ(pair.a.wait_event(), IBV_EVENT_CLIENT_REREGISTER);
  file << R"({"kind": "port_down", "device": "softhca0",)"
       << R"( "at_request": {"opcode": "write", "nth": 1}})" << '\n'
       << R"({"kind": "client_reregister", "device": "softhca0"})" << std::endl;
  EXPECT_EQ(pair.a.wait_event(), IBV_EVENT_CLIENT_REREGISTER);
  EXPECT_EQ(write_nothing(pair.a), IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(pair.a.wait_event(), IBV_EVENT_PORT_ERR);
  std::filesystem::remove(path);
}

TEST_F(Configured, RegistrationFault_FailsWithConfiguredErrno) {
  use(R"({"faults": [
      {"kind": "reg_mr_refused", "device": "softhca0", "errno": 28}]})");
  Endpoint a;
  Endpoint b({.device = 1});
  uint64_t word = 0;
  EXPECT_EQ(a.reg(&word, 8), nullptr);
  EXPECT_EQ(errno, 28);
  EXPECT_NE(b.reg(&word, 8), nullptr);
}

TEST_F(Configured, NoDmabuf_NotSupported) {
  use(R"({"gpu": {"dmabuf": false}})");
  Endpoint a;
  EXPECT_EQ(ibv_reg_dmabuf_mr(a.pd(), 0, 0, 0, -1, 0), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(Configured, Bar1Limit_RegistrationsBeyondItFail) {
  use(R"({"gpu": {"bar1_bytes": 100000}})");
  Endpoint a;
  auto first = std::make_unique<Memory>(a, 0, 65536);
  EXPECT_TRUE(first->registered());
  EXPECT_FALSE(Memory(a, 0, 65536).registered());
  EXPECT_EQ(errno, ENOMEM);
  first.reset();
  EXPECT_TRUE(Memory(a, 0, 65536).registered());
}

struct Peermem {
  const char* name;
  const char* config;
  bool nvidia_peermem;  // what sysfs shows
  bool nv_peer_mem;
};

void PrintTo(const Peermem& one, std::ostream* out) { *out << one.name; }

class PeermemModule : public Configured, public testing::WithParamInterface<Peermem> {};

TEST_P(PeermemModule, Configured_SysfsShowsItAndDeviceAddressesRegisterAndMove) {
  const Peermem& one = GetParam();
  use(one.config);
  Pair pair;
  const std::filesystem::path sysfs = sysfs_of(pair.b);
  EXPECT_TRUE(is_directory(sysfs / "module"));
  EXPECT_EQ(exists(sysfs / "module/nvidia_peermem/version"), one.nvidia_peermem);
  EXPECT_EQ(exists(sysfs / "kernel/mm/memory_peers/nv_mem/version"), one.nv_peer_mem);
  const fake_cuda::Driver& driver = fake_cuda::Driver::load();
  driver.api.init(0);
  fake_cuda::DeviceBuffer device(driver, 0, 4096);
  MrPtr mr = pair.b.reg(device.get(), 4096);
  if (!one.nvidia_peermem && !one.nv_peer_mem) {
    EXPECT_EQ(mr, nullptr);
    EXPECT_EQ(errno, EFAULT);
    return;
  }
  ASSERT_NE(mr, nullptr);
  Buffer from(pair.a, 4096);
  from.fill(5);
  EXPECT_EQ(status_of(pair.a, Request(IBV_WR_RDMA_WRITE, from.sge(), device.address(), mr->rkey)),
            IBV_WC_SUCCESS);
  EXPECT_EQ(memcmp(device.view(), from.bytes.data(), 4096), 0);
}

INSTANTIATE_TEST_SUITE_P(
    Each, PeermemModule,
    testing::Values(Peermem{"Default", "{}", true, false},
                    Peermem{"On", R"({"gpu": {"peermem": true}})", true, false},
                    Peermem{"Old", R"({"gpu": {"peermem": "nv_peer_mem"}})", false, true},
                    Peermem{"Off", R"({"gpu": {"peermem": false}})", false, false}),
    [](const auto& one) { return std::string(one.param.name); });

TEST_F(Configured, RateAndLatency_TransfersTakeAtLeastThatLong) {
  use(R"({"devices": [{"rate_gbps": 1, "latency_us": 1000}]})");
  Buffers pair(1 << 20);
  auto start = Clock::now();
  for (int i = 0; i < 4; ++i) {
    post(pair.a, pair.request());
  }
  for (int i = 0; i < 4; ++i) EXPECT_EQ(pair.a.wait().status, IBV_WC_SUCCESS);
  // 4 MiB at 10^9 bit/s, and one latency: those of the requests overlap.
  double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  EXPECT_GE(seconds, 4 * (1 << 20) * 8e-9 + 1e-3);
}

TEST_F(Configured, RegistrationTime_HostAndGpuTakeAtLeastThatLong) {
  use(R"({"devices": [
      {"registration_us": 20000, "registration_us_per_mib": 40000}]})");
  Endpoint a;
  for (int gpu : {-1, 0}) {
    Memory(a, gpu, 1);  // pays the costs of the first registration
    auto start = Clock::now();
    Memory memory(a, gpu, 1 << 20);
    EXPECT_GE(Clock::now() - start, std::chrono::milliseconds(60)) << gpu;
    EXPECT_TRUE(memory.registered());
  }
}

TEST_F(Configured, PciFunctionThatDoesNotExist_SysfsTreeIsCreated) {
  use(R"({"devices": [{"pci": "0000:fe:1f.7", "numa_node": 1}, {}]})");
  Endpoint a;
  std::string device = std::string(a.context()->device->ibdev_path) + "/device";
  char real[PATH_MAX];
  ASSERT_NE(realpath(device.c_str(), real), nullptr);
  EXPECT_TRUE(std::string(real).ends_with("/pci0000:fe/0000:fe:1f.7")) << real;
  EXPECT_EQ(sysfs(a.context(), "device/numa_node"), "1");
  ASSERT_NE(realpath((device + "/subsystem").c_str(), real), nullptr);
  EXPECT_STREQ(real, "/sys/bus/pci");
  Endpoint b({.device = 1});
  std::string other = std::string(b.context()->device->ibdev_path) + "/device";
  EXPECT_NE(access(other.c_str(), F_OK), 0) << "no PCI place was configured";
}

TEST_F(Configured, WrongConfiguration_NoDevices) {
  use(R"({"devices": 5})");
  int count = -1;
  ibv_device** list = ibv_get_device_list(&count);
  ASSERT_NE(list, nullptr);
  EXPECT_EQ(count, 0);
  EXPECT_EQ(list[0], nullptr);
  ibv_free_device_list(list);
}

}  // namespace
}  // namespace softhca_test
