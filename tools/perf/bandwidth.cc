#include <algorithm>
#include <climits>

#include "tools/common/pattern.h"
#include "tools/perf/measurements.h"
#include "tools/perf/message_stream.h"

namespace gdr::tools {
namespace {
constexpr size_t kWindows = 16;  // clock readings of a run; the fastest window gives the peak
constexpr uint64_t kRelaxedYield = 64;  // verification is not timed

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

// The messages of a window. All that are in flight may have completed when the first of them is
// tested, and a grouped receive completes all of its messages at once: a window that is smaller
// than what is in flight, or that ends within a group, would time the tests alone.
size_t window_of(const StreamShape& shape) {
  const size_t groups = (shape.messages - 1) / (kWindows * shape.group);
  return std::max(shape.depth, groups) * shape.group;
}

// Reads the clock only once per window: a reading for each message would lower the rate of small
// ones.
struct TimingHooks {
  static constexpr size_t kMessagesPerBeat = 64;

  RankBoard& board;
  size_t window;
  size_t next_mark = 1;
  Clock::time_point first{};
  Clock::time_point last{};
  double best = 0;

  void before_post(char* /*at*/, size_t /*message*/) {}

  void after_done(const char* /*at*/, size_t message, int /*bytes*/) {
    // A window of a long run may take longer than the run may be silent.
    if (message % kMessagesPerBeat == 0) board.beat();
    if (message + 1 != next_mark) return;
    Clock::time_point now = Clock::now();
    board.beat();
    if (message == 0) {
      first = now;
    } else {
      double took = seconds_between(last, now);
      if (best == 0 || took < best) best = took;
    }
    last = now;
    next_mark += window;
  }
};

// Calls iflush and waits for it, which makes received GPU memory safe to read. NCCL does so before
// a kernel reads.
Status flush_received(const Endpoint& end, char* at, size_t bytes, StallGuard& guard) {
  void* address = at;
  int size = static_cast<int>(std::min<size_t>(bytes, INT_MAX));
  void* handle = end.mhandle;
  void* request = nullptr;
  abi::ncclResult_t result = end.net->iflush(end.comm, 1, &address, &size, &handle, &request);
  if (result != abi::ncclSuccess) {
    return fail(Code::kRemote, fmt::format("iflush of {} bytes: {}", bytes, describe(result)));
  }
  // A plugin that has nothing to wait for returns no request.
  guard.progress();
  for (int done = request == nullptr ? 1 : 0; done == 0;) {
    result = end.net->test(request, &done, nullptr);
    if (result != abi::ncclSuccess) {
      return fail(Code::kRemote, fmt::format("test of an iflush: {}", describe(result)));
    }
    if (done == 0 && !guard.keep_waiting()) {
      return fail(Code::kRemote, fmt::format("gave up waiting for an iflush of {} bytes", bytes));
    }
  }
  return {};
}

// Writes and reads message memory; that of a GPU through a copy on the host.
class MessageMemory {
 public:
  MessageMemory(const Endpoint& end, size_t bytes, Rank& rank)
      : end_(end), bytes_(bytes), guard_(rank, kRelaxedYield) {
    if (end.gpu != nullptr) copy_.resize(bytes);
  }

  void fill(char* at, const Pattern& pattern) {
    if (end_.gpu == nullptr || bytes_ == 0) return pattern.fill(at, bytes_);
    pattern.fill(copy_.data(), bytes_);
    note(end_.gpu->copy(at, copy_.data(), bytes_));
  }

  bool holds(char* at, const Pattern& pattern) {
    if (end_.gpu == nullptr || bytes_ == 0) return pattern.first_mismatch(at, bytes_) == bytes_;
    note(flush_received(end_, at, bytes_, guard_));
    note(end_.gpu->copy(copy_.data(), at, bytes_));
    return pattern.first_mismatch(copy_.data(), bytes_) == bytes_;
  }

  const Status& first_failure() const { return first_failure_; }

 private:
  void note(Status step) {
    if (first_failure_ && !step) first_failure_ = std::move(step);
  }

  const Endpoint& end_;
  size_t bytes_;
  StallGuard guard_;
  std::vector<char> copy_;
  Status first_failure_;
};

// Fills each message before it is posted and checks it after it has been received. A receiver fills
// its buffer with another pattern, so that no data of an earlier message passes the check.
struct VerifyHooks {
  const Endpoint& end;
  RankBoard& board;
  MessageMemory memory;
  uint64_t seed;
  uint64_t stream;
  size_t bytes;
  uint64_t wrong = 0;

  void before_post(char* at, size_t message) {
    memory.fill(at, Pattern(seed, stream + (end.sends ? 0 : 1), message));
  }

  void after_done(char* at, size_t message, int received) {
    board.beat();
    if (end.sends) return;
    // test() reports an int, which has no value for a larger message.
    bool size_right = bytes > INT_MAX || received == static_cast<int>(bytes);
    if (!size_right || !memory.holds(at, Pattern(seed, stream, message))) ++wrong;
  }
};
}  // namespace

Result<StreamTimes> time_stream(const Endpoint& end, const StreamShape& shape, Rank& rank,
                                uint64_t yield_every) {
  StallGuard guard(rank, yield_every);
  const size_t window = window_of(shape);
  TimingHooks hooks{rank.board(), window};
  Clock::time_point start = Clock::now();
  if (Status done = MessageStream(end, shape, guard, hooks).run(); !done)
    return forward_error(done);
  Clock::time_point stop = Clock::now();
  StreamTimes times;
  times.total = seconds_between(start, stop);
  times.after_first = seconds_between(hooks.first, stop);
  times.best_window = hooks.best;
  times.window_messages = window;
  return times;
}

BandwidthRow bandwidth_row(const StreamShape& shape, const StreamTimes& sender,
                           const StreamTimes& receiver) {
  constexpr double kMiB = 1 << 20;
  auto messages = static_cast<double>(shape.messages);
  double rate = messages / sender.total;
  if (shape.messages > 1 && receiver.after_first > 0) {
    rate = std::min(rate, (messages - 1) / receiver.after_first);
  }
  double peak = rate;
  if (sender.best_window > 0) {
    peak = std::max(peak, static_cast<double>(sender.window_messages) / sender.best_window);
  }
  BandwidthRow row;
  row.bytes = shape.bytes;
  row.iterations = shape.messages;
  row.average_mib_s = rate * static_cast<double>(shape.bytes) / kMiB;
  row.peak_mib_s = peak * static_cast<double>(shape.bytes) / kMiB;
  row.message_mpps = rate / 1e6;
  return row;
}

Result<uint64_t> verify_stream(const Endpoint& end, StreamShape shape, Rank& rank, uint64_t seed,
                               uint64_t stream) {
  shape.depth = std::min(shape.depth, shape.slots / shape.group);
  StallGuard guard(rank, kRelaxedYield);
  VerifyHooks hooks{end,  rank.board(), MessageMemory(end, shape.bytes, rank),
                    seed, stream,       shape.bytes};
  Status done = MessageStream(end, shape, guard, hooks).run();
  // A failed GPU copy is the cause of what the plugin then reports.
  if (const Status& copied = hooks.memory.first_failure(); !copied) {
    return tl::unexpected(copied.error());
  }
  if (!done) return forward_error(done);
  return hooks.wrong;
}

}  // namespace gdr::tools
