#include "transport/pairs/ece_agreement.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "tests/fakes/recorded_log.h"
#include "tests/unit/transport/rails_pair.h"

namespace gdr::transport {
namespace {

using fake_verbs::Call;
using fake_verbs::HcaConfig;

// A sender and a receiver whose HCAs know these options; unset: no ECE.
struct EcePair : Fabric {
  EcePair(std::optional<uint32_t> of_sender, std::optional<uint32_t> of_receiver, int qps = 1,
          uint32_t receiver_vendor = 0x15b3)
      : Fabric(options_of_qps(qps, /*split=*/false)) {
    HcaConfig config = HcaConfig::roce("fake_s", 1);
    config.ece_options = of_sender;
    sender_device = open(verbs.add_hca(config));
    config = HcaConfig::roce("fake_r", 2);
    config.ece_options = of_receiver;
    config.ece_vendor = receiver_vendor;
    receiver_device = open(verbs.add_hca(config));
  }
  void create_sender() { sender = make_sender().value(); }
  void create_receiver() {
    receiver = make_receiver(options.connection.qps_per_connection).value();
  }
  void connect_receiver() {
    create_sender();
    create_receiver();
    ASSERT_TRUE(receiver->connect(end_of(*sender)).value());
  }
  void connect() {
    connect_receiver();
    ASSERT_TRUE(sender->connect(end_of(*receiver)).value());
  }
  // The options in effect on queue pair `index` of each end.
  uint32_t at_sender(int index = 0) { return verbs.ece_options(qp_number(*sender, index)); }
  uint32_t at_receiver(int index = 0) { return verbs.ece_options(qp_number(*receiver, index)); }
  bool is_set_at_sender() { return !verbs.ece_set_in(qp_number(*sender)).empty(); }
  bool is_set_at_receiver() { return !verbs.ece_set_in(qp_number(*receiver)).empty(); }

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
  EXPECT_TRUE(contains(pair.sender->text(), ", ECE vendor 0x15b3 options 0x1c"))
      << pair.sender->text();
}

TEST(EceAgreement, AnEndHasNoneOrDisablesIt_NeitherUsesIt) {
  const struct {
    const char* name;
    std::optional<uint32_t> of_sender, of_receiver;
    bool sender_wants, receiver_wants;
    uint32_t vendor = 0x15b3;  // of the receiver's HCA
  } cases[] = {{"sender has none", {}, 0x3c, true, true},
               {"receiver has none", 0x3c, {}, true, true},
               {"disabled at both ends", 0x3c, 0x3c, false, false},
               {"disabled at the receiver", 0x3c, 0x3c, true, false},
               {"HCAs of two vendors", 0x3c, 0x3c, true, true, 0x14e4}};
  for (const auto& one : cases) {
    SCOPED_TRACE(one.name);
    EcePair pair(one.of_sender, one.of_receiver, 1, one.vendor);
    RecordedLog log;
    pair.options.connection.ece = one.sender_wants;
    pair.create_sender();
    EXPECT_EQ(end_of(*pair.sender).qp[0].ece_supported, one.sender_wants && one.of_sender);
    pair.options.connection.ece = one.receiver_wants;
    pair.create_receiver();
    ASSERT_TRUE(pair.receiver->connect(end_of(*pair.sender)).value());
    ASSERT_TRUE(pair.sender->connect(end_of(*pair.receiver)).value());
    EXPECT_FALSE(pair.is_set_at_sender() || pair.is_set_at_receiver());
    EXPECT_EQ(end_of(*pair.receiver).qp[0].ece_supported, 0);
    EXPECT_FALSE(contains(pair.sender->text(), "ECE")) << pair.sender->text();
    const std::vector<std::string> lines = log.lines("goes without ECE: it does not take ");
    ASSERT_EQ(lines.size(), one.vendor == 0x15b3 ? 0u : 1u);
    EXPECT_TRUE(lines.empty() || contains(lines[0], "vendor 0x15b3 options 0x3c"));
  }
}

// The receiver's QP uses the options by then, so that the sender must not go without.
TEST(EceAgreement, SenderCannotSetWhatWasAccepted_IsAnErrorWithTheFix) {
  EcePair pair(0x3c, 0x1f);
  pair.connect_receiver();
  pair.verbs.fail_call(Call::kSetEce, EINVAL);
  auto connected = pair.sender->connect(end_of(*pair.receiver));
  ASSERT_FALSE(connected);
  EXPECT_TRUE(contains_all(connected.error().text, {"options 0x1c", "NCCL_IB_ECE_ENABLE=0"}));
}

// mlx5 answers queries with options of 0 where the HCA or the kernel has no ECE, and sets none.
TEST(EceAgreement, SenderAnswersQueriesAndCanSetNone_ConnectsWithoutEce) {
  EcePair pair(0, 0x1f);
  pair.connect_receiver();
  pair.verbs.fail_call(Call::kSetEce, EOPNOTSUPP);
  EXPECT_TRUE(pair.sender->connect(end_of(*pair.receiver)).value());
  EXPECT_EQ(ece_text(pair.sender->connection().rails()), "");
}

TEST(EceAgreement, ReceiverCannotQueryWhatWasAccepted_IsAnErrorWithTheFix) {
  EcePair pair(0x3c, 0x1f);
  pair.create_sender();
  pair.create_receiver();
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
  pair.create_sender();
  pair.create_receiver();
  pair.verbs.fail_call(Call::kModifyToRtr, ETIMEDOUT, /*skip=*/1);  // behind the flush's
  EXPECT_FALSE(pair.receiver->connect(end_of(*pair.sender)).value());
  clock.now += std::chrono::seconds(1);
  EXPECT_TRUE(pair.receiver->connect_step().value());
  EXPECT_EQ(pair.at_receiver(), 0x1cu);
  EXPECT_EQ(pair.verbs.ece_set_in(qp_number(*pair.receiver)).size(), 1u);
}

// An active rail and three that stand by, between HCAs that know different options.
struct EceRails : RailsBed {
  static constexpr int kRails = 4;

