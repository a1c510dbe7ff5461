#include "transport/data/flush.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/fakes/temp_folder.h"
#include "tests/unit/transport/comm_pair.h"

namespace gdr::transport {
namespace {

// Buffers of GPU memory, as far as the transport knows.
struct FlushPair : CommPair {
  using CommPair::CommPair;
  std::vector<Buffer> buffers;

  std::vector<ReceiveBuffer> gpu_buffers(const std::vector<size_t>& sizes) {
    std::vector<ReceiveBuffer> group;
    for (size_t size : sizes) {
      buffers.push_back(receiver_buffer(64));
      buffers.back().pose_as_gpu_memory();
      group.push_back(buffers.back().receive(size));
    }
    return group;
  }
  Request* iflush(const std::vector<ReceiveBuffer>& group) {
    Request* request = nullptr;
    EXPECT_TRUE(receiver->iflush(Arrays(group).get(), &request));
    return request;
  }
};

TEST(Flush, GpuMemory_ReadsOneByteOfTheBufferAndCompletes) {
  FlushPair pair;
  auto group = pair.gpu_buffers({64});
  pair.verbs.hold();
  Request* flush = pair.iflush(group);
  ASSERT_NE(flush, nullptr);
  const auto posted = pair.verbs.posted();
  ASSERT_EQ(posted.size(), 1u);
  EXPECT_EQ(posted[0].opcode, IBV_WR_RDMA_READ);
  EXPECT_EQ(posted[0].bytes, 1u);
  EXPECT_EQ(posted[0].remote_address, reinterpret_cast<uint64_t>(group[0].data));
  EXPECT_EQ(posted[0].rkey, group[0].memory->keys[0].rkey);
  // The read must pass through the same HCA, and nothing but the HCA.
  const ibv_qp_attr attributes = pair.verbs.attributes(posted[0].qp_num);
  EXPECT_EQ(attributes.dest_qp_num, posted[0].qp_num);
  EXPECT_EQ(attributes.ah_attr.dlid, 2) << "the receiver's own port";
  EXPECT_FALSE(test_once(flush).done);
  pair.verbs.release();
  EXPECT_TRUE(test_once(flush).done);
}

// It passes through the receiver's port twice, so that the port's rules hold for it, too.
TEST(Flush, PortRequiresAGrh_QueuePairHasOneAndTheClassOfTheSender) {
  TransportOptions options = test_options();
  options.connection.service_level = 4;
  FlushPair pair(options, false, local_socket_pair(), 1u << 30, [](Fabric& fabric) {
    fabric.verbs.port("fake_b", 1).flags = IBV_QPF_GRH_REQUIRED;
    fabric.options.connection.service_level = 6;  // of the receiver
  });
  ASSERT_NE(pair.iflush(pair.gpu_buffers({64})), nullptr);
  const ibv_ah_attr path = pair.verbs.attributes(pair.verbs.posted().at(0).qp_num).ah_attr;
  EXPECT_EQ(path.is_global, 1);
  EXPECT_EQ(path.grh.dgid.raw[15], 2);
  EXPECT_EQ(path.sl, 4);
}

TEST(Flush, FatalEventOfItsQueuePair_FailsTheConnection) {
  FlushPair pair;
  ASSERT_NE(pair.iflush(pair.gpu_buffers({64})), nullptr);
  const uint32_t number = pair.verbs.posted().at(0).qp_num;
  pair.verbs.raise_event("fake_b", IBV_EVENT_QP_FATAL, pair.verbs.find(number));
  ASSERT_TRUE(wait_for([&] { return pair.receiver->connection().failed(); }));
  EXPECT_TRUE(contains(failure_of(*pair.receiver).text, "catastrophic"));
}

TEST(Flush, HostMemoryOrNothingReceived_PostsNothing) {
  FlushPair pair;
  Buffer host = pair.receiver_buffer(64);
  EXPECT_EQ(pair.iflush({host.receive(64)}), nullptr);
  EXPECT_EQ(pair.iflush(pair.gpu_buffers({0, 0, 0})), nullptr);
  EXPECT_TRUE(pair.verbs.posted().empty());
}

TEST(Flush, Group_ReadsTheLastGpuBufferThatHasBytes) {
  for (const std::vector<size_t>& sizes : {std::vector<size_t>{64, 64, 0, 0}, {64, 64, 64}}) {
    FlushPair pair;
    auto group = pair.gpu_buffers(sizes);
    pair.buffers[2].memory->host = true;
    ASSERT_NE(pair.iflush(group), nullptr);
    ASSERT_EQ(pair.verbs.posted().size(), 1u);
    EXPECT_EQ(pair.verbs.posted()[0].remote_address, reinterpret_cast<uint64_t>(group[1].data));
  }
}

TEST(Flush, DisabledByTheUser_PostsNothingAndMakesNoQueuePair) {
  TransportOptions options = test_options();
  options.connection.flush_disabled = true;
  FlushPair pair(options);
  EXPECT_EQ(pair.iflush(pair.gpu_buffers({64})), nullptr);
  EXPECT_EQ(pair.verbs.queue_pairs().size(), 2u);
}

// A receiver whose HCA takes no dma-bufs, on a machine whose sysfs the test makes.
struct WithoutDmabuf {
  const TempFolder folder;
  const std::string sysfs = folder.path();

