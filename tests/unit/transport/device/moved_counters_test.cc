#include "transport/device/moved_counters.h"

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <mutex>
#include <thread>

#include "tests/fakes/verbs/fake_verbs.h"
#include "tests/unit/transport/device/counter_files.h"

namespace gdr::transport {
namespace {

using namespace std::chrono_literals;

struct MovedCountersTest : testing::Test {
  Device open(const std::string& name) {
    fake_verbs::HcaConfig config = fake_verbs::HcaConfig::infiniband(name, 1);
    config.sysfs_path = files.hca(name);
    return Device{.hca = HcaContext::open(verbs.api(), verbs.add_hca(config)).value(), .state = {}};
  }
  // Both ports have this counter from the start.
  void set(uint64_t value, const std::string& hca = "a") {
    files.set(hca, "hw_counters/packet_seq_err", value);
  }
  // Watches ports, and returns once their counters have been read.
  void watch(MovedCounters& counters, const std::vector<std::string>& names = {"a"}) {
    for (const std::string& name : names) {
      set(5, name);
      counters.watch(open(name));
    }
    wait_until_read(counters);
    pass(2s);
  }
  void wait_until_read(const MovedCounters& counters) {
    const auto limit = Clock::now() + 20s;
    while (!counters.is_idle() && Clock::now() < limit) std::this_thread::yield();
    EXPECT_TRUE(counters.is_idle());
  }
  void pass(std::chrono::seconds time) {
    std::lock_guard lock(mutex);
    clock += time;
  }
  Now now() {
    return [this] {
      std::lock_guard lock(mutex);
      return clock;
    };
  }
  std::vector<std::string> found(MovedCounters& counters) {
    wait_until_read(counters);
    return counters.take_found();
  }

  CounterFiles files;
  fake_verbs::FakeVerbs verbs;
  std::mutex mutex;
  Clock::time_point clock = Clock::now();
};

TEST_F(MovedCountersTest, CounterMoves_TextNamesPortTimeAndAmountOnce) {
  MovedCounters counters(read_hardware_counters, now());
  watch(counters);
  set(8);
  pass(191s);
  const std::vector<std::string> texts = counters.read_now({"a:1"});
  ASSERT_EQ(texts.size(), 1u);
  EXPECT_EQ(texts[0], "hardware counters of a:1 that moved in the last 193 s: packet_seq_err +3");
  pass(2s);
  EXPECT_TRUE(counters.read_now({"a:1"}).empty());
  set(9);
  pass(2s);
  EXPECT_EQ(counters.read_now({"a:1"}),
            std::vector<std::string>{
                "hardware counters of a:1 that moved in the last 4 s: packet_seq_err +1"});
}

TEST_F(MovedCountersTest, ReadSoon_IsFoundLater) {
  MovedCounters counters(read_hardware_counters, now());
  watch(counters, {"a", "b"});
  set(6);
  set(7, "b");
  counters.read_soon("a:1");
  EXPECT_EQ(found(counters),
            std::vector<std::string>{
                "hardware counters of a:1 that moved in the last 2 s: packet_seq_err +1"});
  EXPECT_TRUE(counters.take_found().empty()) << "nobody has asked for b";
}

TEST_F(MovedCountersTest, PortFlaps_OneTextAMinuteWithAllThatMoved) {
  MovedCounters counters(read_hardware_counters, now());
  watch(counters);
  set(6);
  counters.read_soon("a:1");
  EXPECT_EQ(found(counters).size(), 1u);
  set(7);
  counters.read_soon("a:1");
  pass(30s);
  EXPECT_TRUE(found(counters).empty());
  set(9);
  counters.read_soon("a:1");
  pass(31s);
  EXPECT_EQ(found(counters),
            std::vector<std::string>{
                "hardware counters of a:1 that moved in the last 61 s: packet_seq_err +3"});
}

TEST_F(MovedCountersTest, ManyConnectionsFail_OneOfThemReads) {
  MovedCounters counters(read_hardware_counters, now());
  watch(counters);
  set(6);
  EXPECT_EQ(counters.read_now({"a:1"}).size(), 1u);
  set(7);
  EXPECT_TRUE(counters.read_now({"a:1"}).empty());
}

TEST_F(MovedCountersTest, CountersVanish_NothingAndTheyMoveOnFromWhereTheyWere) {
  MovedCounters counters(read_hardware_counters, now());
  watch(counters);
  std::filesystem::remove_all(files.port("a"));
  EXPECT_TRUE(counters.read_now({"a:1"}).empty());
  set(7);
  pass(2s);
  const std::vector<std::string> texts = counters.read_now({"a:1"});
  ASSERT_EQ(texts.size(), 1u);
  EXPECT_TRUE(texts[0].ends_with(": packet_seq_err +2")) << texts[0];
}

TEST_F(MovedCountersTest, PortWithoutCounters_IsNotRead) {
  int reads = 0;
  MovedCounters counters(
      [&reads](const std::string&, int) {
        ++reads;
        return HardwareCounters{};
      },
      now());
  counters.watch(open("a"));
  counters.read_soon("a:1");
  EXPECT_TRUE(counters.read_now({"a:1"}).empty());
  EXPECT_EQ(reads, 0);
}

// As on an HCA whose firmware does not answer.
TEST_F(MovedCountersTest, ReadBlocks_NobodyWaitsForIt) {
  auto release = std::make_shared<std::promise<void>>();
  set(5);
  const Device device = open("a");
  {
    MovedCounters counters(
        [blocked = release->get_future().share()](const std::string&, int) {
          blocked.wait();
          return HardwareCounters{};
        },
        now());
    counters.watch(device);
    counters.read_soon("a:1");
    EXPECT_TRUE(counters.take_found().empty());
    EXPECT_TRUE(counters.read_now({"a:1"}).empty());
  }
  release->set_value();
}

TEST_F(MovedCountersTest, ReadFails_IsAsIfNothingWasRead) {
  set(5);
  MovedCounters counters(
      [](const std::string&, int) -> HardwareCounters { throw std::bad_alloc(); }, now());
  counters.watch(open("a"));
  EXPECT_TRUE(counters.read_now({"a:1"}).empty());
}

}  // namespace
}  // namespace gdr::transport
