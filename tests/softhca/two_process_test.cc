// Two processes: every mix of host and GPU memory, and a peer that is killed. Run twice, with
// process_vm_writev and with the staging area instead of it.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "tests/softhca/remote_process.h"
#include "tests/unit/softhca/memory.h"

namespace {
std::atomic<size_t> g_most_bytes{0};  // of a call; 0: any number
}

// In place of the C library's. The kernel's limit would take 2 GiB at either end.
extern "C" [[gnu::visibility("default")]] ssize_t process_vm_writev(pid_t pid, const iovec* local,
                                                                    unsigned long locals,
                                                                    const iovec* remote,
                                                                    unsigned long remotes,
                                                                    unsigned long flags) {
  if (g_most_bytes == 0) {
    return syscall(SYS_process_vm_writev, pid, local, locals, remote, remotes, flags);
  }
  iovec from = local[0], to = remote[0];
  from.iov_len = to.iov_len = std::min({from.iov_len, to.iov_len, g_most_bytes.load()});
  return syscall(SYS_process_vm_writev, pid, &from, 1, &to, 1, flags);
}

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

TEST_P(AcrossProcesses, WriteThatTakesSeveralCalls_DataArrives) {
  memory_.fill(2);
  Request request(IBV_WR_RDMA_WRITE, memory_.sge(), peer_.memory(), peer_.rkey());
  ibv_sge list[2] = {memory_.sge(0, 4097), memory_.sge(4097, kBytes - 4097)};
  request.wr.sg_list = list;
  request.wr.num_sge = 2;
  ibv_send_wr* bad = nullptr;
  g_most_bytes = 3 << 20;
  ASSERT_EQ(ibv_post_send(own_.qp(), &request.wr, &bad), 0);
  EXPECT_EQ(own_.wait().status, IBV_WC_SUCCESS);
  g_most_bytes = 0;
  EXPECT_EQ(peer_.ask("mismatch 2"), std::to_string(kBytes));
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

// Nobody else ends the transfer that was in progress into the QP.
TEST_P(AcrossProcesses, PeerKilledDuringItsWrites_ReceivesAreFlushed) {
  ASSERT_EQ(own_.recv_empty(7), 0);
  ASSERT_EQ(peer_.ask("flood " + std::to_string(memory_.address()) + " " +
                      std::to_string(memory_.rkey())),
            "ok");
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  peer_.kill();
  EXPECT_EQ(write_nothing(own_), IBV_WC_RETRY_EXC_ERR);
  const ibv_wc flushed = own_.wait();
  EXPECT_EQ(flushed.status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(flushed.wr_id, 7U);
  peer_.reap();
}

// The receive that a transfer in progress has taken is flushed as well.
TEST_P(AcrossProcesses, PeerKilledDuringItsImmediates_EachReceiveCompletesOnce) {
  constexpr uint64_t kReceives = 64;
  for (uint64_t id = 0; id < kReceives; ++id) ASSERT_EQ(own_.recv_empty(id), 0);
  ASSERT_EQ(peer_.ask("flood " + std::to_string(memory_.address()) + " " +
                      std::to_string(memory_.rkey()) + " immediate"),
            "ok");
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  peer_.kill();
  ASSERT_EQ(own_.to_state(IBV_QPS_ERR), 0);
  for (uint64_t id = 0; id < kReceives; ++id) ASSERT_EQ(own_.wait().wr_id, id);
  EXPECT_TRUE(own_.quiet());
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

void arm(Endpoint& end) { ASSERT_EQ(ibv_req_notify_cq(end.cq(), 0), 0); }

TEST(Gone, KilledBeforeItSignals_ChannelGoesOn) {
  Endpoint own({.channel = true});
  RemoteProcess killed(-1, 64);
  killed.connect(own);
  ASSERT_EQ(own.recv_empty(1), 0);
  arm(own);
  EXPECT_EQ(killed.ask("die send"), "");
  killed.reap();
  EXPECT_EQ(own.wait().wr_id, 1U);
  ASSERT_EQ(own.to_state(IBV_QPS_RESET), 0);
  RemoteProcess next(-1, 64);
  next.connect(own);
  ASSERT_EQ(own.recv_empty(2), 0);
  arm(own);
  EXPECT_EQ(next.ask("post send"), "0");
  pollfd fd = {own.channel()->fd, POLLIN, 0};
  ASSERT_EQ(poll(&fd, 1, 10000), 1);
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  ASSERT_EQ(ibv_get_cq_event(own.channel(), &cq, &context), 0);
  EXPECT_EQ(cq, own.cq());
  ibv_ack_cq_events(cq, 1);
}

TEST(Gone, KilledWhileItFlushesReceives_EachIsFlushedOnce) {
  Endpoint own({.channel = true});
  RemoteProcess killed(-1, 64);
  killed.connect(own);
  for (uint64_t id : {1, 2, 3}) ASSERT_EQ(own.recv_empty(id), 0);
  arm(own);
  EXPECT_EQ(killed.ask("die write_unknown"), "");
  killed.reap();
  ASSERT_EQ(own.to_state(IBV_QPS_ERR), 0);
  for (uint64_t id : {1, 2, 3}) EXPECT_EQ(own.wait().wr_id, id);
  EXPECT_TRUE(own.quiet());
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

}  // namespace
}  // namespace softhca_test
