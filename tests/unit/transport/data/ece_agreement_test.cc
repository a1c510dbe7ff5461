#include "transport/data/ece_agreement.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "tests/fakes/recorded_log.h"
#include "tests/unit/transport/comm_pair.h"

namespace gdr::transport {
namespace {

using fake_verbs::Call;
using fake_verbs::HcaConfig;

// A sender and a receiver whose HCAs know these options; unset: no ECE.
struct EcePair {
  EcePair(std::optional<uint32_t> of_sender, std::optional<uint32_t> of_receiver, int qps = 1,
          uint32_t receiver_vendor = 0x15b3) {
    HcaConfig config = HcaConfig::roce("fake_a", 1);
    config.ece_options = of_sender;
    sender_device = open(config);
    config = HcaConfig::roce("fake_b", 2);
    config.ece_options = of_receiver;
    config.ece_vendor = receiver_vendor;
    receiver_device = open(config);
    options.connection.qps_per_connection = qps;
  }
  Device open(const HcaConfig& config) {
    auto hca = HcaContext::open(verbs.api(), verbs.add_hca(config)).value();
    return Device{hca, 1, query_port_state(hca->api(), hca->context(), 1).value(), -1};
  }
  void make_sender() {
    sender = SendComm::create(sender_device, shared(options.connection), watcher.get()).value();
  }
  void make_receiver() {
    receiver = ReceiveComm::create(receiver_device, shared(options.connection), watcher.get(),
                                   options.connection.qps_per_connection)
                   .value();
  }
  void connect() {
    make_sender();
    make_receiver();
    ASSERT_TRUE(receiver->connect(end_of(*sender)).value());
    ASSERT_TRUE(sender->connect(end_of(*receiver)).value());
  }
  // The options in effect on queue pair `index` of each end.
  uint32_t at_sender(int index = 0) { return verbs.ece_options(qp_number(*sender, index)); }
  uint32_t at_receiver(int index = 0) { return verbs.ece_options(qp_number(*receiver, index)); }
  bool is_set_at_sender() { return !verbs.ece_set_in(qp_number(*sender)).empty(); }
  bool is_set_at_receiver() { return !verbs.ece_set_in(qp_number(*receiver)).empty(); }

