// A device in the fatal state, and one that was removed.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>

#include "tests/unit/softhca/configured.h"
#include "tests/unit/softhca/memory.h"

namespace softhca_test {
namespace {

// Two connected devices, the first of which fails at the second write.
class DeviceFailure : public Configured {
 protected:
  void configure(const std::string& kind, const std::string& more = "") {
    use(R"({"faults": [{"device": "softhca0", "kind": ")" + kind + R"(", "at_request":
        {"opcode": "write", "nth": 2, "moment": "arrived"})" +
        more + "}]}");
  }
  void write() { post(pair_->a, Request(IBV_WR_RDMA_WRITE, {})); }
  // The first write succeeds, the second one meets the failure.
  void fail() {
    pair_ = std::make_unique<Pair>(Options{}, Options{.device = 1});
    ASSERT_EQ(pair_->a.recv_empty(7), 0);
    write();
    EXPECT_EQ(pair_->a.wait().status, IBV_WC_SUCCESS);
    write();
    EXPECT_EQ(pair_->a.wait_event(), IBV_EVENT_DEVICE_FATAL);
  }
  // Everything that needs the device fails with EIO.
  void expect_dead() {
    Endpoint& a = pair_->a;
    ibv_port_attr port = {};
    EXPECT_EQ(ibv_query_port(a.context(), 1, &port), EIO);
    ibv_device_attr device = {};
    EXPECT_EQ(ibv_query_device(a.context(), &device), EIO);
    ibv_qp_attr attr = {};
    ibv_qp_init_attr init = {};
    EXPECT_EQ(ibv_query_qp(a.qp(), &attr, IBV_QP_STATE, &init), EIO);
    uint64_t word = 0;
    EXPECT_EQ(a.reg(&word, sizeof word), nullptr);
    EXPECT_EQ(errno, EIO);
    EXPECT_EQ(ibv_alloc_pd(a.context()), nullptr);
    EXPECT_EQ(errno, EIO);
    EXPECT_EQ(ibv_create_cq(a.context(), 1, nullptr, nullptr, 0), nullptr);
    EXPECT_EQ(errno, EIO);
    EXPECT_EQ(make_qp(a.pd(), a.cq()), nullptr);
    EXPECT_EQ(errno, EIO);
    ibv_gid gid = {};
    EXPECT_EQ(ibv_query_gid(a.context(), 1, 0, &gid), -1);
    EXPECT_EQ(errno, EIO);
    EXPECT_EQ(ibv_open_device(a.context()->device), nullptr);
  }
  static int listed() {
    int count = 0;
    ibv_free_device_list(ibv_get_device_list(&count));
    return count;
  }

  std::unique_ptr<Pair> pair_;
};

TEST_F(DeviceFailure, Fatal_FlushesAndOnlyStopsQps) {
  configure("device_fatal");
  fail();
  // In either order: requests and receives are two queues.
  for (int i = 0; i < 2; ++i) EXPECT_EQ(pair_->a.wait().status, IBV_WC_WR_FLUSH_ERR);
  expect_dead();
  EXPECT_EQ(listed(), 2);
  EXPECT_EQ(pair_->a.to_init(), EIO);
  EXPECT_EQ(pair_->a.to_state(IBV_QPS_ERR), 0);
  EXPECT_EQ(pair_->a.to_state(IBV_QPS_RESET), 0);
  EXPECT_EQ(pair_->a.to_init(), EIO);
}

TEST_F(DeviceFailure, SilentFatal_NothingCompletes) {
  configure("device_fatal", R"(, "silent": true)");
  fail();
  write();
  ASSERT_EQ(pair_->a.recv_empty(8), 0);
  EXPECT_TRUE(pair_->a.quiet());
  ASSERT_EQ(pair_->a.to_state(IBV_QPS_ERR), 0);
  EXPECT_TRUE(pair_->a.quiet());
}

TEST_F(DeviceFailure, Removed_NotListedAndNothingCanBeDestroyed) {
  configure("device_removed");
  fail();
  expect_dead();
  EXPECT_EQ(listed(), 1);
  EXPECT_NE(access(pair_->a.context()->device->ibdev_path, F_OK), 0);
  EXPECT_EQ(pair_->a.to_state(IBV_QPS_ERR), EIO);
  EXPECT_EQ(ibv_destroy_qp(pair_->a.qp()), EIO);
  EXPECT_EQ(ibv_destroy_cq(pair_->a.cq()), EIO);
  EXPECT_EQ(ibv_dealloc_pd(pair_->a.pd()), EIO);
}

}  // namespace
}  // namespace softhca_test
