#include "transport/handshakes.h"

#include <utility>

#include "transport/watch/watcher.h"

namespace gdr::transport {
namespace {

// NCCL calls connect() and accept() in a loop; a pause of minutes means that it has given up. The
// whole process may have been suspended, though: only a handshake that is not called within the
// grace period after it was suspected is abandoned.
constexpr std::chrono::minutes kAbandonedAfter{5};
constexpr std::chrono::seconds kGraceOfSuspects{10};

}  // namespace

HandshakeRegistry::HandshakeRegistry(Now now, std::chrono::seconds watchdog, Watcher* watcher)
    : now_(std::move(now)), watchdog_(watchdog), watcher_(watcher) {
  if (watcher == nullptr) return;
  watcher->room().ask_handshakes([this](const HcaContext* hca) { return give_way(hca); });
  watcher->each_second([this] { free_abandoned(); });
}

void HandshakeRegistry::add(Handshake* handshake) {
  std::lock_guard lock(mutex_);
  all_.insert(handshake);
}

void HandshakeRegistry::remove(Handshake* handshake) {
  std::lock_guard lock(mutex_);
  all_.erase(handshake);
}

void HandshakeRegistry::free_abandoned() {
  const Clock::time_point now = now_();
  std::vector<std::shared_ptr<void>> held;
  {
    std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return;  // give_way() may wait for firmware
    for (Handshake* handshake : all_) handshake->expire_if_abandoned(now, &held);
  }
  // Without the mutex, for which calls of NCCL's wait: destroying may block.
  if (!held.empty() && watcher_ != nullptr) watcher_->call([held = std::move(held)] {});
}

// With the mutex, without which a handshake may end meanwhile.
Room HandshakeRegistry::give_way(const HcaContext* hca) {
  std::lock_guard lock(mutex_);
  Room room = Room::kNone;
  for (Handshake* handshake : all_) {
    const Handshake::Owner& owner = handshake->owner_;
    const std::unique_lock call(handshake->mutex_, std::try_to_lock);
    if (!call.owns_lock()) {
      room = Room::kAwaited;
    } else if (owner.give_up_standby(hca)) {
      return Room::kMade;
    }
  }
  return room;
}

Handshake::Handshake(HandshakeRegistry& all, Owner owner) : all_(all), owner_(std::move(owner)) {
  all_.add(this);
}

Handshake::~Handshake() { all_.remove(this); }

Result<std::unique_lock<std::recursive_mutex>> Handshake::begin_call(const char* call) {
  std::unique_lock lock(mutex_);
  if (expired_) {
    return fail(Code::kInvalidUsage, "this handshake was given up, since " + std::string(call) +
                                         "() was not called for minutes. Fix: create the "
                                         "communicator anew");
  }
  const Clock::time_point called_at = now();
  if (!last_call_) progress_at_ = called_at;
  last_call_ = called_at;
  suspected_.reset();
  return lock;
}

void Handshake::on_progress() {
  progress_at_ = now();
  stalled_ = false;
}

void Handshake::on_complete() {
  on_progress();
  last_call_.reset();
}

void Handshake::on_waiting(const std::function<std::string(long long)>& text) {
  const auto waited = std::chrono::duration_cast<std::chrono::seconds>(now() - progress_at_);
  if (stalled_ || all_.watchdog_.count() == 0 || waited < all_.watchdog_) return;
  stalled_ = true;
  FailureLog(all_.episodes)
      .warn("stalled handshake", "watchdog: " + text(waited.count()), "", now());
}

// The caller holds HandshakeRegistry::mutex_. A handshake whose lock is taken is being called.
void Handshake::expire_if_abandoned(Clock::time_point now,
                                    std::vector<std::shared_ptr<void>>* held) {
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || !last_call_ || expired_) return;
  if (now - *last_call_ < kAbandonedAfter) return;
  if (!suspected_) suspected_ = now;
  if (now - *suspected_ < kGraceOfSuspects) return;
  held->push_back(owner_.release());
  expired_ = true;
}

}  // namespace gdr::transport
