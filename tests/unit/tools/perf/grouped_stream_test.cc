// Streams of grouped messages, from a table that keeps what it was called with.
#include "tools/perf/grouped_stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "tests/unit/tools/net/fake_net.h"
#include "tools/ranks/rank_group.h"

namespace gdr::tools {
namespace {
constexpr StreamShape kGroups{.bytes = 8, .messages = 12, .depth = 2, .slots = 8, .group = 4};

// Completes each request at its first test. A send whose tag is 3 gets a request at its second
// attempt only.
class KeepingNet : public FakeNet {
 public:
  abi::ncclResult_t isend(void*, void*, size_t, int tag, void*, void*, void** request) override {
    calls += 's' + std::to_string(tag);
    const bool refused = tag == 3 && ++attempts % 2 == 1;
    *request = refused ? nullptr : this;
    return abi::ncclSuccess;
  }
  abi::ncclResult_t irecv(void*, int count, void** data, size_t*, int* tags, void**, void**,
                          void** request) override {
    calls += 'r' + std::to_string(count);
    for (int i = 0; i < count; ++i) {
      const auto distance = static_cast<char*>(data[i]) - static_cast<char*>(data[0]);
      right = right && tags[i] == i && distance == i * 4096;
    }
    *request = this;
    return abi::ncclSuccess;
  }
  abi::ncclResult_t test(void*, int* done, int* sizes) override {
    calls += 't';
    *done = 1;
    sizes[0] = 8;
    return abi::ncclSuccess;
  }

  std::string calls;
  int attempts = 0;
  bool right = true;
};

struct CountingHooks {
  std::vector<size_t> prepared;
  std::vector<size_t> done;
  void before_post(char*, size_t message) { prepared.push_back(message); }
  void after_done(const char*, size_t message, int) { done.push_back(message); }
};

constexpr std::array<size_t, 12> kAll{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};

// Runs in a process of its own; returns its exit code: 0 where `expected` holds.
template <class Expected>
int run_stream_of(bool sends, Expected expected) {
  auto group = group_of(1, "", -1);
  auto outcomes = run_group(*group, [&](Rank& rank) {
    std::vector<char> memory(kGroups.slots * kGroups.stride());
    KeepingNet net;
    CountingHooks hooks;
    StallGuard guard(rank, 1);
    Endpoint end{&net, nullptr, nullptr, memory.data(), sends};
    if (!GroupedStream<CountingHooks>(end, kGroups, guard, hooks).run()) return 10;
    return expected(net, hooks) ? 0 : 11;
  });
  return outcomes ? (*outcomes)[0].exit_code : -1;
}

TEST(GroupedStream, Sender_EachMemberSendsOrTestsInAPass) {
  EXPECT_EQ(run_stream_of(true,
                          [](const KeepingNet& net, const CountingHooks&) {
                            return net.calls.starts_with("s0s1s2s3s0s1s2s3ttts3");
                          }),
            0);
}

TEST(GroupedStream, Sender_EveryMessageIsPreparedOnceThoughItIsTriedAgain) {
  EXPECT_EQ(run_stream_of(true,
                          [](const KeepingNet&, CountingHooks hooks) {
                            std::sort(hooks.prepared.begin(), hooks.prepared.end());
                            return std::ranges::equal(hooks.prepared, kAll) &&
                                   std::ranges::equal(hooks.done, kAll);
                          }),
            0);
}

TEST(GroupedStream, Receiver_PostsEachGroupWithItsTagsAndReportsMessagesInOrder) {
  EXPECT_EQ(run_stream_of(false,
                          [](const KeepingNet& net, const CountingHooks& hooks) {
                            return net.right && net.calls == "r4tr4tr4t" &&
                                   std::ranges::equal(hooks.done, kAll);
                          }),
            0);
}
}  // namespace
}  // namespace gdr::tools
