// What the handshakes of a process have in common: the clock, the log of those that stall, and the
// end of those that NCCL abandons.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "transport/device/hca.h"
#include "transport/link/failure_log.h"
#include "transport/options.h"

namespace gdr::transport {

// The fix where a peer may not be reached, for error and log texts.
inline constexpr char kAllowTcp[] =
    "allow TCP between the nodes on all ports above 1023, or choose the interface with "
    "NCCL_SOCKET_IFNAME, alike on all nodes";

class Handshake;
class HandshakeRegistry;
class Watcher;
enum class Room : uint8_t;

// What a listener and a connector use. All of it outlives them.
struct HandshakeContext {
  const std::vector<Device>* devices;
  std::shared_ptr<const TransportOptions> options;
  std::shared_ptr<const ConnectionOptions> connection;  // of the communicator
  Watcher* watcher;
  HandshakeRegistry* handshakes;
};

// All handshakes of a Transport. Thread-safe.
class HandshakeRegistry {
 public:
  // watchdog: a handshake that makes no progress for so long is logged; 0 turns that off. watcher:
  // its thread calls free_abandoned() once a second, and its RoomMaker give_way(); it ends before
  // this object. Null: nobody does.
  HandshakeRegistry(Now now, std::chrono::seconds watchdog, Watcher* watcher = nullptr);

  Clock::time_point now() const { return now_(); }

  // Frees what those handshakes hold that NCCL has not called for minutes. When NCCL aborts, it
  // neither calls connect() again nor closes a listener that it still accepts on
  // (src/transport/net.cc, recvProxyFree).
  void free_abandoned();
  // Destroys the QP of a standby pair, on that HCA or on any, of a handshake that is under way;
  // kAwaited where one is in a call of another thread.
  Room give_way(const HcaContext* hca);

  Episodes episodes;

 private:
  friend class Handshake;
  void add(Handshake* handshake);
  void remove(Handshake* handshake);

  const Now now_;
  const std::chrono::seconds watchdog_;
  Watcher* const watcher_;
  std::mutex mutex_;  // guards all that follows
  std::set<Handshake*> all_;
};

// What one connector or listener shares with the others. Its owner declares it as its last member,
// so that it is destroyed first: `release` must not run on an owner that is half destroyed.
class Handshake {
 public:
  // What it takes to free a handshake. It runs in another thread, but never during a call of NCCL's
  // (begin_call()), and does not block.
  struct Owner {
    // Frees what the owner holds, and returns what may block to destroy.
    std::function<std::shared_ptr<void>()> release;
    // Destroys the QP of a standby pair, as HandshakeRegistry::give_way(). Returns whether there
    // was one. It may run within a call of NCCL's in the same thread, which lacks something for a
    // comm that it makes.
    std::function<bool(const HcaContext* hca)> give_up_standby;
  };
  Handshake(HandshakeRegistry& all, Owner owner);
  ~Handshake();
  Handshake(const Handshake&) = delete;
  Handshake& operator=(const Handshake&) = delete;

  Clock::time_point now() const { return all_.now(); }

  // Every call of NCCL's begins with it and holds the lock until it returns. An error where the
  // handshake had been abandoned: its resources are gone. call: "connect", for the text.
  Result<std::unique_lock<std::recursive_mutex>> begin_call(const char* call);
  // The handshake has come further; a stall ends.
  void on_progress();
  // It is complete. A listener may be called again much later, for another sender.
  void on_complete();
  // The handshake has to wait. Where it has done so for the watchdog's time, that is logged with
  // the owner's text(seconds), which says what it waits for, the likely cause and the fix: once,
  // and as a warning for one of those that stall in a minute.
  void on_waiting(const std::function<std::string(long long)>& text);

 private:
  friend class HandshakeRegistry;
  // Where NCCL has abandoned it, what it held is added to `held`.
  void expire_if_abandoned(Clock::time_point now, std::vector<std::shared_ptr<void>>* held);

  HandshakeRegistry& all_;
  const Owner owner_;
  std::recursive_mutex mutex_;                  // guards all that follows, and what the owner holds
  std::optional<Clock::time_point> last_call_;  // none: no call is expected
  std::optional<Clock::time_point> suspected_;  // that NCCL has abandoned it, since then
  bool expired_ = false;
  Clock::time_point progress_at_{};
  bool stalled_ = false;
};

}  // namespace gdr::transport
