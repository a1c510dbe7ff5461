// The link to the peer beside the rails: the socket of the handshake, over which each end learns of
// the other's failure, end or state. The data path reads one atomic (Attention); the watcher thread
// does the rest.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <compare>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "base/result.h"
#include "transport/link/reopening.h"
#include "transport/wire/frame_channel.h"

namespace gdr::transport {

// The process at the other end, as its hello or reply names it.
struct PeerProcess {
  std::string host;
  uint32_t pid = 0;
  auto operator<=>(const PeerProcess&) const = default;
};

std::string to_string(const PeerProcess& process);  // "process 4711 on nodeB"

// What the data path of a connection has to look at beside its work: one word, so that a poll loads
// it once. Thread-safe.
class Attention {
 public:
  // Whether the link has failed or wants a probe, or the recovery has something for the data path.
  bool needs_attention() const { return load() != 0; }
  // Whether the link has failed or wants a probe, or the peer has left.
  bool needs_care() const { return (load() & (kFailed | kProbe | kLeft)) != 0; }
  bool failed() const { return (load() & kFailed) != 0; }
  bool probe_wanted() const { return (load() & kProbe) != 0; }
  // Receiver: the peer has closed, or is gone. What had arrived may still be taken and flushed;
  // where a poll of all queues leaves a receive outstanding, fail_gone().
  bool peer_left() const { return (load() & kLeft) != 0; }
  // The peer's HCA answered the probe, or none can be posted; until then the link needs attention.
  void end_probe() { set(kProbe, false); }
  // The recovery has news for the data path, or waits for it to find queues empty; or not any more.
  void set_recovering(bool recovering) { set(kRecovering, recovering); }

 protected:
  static constexpr uint32_t kFailed = 1;
  static constexpr uint32_t kProbe = 2;
  static constexpr uint32_t kRecovering = 4;
  static constexpr uint32_t kLeft = 8;

  void set(uint32_t bit, bool on) {
    if (on) {
      bits_.fetch_or(bit, std::memory_order_acq_rel);
    } else {
      bits_.fetch_and(~bit, std::memory_order_acq_rel);
    }
  }

 private:
  uint32_t load() const { return bits_.load(std::memory_order_acquire); }

  std::atomic<uint32_t> bits_{0};
};

// The requests of a connection, for those who ask whether it makes progress.
// The data path counts, and any thread asks. Only one thread writes each counter, so that a plain
// increment is enough.
class RequestCounts {
 public:
  // ---- data path
  [[gnu::always_inline]] void count_posted() { add(posted_, 1); }
  // The request that was counted last could not be posted.
  void take_back_posted() { add(posted_, uint64_t(-1)); }
  // Of receives: once their arrivals are counted.
  [[gnu::always_inline]] void count_completed() { add(completed_, 1); }
  // Receiver: NCCL has asked for a receive, for which no pair is usable; or that is over.
  void set_awaits_pair(bool awaits) { awaits_pair_.store(awaits, std::memory_order_relaxed); }

  // ---- any thread
  // Whether all requests that were posted are complete. Everything that had completed them has then
  // been done, if the data path counts a request before it announces it.
  bool is_idle() const {
    const uint64_t completed = this->completed();
    return posted() == completed;
  }
  uint64_t posted() const { return posted_.load(std::memory_order_acquire); }
  // Flushes included.
  uint64_t completed() const { return completed_.load(std::memory_order_acquire); }
  bool awaits_pair() const { return awaits_pair_.load(std::memory_order_relaxed); }

  // ---- watcher thread
  // Since when requests have been outstanding and none completed, as of the last note_progress();
  // nothing where none is outstanding.
  std::optional<std::chrono::steady_clock::time_point> stalled_since() const {
    return stalled_since_;
  }

 protected:
  // counts: otherwise nothing is outstanding any more.
  void note_progress(std::chrono::steady_clock::time_point now, bool counts) {
    const uint64_t completed = this->completed();
    if (posted() == completed || !counts) {
      stalled_since_.reset();
    } else if (completed != seen_completed_ || !stalled_since_) {
      stalled_since_ = now;
    }
    seen_completed_ = completed;
  }

 private:
  [[gnu::always_inline]] static void add(std::atomic<uint64_t>& counter, uint64_t difference) {
    counter.store(counter.load(std::memory_order_relaxed) + difference, std::memory_order_release);
  }

