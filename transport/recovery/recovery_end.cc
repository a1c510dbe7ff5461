// When a Recovery ends its connection.
#include <algorithm>
#include <utility>

#include "transport/recovery/recovery.h"
#include "transport/recovery/recovery_text.h"

namespace gdr::transport {

// Where no pair is usable, the connection waits for one to return: a port that was down may come
// back within a second, and two ends may each have given up another rail at the same time.
void Recovery::fail_if_none_is_left(Clock::time_point now) {
  const auto any = [this](auto is) { return std::ranges::any_of(pairs_, is); };
  const bool usable = is_any_usable();
  for (Pair& pair : pairs_) pair.agreement.set_urgent(!usable);
  if (usable || needs_no_pair()) return none_usable_since_.reset();
  if (!none_usable_since_) none_usable_since_ = now;
  if (any([](const Pair& pair) { return pair.agreement.awaits_own_probe(); })) return;
  const bool returns = any([](const Pair& pair) { return may_return(pair); });
  // Without the socket, the ends agree on a pair over another one only.
  const bool waits = returns && !link_->deaf();
  if (waits && now < *none_usable_since_ + patience_) return;
  std::vector<LostPair> lost;
  for (uint32_t i = 0; i < pairs_.size(); ++i) lost.push_back(describe_pair(i));
  fail(Code::kRemote, no_pair_is_left_text(lost, waits ? now - *none_usable_since_ : now - now));
}

LostPair Recovery::describe_pair(uint32_t index) const {
  const PairAgreement& agreement = pairs_[index].agreement;
  return {.path = io_.path_text(index),
          .host = io_.host_text(),
          .port = io_.port_text(index),
          .peer = io_.peer_text(index),
          .port_down = port_down_[io_.rail(index)],
          .cause = agreement.cause(),
          .peer_cause = agreement.peer_cause()};
}

LostPair Recovery::lost_pair(uint32_t index) const {
  std::lock_guard lock(mutex_);
  return describe_pair(index);
}

bool Recovery::is_any_usable() const {
  return std::ranges::any_of(pairs_, [](const Pair& pair) { return pair.agreement.usable(); });
}

// An HCA that is gone has to be opened anew, and a rail that an end has withdrawn is not tried
// again.
bool Recovery::may_return(const Pair& pair) {
  const wire::PairReason there = pair.agreement.peer_cause().reason;
  return !pair.hopeless && !pair.withdrawn && there != wire::PairReason::kDeviceLost &&
         there != wire::PairReason::kWithdrawn;
}

// Nothing is outstanding or asked for, and a pair may return: perhaps only when NCCL calls the
// other end.
bool Recovery::needs_no_pair() const {
  const bool waits = !link_->is_idle() || link_->awaits_pair();
  return !waits && !link_->deaf() && std::ranges::any_of(pairs_, may_return);
}

// The probe of a pair that is revived late would only delay the end.
bool Recovery::is_too_late(Clock::time_point now) const {
  return none_usable_since_ && now >= *none_usable_since_ + patience_;
}

void Recovery::on_failed_connection() {
  std::lock_guard lock(mutex_);
  run(now());
}

void Recovery::fail(Code code, const std::string& what) {
  link_->fail_link(Error{code, link_->description() + ": " + what}, true);
}

}  // namespace gdr::transport
