#include "transport/handshakes.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace gdr::transport {
namespace {

// NCCL calls connect() and accept() in a loop; a pause of minutes means that it has given up. The
// whole process may have been suspended, though: only a handshake that is not called within the
// grace period after it was suspected is abandoned.
constexpr std::chrono::minutes kAbandonedAfter{5};
constexpr std::chrono::seconds kGraceOfSuspects{10};
// Looking at all handshakes for each new one would be quadratic.
constexpr std::chrono::seconds kExpiryInterval{1};
// Handshakes that wait for the same peer stall within moments of each other, and are logged
// together.
constexpr std::chrono::seconds kGather{1};

}  // namespace

void HandshakeRegistry::add(Handshake* handshake) {
  std::lock_guard lock(mutex_);
  all_.insert(handshake);
}

void HandshakeRegistry::remove(Handshake* handshake) {
  std::lock_guard lock(mutex_);
  all_.erase(handshake);
  stalls_.erase(handshake);
}

void HandshakeRegistry::expire_abandoned() {
  const Clock::time_point now = now_();
  std::lock_guard lock(mutex_);
  if (now - last_expiry_ < kExpiryInterval) return;
  last_expiry_ = now;
  for (Handshake* handshake : all_) {
    if (handshake->expire_if_abandoned(now)) stalls_.erase(handshake);
  }
}

void HandshakeRegistry::add_stall(const Handshake* handshake, Stall stall) {
  const Clock::time_point now = now_();
  std::lock_guard lock(mutex_);
  if (stalls_.empty()) {
    episode_began_ = now;
    episode_logged_ = false;
  }
  if (episode_logged_) GDR_INFO(log::kNet, "watchdog: %s", stall.text.c_str());
  stalls_[handshake] = std::move(stall);
}

void HandshakeRegistry::end_stall(const Handshake* handshake) {
  std::lock_guard lock(mutex_);
  stalls_.erase(handshake);
}

void HandshakeRegistry::log_stalls() {
  const Clock::time_point now = now_();
  std::lock_guard lock(mutex_);
  if (episode_logged_ || stalls_.empty() || now - episode_began_ < kGather) return;
  episode_logged_ = true;
  const auto oldest = std::min_element(
      stalls_.begin(), stalls_.end(),
      [](const auto& a, const auto& b) { return a.second.since < b.second.since; });
  const std::string& text = oldest->second.text;
  if (stalls_.size() == 1) {
    GDR_WARN("watchdog: %s", text.c_str());
  } else {
    GDR_WARN("watchdog: %zu handshakes make no progress; the oldest: %s", stalls_.size(),
             text.c_str());
    for (auto it = stalls_.begin(); it != stalls_.end(); ++it) {
      if (it != oldest) GDR_INFO(log::kNet, "watchdog: %s", it->second.text.c_str());
    }
  }
}

Handshake::Handshake(HandshakeRegistry& all, std::function<void()> release)
    : all_(all), release_(std::move(release)) {
  all_.add(this);
}

Handshake::~Handshake() { all_.remove(this); }

Result<std::unique_lock<std::mutex>> Handshake::begin_call(const char* call) {
  std::unique_lock lock(mutex_);
  if (expired_) {
    return fail(Code::kInvalidUsage, std::string("this handshake was given up, since ") + call +
                                         "() had not been called for " +
                                         std::to_string(kAbandonedAfter.count()) +
                                         " minutes. Fix: create the communicator anew");
  }
  const Clock::time_point called_at = now();
  if (!last_call_) progress_at_ = called_at;
  last_call_ = called_at;
  if (suspected_) stalled_ = false;  // its stall has been removed
  suspected_.reset();
  return lock;
}

void Handshake::on_progress() {
  progress_at_ = now();
  if (stalled_) all_.end_stall(this);
  stalled_ = false;
}

void Handshake::on_complete() {
  on_progress();
  last_call_.reset();
}

bool Handshake::is_stall_due() const {
  return !stalled_ && all_.watchdog_.count() > 0 && now() - progress_at_ >= all_.watchdog_;
}

long long Handshake::seconds_without_progress() const {
  return std::chrono::duration_cast<std::chrono::seconds>(now() - progress_at_).count();
}

void Handshake::log_stall(std::string text) {
  stalled_ = true;
  all_.add_stall(this, {progress_at_, std::move(text)});
}

// The caller holds HandshakeRegistry::mutex_. A handshake whose lock is taken is being called.
bool Handshake::expire_if_abandoned(Clock::time_point now) {
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || !last_call_ || now - *last_call_ < kAbandonedAfter) return false;
  if (!suspected_) suspected_ = now;
  if (!expired_ && now - *suspected_ >= kGraceOfSuspects) {
    expired_ = true;
    release_();
  }
  return true;
}

}  // namespace gdr::transport
