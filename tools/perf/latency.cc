#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tools/common/sizes.h"
#include "tools/perf/measurements.h"

namespace gdr::tools {
namespace {
constexpr size_t kReapEvery = 32;    // unsuccessful tests of a receive between two of a send
constexpr size_t kBeatEvery = 1024;  // round trips between two heartbeats

// Requests in flight on one endpoint, each for its whole message.
struct Queue {
  const Endpoint& end;
  size_t bytes;
  size_t depth;
  RequestQueue requests = {};

  bool full() const { return requests.in_flight() >= depth; }
  bool empty() const { return requests.in_flight() == 0; }

  // Returns false when the plugin has no room yet.
  Result<bool> post() {
    void* request = nullptr;
    abi::ncclResult_t result = end.post(end.data, bytes, &request);
    if (result == abi::ncclSuccess) return requests.push(request);
    return entry_failed(end.sends ? "isend" : "irecv", requests.posted(), result);
  }

  // Returns true when the oldest request has completed.
  Result<bool> reap() {
    int size = 0;
    return requests.test(*end.net, &size);
  }
};

// Sends and receives of one rank. What need not happen between the arrival of a message and the
// reply is left to tidy(), so that it is not part of the measured time.
class PingPong {
 public:
  PingPong(const Endpoint& send, const Endpoint& recv, const PingPongShape& shape, Rank& rank)
      : rank_(rank),
        guard_(rank, StallGuard::yield_interval(1)),
        sends_{send, shape.bytes, std::max<size_t>(shape.depth, 2)},
        recvs_{recv, shape.bytes, shape.depth},
        total_(shape.round_trips) {}

  Status send_one() {
    for (;;) {
      if (!sends_.full()) {
        auto posted = sends_.post();
        if (!posted) return forward_error(posted);
        if (*posted) break;
      }
      if (Status tidied = tidy(); !tidied) return tidied;
      if (!guard_.keep_waiting()) return stalled("to send");
    }
    guard_.progress();
    return {};
  }

  Status receive_one() {
    for (size_t polls = 1;; ++polls) {
      if (!recvs_.empty()) {
        auto received = recvs_.reap();
        if (!received) return forward_error(received);
        if (*received) break;
      }
      if (polls % kReapEvery == 0 || recvs_.empty()) {
        if (Status tidied = tidy(); !tidied) return tidied;
      }
      if (!guard_.keep_waiting()) return stalled("to receive");
    }
    guard_.progress();
    if (recvs_.requests.completed() % kBeatEvery == 0) rank_.board().beat();
    return {};
  }

  // Does what can wait until the message has been posted: tests sends and posts receives.
  Status tidy() {
    if (!sends_.empty()) {
      if (auto reaped = sends_.reap(); !reaped) return forward_error(reaped);
    }
    while (!recvs_.full() && recvs_.requests.posted() < total_) {
      auto posted = recvs_.post();
      if (!posted) return forward_error(posted);
      if (!*posted) break;
    }
    return {};
  }

  Status finish() {
    while (!sends_.empty()) {
      if (Status tidied = tidy(); !tidied) return tidied;
      if (!guard_.keep_waiting()) return stalled("for sends to complete");
    }
    return {};
  }

 private:
  Status stalled(const char* what) {
    return fail(Code::kRemote,
                fmt::format("gave up waiting {}: {} of {} sent, {} received", what,
                            sends_.requests.completed(), total_, recvs_.requests.completed()));
  }

  Rank& rank_;
  StallGuard guard_;
  Queue sends_;
  Queue recvs_;
  size_t total_;
};

double percentile(const std::vector<double>& sorted, double fraction) {
  auto rank = static_cast<size_t>(std::ceil(fraction * static_cast<double>(sorted.size())));
  return sorted[std::clamp<size_t>(rank, 1, sorted.size()) - 1];
}

double middle(const std::vector<double>& sorted) {
  size_t half = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}
}  // namespace

Result<std::vector<double>> ping_pong(const Endpoint& send, const Endpoint& recv,
                                      const PingPongShape& shape, Rank& rank, bool first) {
  std::vector<Clock::time_point> starts(first ? shape.round_trips + 1 : 0);
  PingPong game(send, recv, shape, rank);
  Status done = game.tidy();
  if (done) done = rank.barrier("ping-pong starts");
  rank.board().set_state(fmt::format("ping-pong of {}", human_bytes(shape.bytes)));
  for (size_t i = 0; done && i < shape.round_trips; ++i) {
    if (first) {
      starts[i] = Clock::now();
      done = game.send_one();
      if (done) done = game.tidy();
      if (done) done = game.receive_one();
    } else {
      done = game.receive_one();
      if (done) done = game.send_one();
      if (done) done = game.tidy();
    }
  }
  if (first) starts.back() = Clock::now();
  if (done) done = game.finish();
  if (!done) return forward_error(done);
  std::vector<double> halves;
  for (size_t i = 0; i + 1 < starts.size(); ++i) {
    halves.push_back(std::chrono::duration<double, std::micro>(starts[i + 1] - starts[i]).count() /
                     2);
  }
  return halves;
}

LatencySummary summarize(std::vector<double>& samples) {
  LatencySummary out;
  if (samples.empty()) return out;
  std::sort(samples.begin(), samples.end());
  auto count = static_cast<double>(samples.size());
  out.min = samples.front();
  out.max = samples.back();
  out.typical = middle(samples);
  out.average = std::accumulate(samples.begin(), samples.end(), 0.0) / count;
  double squares = 0;
  for (double sample : samples) squares += (sample - out.average) * (sample - out.average);
  out.stdev = std::sqrt(squares / count);
  out.p99 = percentile(samples, 0.99);
  out.p999 = percentile(samples, 0.999);
  return out;
}

}  // namespace gdr::tools
