#include "transport/recovery/pair_io.h"

#include <cerrno>

#include "tests/unit/transport/recovery/recovery_bed.h"

namespace gdr::transport {
namespace {

using fake_verbs::Call;

struct PairIoTest : testing::Test {
  explicit PairIoTest(bool roce = false) : bed({}, {}, roce) {}

  RecoveryBed bed;
  UnreachablePaths unreachable;
  RecoveringEnd& end = bed.sender;
  const wire::RailAddress local = end.connection.rails()[0].address();
  const wire::RailAddress remote = end.connection.peer().rail[0];
  const wire::PortAddress first = wire::port_address(remote);
  Result<wire::PortAddress> revive() const { return connect_again(io, 0, 1, first); }

  const PairIo io{PairSetUp{.end = end.end,
                            .rails = &end.connection.rails(),
                            .tables = &*end.tables,
                            .peer = &end.connection.peer(),
                            .options = end.options,
                            .service = {},
                            .first_psn = end.described().first_psn,
                            .receives = 0,
                            .before_receiving = nullptr,
                            .unreachable = &unreachable,
                            .host = "a"}};
};

struct PairIoOnRoceTest : PairIoTest {
  PairIoOnRoceTest() : PairIoTest(/*roce=*/true) {}

  std::vector<fake_verbs::Gid>& gids() { return bed.verbs.port("fake_a", 1).gids; }
};

TEST_F(PairIoTest, IsHeldUnreachable_OnlyOfThePairWhosePeerDidNotAnswer) {
  unreachable.add(local, remote, Clock::now());
  EXPECT_TRUE(is_held_unreachable(io, 0, first, /*urgent=*/false));
  EXPECT_FALSE(is_held_unreachable(io, 1, wire::port_address(io.peer_rail(1)), false));
}

TEST_F(PairIoTest, Revive_PeerDoesNotAnswer_SparesOthersTheAttemptUntilItDoes) {
  bed.verbs.fail_call(Call::kModifyToRtr, ETIMEDOUT);
  EXPECT_FALSE(revive());
  EXPECT_TRUE(unreachable.contains(local, remote, Clock::now()));
  EXPECT_TRUE(revive());
  EXPECT_FALSE(unreachable.contains(local, remote, Clock::now()));
}

TEST_F(PairIoTest, Revive_FailsForAnotherReason_IsTriedAgain) {
  bed.verbs.fail_call(Call::kModifyToRtr, EINVAL);
  EXPECT_FALSE(revive());
  EXPECT_FALSE(unreachable.contains(local, remote, Clock::now()));
}

// Also where the user has chosen it by its index.
TEST_F(PairIoOnRoceTest, Revive_GidHasMoved_TakesItsPresentIndex) {
  gids().insert(gids().begin(), bed.verbs.port("fake_b", 1).gids[0]);
  for (const int forced : {-1, 0}) {
    const_cast<ConnectionOptions&>(*end.options).gid.forced_index = forced;
    ASSERT_TRUE(revive());
    EXPECT_EQ(bed.verbs.attributes(end.qp(0)->qp_num).ah_attr.grh.sgid_index, 1) << forced;
  }
}

// As after DHCP has given the interface another address.
TEST_F(PairIoOnRoceTest, Revive_PortHasAnotherGid_ThatIsReturnedAndThePeersConnectedTo) {
  gids()[0].raw[15] = 77;
  wire::PortAddress peer = first;
  peer.gid[15] = 78;
  const Result<wire::PortAddress> revived = connect_again(io, 0, 1, peer);
  ASSERT_TRUE(revived);
  EXPECT_EQ(revived->gid[15], 77);
  EXPECT_EQ(bed.verbs.attributes(end.qp(0)->qp_num).ah_attr.grh.dgid.raw[15], 78);
}

TEST_F(PairIoOnRoceTest, Revive_PortHasLostItsGidAndNoneFits_AsksForThatAddress) {
  const char* fix = "Fix: give the network interfaces of fake_a:1 <-> ";
  gids()[0] = {{0xfd}, IBV_GID_TYPE_ROCE_V2};
  for (const auto& [forced, text] :
       {std::pair{-1, "family"}, {0, "family"}, {3, "is 3, an unused"}}) {
    const_cast<ConnectionOptions&>(*end.options).gid.forced_index = forced;
    const Result<wire::PortAddress> revived = revive();
    ASSERT_FALSE(revived);
    EXPECT_TRUE(contains_all(revived.error().text, {text, fix})) << revived.error().text;
  }
}

TEST_F(PairIoOnRoceTest, Revive_PortsCannotReachEachOther_FailsAsInTheHandshake) {
  const struct {
    void (*change)(wire::PortAddress&);
    const char* text;
  } cases[] = {
      {[](wire::PortAddress& peer) { peer.gid[0] = 0xfd; },
       "::ffff:10.0.0.1 and ::ffff:10.0.0.2 again"},
      {[](wire::PortAddress& peer) { peer.gid_type = 1; },
       "::ffff:10.0.0.1 and ::ffff:10.0.0.2 again"},
      {[](wire::PortAddress& peer) { peer.mtu = 0; }, "an impossible MTU"},
      {[](wire::PortAddress& peer) { peer.mtu = 6; }, "an impossible MTU"},
  };
  for (const auto& [change, text] : cases) {
    wire::PortAddress peer = first;
    change(peer);
    const Result<wire::PortAddress> revived = connect_again(io, 0, 1, peer);
    ASSERT_FALSE(revived);
    EXPECT_TRUE(contains(revived.error().text, text)) << revived.error().text;
  }
  gids().clear();
  EXPECT_FALSE(revive());
  EXPECT_EQ(end.qp(0)->state, IBV_QPS_RTS) << "nothing was done to it";
}

}  // namespace
}  // namespace gdr::transport
