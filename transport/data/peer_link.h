// What a connection keeps of its handshake: the socket, and whether the peer is still there. The
// data path reads one atomic; the watcher thread does the rest.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

#include "base/result.h"
#include "transport/wire/frame_channel.h"

namespace gdr::transport {

class PeerLink {
 public:
  using Clock = std::chrono::steady_clock;

  // description names both ends; role says what this end does ("sender", "receiver").
  PeerLink(FrameChannel channel, std::string description, const char* role);

  int fd() const { return fd_; }
  const std::string& description() const { return description_; }

  // ---- data path (the comm's thread)
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  // Relaxed: the watcher only wants to see that they move.
  void count_posted() { bump(posted_); }
  void count_completed() { bump(completed_); }
  bool has_posted() const { return posted_.load(std::memory_order_relaxed) > 0; }
  // While it lives, the comm's thread may be inside a call of the CUDA driver.
  class InDriver {
   public:
    explicit InDriver(PeerLink& link) : crossings_(link.driver_crossings_) { bump(crossings_); }
    ~InDriver() { bump(crossings_); }
    InDriver(const InDriver&) = delete;
    InDriver& operator=(const InDriver&) = delete;

   private:
    std::atomic<uint64_t>& crossings_;
  };
  // Whether the oldest copy between GPU and host memory was last seen incomplete.
  void set_awaits_copy(bool awaits) { awaits_copy_.store(awaits, std::memory_order_relaxed); }

  // ---- any thread
  // The first error stays. Tells the peer when `tell_peer`.
  void fail_link(Error error, bool notify_peer);
  Error failure() const;
  void send_bye();

  // ---- watcher thread
  // Reads what the socket has. False when the socket is of no more use.
  bool on_readable();
  // Called about once a second, and when a grace period ends. watchdog 0 is off.
  void on_tick(std::chrono::seconds watchdog);
  // When on_tick should come early; Clock::time_point::max() when it need not.
  Clock::time_point deadline() const { return grace_end_; }
  std::string state_text() const;

 private:
  // Only one thread writes each counter.
  static void bump(std::atomic<uint64_t>& counter) {
    counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  void on_frame(const Frame& frame);
  void on_peer_gone(std::string why);
  void check_progress(std::chrono::seconds watchdog);
  const char* staging_trouble() const;
  void send_frame(wire::FrameKind kind, const std::string& text);

  const std::string description_;
  const char* const role_;
  const int fd_;

  std::atomic<bool> failed_{false};
  std::atomic<uint64_t> posted_{0};
  std::atomic<uint64_t> completed_{0};
  std::atomic<uint64_t> driver_crossings_{0};  // odd: inside
  std::atomic<bool> awaits_copy_{false};

  mutable std::mutex mutex_;  // guards channel_'s sending side and failure_
  FrameChannel channel_;
  Error failure_{Code::kRemote, ""};

  // Watcher thread only.
  bool peer_closed_ = false;
  std::string gone_why_;
  Clock::time_point grace_end_ = Clock::time_point::max();
  uint64_t seen_completed_ = 0;
  uint64_t seen_crossings_ = 0;
  Clock::time_point seen_at_ = Clock::now();
  bool reported_stall_ = false;
};

}  // namespace gdr::transport
