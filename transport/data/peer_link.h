// The link to the peer beside the rails: the socket of the handshake, over which each end learns of
// the other's failure, end or state. The data path reads one atomic; the watcher thread does the
// rest.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "base/result.h"
#include "transport/data/copy_monitor.h"
#include "transport/memory/registration_agreement.h"
#include "transport/wire/frame_channel.h"

namespace gdr::transport {

// One connection's link to its peer. The connection and the watcher share it.
class PeerLink {
 public:
  using Clock = std::chrono::steady_clock;

  // description names both ends, for log and error texts; role is this end's, "sender" or
  // "receiver". agreement, which may be null, gets the peer's kMemory frames.
  PeerLink(FrameChannel channel, std::string description, const char* role,
           std::shared_ptr<RegistrationAgreement> agreement = nullptr);

  int fd() const { return fd_; }
  const std::string& description() const { return description_; }

  // ---- data path (the comm's thread)
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  // Count requests, for the watchdog to see progress.
  void count_posted() { bump(posted_); }
  void count_completed() { bump(completed_); }
  bool has_posted() const { return posted_.load(std::memory_order_relaxed) > 0; }
  CopyMonitor& copies() { return copies_; }

  // ---- any thread
  // Fails the link; the first error is kept, later ones are dropped. notify_peer: the peer receives
  // the text (kFailed) and fails too.
  void fail_link(Error error, bool notify_peer);
  // Returns the error of a failed link.
  Error failure() const;
  // Announces an orderly close (kBye), so that the peer does not take the end of the stream for the
  // death of this process.
  void send_bye();
  // Sends how this end registers GPU memory (wire::Memory::flags).
  void send_memory(uint32_t flags);

  // ---- watcher thread
  // Reads the frames that have arrived. Returns false once the socket is closed; the link fails a
  // grace period later.
  bool on_readable();
  // Called about once a second, and at deadline(). Requests without progress for `watchdog` seconds
  // are logged once per episode, with the state of both ends; 0 turns that off.
  void on_tick(std::chrono::seconds watchdog);
  // When on_tick must be called at the latest; Clock::time_point::max() when nothing is due.
  Clock::time_point deadline() const { return grace_end_; }
  // "sender posted 12 completed 9", with the failure and the likely cause of a stall, if any.
  std::string state_text() const;

 private:
  // Only one thread writes each counter, so that a plain increment is enough; the watcher, which
  // reads them, needs no order either.
  static void bump(std::atomic<uint64_t>& counter) {
    counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  void on_frame(const Frame& frame);
  void on_memory(const Frame& frame);
  void fail_unexpected();
  void on_peer_gone(std::string why);
  void check_progress(std::chrono::seconds watchdog);
  void send_frame(wire::FrameKind kind, const std::string& text);

  const std::string description_;
  const char* const role_;
  const std::shared_ptr<RegistrationAgreement> agreement_;
  const int fd_;

  std::atomic<bool> failed_{false};
  std::atomic<uint64_t> posted_{0};
  std::atomic<uint64_t> completed_{0};
  CopyMonitor copies_;

  mutable std::mutex mutex_;  // guards channel_'s sending side and failure_
  FrameChannel channel_;
  Error failure_{Code::kRemote, ""};

  // Watcher thread only.
  bool peer_closed_ = false;
  std::string gone_why_;
  Clock::time_point grace_end_ = Clock::time_point::max();
  uint64_t seen_completed_ = 0;
  Clock::time_point seen_at_ = Clock::now();
  bool reported_stall_ = false;
};

}  // namespace gdr::transport
