#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/unit/transport/recovery/rail_simulation.h"

namespace gdr::transport {
namespace {

constexpr size_t kChunk = size_t{64} << 10;
constexpr size_t kWindow = 8;
// As between two emulated machines: a chunk takes 8 ms, and one whose last packet is lost 140 ms.
constexpr double kSlow = kChunk / 8e-3;
constexpr double kTimeout = 0.132;
constexpr double kRarePoll = 1e-4;
// As between servers: a chunk of 256 KiB takes 13 us, and one that waits for a timeout 0.1 s.
constexpr double kQuick = 20e9;
constexpr size_t kLong = size_t{512} << 10;
constexpr double kLongTimeout = 0.1;

class LossyRail : public testing::TestWithParam<size_t> {
 protected:
  // What the healthy rail carries alone is kSlow.
  Simulation lossy(double share) const {
    Simulation rails({kSlow, kSlow}, kRarePoll);
    rails.set_loss(1, share, kTimeout);
    return rails;
  }
};

TEST_P(LossyRail, ManyOfItsChunksWaitForTimeout_CostsNextToNothing) {
  for (double share : {0.2, 0.35, 0.5, 0.7}) {
    Simulation rails = lossy(share);
    rails.run(GetParam(), kWindow, 5);  // half of the first window is on the lossy rail
    EXPECT_GE(rails.run(GetParam(), kWindow, 100) / kSlow, 0.98) << share;
  }
}

// Most chunks lose a packet or several. Between two of them that are late there are some in time.
TEST_P(LossyRail, MostAreLateEachByAnotherTime_IsTriedRarelyAndCostsNextToNothing) {
  for (double share : {0.6, 0.9}) {
    for (double mean : {0.05, 0.2}) {
      Simulation rails({kSlow, kSlow}, kRarePoll);
      rails.set_varied_loss(1, share, mean);
      rails.run(GetParam(), kWindow, 5);
      const size_t before = rails.sent(1);
      const double speed = rails.run(GetParam(), kWindow, 100);
      EXPECT_GE(speed / kSlow, 0.97) << share << " " << mean;
      EXPECT_LE(rails.sent(1) - before, 0.01 * 100 * speed) << share << " " << mean;
    }
  }
}

// In an emulated machine, what a rail sends again takes time of the processor of the other rail.
TEST_P(LossyRail, HalfOfItsChunksWaitForTimeout_CarriesLittle) {
  Simulation rails = lossy(0.5);
  rails.run(GetParam(), kWindow, 5);
  const size_t before = rails.sent(1);
  const double arrived = 100 * rails.run(GetParam(), kWindow, 100);
  EXPECT_LE(static_cast<double>(rails.sent(1) - before) / arrived, 0.05);
}

TEST_P(LossyRail, LossEnds_ReachesTheSumAgain) {
  Simulation rails = lossy(0.5);
  rails.run(GetParam(), kWindow, 20);
  rails.set_loss(1, 0, 0);
  // The longest pause: 4 * kPatience times the longest that a chunk was late. Then the speed is
  // measured.
  rails.run(GetParam(), kWindow, 4 * 64 * (kTimeout + 8e-3) + 10);
  EXPECT_GE(rails.run(GetParam(), kWindow, 10) / kSlow, 1.9);
}

// Once, until it is trusted again.
TEST_P(LossyRail, HalfOfItsChunksWaitForTimeout_IsReportedOnceUntilLossEnds) {
  Simulation rails = lossy(0.5);
  rails.run(GetParam(), kWindow, 100);
  EXPECT_EQ(rails.load().take_late_paths(), 2u);
  EXPECT_GE(rails.load().lateness(1), kTimeout / 2);
  rails.run(GetParam(), kWindow, 100);
  EXPECT_FALSE(rails.load().has_late_paths());
  rails.set_loss(1, 0, 0);
  rails.run(GetParam(), kWindow, 4 * 64 * (kTimeout + 8e-3) + 10);
  EXPECT_FALSE(rails.load().has_late_paths());
  rails.set_loss(1, 0.5, kTimeout);
  rails.run(GetParam(), kWindow, 200);
  EXPECT_EQ(rails.load().take_late_paths(), 2u);
}

INSTANTIATE_TEST_SUITE_P(RailLoad, LossyRail, testing::Values(kChunk, 2 * kChunk, 4 * kChunk),
                         testing::PrintToStringParamName());

TEST(RailLoadLossTest, OneChunkInThousandWaitsForLongTimeout_CostsLessThanTenth) {
  for (double share : {1e-3, 1e-2}) {
    Simulation rails({kQuick, kQuick});
    rails.set_loss(1, share, kLongTimeout);
    rails.run(kLong, kWindow, 2);
    EXPECT_GE(rails.run(kLong, kWindow, 4) / kQuick, 0.9) << share;
  }
}

// A chunk that is sent alone takes its latency, which those of a window hide from each other.
TEST(RailLoadLossTest, LossEndsOnALongPath_LatencyOfATryIsNotLate) {
  Simulation rails({kQuick, kQuick});
  rails.set_latency(50e-6);
  rails.set_loss(1, 0.5, 12e-3);
  rails.run(kChunk, 64, 0.3);
  rails.set_loss(1, 0, 0);
  rails.run(kChunk, 64, 4 * 64 * 12e-3);
  EXPECT_GE(rails.run(kChunk, 64, 0.3) / kQuick, 1.5);
}

TEST(RailLoadLossTest, RailIsLateNowAndThen_StaysInUse) {
  Simulation rails({kQuick, kQuick});
  rails.set_loss(1, 1e-3, 2e-4);
  EXPECT_GE(rails.run(kLong, kWindow, 1) / kQuick, 1.9);
  EXPECT_FALSE(rails.load().has_late_paths());
}

// As where a switch pauses the port: that is no loss of packets.
TEST(RailLoadLossTest, RailIsOftenLateByLessThanTimeout_IsNotReported) {
  Simulation rails({kQuick, kQuick});
  rails.set_loss(1, 0.3, 2e-3);
  rails.run(kLong, kWindow, 4);
  EXPECT_FALSE(rails.load().has_late_paths());
}

// Some chunks have come in time.
class SingleChunks {
 public:
  SingleChunks() { send_in_time(8); }
  void send_in_time(int count) {
    for (int i = 0; i < count; ++i) send(1);
  }
  // Puts so many chunks on path 0, of which the first takes so many times what it should, and polls
  // every microsecond. One poll finds all of them.
  void send(double times, int count = 1) {
    const size_t bytes = size_t{1} << 20;
    for (int i = 0; i < count; ++i) load_.post(0, bytes, at(now_));
    now_ += times * 1e-3;
    load_.note_poll(0, at(now_));
    now_ += 1e-6;
    for (int i = 0; i < count; ++i) load_.acknowledge(0, bytes, at(now_));
    now_ += 1e-6;
  }
  // Sends a chunk over the healthy path, which takes 1 ms.
  void send_on_other() {
    load_.post(1, size_t{1} << 20, at(now_));
    now_ += 1e-3;
    load_.note_poll(1, at(now_));
    load_.acknowledge(1, size_t{1} << 20, at(now_ + 1e-6));
    now_ += 2e-6;
  }
  void send_each(std::initializer_list<double> times) {
    for (double each : times) send(each);
  }
  void wait(double seconds) { now_ += seconds; }
  // Waits until the path gets a chunk of a window; returns the seconds.
  double wait_for_try() {
    const double begin = now_;
    while (share(8) == 0) wait(1e-3);
    return now_ - begin;
  }
  // Waits until the path gets the next chunk, `most` seconds at most; returns the seconds.
  double wait_for_single_chunk(double most) {
    const double begin = now_;
    while (load_.choose(size_t{1} << 20, 3, at(now_)) != 0 && now_ - begin < most) wait(0.1);
    return now_ - begin;
  }
  // Returns how many chunks of a window go to the path.
  int share(int window = 16) {
    RailLoad load = load_;
    int count = 0;
    for (int i = 0; i < window; ++i) {
      const size_t path = load.choose(size_t{1} << 20, 3, at(now_));
      load.post(path, size_t{1} << 20, at(now_));
      count += path == 0 ? 1 : 0;
    }
    return count;
  }
  RailLoad& load() { return load_; }

