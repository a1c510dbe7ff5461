// Two processes: every mix of host and GPU memory, and a peer that is killed. Run twice, with
// process_vm_writev and with the staging area instead of it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "tests/softhca/remote_process.h"
#include "tests/unit/softhca/memory.h"

namespace softhca_test {
namespace {

// More than all staging chunks together, and not a multiple of anything.
constexpr size_t kBytes = (9 << 20) + 13;

class AcrossProcesses : public testing::TestWithParam<std::tuple<int, int>> {
 protected:
  void SetUp() override { peer_.connect(own_); }

  Endpoint own_;
  Memory memory_{own_, std::get<0>(GetParam()), kBytes};
  RemoteProcess peer_{std::get<1>(GetParam()), kBytes};
};

TEST_P(AcrossProcesses, Write_DataArrives) {
  memory_.fill(1);
  ASSERT_EQ(
      status_of(own_, Request(IBV_WR_RDMA_WRITE, memory_.sge(), peer_.memory(), peer_.rkey())),
      IBV_WC_SUCCESS);
  EXPECT_EQ(peer_.ask("mismatch 1"), std::to_string(kBytes));
}

TEST_P(AcrossProcesses, SeveralWritesInProgress_AllArriveInOrder) {
  memory_.fill(4);
  constexpr size_t kPart = 300001;
  for (uint64_t i = 0; i < 24; ++i) {
    Request request(IBV_WR_RDMA_WRITE, memory_.sge(i * kPart, kPart), peer_.memory() + i * kPart,
                    peer_.rkey());
    request.wr.wr_id = i;
    post(own_, request);
  }
  for (uint64_t i = 0; i < 24; ++i) {
    ibv_wc wc = own_.wait();
    ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.wr_id, i);
  }
  EXPECT_GE(static_cast<size_t>(peer_.ask_number("mismatch 4")), 24 * kPart);
}

TEST_P(AcrossProcesses, Send_ReceiveCompletesWithData) {
  memory_.fill(2);
  ASSERT_EQ(peer_.ask("recv"), "0");
  post(own_, Request(IBV_WR_SEND, memory_.sge()));
  EXPECT_EQ(peer_.ask("wait"), "0");
  EXPECT_EQ(peer_.ask("mismatch 2"), std::to_string(kBytes));
  EXPECT_EQ(own_.wait().status, IBV_WC_SUCCESS);
}

TEST_P(AcrossProcesses, Read_DataComesBack) {
  peer_.ask("fill 3");
  ASSERT_EQ(status_of(own_, Request(IBV_WR_RDMA_READ, memory_.sge(), peer_.memory(), peer_.rkey())),
            IBV_WC_SUCCESS);
  EXPECT_EQ(memory_.mismatch(3), kBytes);
}

TEST_P(AcrossProcesses, ReadThenWrite_ReadSeesTheOldBytes) {
  peer_.ask("fill 3");
  Memory source(own_, -1, kBytes);
  source.fill(8);
  Request read(IBV_WR_RDMA_READ, memory_.sge(), peer_.memory(), peer_.rkey());
  Request write(IBV_WR_RDMA_WRITE, source.sge(), peer_.memory(), peer_.rkey());
  post(own_, read);
  post(own_, write);
  EXPECT_EQ(own_.wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(own_.wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(memory_.mismatch(3), kBytes);
  EXPECT_EQ(peer_.ask("mismatch 8"), std::to_string(kBytes));
}

TEST_P(AcrossProcesses, PeerKilled_RetryExceededAndFlushed) {
  memory_.fill(1);
  ASSERT_EQ(own_.recv_empty(9), 0);
  peer_.kill();
  EXPECT_EQ(
      status_of(own_, Request(IBV_WR_RDMA_WRITE, memory_.sge(), peer_.memory(), peer_.rkey())),
      IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(own_.wait().status, IBV_WC_WR_FLUSH_ERR);
  peer_.reap();
}

TEST_P(AcrossProcesses, PeerKilledDuringWrites_RetryExceeded) {
  memory_.fill(1);
  Request request(IBV_WR_RDMA_WRITE, memory_.sge(), peer_.memory(), peer_.rkey());
  for (int i = 0; i < 10; ++i) post(own_, request);
  peer_.kill();
  post(own_, request);
  ibv_wc_status status = IBV_WC_SUCCESS;
  for (int i = 0; i < 11 && status == IBV_WC_SUCCESS; ++i) status = own_.wait().status;
  EXPECT_EQ(status, IBV_WC_RETRY_EXC_ERR);
  peer_.reap();
}

// Recovery relies on it: once the QP is in ERROR, no late packet changes memory.
TEST_P(AcrossProcesses, QpMovedToErrorDuringWrites_NoByteArrivesAfterwards) {
  for (int round = 0; round < 5; ++round) {
    ASSERT_EQ(peer_.ask("flood " + std::to_string(memory_.address()) + " " +
                        std::to_string(memory_.rkey())),
              "ok");
    std::this_thread::sleep_for(std::chrono::milliseconds(5 + 3 * round));
    ASSERT_EQ(own_.to_state(IBV_QPS_ERR), 0);
    std::vector<uint8_t> before = memory_.bytes();
    EXPECT_EQ(peer_.answer(), std::to_string(IBV_WC_RETRY_EXC_ERR));
    EXPECT_TRUE(memory_.bytes() == before) << "a byte changed after the QP was in ERROR";
    ASSERT_EQ(own_.to_state(IBV_QPS_RESET), 0);
    ASSERT_EQ(peer_.ask("reset"), "0");
    peer_.connect(own_);
  }
}

INSTANTIATE_TEST_SUITE_P(HostAndGpu, AcrossProcesses,
                         testing::Values(std::tuple(-1, -1), std::tuple(-1, 0), std::tuple(0, -1),
                                         std::tuple(0, 1)),
                         [](const auto& ends) {
                           auto name = [](int gpu) { return gpu < 0 ? "Host" : "Gpu"; };
                           return std::string(name(std::get<0>(ends.param))) + "To" +
                                  name(std::get<1>(ends.param));
                         });

// The other process gets a configuration with a fault of its first device at the second write with
// immediate; this one has none.
class PeerWithFault : public testing::Test {
 protected:
  void start(const std::string& kind, const std::string& end, const std::string& moment) {
    const std::string config = std::getenv("SOFTHCA_CONFIG");
    const std::string with_fault =
        config.substr(0, config.size() - 1) + R"(, "faults": [{"device": "softhca0", "kind": ")" +
        kind + R"(", "at_request": {"opcode": "write_with_imm", "nth": 2, "end": ")" + end +
        R"(", "moment": ")" + moment + R"("}}]})";
    setenv("SOFTHCA_CONFIG", with_fault.c_str(), 1);
    peer_ = std::make_unique<RemoteProcess>(-1, kPart);
    setenv("SOFTHCA_CONFIG", config.c_str(), 1);
    peer_->connect(own_);
  }
  // A write with immediate to the peer.
  void write(uint8_t seed) {
    memory_.fill(seed);
    post(own_, Request(IBV_WR_RDMA_WRITE_WITH_IMM, memory_.sge(), peer_->memory(), peer_->rkey()));
  }

  static constexpr size_t kPart = 300001;
  Endpoint own_;
  Memory memory_{own_, -1, kPart};
  std::unique_ptr<RemoteProcess> peer_;
};