  EceRails()
      : RailsBed(1, kRails - 1, test_options(),
                 {.ece_of_senders = 0x3c, .ece_of_receivers = 0x1f}) {
    create_sender();
    create_receiver();
  }
  // Neither connects pair 1, as the peer counts as unreachable, nor pair 2, which cannot go to RTR.
  void connect_receiver_without_two() {
    watcher->unreachable_paths().add(receiver->connection().rails()[1].address(),
                                     end_of(*sender).rail[1], Clock::now());
    // After pair 0 and its flush.
    verbs.fail_call(Call::kModifyToRtr, EINVAL, /*skip=*/2);
    ASSERT_TRUE(receiver->connect(end_of(*sender)).value());
    for (int pair : {1, 2}) EXPECT_EQ(state_of(pair), IBV_QPS_INIT) << pair;
    for (int pair : {0, 3}) EXPECT_EQ(state_of(pair), IBV_QPS_RTS) << pair;
  }
  ibv_qp_state state_of(int pair) {
    return receiver->connection().rails().pair(static_cast<size_t>(pair)).qp->state;
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
};

// The sender knows only the reply, and cannot be asked again when the pair returns.
TEST(EceAgreement, PairsAreNotConnectedAndReturn_BothEndsUseWhatTheReplyNames) {
  EceRails rails;
  rails.connect_receiver_without_two();
  const wire::EndPoint reply = end_of(*rails.receiver);
  for (size_t pair : {1, 2}) EXPECT_EQ(reply.qp[pair].ece_supported, 0) << pair;
  for (size_t pair : {0, 3}) EXPECT_EQ(reply.qp[pair].ece.options, 0x1cu) << pair;
  ASSERT_TRUE(rails.sender->connect(reply).value());
  rails.keep_links();
  rails.set_port('r', 3, false);
  ASSERT_TRUE(rails.poll_until(
      [&] { return contains(rails.sender->connection().recovery()->state_text(), "fake_s3"); }));
  rails.set_port('r', 3, true);
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
