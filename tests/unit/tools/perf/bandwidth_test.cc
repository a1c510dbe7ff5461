// Verified receives from a table that imitates a GPU whose received data is visible only after
// iflush, and measured streams of grouped messages.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

#include "tests/fakes/cuda/fake_driver.h"
#include "tests/unit/tools/net/fake_net.h"
#include "tools/common/pattern.h"
#include "tools/perf/measurements.h"
#include "tools/perf/rank_memory.h"
#include "tools/ranks/rank_group.h"

namespace gdr::tools {
namespace {
constexpr uint64_t kSeed = 7;
constexpr uint64_t kStream = 2;
constexpr StreamShape kShape{10000, 6, 2, 2};
constexpr int kPollsPerFlush = 3;

// Runs the only rank of a run, in a process of its own; returns its exit code.
int exit_code_of(const RankMain& rank) {
  auto outcomes = run_group(local_group(1), rank);
  return outcomes ? outcomes->front().exit_code : -1;
}

size_t g_received = 0;
size_t g_flushed = 0;
int g_polls_left = 0;  // of the flush in progress
char g_receive_tag, g_flush_tag;

void deliver(void* data, size_t message) {
  char* view = static_cast<char*>(
      fake_cuda::Driver::load().hooks.view(reinterpret_cast<unsigned long long>(data)));
  Pattern(kSeed, kStream, message).fill(view == nullptr ? data : view, kShape.bytes);
}

class LateNet : public FakeNet {
 public:
  abi::ncclResult_t irecv(void*, int, void** data, size_t*, int*, void**, void**,
                          void** request) override {
    *request = &g_receive_tag;
    bool on_host = fake_cuda::Driver::load().hooks.view(
                       reinterpret_cast<unsigned long long>(data[0])) == nullptr;
    if (on_host) deliver(data[0], g_received);
    ++g_received;
    return abi::ncclSuccess;
  }

  abi::ncclResult_t iflush(void*, int, void** data, int*, void**, void** request) override {
    deliver(data[0], g_flushed++);
    *request = &g_flush_tag;
    g_polls_left = kPollsPerFlush;
    return abi::ncclSuccess;
  }

  abi::ncclResult_t test(void* request, int* done, int* sizes) override {
    *done = request == &g_receive_tag || --g_polls_left == 0 ? 1 : 0;
    if (sizes != nullptr) *sizes = static_cast<int>(kShape.bytes);
    return abi::ncclSuccess;
  }
};

class FailingFlush : public LateNet {
 public:
  abi::ncclResult_t iflush(void*, int, void**, int*, void**, void**) override {
    return abi::ncclSystemError;
  }
};

class FlushWithoutRequest : public LateNet {
 public:
  abi::ncclResult_t iflush(void*, int, void** data, int*, void**, void** request) override {
    deliver(data[0], g_flushed++);
    *request = nullptr;
    return abi::ncclSuccess;
  }
};

// Receives in a process of its own; returns its exit code.
int receive(const MemorySpec& spec, Net& net, size_t flushes) {
  return exit_code_of([&](Rank& rank) {
    fake_cuda::Driver::load();
    auto memory = RankMemory::open(spec, 0);
    if (!memory) return 10;
    auto buffer = memory->allocate(kShape.stride() * kShape.slots);
    if (!buffer) return 11;
    Endpoint end{&net, nullptr, nullptr, buffer->data(), false, memory->gpu()};
    auto wrong = verify_stream(end, kShape, rank, kSeed, kStream);
    if (!wrong) return 12;
    if (*wrong != 0) return 13;
    return g_flushed == flushes && g_polls_left == 0 ? 0 : 14;
  });
}

TEST(VerifyStream, CudaReceive_IsFlushedAndWaitedForBeforeReading) {
  LateNet net;
  EXPECT_EQ(receive({true, 1}, net, kShape.messages), 0);
  EXPECT_EQ(receive({}, net, 0), 0) << "host memory is not flushed";
  FlushWithoutRequest at_once;
  EXPECT_EQ(receive({true, 0}, at_once, kShape.messages), 0);
  FailingFlush failing;
  EXPECT_EQ(receive({true, 0}, failing, 0), 12);
}

class DeliversNothing : public LateNet {
 public:
  abi::ncclResult_t irecv(void*, int, void**, size_t*, int*, void**, void**,
                          void** request) override {
    *request = &g_receive_tag;
    return abi::ncclSuccess;
  }
};

TEST(VerifyStream, BufferThatHeldTheDataBefore_IsWrongWhereNothingArrives) {
  const int wrong = exit_code_of([](Rank& rank) {
    DeliversNothing net;
    std::vector<char> memory(kShape.stride() * kShape.slots);
    for (size_t slot = 0; slot < kShape.slots; ++slot) {
      deliver(memory.data() + slot * kShape.stride(), slot);
    }
    Endpoint end{&net, nullptr, nullptr, memory.data(), false};
    return static_cast<int>(verify_stream(end, kShape, rank, kSeed, kStream).value_or(100));
  });
  EXPECT_EQ(wrong, static_cast<int>(kShape.messages));
}

// Takes a while to post a request, which has completed by its first test.
class SlowToPost : public FakeNet {
 public:
  static constexpr std::chrono::milliseconds kTakes{2};

  abi::ncclResult_t isend(void*, void*, size_t, int, void*, void*, void** request) override {
    return post(request);
  }
  abi::ncclResult_t irecv(void*, int, void**, size_t*, int*, void**, void**,
                          void** request) override {
    return post(request);
  }
  abi::ncclResult_t test(void*, int* done, int*) override {
    *done = 1;
    return abi::ncclSuccess;
  }

 private:
  abi::ncclResult_t post(void** request) {
    std::this_thread::sleep_for(kTakes);
    *request = this;
    return abi::ncclSuccess;
  }
};

// Measures a stream in a process of its own. Returns its exit code: 0 where the fastest window is
// of that many messages and took at least as long as it takes to post one request.
int measure(const StreamShape& shape, bool sends, size_t window) {
  return exit_code_of([&](Rank& rank) {
    SlowToPost net;
    std::vector<char> memory(shape.slots * shape.stride());
    Endpoint end{&net, nullptr, nullptr, memory.data(), sends};
    auto times = time_stream(end, shape, rank, 1);
    if (!times) return 10;
    if (times->window_messages != window) return 11;
    return std::chrono::duration<double>(times->best_window) >= SlowToPost::kTakes ? 0 : 12;
  });
}

TEST(TimeStream, Window_IsWhatIsInFlightOrMoreWholeGroups) {
  constexpr StreamShape kFew{.bytes = 8, .messages = 40, .depth = 2, .slots = 8, .group = 8};
  constexpr StreamShape kMany{.bytes = 8, .messages = 220, .depth = 1, .slots = 4, .group = 4};
  EXPECT_EQ(measure(kFew, /*sends=*/false, 16), 0);
  EXPECT_EQ(measure(kFew, /*sends=*/true, 16), 0);
  EXPECT_EQ(measure(kMany, /*sends=*/false, 12), 0);
}
}  // namespace
}  // namespace gdr::tools
