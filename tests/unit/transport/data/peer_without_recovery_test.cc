// Connections with a peer whose GDR_NCCL_FAILOVER is 0: a standby rail is of no use to them, and
// must do them no harm.
#include <gmock/gmock.h>

#include <algorithm>
#include <cerrno>

#include "tests/fakes/recorded_log.h"
#include "tests/unit/transport/comm_pair.h"

namespace gdr::transport {
namespace {

using fake_verbs::Call;
using fake_verbs::HcaConfig;

// Each end has an active rail ("fake_a", "fake_b") and a standby rail ("fake_c", "fake_d").
struct PeerWithoutRecovery : testing::Test {
  PeerWithoutRecovery() {
    without.failover = false;
    rails = {{fabric.sender_device}, {open(HcaConfig::infiniband("fake_c", 3))}};
    there = {{fabric.receiver_device}, {open(HcaConfig::infiniband("fake_d", 4))}};
  }

  Device open(const HcaConfig& config) { return fabric.open(fabric.verbs.add_hca(config)); }
  // recovers: whether that end would.
  void create(bool sender_recovers, bool receiver_recovers) {
    const ConnectionOptions with = fabric.options.connection;
    const ListenerRails announced = receiver_recovers ? ListenerRails{1, 1} : ListenerRails{};
    sender = SendComm::create(rails, shared(sender_recovers ? with : without), fabric.watcher.get(),
                              announced)
                 .value();
    receiver = ReceiveComm::create(there, shared(receiver_recovers ? with : without),
                                   fabric.watcher.get(), end_of(*sender))
                   .value();
  }
  void connect() {
    Result<bool> connected = receiver->connect(end_of(*sender));
    ASSERT_TRUE(connected && *connected) << connected.error().text;
    connected = sender->connect(end_of(*receiver));
    ASSERT_TRUE(connected && *connected) << connected.error().text;
  }
  void keep_links() {
    std::array<UniqueFd, 2> sockets = local_socket_pair();
    sender->keep_link(FrameChannel(std::move(sockets[0])));
    receiver->keep_link(FrameChannel(std::move(sockets[1])));
  }
  template <class Comm>
  auto register_for(Comm& comm, std::vector<char>& memory) {
    Registrar registrar(shared(fabric.options.memory));
    const MemoryRegion region{reinterpret_cast<uintptr_t>(memory.data()), memory.size()};
    return registrar.register_memory(comm.connection().registration_scope(), region);
  }
  // Whether a message arrives.
  bool exchange() {
    std::vector<char> from(4096, 's');
    std::vector<char> to(4096, 'r');
    auto source = register_for(*sender, from).value();
    auto target = register_for(*receiver, to).value();
    const ReceiveBuffer buffer{to.data(), to.size(), 0, target.get()};
    Request* receive = nullptr;
    Request* send = nullptr;
    if (!receiver->irecv(&buffer, 1, &receive) || receive == nullptr) return false;
    if (!sender->isend(from.data(), from.size(), 0, *source, &send) || send == nullptr)
      return false;
    return finish(send).done && finish(receive).done && from == to;
  }