  WithoutDmabuf() { std::filesystem::create_directories(sysfs + "/module"); }
  void load_peermem() const {
    std::filesystem::create_directories(sysfs + "/module/nvidia_peermem");
    std::ofstream(sysfs + "/module/nvidia_peermem/version") << "570.1\n";
  }
  FlushPair connect() const {
    return FlushPair(test_options(), false, local_socket_pair(), 1u << 30, [this](Fabric& fabric) {
      auto config = fake_verbs::HcaConfig::infiniband("fake_n", 2);
      config.dmabuf = false;
      config.sysfs_path = sysfs + "/class/infiniband/fake_n";
      fabric.receiver_device = fabric.open(fabric.verbs.add_hca(config));
    });
  }
};

TEST(Flush, HcaRegistersNoGpuMemory_MakesNoQueuePair) {
  WithoutDmabuf machine;
  FlushPair pair = machine.connect();
  EXPECT_EQ(pair.verbs.queue_pairs().size(), 2u);
  EXPECT_EQ(pair.iflush({pair.receiver_buffer(64).receive(64)}), nullptr) << "host memory";
}

// The module is looked for when the connection is made, not when the HCA is opened.
TEST(Flush, PeermemWasLoadedLate_FlushesOrFailsButNeverSkips) {
  WithoutDmabuf machine;
  {
    FlushPair pair = machine.connect();
    machine.load_peermem();
    auto group = pair.gpu_buffers({64});
    Request* request = nullptr;
    EXPECT_FALSE(pair.receiver->iflush(Arrays(group).get(), &request));
    EXPECT_TRUE(contains(failure_of(*pair.receiver).text, "load nvidia-peermem before"));
  }
  FlushPair pair = machine.connect();
  EXPECT_NE(pair.iflush(pair.gpu_buffers({64})), nullptr);
}

TEST(Flush, MoreThanCanBeOutstanding_FailsAsInvalidUsage) {
  FlushPair pair;
  auto group = pair.gpu_buffers({64});
  pair.verbs.hold();
  std::vector<Request*> flushes;
  for (int i = 0; i < Flushes::kRequests; ++i) flushes.push_back(pair.iflush(group));
  for (Request* flush : flushes) ASSERT_NE(flush, nullptr);
  Request* request = nullptr;
  EXPECT_FALSE(pair.receiver->iflush(Arrays(group).get(), &request));
  EXPECT_EQ(failure_of(*pair.receiver).code, Code::kInvalidUsage);
  EXPECT_TRUE(contains(failure_of(*pair.receiver).text, "more flushes"));
}

// irdma moves a QP that is to be in RESET to ERROR, so that a new one could not be used any more.
TEST(Flush, NewQueuePair_IsConnectedWithoutAChangeToReset) {
  FlushPair pair(test_options(), false, local_socket_pair(), 1u << 30, [](Fabric& fabric) {
    fabric.verbs.fail_call(fake_verbs::Call::kModifyToReset, EINVAL, 0, 100);
  });
  Request* flush = pair.iflush(pair.gpu_buffers({64}));
  ASSERT_NE(flush, nullptr) << failure_of(*pair.receiver).text;
  EXPECT_TRUE(finish(flush).done);
}

TEST(Flush, RequestsAreUsedAgain) {
  FlushPair pair;
  auto group = pair.gpu_buffers({64});
  for (int i = 0; i < 100; ++i) {
    Request* flush = pair.iflush(group);
    ASSERT_NE(flush, nullptr) << i;
    ASSERT_TRUE(finish(flush).done) << i;
  }
}

TEST(Flush, ReadFails_FailsTheConnection) {
  FlushPair pair;
  auto group = pair.gpu_buffers({64});
  pair.verbs.fail_transfer(IBV_WC_REM_ACCESS_ERR);
  EXPECT_FALSE(test_once(pair.iflush(group)).alive);
  EXPECT_TRUE(contains(failure_of(*pair.receiver).text, "REM_ACCESS_ERR"));
}

// It needs no peer: the data has arrived, and NCCL is to have it.
TEST(Flush, PeerHasClosed_Completes) {
  FlushPair pair;
  auto group = pair.gpu_buffers({64});
  pair.verbs.hold();
  Request* flush = pair.iflush(group);
  pair.sender.reset();
  ASSERT_TRUE(wait_for([&] { return pair.receiver->connection().link().peer_gone(); }));
  EXPECT_TRUE(test_once(flush).alive);
  pair.verbs.release();
  EXPECT_TRUE(test_once(flush).done);
  EXPECT_TRUE(wait_for([&] { return pair.receiver->connection().link().peer_left(); }));
  EXPECT_TRUE(finish(pair.iflush(group)).done);
}

TEST(Flush, QueuePairCannotBeConnected_NamesTheCause) {
  FlushPair pair;
  Flushes others(*pair.receiver);
  pair.verbs.fail_call(fake_verbs::Call::kModifyToRtr, EINVAL, 0, 100);
  ASSERT_TRUE(others.add_rail(0, /*stands_by=*/false));
  const auto group = pair.gpu_buffers({64});
  Request* request = nullptr;
  EXPECT_FALSE(others.post(group[0].data, *group[0].memory, &request));
  EXPECT_TRUE(contains(failure_of(*pair.receiver).text, "errno 22"));
}

TEST(Flush, PostingFails_NamesTheErrno) {
  FlushPair pair;
  auto group = pair.gpu_buffers({64});
  pair.verbs.fail_call(fake_verbs::Call::kPostSend, ENOMEM);
  Request* request = nullptr;
  EXPECT_FALSE(pair.receiver->iflush(Arrays(group).get(), &request));
  EXPECT_TRUE(contains(failure_of(*pair.receiver).text, "errno 12"));
}

}  // namespace
}  // namespace gdr::transport
