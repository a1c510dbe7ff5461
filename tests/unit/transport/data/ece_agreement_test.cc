#include "transport/data/ece_agreement.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace gdr::transport