  RecordedLog log;
  Fabric fabric;
  ConnectionOptions without = fabric.options.connection;
  EndRails rails, there;
  std::unique_ptr<SendComm> sender;
  std::unique_ptr<ReceiveComm> receiver;
};

TEST_F(PeerWithoutRecovery, StandbyPair_IsNeitherConnectedNorKept) {
  create(/*sender_recovers=*/true, /*receiver_recovers=*/false);
  ASSERT_EQ(end_of(*sender).qps, 2);
  fabric.verbs.fail_call(Call::kModifyToRtr, EINVAL, /*skip=*/3);  // of the pair, its flush, again
  connect();
  EXPECT_EQ(sender->connection().rails().pair(1).qp->state, IBV_QPS_INIT);
  EXPECT_EQ(receiver->connection().rails().pair(1).qp->state, IBV_QPS_INIT);
  const int before = fabric.verbs.live().qps;
  keep_links();
  EXPECT_EQ(fabric.verbs.live().qps, before - 2);
  EXPECT_TRUE(exchange());
  EXPECT_THAT(log.warnings(), testing::IsEmpty());
}

TEST_F(PeerWithoutRecovery, StandbyRailsDoNotFit_ConnectionIsMade) {
  rails.standby = {open(HcaConfig::roce("fake_e", 5))};
  create(/*sender_recovers=*/true, /*receiver_recovers=*/false);
  connect();
  keep_links();
  EXPECT_TRUE(exchange());
}

TEST_F(PeerWithoutRecovery, ConnectionOfOneActiveRail_TakesTheDirectPath) {
  for (const bool at_sender : {false, true}) {
    create(/*sender_recovers=*/!at_sender, /*receiver_recovers=*/at_sender);
    connect();
    keep_links();
    EXPECT_EQ(sender->connection().recovery(), nullptr);
    EXPECT_EQ(receiver->connection().recovery(), nullptr);
    EXPECT_FALSE(contains(sender->connection().text(), "fake_c"));
    EXPECT_FALSE(contains(receiver->connection().text(), "fake_c"));
    EXPECT_TRUE(exchange());
  }
}

TEST_F(PeerWithoutRecovery, StandbyHcaFails_ConnectionGoesOn) {
  for (const bool at_sender : {false, true}) {
    log.clear();
    create(/*sender_recovers=*/!at_sender, /*receiver_recovers=*/at_sender);
    connect();
    keep_links();
    for (const char* hca : {"fake_c", "fake_d"}) {
      fabric.verbs.raise_event(hca, IBV_EVENT_DEVICE_FATAL, nullptr);
      EXPECT_TRUE(wait_for([&] { return !log.lines(hca).empty(); }));
    }
    EXPECT_TRUE(exchange());
    EXPECT_FALSE(sender->connection().failed());
    EXPECT_FALSE(receiver->connection().failed());
  }
}

TEST_F(PeerWithoutRecovery, Memory_IsRegisteredOnTheActiveRailAlone) {
  std::vector<char> memory(4096);
  for (const bool at_sender : {false, true}) {
    create(/*sender_recovers=*/!at_sender, /*receiver_recovers=*/at_sender);
    connect();
    keep_links();
    fabric.verbs.fail_call(Call::kRegMr, ENOMEM, /*skip=*/2);  // once at each end
    EXPECT_TRUE(register_for(*sender, memory));
    EXPECT_TRUE(register_for(*receiver, memory));
    EXPECT_EQ(sender->connection().registration_scope().hcas.size(), 1u);
    EXPECT_EQ(receiver->connection().registration_scope().hcas.size(), 1u);
    EXPECT_EQ(fabric.verbs.failures_left(Call::kRegMr), 1);
    fabric.verbs.fail_call(Call::kRegMr, 0, 0, /*times=*/0);
  }
}

// Its standby pair is on a rail that has no other.
TEST_F(PeerWithoutRecovery, ReceiverOfTwoRails_UsesThatOfTheActivePair) {
  there = {{fabric.receiver_device, open(HcaConfig::infiniband("fake_e", 5))}, {}};
  create(/*sender_recovers=*/true, /*receiver_recovers=*/false);
  ASSERT_EQ(end_of(*receiver).rails, 2);
  connect();
  keep_links();
  EXPECT_EQ(receiver->connection().rails().size(), 1u);
  EXPECT_EQ(receiver->connection().registration_scope().hcas.size(), 1u);
  EXPECT_TRUE(exchange());
}

TEST_F(PeerWithoutRecovery, Split_IsOverTheActivePairsAlone) {
  fabric.options.connection.split_data_on_qps = true;
  create(/*sender_recovers=*/true, /*receiver_recovers=*/false);
  connect();
  keep_links();
  fabric.verbs.forget_posted();
  EXPECT_TRUE(exchange());
  const auto posted = fabric.verbs.posted();
  EXPECT_EQ(std::ranges::count(posted, IBV_WR_RDMA_WRITE_WITH_IMM, &fake_verbs::Posted::opcode), 1);
}

// Each takes two entries of a queue that was sized for a connection that spreads its chunks.
TEST_F(PeerWithoutRecovery, AsManySendsAsThereAre_TheSendQueueHoldsAllOfThem) {
  for (const bool splits : {false, true}) {
    ConnectionOptions& options = fabric.options.connection;
    options.adaptive_routing = true;
    options.split_data_on_qps = splits;
    options.qps_per_connection = splits ? 2 : 1;
    create(/*sender_recovers=*/true, /*receiver_recovers=*/false);
    connect();
    keep_links();
    std::vector<char> from(32 << 10, 's');
    std::vector<char> to(32 << 10, 'r');
    auto source = register_for(*sender, from).value();
    auto target = register_for(*receiver, to).value();
    std::vector<ReceiveBuffer> group;
    for (int tag = 0; tag < wire::kMaxGroup; ++tag) {
      group.push_back({to.data(), to.size(), tag, target.get()});
    }
    for (int i = 0; i < SendComm::kRequests / wire::kMaxGroup; ++i) {
      Request* request = nullptr;
      ASSERT_TRUE(receiver->irecv(group.data(), wire::kMaxGroup, &request));
      ASSERT_NE(request, nullptr) << i;
    }
    fabric.verbs.hold();
    int sends = 0;
    for (Request* request = nullptr; sends == 0 || request != nullptr;
         sends += request != nullptr) {
      const int tag = sends % wire::kMaxGroup;
      ASSERT_TRUE(sender->isend(from.data(), from.size(), tag, *source, &request)) << sends;
    }
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(sender->progress()) << "what was held is posted";
    EXPECT_EQ(sends, sender->most_sends());
    EXPECT_EQ(sends, SendComm::kRequests - 1);
    fabric.verbs.release();
    fabric.verbs.forget_posted();
    source.reset();
    target.reset();
  }
}

TEST_F(PeerWithoutRecovery, IsLoggedOnceForEachHost) {
  for (const bool at_sender : {false, true}) {
    for (int connection = 0; connection < 2; ++connection) {
      create(/*sender_recovers=*/!at_sender, /*receiver_recovers=*/at_sender);
      connect();
      keep_links();
    }
  }
  EXPECT_EQ(log.lines("GDR_NCCL_FAILOVER=0").size(), 1u);
}

TEST_F(PeerWithoutRecovery, RailFails_TheErrorSaysWhyThereIsNoFailover) {
  create(/*sender_recovers=*/true, /*receiver_recovers=*/false);
  connect();
  keep_links();
  fabric.verbs.fail_transfer(IBV_WC_RETRY_EXC_ERR, /*skip=*/1);  // of the data
  EXPECT_FALSE(exchange());
  const std::string text = failure_of(*sender).text;
  EXPECT_TRUE(contains(text, "); it did not fail over, as failover is off on ")) << text;
  EXPECT_TRUE(contains(text, " (GDR_NCCL_FAILOVER=0). ")) << text;
}

}  // namespace
}  // namespace gdr::transport