  fake_verbs::FakeVerbs verbs;
  TransportOptions options = test_options();
  std::unique_ptr<Watcher> watcher = Watcher::start(std::chrono::seconds(0)).value();
  Device sender_device;
  Device receiver_device;
  std::unique_ptr<SendComm> sender;
  std::unique_ptr<ReceiveComm> receiver;
};

TEST(EceAgreement, HcasKnowDifferentOptions_BothUseTheCommonOnesOnEveryQueuePair) {
  EcePair pair(0x3c, 0x1f, 3);
  pair.connect();
  const std::vector<ibv_qp_state> before_rtr = {IBV_QPS_INIT};
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(pair.at_sender(i), 0x1cu) << i;
    EXPECT_EQ(pair.at_receiver(i), 0x1cu) << i;
    EXPECT_EQ(pair.verbs.ece_set_in(qp_number(*pair.sender, i)), before_rtr) << i;
    EXPECT_EQ(pair.verbs.ece_set_in(qp_number(*pair.receiver, i)), before_rtr) << i;
  }
  EXPECT_TRUE(contains(pair.sender->text(), ", ECE vendor 0x15b3 options 0x1c on 3 QP(s)"))
      << pair.sender->text();
}

TEST(EceAgreement, EndPoints_CarryOfferAndAnswer) {
  EcePair pair(0x3c, 0x1f);
  pair.make_sender();
  pair.make_receiver();
  const wire::QpAddress offer = end_of(*pair.sender).qp[0];
  EXPECT_EQ(offer.ece_supported, 1);
  EXPECT_EQ(offer.ece.vendor_id, 0x15b3u);
  EXPECT_EQ(offer.ece.options, 0x3cu);
  ASSERT_TRUE(pair.receiver->connect(end_of(*pair.sender)).value());
  const wire::QpAddress answer = end_of(*pair.receiver).qp[0];
  EXPECT_EQ(answer.ece_supported, 1);
  EXPECT_EQ(answer.ece.options, 0x1cu);
}

TEST(EceAgreement, OneEndKnowsNone_NeitherUsesIt) {
  for (bool at_sender : {false, true}) {
    EcePair pair(at_sender ? std::optional<uint32_t>(0x3c) : std::nullopt,
                 at_sender ? std::nullopt : std::optional<uint32_t>(0x3c));
    pair.connect();
    EXPECT_FALSE(pair.is_set_at_sender()) << at_sender;
    EXPECT_FALSE(pair.is_set_at_receiver()) << at_sender;
    EXPECT_EQ(end_of(*pair.receiver).qp[0].ece_supported, 0) << at_sender;
    EXPECT_FALSE(contains(pair.sender->text(), "ECE")) << pair.sender->text();
  }
}

TEST(EceAgreement, UserDisablesIt_NothingIsOfferedOrSet) {
  EcePair pair(0x3c, 0x3c);
  pair.options.connection.ece = false;
  pair.connect();
  EXPECT_EQ(end_of(*pair.sender).qp[0].ece_supported, 0);
  EXPECT_FALSE(pair.is_set_at_sender() || pair.is_set_at_receiver());
}

TEST(EceAgreement, OnlyTheReceiversUserDisablesIt_NothingIsSet) {
  EcePair pair(0x3c, 0x3c);
  pair.make_sender();
  pair.options.connection.ece = false;
  pair.make_receiver();
  ASSERT_TRUE(pair.receiver->connect(end_of(*pair.sender)).value());
  ASSERT_TRUE(pair.sender->connect(end_of(*pair.receiver)).value());
  EXPECT_EQ(end_of(*pair.receiver).qp[0].ece_supported, 0);
  EXPECT_FALSE(pair.is_set_at_sender() || pair.is_set_at_receiver());
}

TEST(EceAgreement, LibraryHasNoEce_Connects) {
  EcePair pair(0x3c, 0x3c);
  pair.verbs.remove_ece();
  pair.connect();
  EXPECT_FALSE(pair.is_set_at_sender() || pair.is_set_at_receiver());
}

TEST(EceAgreement, HcasOfTwoVendors_ConnectWithoutAndLogIt) {
  EcePair pair(0x3c, 0x3c, 1, 0x14e4);
  RecordedLog log;
  pair.connect();
  EXPECT_FALSE(pair.is_set_at_sender() || pair.is_set_at_receiver());
  EXPECT_EQ(log.lines("goes without ECE: it does not take vendor 0x15b3 options 0x3c").size(), 1u);
}

// The receiver's QP uses the options by then, so that the sender must not go without.
TEST(EceAgreement, SenderCannotSetWhatWasAccepted_IsAnErrorWithTheFix) {
  EcePair pair(0x3c, 0x1f);
  pair.make_sender();
  pair.make_receiver();
  ASSERT_TRUE(pair.receiver->connect(end_of(*pair.sender)).value());
  pair.verbs.fail_call(Call::kSetEce, EINVAL);
  auto connected = pair.sender->connect(end_of(*pair.receiver));
  ASSERT_FALSE(connected);
  EXPECT_TRUE(contains(connected.error().text, "options 0x1c")) << connected.error().text;
  EXPECT_TRUE(contains(connected.error().text, "NCCL_IB_ECE_ENABLE=0")) << connected.error().text;
}

// mlx5 answers queries with options of 0 where the HCA or the kernel has no ECE, and sets none.
TEST(EceAgreement, SenderAnswersQueriesAndCanSetNone_ConnectsWithoutEce) {
  EcePair pair(0, 0x1f);
  pair.make_sender();
  pair.make_receiver();
  ASSERT_TRUE(pair.receiver->connect(end_of(*pair.sender)).value());
  pair.verbs.fail_call(Call::kSetEce, EOPNOTSUPP);
  EXPECT_TRUE(pair.sender->connect(end_of(*pair.receiver)).value());
  EXPECT_EQ(pair.sender->connection().ece_text(), "");
}

TEST(EceAgreement, ReceiverCannotQueryWhatWasAccepted_IsAnErrorWithTheFix) {
  EcePair pair(0x3c, 0x1f);
  pair.make_sender();
  pair.make_receiver();
  pair.verbs.fail_call(Call::kQueryEce, EIO);
  auto connected = pair.receiver->connect(end_of(*pair.sender));
  ASSERT_FALSE(connected);
  EXPECT_TRUE(contains(connected.error().text, "NCCL_IB_ECE_ENABLE=0")) << connected.error().text;
}

// The options are set once, though the change of state is tried again.
TEST(EceAgreement, ChangeToRtrTimesOut_OptionsStay) {
  EcePair pair(0x3c, 0x1f);
  ManualClock clock;
  pair.options.connection.now = clock.as_now();
  pair.make_sender();
  pair.make_receiver();
  pair.verbs.fail_call(Call::kModifyToRtr, ETIMEDOUT);
  EXPECT_FALSE(pair.receiver->connect(end_of(*pair.sender)).value());
  clock.now += std::chrono::seconds(1);
  EXPECT_TRUE(pair.receiver->connect_step().value());
  EXPECT_EQ(pair.at_receiver(), 0x1cu);
  EXPECT_EQ(pair.verbs.ece_set_in(qp_number(*pair.receiver)).size(), 1u);
}

// An active rail and three that stand by, between HCAs that know different options.
struct EceRails : Fabric {
  static constexpr int kRails = 4;

