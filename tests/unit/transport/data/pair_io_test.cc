#include "transport/data/pair_io.h"

#include <cerrno>

#include "tests/unit/transport/data/recovery_bed.h"

namespace gdr::transport {
namespace {

using fake_verbs::Call;

struct PairIoTest : testing::Test {
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

}  // namespace
}  // namespace gdr::transport
