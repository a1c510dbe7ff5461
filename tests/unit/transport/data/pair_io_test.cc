#include "transport/data/pair_io.h"

#include <cerrno>

#include "tests/unit/transport/data/recovery_bed.h"

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
  EXPECT_TRUE(io.is_held_unreachable(0));
  EXPECT_FALSE(io.is_held_unreachable(1));
}

TEST_F(PairIoTest, Revive_PeerDoesNotAnswer_SparesOthersTheAttemptUntilItDoes) {
  bed.verbs.fail_call(Call::kModifyToRtr, ETIMEDOUT);
  EXPECT_FALSE(io.revive(0, 1));
  EXPECT_TRUE(unreachable.contains(local, remote, Clock::now()));
  EXPECT_TRUE(io.revive(0, 1));
  EXPECT_FALSE(unreachable.contains(local, remote, Clock::now()));
}

TEST_F(PairIoTest, Revive_FailsForAnotherReason_IsTriedAgain) {
  bed.verbs.fail_call(Call::kModifyToRtr, EINVAL);
  EXPECT_FALSE(io.revive(0, 1));
  EXPECT_FALSE(unreachable.contains(local, remote, Clock::now()));
}

TEST_F(PairIoOnRoceTest, Revive_GidHasMoved_TakesItsPresentIndex) {
  gids().insert(gids().begin(), fake_verbs::Gid{});
  ASSERT_TRUE(io.revive(0, 1));
  const ibv_qp_attr attributes = bed.verbs.attributes(end.qp(0)->qp_num);
  EXPECT_EQ(attributes.ah_attr.grh.sgid_index, 1);
}

TEST_F(PairIoOnRoceTest, Revive_PortHasTheGidNoMore_FailsAndNamesIt) {
  gids().clear();
  const Status revived = io.revive(0, 1);
  ASSERT_FALSE(revived);
  EXPECT_TRUE(contains(revived.error().text, "fake_a:1 does not have the GID ::ffff:10.0.0.1"))
      << revived.error().text;
}

}  // namespace
}  // namespace gdr::transport