TEST_F(PeerWithFault, ItsPortGoesDownWhenItHasReceived_NoAcknowledgement) {
  start("port_down", "responder", "received");
  for (int i = 0; i < 2; ++i) ASSERT_EQ(peer_->ask("recv"), "0");
  write(1);
  EXPECT_EQ(own_.wait().status, IBV_WC_SUCCESS);
  write(2);
  EXPECT_EQ(own_.wait().status, IBV_WC_RETRY_EXC_ERR);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(peer_->ask_number("wait"), IBV_WC_SUCCESS);
  EXPECT_EQ(peer_->ask("mismatch 2"), std::to_string(kPart));
  EXPECT_EQ(peer_->ask_number("event"), IBV_EVENT_PORT_ERR);
  EXPECT_EQ(peer_->ask_number("state"), IBV_QPS_RTS);
  EXPECT_EQ(own_.query_port().state, IBV_PORT_ACTIVE);
}

TEST_F(PeerWithFault, ItsDeviceFailsWhenTheDataHasArrived_EventAndFlush) {
  start("device_fatal", "responder", "arrived");
  for (int i = 0; i < 2; ++i) ASSERT_EQ(peer_->ask("recv"), "0");
  for (uint8_t seed : {1, 2}) write(seed);
  EXPECT_EQ(own_.wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(own_.wait().status, IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(peer_->ask_number("event"), IBV_EVENT_DEVICE_FATAL);
  EXPECT_EQ(peer_->ask_number("wait"), IBV_WC_SUCCESS);
  EXPECT_EQ(peer_->ask_number("wait"), IBV_WC_WR_FLUSH_ERR);
}

TEST_F(PeerWithFault, ItsAcknowledgementIsLost_ReceivedHereAndQpUntouched) {
  start("port_down", "requester", "received");
  for (uint64_t id : {1, 2}) ASSERT_EQ(own_.recv_empty(id), 0);
  const std::string target =
      std::to_string(memory_.address()) + " " + std::to_string(memory_.rkey());
  for (int i = 0; i < 2; ++i) ASSERT_EQ(peer_->ask("write_imm " + target), "0");
  EXPECT_EQ(peer_->ask_number("wait"), IBV_WC_SUCCESS);
  EXPECT_EQ(peer_->ask_number("wait"), IBV_WC_RETRY_EXC_ERR);
  for (uint64_t id : {1, 2}) {
    ibv_wc wc = own_.wait();
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.wr_id, id);
  }
  EXPECT_EQ(own_.state(), IBV_QPS_RTS);
  EXPECT_EQ(peer_->ask_number("event"), IBV_EVENT_PORT_ERR);
}

TEST(Gone, PeerEnded_ZeroByteWriteHasNoAnswer) {
  for (bool connected_before : {true, false}) {
    Endpoint own;
    RemoteProcess peer(-1, 64);
    const Address address = peer.address();
    if (connected_before) peer.connect(own);
    ASSERT_EQ(peer.finish(), 0);
    if (!connected_before) own.connect(address);
    EXPECT_EQ(write_nothing(own), IBV_WC_RETRY_EXC_ERR);
  }
}

TEST(Gone, KilledProcess_NextOneRemovesItsFiles) {
  Endpoint own;
  RemoteProcess killed(-1, 64);
  // The folder has the number of the slot, which is the upper bits of the QPNs.
  std::filesystem::path folder = "/dev/shm/softhca-" + std::to_string(getuid()) + "-" +
                                 std::getenv("FABRIC") + "/" +
                                 std::to_string(killed.address().qpn >> 14);
  ASSERT_TRUE(std::filesystem::exists(folder / "arena"));
  killed.kill();
  killed.reap();
  RemoteProcess next(-1, 64);
  EXPECT_FALSE(std::filesystem::exists(folder));
}

TEST(Keys, KeyOfOtherProcess_RemoteAccessErrorAndItsQpStops) {
  Endpoint own;
  RemoteProcess peer(-1, 64);
  peer.connect(own);
  Memory memory(own, -1, 64);
  // A key of this process names nothing in the other one.
  EXPECT_EQ(status_of(own, Request(IBV_WR_RDMA_WRITE, memory.sge(), memory)),
            IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(peer.ask_number("state"), IBV_QPS_ERR);
}

TEST(BothWays, WritesAtTheSameTime_NeitherWaitsForTheOther) {
  Endpoint own;
  RemoteProcess peer(0, kBytes);
  peer.connect(own);
  Memory memory(own, 1, kBytes);
  memory.fill(1);
  for (int round = 0; round < 5; ++round) {
    ASSERT_EQ(
        peer.ask("write " + std::to_string(memory.address()) + " " + std::to_string(memory.rkey())),
        "0");
    EXPECT_EQ(status_of(own, Request(IBV_WR_RDMA_WRITE, memory.sge(), peer.memory(), peer.rkey())),
              IBV_WC_SUCCESS);
    EXPECT_EQ(peer.ask("wait"), "0");
  }
}

}  // namespace
}  // namespace softhca_test