  EceRails() {
    for (int i = 0; i < kRails; ++i) {
      const Device here = open_rail("fake_s", i, 0x3c);
      const Device there = open_rail("fake_r", i, 0x1f);
      (i == 0 ? sender_rails.active : sender_rails.standby).push_back(here);
      (i == 0 ? receiver_rails.active : receiver_rails.standby).push_back(there);
    }
    const auto connection = shared(options.connection);
    sender = SendComm::create(sender_rails, connection, watcher.get(), ListenerRails{1, kRails - 1})
                 .value();
    receiver =
        ReceiveComm::create(receiver_rails, connection, watcher.get(), end_of(*sender)).value();
  }
  Device open_rail(const std::string& name, int index, uint32_t ece_options) {
    const auto number = static_cast<uint16_t>(10 + next++);
    HcaConfig config = HcaConfig::infiniband(name + std::to_string(index), number);
    config.ece_options = ece_options;
    return open(verbs.add_hca(config));
  }
  // Neither connects pair 1, as the peer counts as unreachable, nor pair 2, which cannot go to RTR.
  void connect_receiver_without_two() {
    watcher->unreachable_paths().add(receiver->connection().rails()[1].address(),
                                     end_of(*sender).rail[1], Clock::now());
    // After pair 0 and the flushes.
    verbs.fail_call(Call::kModifyToRtr, EINVAL, /*skip=*/1 + kRails);
    ASSERT_TRUE(receiver->connect(end_of(*sender)).value());
    for (int pair : {1, 2}) EXPECT_EQ(state_of(pair), IBV_QPS_INIT) << pair;
    for (int pair : {0, 3}) EXPECT_EQ(state_of(pair), IBV_QPS_RTS) << pair;
  }
  ibv_qp_state state_of(int pair) {
    return receiver->connection().rails().pair(static_cast<size_t>(pair)).qp->state;
  }
  void set_port(const std::string& hca, bool active) {
    verbs.port(hca, 1).active = active;
    verbs.raise_event(hca, active ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR, nullptr, 1);
  }
  bool poll_until(const std::function<bool()>& ready) {
    return wait_for([&] {
      (void)sender->progress();
      (void)receiver->progress();
      return ready();
    });
  }
  // Whether the pairs 1 to 3 have returned at that end.
  template <class Comm>
  static bool is_complete_again(Comm& comm) {
    const Recovery& recovery = *comm.connection().recovery();
    for (uint32_t rail : {1u, 2u, 3u}) {
      if (recovery.counters(rail).returns.load() != 1) return false;
    }
    return true;
  }
  // How often options were set on the pair's queue pair.
  template <class Comm>
  size_t times_set(const Comm& comm, int pair) {
    return verbs.ece_set_in(qp_number(comm, pair)).size();
  }

  int next = 0;
  EndRails sender_rails;
  EndRails receiver_rails;
  std::unique_ptr<SendComm> sender;
  std::unique_ptr<ReceiveComm> receiver;
};

// The sender knows only the reply, and cannot be asked again when the pair returns.
TEST(EceAgreement, PairsAreNotConnectedAndReturn_BothEndsUseWhatTheReplyNames) {
  EceRails rails;
  rails.connect_receiver_without_two();
  const wire::EndPoint reply = end_of(*rails.receiver);
  for (size_t pair : {1, 2}) EXPECT_EQ(reply.qp[pair].ece_supported, 0) << pair;
  for (size_t pair : {0, 3}) EXPECT_EQ(reply.qp[pair].ece.options, 0x1cu) << pair;
  ASSERT_TRUE(rails.sender->connect(reply).value());
  std::array<UniqueFd, 2> sockets = local_socket_pair();
  rails.sender->keep_link(FrameChannel(std::move(sockets[0])));
  rails.receiver->keep_link(FrameChannel(std::move(sockets[1])));
  rails.set_port("fake_r3", false);
  ASSERT_TRUE(rails.poll_until(
      [&] { return contains(rails.sender->connection().recovery()->state_text(), "fake_s3"); }));
  rails.set_port("fake_r3", true);
  ASSERT_TRUE(rails.poll_until([&] {
    return EceRails::is_complete_again(*rails.sender) &&
           EceRails::is_complete_again(*rails.receiver);
  }));
  for (int pair : {1, 2}) EXPECT_EQ(rails.times_set(*rails.sender, pair), 0u) << pair;
  EXPECT_EQ(rails.times_set(*rails.receiver, 1), 0u);
  EXPECT_EQ(rails.times_set(*rails.receiver, 2), 1u) << "in the handshake";
  EXPECT_EQ(rails.verbs.ece_options(qp_number(*rails.sender, 3)), 0x1cu);
  EXPECT_EQ(rails.verbs.ece_options(qp_number(*rails.receiver, 3)), 0x1cu);
  EXPECT_EQ(rails.times_set(*rails.receiver, 3), 2u);
}

}  // namespace
}  // namespace gdr::transport