  std::atomic<uint64_t> posted_{0};
  std::atomic<uint64_t> completed_{0};
  std::atomic<bool> awaits_pair_{false};
  uint64_t seen_completed_ = 0;
  std::optional<std::chrono::steady_clock::time_point> stalled_since_;
};

struct PeerLinkOptions {
  PeerProcess peer;
  ReopenTarget reopen{};
  std::string owner = "";  // ConnectionOptions::owner
  // Takes the peer's kPair frames; null: they are unexpected. Watcher thread.
  std::function<void(const wire::PairStatement&)> on_statement = nullptr;
  // What state_text() says about the rails, and about pairs that are lost; null: nothing.
  std::function<std::string()> pairs_text = nullptr;
};

// One connection's link to its peer. The connection and the watcher share it.
//
// The link fails when the peer's process is gone. The end of the socket does not show that: it is
// opened again, or the peer is asked for (docs/adr/0003-kept-socket.md). Until there is a socket
// again, an end that only waits has nothing outstanding that could time out. So the link asks the
// data path for a probe from time to time: a write of no bytes, which the HCA of a dead peer does
// not answer.
class PeerLink : public Attention, public RequestCounts {
 public:
  using Clock = std::chrono::steady_clock;

  // description names both ends, for log and error texts; role is this end's, "sender" or
  // "receiver".
  PeerLink(FrameChannel channel, std::string description, const char* role,
           PeerLinkOptions options = {});

  int fd() const { return fd_; }
  const std::string& description() const { return description_; }
  const PeerProcess& peer() const { return options_.peer; }
  const ReopenTarget& reopen_target() const { return options_.reopen; }

  // ---- any thread
  // Fails the link; the first error is kept, later ones are dropped. notify_peer: the peer receives
  // the text (kFailed) and fails too.
  void fail_link(Error error, bool notify_peer);
  void fail_gone();  // as the peer is gone, or has closed
  // Returns the error of a failed link.
  Error failure() const;
  // Announces an orderly close (kBye), so that the peer does not take the end of the stream for the
  // death of this process, and ends the stream. What is sent after it is lost.
  void send_bye();
  // Whether the peer's process is gone: the link has failed, or will after the grace period.
  bool peer_gone() const { return peer_gone_.load(std::memory_order_relaxed); }
  // Sends a statement about a pair (kPair).
  void send_statement(const wire::PairStatement& statement);
  // There has been no socket for some time, and the link goes on without it.
  bool deaf() const { return deaf_.load(std::memory_order_relaxed); }

  // ---- watcher thread
  // Reads the frames that have arrived. Returns false once the socket has ended; on_socket_end has
  // then been called.
  bool on_readable(Clock::time_point now);
  // What follows from the end of the socket, as FrameChannel::receive reports it.
  void on_socket_end(const Error& error, Clock::time_point now);
  // The peer has asked for the connection over a new socket. Returns whether that is the link's
  // from now on, under the number of the former one: it has to be watched.
  bool on_reopened(FrameChannel channel);
  // Called about once a second, and at deadline(). Returns as on_reopened.
  bool on_tick(Clock::time_point now);
  // When on_tick must be called at the latest; Clock::time_point::max() when nothing is due.
  Clock::time_point deadline() const { return std::min(grace_end_, reopening_.deadline()); }
  // Why the socket has ended.
  const std::string& end_text() const { return end_text_; }
  // Asks the peer for its state, and logs the answer when it arrives.
  void query_peer();
  // "sender posted 12 completed 9 for communicator 0x1234", with the failure and the likely cause
  // of a stall, if any.
  std::string state_text() const;

 private:
  void on_frame(const Frame& frame);
  void fail_unexpected();
  void send_frame(wire::FrameKind kind, const std::string& text);
  void on_peer_gone(const std::string& reason, Clock::time_point end);
  bool reopen(Clock::time_point now);
  bool use(FrameChannel channel);
  void keep_alive(Clock::time_point now);

  const std::string description_;
  const char* const role_;
  const PeerLinkOptions options_;
  const int fd_;

  std::atomic<bool> peer_gone_{false};
  std::atomic<bool> deaf_{false};

  mutable std::mutex mutex_;  // guards channel_'s sending side, and all up to notifies_peer_
  FrameChannel channel_;
  Error failure_{Code::kRemote, ""};
  bool notifies_peer_ = false;  // of failure_, once more over each new socket

  // Watcher thread only.
  bool peer_closed_ = false;  // kBye arrived
  bool queried_ = false;      // no answer yet
  std::string end_text_;
  std::string gone_text_;                      // why the link fails at grace_end_
  std::optional<Clock::time_point> ended_at_;  // there is no socket since then
  Reopening reopening_{options_.reopen};
  Clock::time_point keep_alive_at_{};
  Clock::time_point grace_end_ = Clock::time_point::max();
  Clock::time_point probe_at_ = Clock::time_point::max();
};

}  // namespace gdr::transport
