// Rails of any speed, and a sender that has messages in flight over them, in simulated time.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "transport/data/message_cutter.h"
#include "transport/pairs/rail_load.h"

namespace gdr::transport {

inline RailLoad::Time at(double seconds) {
  return RailLoad::Time(
      std::chrono::nanoseconds(1'000'000'000 + static_cast<int64_t>(seconds * 1e9)));
}

// Rails that transfer one chunk after the other, each at its own speed, and a sender that has a
// window of messages in flight, as NCCL's proxy has: a message is posted when the one that many
// before it is complete, together with all before that.
class Simulation {
 public:
  static constexpr double kPost = 3e-7;  // to post a chunk

  // Bytes per second, and the seconds between polls.
  explicit Simulation(std::vector<double> speeds, double poll = 4e-6)
      : speeds_(std::move(speeds)),
        poll_(poll),
        loss_(speeds_.size()),
        load_(std::vector<double>(speeds_.size(), 50e9)),
        queues_(speeds_.size()),
        free_at_(speeds_.size(), 0),
        sent_(speeds_.size(), 0) {}

  void set_speed(size_t rail, double speed) { speeds_[rail] = speed; }
  // Of every transfer, beside its bytes.
  void set_latency(double seconds) { latency_ = seconds; }
  // That share of the chunks takes so many seconds more, as one does whose last packet is lost: the
  // timeout has to pass. The chunks behind it wait.
  void set_loss(size_t rail, double share, double seconds) { loss_[rail] = {share, seconds, {}}; }
  // Instead, each of them takes another time: so many seconds more on average, exponentially
  // distributed, as where each packet of a chunk may be lost, and may be so again.
  void set_varied_loss(size_t rail, double share, double seconds) {
    loss_[rail] = {share, 0, std::exponential_distribution<>(1 / seconds)};
  }

  // Sends messages for that long. Returns the bytes per second that arrived.
  double run(size_t bytes, size_t window, double seconds) {
    const double begin = now_;
    size_t arrived = 0;
    while (now_ < begin + seconds) {
      now_ += poll_;
      poll();
      for (; !messages_.empty() && messages_.front() == 0; messages_.pop_front(), ++first_) {
        arrived += bytes;
      }
      while (messages_.size() < window) send(bytes);
    }
    return static_cast<double>(arrived) / (now_ - begin);
  }
  size_t sent(size_t rail) const { return sent_[rail]; }
  RailLoad& load() { return load_; }

 private:
  struct Loss {
    double share = 0;
    double seconds = 0;
    std::optional<std::exponential_distribution<>> more;
  };
  struct Chunk {
    size_t message;
    size_t bytes;
    double done_at;
  };

  void poll() {
    for (size_t rail = 0; rail < queues_.size(); ++rail) {
      auto& queue = queues_[rail];
      for (; !queue.empty() && queue.front().done_at <= now_; queue.pop_front()) {
        load_.acknowledge(rail, queue.front().bytes, at(now_));
        --messages_[queue.front().message - first_];
      }
      load_.note_poll(rail, at(now_));
    }
  }
  void send(size_t bytes) {
    const Chunking chunks =
        chunks_for_rails(bytes, static_cast<uint32_t>(speeds_.size()), 1, size_t{1} << 30);
    messages_.push_back(chunks.count);
    for (size_t from = 0; from < bytes; from += chunks.bytes) {
      const size_t part = std::min(bytes - from, chunks.bytes);
      now_ += kPost;
      const size_t rail = load_.choose(part, (1u << speeds_.size()) - 1, at(now_));
      load_.post(rail, part, at(now_));
      sent_[rail] += part;
      // What is queued already keeps its time when the speed changes.
      free_at_[rail] = std::max(free_at_[rail], now_) + seconds_for(rail, part);
      queues_[rail].push_back({first_ + messages_.size() - 1, part, free_at_[rail] + latency_});
    }
  }

  double seconds_for(size_t rail, size_t bytes) {
    Loss& loss = loss_[rail];
    const bool lost = loss.share > 0 && std::bernoulli_distribution(loss.share)(random_);
    double seconds = static_cast<double>(bytes) / speeds_[rail];
    if (lost) seconds += loss.more ? (*loss.more)(random_) : loss.seconds;
    return seconds;
  }

  std::vector<double> speeds_;
  double poll_;
  double latency_ = 3e-6;
  std::vector<Loss> loss_;
  std::mt19937 random_{1};
  RailLoad load_;
  double now_ = 0;
  std::deque<uint32_t> messages_;  // chunks still to be acknowledged, from message first_ on
  size_t first_ = 0;
  std::vector<std::deque<Chunk>> queues_;
  std::vector<double> free_at_;
  std::vector<size_t> sent_;
};

}  // namespace gdr::transport
