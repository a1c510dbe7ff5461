#include "transport/device/moved_counters.h"

#include <gtest/gtest.h>

#include "tests/fakes/verbs/fake_verbs.h"
#include "tests/unit/transport/device/counter_files.h"

namespace gdr::transport {
namespace {

using namespace std::chrono_literals;

struct MovedCountersTest : testing::Test {
  Device open() {
    fake_verbs::HcaConfig config = fake_verbs::HcaConfig::infiniband("a", 1);
    config.sysfs_path = files.hca("a");
    return Device{.hca = HcaContext::open(verbs.api(), verbs.add_hca(config)).value(), .state = {}};
  }
  void set(uint64_t value) { files.set("a", "hw_counters/packet_seq_err", value); }
  static std::string text(const std::string& moved) {
    return "hardware counters of a:1 that moved in the last " + moved;
  }

  CounterFiles files;
  fake_verbs::FakeVerbs verbs;
  Clock::time_point clock = Clock::now();
  MovedCounters counters{[this] { return clock; }};
};

TEST_F(MovedCountersTest, CounterMoves_TextNamesPortTimeAndAmountOnce) {
  set(5);
  counters.watch(open());
  set(8);
  clock += 193s;
  EXPECT_EQ(counters.take("a:1", 1s), text("193 s: packet_seq_err +3"));
  clock += 2s;
  EXPECT_EQ(counters.take("a:1", 1s), "");
  set(9);
  counters.watch(open());
  clock += 2s;
  EXPECT_EQ(counters.take("a:1", 1s), text("4 s: packet_seq_err +1"));
}

TEST_F(MovedCountersTest, PortFlaps_OneTextInThePauseWithAllThatMoved) {
  set(5);
  counters.watch(open());
  set(6);
  EXPECT_EQ(counters.take("a:1", 60s), text("0 s: packet_seq_err +1"));
  set(7);
  clock += 30s;
  EXPECT_EQ(counters.take("a:1", 60s), "");
  set(9);
  clock += 31s;
  EXPECT_EQ(counters.take("a:1", 60s), text("61 s: packet_seq_err +3"));
}

TEST_F(MovedCountersTest, CountersVanish_NothingAndTheyMoveOnFromWhereTheyWere) {
  set(5);
  counters.watch(open());
  std::filesystem::remove_all(files.port("a"));
  EXPECT_EQ(counters.take("a:1", 1s), "");
  set(7);
  EXPECT_EQ(counters.take("a:1", 1s), "") << "read a moment ago";
  clock += 1s;
  EXPECT_EQ(counters.take("a:1", 1s), text("1 s: packet_seq_err +2"));
}

TEST_F(MovedCountersTest, PortsThatAreSuspected_AreTakenOnce) {
  counters.watch(open());
  counters.suspect("b:1");
  EXPECT_TRUE(counters.take_suspected().empty()) << "it is not watched";
  for (int i = 0; i < 2; ++i) counters.suspect("a:1");
  EXPECT_EQ(counters.take_suspected(), std::vector<std::string>{"a:1"});
  EXPECT_TRUE(counters.take_suspected().empty());
}

TEST_F(MovedCountersTest, PortThatIsNotWatchedOrHasNoCounters_Nothing) {
  counters.watch(open());
  EXPECT_EQ(counters.take("a:1", 1s), "");
  EXPECT_EQ(counters.take("b:1", 1s), "");
}

}  // namespace
}  // namespace gdr::transport