 private:
  RailLoad load_{{1.048576e9, 1.048576e9}};  // 1 ms for each chunk
  double now_ = 0;
};

// Two chunks have been late.
struct AvoidedPath : SingleChunks {
  AvoidedPath() { send_each({5, 1, 5}); }
};

TEST(RailLoadLossTest, TwoChunksAreLate_PathIsAvoidedUntilOthersCameInTimeOrItReturns) {
  SingleChunks once, far_apart;
  once.send(5);
  EXPECT_GE(once.share(), 5) << "one is forgiven";
  far_apart.send(5);
  far_apart.wait(5 * 4e-3);
  far_apart.send(5);
  EXPECT_GE(far_apart.share(), 4) << "as by the mean speed alone";
  AvoidedPath in_time, returned;
  EXPECT_LE(in_time.share(), 1);
  in_time.send_in_time(20);
  EXPECT_GE(in_time.share(), 5);
  returned.load().restart(0);
  EXPECT_EQ(returned.share(), 8);
}

// What waited behind a late chunk says nothing of the path.
TEST(RailLoadLossTest, ChunksAreFoundWithLateOne_TheyAreNotInTime) {
  AvoidedPath chunks;
  chunks.send(9, 8);
  chunks.wait_for_try();
  EXPECT_EQ(chunks.share(8), 1);
}

// The tries of an avoided path are single chunks, and each that is late doubles the next pause.
TEST(RailLoadLossTest, TryIsLate_NextOneComesAfterTwiceThePause) {
  AvoidedPath chunks;
  const double pause = chunks.wait_for_try();
  EXPECT_EQ(chunks.share(8), 1);
  chunks.send(9);  // it is late by about as much as those
  EXPECT_GE(chunks.wait_for_try(), 3 * pause);
}

// The mean speed of a path that loses packets explains each of its chunks, but none is worth a try.
TEST(RailLoadLossTest, TriesAreAllFarSlowerThanTheOtherPath_NoneIsInTime) {
  AvoidedPath chunks;
  for (int i = 0; i < 8; ++i) chunks.send_on_other();
  for (int i = 0; i < 8; ++i) chunks.send(40);
  EXPECT_GE(chunks.wait_for_single_chunk(60), 64 * 40e-3);
}

// A tenth of the other path's speed is worth having.
TEST(RailLoadLossTest, TriesAreSteadilySlow_PathIsTrustedAgain) {
  AvoidedPath chunks;
  for (int i = 0; i < 8; ++i) chunks.send_on_other();
  for (int i = 0; i < 40; ++i) chunks.send(10);
  EXPECT_GE(chunks.share(60), 4);
}

// As by NCCL_IB_TIMEOUT=20, which is 4.3 s.
TEST(RailLoadLossTest, TriesAreLateBySeconds_TheNextOneComesInMinutes) {
  SingleChunks chunks;
  chunks.send_each({4300, 1, 4300, 1, 4300, 1, 4300});
  const double pause = chunks.wait_for_single_chunk(1500);
  EXPECT_GE(pause, 60);
  EXPECT_LE(pause, 300);
}

TEST(RailLoadLossTest, TimePasses_LatenessIsForgotten) {
  AvoidedPath chunks;
  chunks.wait(64 * 4e-3);
  EXPECT_GE(chunks.share(), 1);
  chunks.send_in_time(9);
  EXPECT_GE(chunks.share(), 5);
}

// Four tries in time say little of a path that loses a few percent of its packets.
TEST(RailLoadLossTest, PathIsTrustedAgain_ItsChunksDoubleWithEachInTime) {
  AvoidedPath chunks;
  chunks.wait(64 * 4e-3);
  chunks.send_in_time(4);
  for (int most : {1, 2, 4}) {
    EXPECT_EQ(chunks.share(12), most);
    chunks.send(1);
  }
}

TEST(RailLoadLossTest, PathIsTrustedAgainAndLate_NextOneIsATry) {
  AvoidedPath chunks;
  chunks.wait(64 * 4e-3);
  chunks.send_in_time(6);
  EXPECT_EQ(chunks.share(12), 4);
  chunks.send(5);
  EXPECT_EQ(chunks.share(12), 0);
  EXPECT_GT(chunks.wait_for_try(), 0.1);
  EXPECT_EQ(chunks.share(8), 1);
}

// Of four chunks, three are found by a poll that comes late, and the last one just after it. None
// of them is known to be late.
TEST(RailLoadLossTest, QueueIsPolledRarely_NothingIsLate) {
  const size_t bytes = size_t{1} << 20;
  const double speed = 4 * static_cast<double>(bytes) / 10.5e-3;
  RailLoad load({speed, speed});
  double begin = 0;
  for (int i = 0; i < 100; ++i, begin += 11e-3) {
    for (int n = 0; n < 4; ++n) load.post(0, bytes, at(begin));
    load.note_poll(0, at(begin + 1e-3));
    for (int n = 0; n < 3; ++n) load.acknowledge(0, bytes, at(begin + 10e-3));
    load.note_poll(0, at(begin + 10.5e-3));
    load.acknowledge(0, bytes, at(begin + 10.5e-3));
  }
  for (int i = 0; i < 16; ++i) load.post(load.choose(bytes, 3, at(begin)), bytes, at(begin));
  EXPECT_GE(load.unacknowledged(0), 7 * bytes);
}

}  // namespace
}  // namespace gdr::transport
