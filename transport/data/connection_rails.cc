// The rails and queue pairs that a connection has, and those that it does without.
#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "base/log.h"
#include "transport/data/connection.h"

namespace gdr::transport {
namespace {

const char* missing_rail_text(bool stands_by) {
  return stands_by ? ": connections go without it as their standby rail, so that they fail when "
                     "their other rails do: "
                   : ": connections go without it, over their other rails: ";
}

// How many standby pairs give way to one connection or buffer at most, and one more for so many
// bytes of a buffer, which are fewer than a rail's pair and tables hold of the memory that may be
// locked. What lacks more lacks something else.
constexpr int kMostRooms = 16;
constexpr size_t kBytesOfRoom = size_t{64} << 10;

// A rail that a connection is made without.
struct LeftOut {
  Device device;
  bool stands_by;
  Error why;
};

// Whether a verb that fails so was asked for too much: for deeper queues than the HCA has (EINVAL),
// or for what the objects of other connections hold, which are memory that may be locked and the
// queues of an HCA or of a cgroup. EOVERFLOW: irdma's.
bool is_lack(int err) {
  return err == EINVAL || err == ENOMEM || err == EAGAIN || err == ENOSPC || err == EOVERFLOW;
}

// Whether others may lack the same, and would do with less of it here.
bool is_shared_lack(int err) { return is_lack(err) && err != EINVAL; }

// doing: what failed, "creating" or "registering".
void warn_of_rail(Watcher& watcher, const Device& device, bool stands_by, const Error& why,
                  const std::string& doing = "creating") {
  const std::string cause = std::string(missing_rail_text(stands_by)) + doing + ", errno " +
                            std::to_string(why.sys_errno);
  TextAndFix parts = split_fix(missing_rail_text(stands_by) + why.text);
  if (parts.fix.empty()) {
    parts.fix = "look at `dmesg` for what the HCA's driver reports, or exclude it with NCCL_IB_HCA";
  }
  watcher.warn_of_rail(cause, device, to_string(device), to_string(parts));
}

}  // namespace

Status Connection::add_rail(const Device& device, const RailSpec& spec) {
  if (Status status = rails_.add(device, spec, *options_); !status) return status;
  const RailEnd& rail = rails_[rails_.size() - 1];
  for (const QueuePair& pair : rail.qps()) {
    StateChange change = to_init(device, pair.qp.get(), *options_);
    change.optional = offers_recovery_;
    changes_.add(std::move(change));
  }
  return {};
}

// What fails a connection is named by its first active rail: standby rails only take its place.
Result<RailTables> Connection::add_rails(EndRails rails, const Planner& plan, RailSpec* each,
                                         const QueueDepths& least) {
  std::vector<size_t> missing;
  std::vector<LeftOut> left_out;
  Status spare{};
  const bool has_standby = !rails.standby.empty();  // although all of them may be left out below
  if (has_standby) {
    spare = watcher_->room().check_spare_memory(*rails[0].hca, options_->spare_memory);
  }
  if (!spare) {
    // Nor with the tables for recoveries, where there is one rail alone.
    const bool offers =
        std::exchange(offers_recovery_, offers_recovery_ && rails.active.size() > 1);
    Result<RailTables> lean = add_lean(rails, plan, each, least, spare.error());
    if (lean) return lean;
    offers_recovery_ = offers;  // it may be that HCA alone which registers nothing
  }
  const auto warn_of_rails = [this](const std::vector<LeftOut>& all) {
    for (const LeftOut& one : all) warn_of_rail(*watcher_, one.device, one.stands_by, one.why);
  };
  for (;;) {
    size_t failed = 0;
    const size_t active = rails.active.size();
    // What standby rails lack, their pairs do not take of active ones instead.
    const bool spares_active = has_standby && rails.standby.empty() && is_shared_lack(lacks_);
    const PairPlan intended = plan(rails, /*lean=*/spares_active);
    const PairPlan places = plan_without(intended, active, rails.standby.size(), missing);
    Result<RailTables> added = try_rails(rails, places, *each, &failed);
    for (uint32_t i = 0; added && i < places.size(); ++i) {
      if (places[i] != intended[i]) displaced_.push_back(i);
    }
    if (added) {
      warn_of_rails(left_out);
      return added;
    }
    lacks_ = added.error().sys_errno;
    const bool leaner =
        has_standby || least.send < each->depths.send || least.receive < each->depths.receive;
    const bool first_lack = failed < active && missing.empty() && is_lack(lacks_);
    if (first_lack && (leaner || make_room(rails[failed], added.error()))) {
      Result<RailTables> lean = add_lean(rails, plan, each, least, added.error());
      if (lean) warn_of_rails(left_out);
      if (lean) return lean;
    }
    left_out.push_back({rails[failed], failed >= active, added.error()});
    if (!offers_recovery_ || rails.size() - missing.size() == 1) {
      const auto first = std::ranges::find(left_out, false, &LeftOut::stands_by);
      return tl::unexpected<Error>(first == left_out.end() ? added.error() : first->why);
    }
    if (failed < active) {
      missing.push_back(failed);
    } else {
      rails.standby.erase(rails.standby.begin() + static_cast<ptrdiff_t>(failed - active));
    }
  }
}

// Without standby rails, with the depths of a connection that has none, and with what the standby
// pairs of other connections give up for it.
Result<RailTables> Connection::add_lean(const EndRails& rails, const Planner& plan, RailSpec* each,
                                        const QueueDepths& least, const Error& lack) {
  const EndRails lean{rails.active, {}};
  RailSpec of_lean = *each;
  of_lean.depths = least;
  size_t failed = 0;
  Result<RailTables> added = try_rails(lean, plan(lean, /*lean=*/true), of_lean, &failed);
  while (!added && make_room(lean[failed], added.error())) {
    added = try_rails(lean, plan(lean, /*lean=*/true), of_lean, &failed);
  }
  if (!added) return added;
  *each = of_lean;
  lacks_ = lack.sys_errno;
  for (const Device& gone : rails.standby) warn_of_rail(*watcher_, gone, true, lack);
  return added;
}

// HCAs share the limit on locked memory, which ENOMEM may mean, and nothing else. Where a pair of
// another HCA has given way in vain, something else is lacking.
bool Connection::make_room(const Device& device, const Error& lack, bool waits) {
  if (!is_shared_lack(lack.sys_errno) || rooms_++ >= kMostRooms) return false;
  const bool elsewhere = lack.sys_errno == ENOMEM && lack.text != lacked_elsewhere_;
  const RoomOn made = watcher_->room().make_room(*device.hca, lack.text, waits, elsewhere);
  if (made == RoomOn::kOtherHca) lacked_elsewhere_ = lack.text;
  return made != RoomOn::kNone;
}

// So far the pair has changed no state that the peer knows.
bool Connection::give_up_standby(const Device& device, const Error& lack) {
  if (!recovers() || !is_shared_lack(lack.sys_errno)) return false;
  for (uint32_t i = 0; i < rails_.pair_count(); ++i) {
    QueuePair& pair = rails_.pair(i);
    const bool helps = rails_[pair.rail].device().hca == device.hca || lack.sys_errno == ENOMEM;
    if (!pair.standby || pair.qp == nullptr || !helps) continue;
    changes_.drop(pair.qp.get());
    pair.qp.reset();
    pair.number = 0;
    std::erase_if(excluded_, [i](const LostAtStart& lost) { return lost.pair == i; });
    lacks_ = lack.sys_errno;
    return exclude_pair_without_qp(i).has_value();
  }
  return false;
}

size_t Connection::most_rooms(size_t bytes) { return kMostRooms + bytes / kBytesOfRoom; }

// A buffer may take the place of several on standby rails.
bool Connection::make_room_to_register(uint32_t rail, const Error& lack) const {
  if (stands_by(rail) || lack.sys_errno != ENOMEM) return false;
  const HcaContext& hca = *rails_[rail].device().hca;
  return watcher_->room().make_room(hca, lack.text, /*waits=*/true, /*elsewhere=*/true) !=
         RoomOn::kNone;
}

Result<RailTables> Connection::try_rails(const EndRails& rails, const PairPlan& plan, RailSpec each,
                                         size_t* failed) {
  rails_ = RailSet();
  changes_ = StateChanges();
  PairPlan compact = plan;  // numbers only the rails that have a QP
  for (PairPlace& place : compact) place.rail = 0;
  std::vector<size_t> numbered;
  for (uint32_t rail = 0; rail < rails.size(); ++rail) {
    each.qps = pairs_on_rail(plan, rail);
    if (each.qps == 0) continue;
    for (size_t i = 0; i < plan.size(); ++i) {
      if (plan[i].rail == rail) compact[i].rail = static_cast<uint32_t>(rails_.size());
    }
    *failed = rail;
    numbered.push_back(rail);
    if (Status status = add_rail(rails[rail], each); !status) return forward_error(status);
  }
  rails_.arrange(compact);
  size_t without_tables = 0;
  Result<RailTables> tables = RailTables::create(rails_, offers_recovery_, &without_tables);
  if (!tables) *failed = numbered[without_tables];
  return tables;
}

// They are between rails that the fabric need not connect, so that they are used only once a probe
// has come through, like pairs that return. Without recovery there are no probes.
void Connection::exclude_displaced_pairs() {
  if (!recovers()) return;
  for (uint32_t pair : displaced_) {
    const bool last = excluded_.size() + 1 == rails_.pair_count();
    const PairCause cause{.reason = wire::PairReason::kRailMissing, .sys_errno = lacks_};
    if (!last) (void)exclude(pair, {Code::kSystem, to_string(cause)}, cause);
  }
}

bool Connection::is_excluded(size_t pair) const {
  return std::ranges::find(excluded_, pair, &LostAtStart::pair) != excluded_.end();
}

// Where this end or the peer has no QP for it.
Status Connection::exclude_pair_without_qp(uint32_t pair) {
  const bool here = rails_.pair(pair).qp == nullptr;
  if (!here && peer_.qp[pair].number != 0) return {};
  const PairCause cause{.reason = here ? wire::PairReason::kWithdrawn : wire::PairReason::kPeer,
                        .sys_errno = lacks_};
  return exclude(pair, {Code::kSystem, here ? to_string(cause) : "the peer has no QP for it"},
                 cause);
}

Status Connection::exclude(uint32_t pair, Error error, PairCause cause) {
  if (is_excluded(pair)) return {};
  excluded_.push_back({pair, cause});
  if (!recovers() || excluded_.size() == rails_.pair_count()) {
    return tl::unexpected<Error>(std::move(error));
  }
  log_excluded(pair, error, cause.reason == wire::PairReason::kNotConnected);
  return {};
}

void Connection::drop_unused() {
  if (recovers()) return;
  rails_.drop_standby();
  excluded_.clear();
}

void Connection::log_excluded(uint32_t pair, const Error& why, bool warns) const {
  if (!warns || !rails_.pair(pair).standby) {
    // The warning of the loss points to it, so that NCCL_DEBUG=INFO alone shows it.
    GDR_INFO(log::kInit | log::kNet, "%s: queue pair %u is not connected: %s", text().c_str(), pair,
             why.text.c_str());
    return;
  }
  const Device& device = rails_[rails_.pair(pair).rail].device();
  const wire::RailAddress& remote = ports_of(pair).second;
  const std::string rail = to_string(device) + " <-> " + peer_.host + " " + remote.hca + ":" +
                           std::to_string(remote.port);
  const std::string cause = why.sys_errno != 0 ? std::to_string(why.sys_errno) : why.text;
  watcher_->warn_of_rail("not connected, errno " + cause, device, rail,
                         ": the standby rail between these ports is not connected, so that "
                         "connections fail when their other rails do. It is tried again from time "
                         "to time. " +
                             why.text);
}

std::pair<const wire::RailAddress&, const wire::RailAddress&> Connection::ports_of(
    uint32_t pair) const {
  const QueuePair& of = rails_.pair(pair);
  return {rails_[of.rail].address(), peer_.rail[of.peer_rail]};
}

// Whether the pair stands by and would most likely be waited for in vain. The last hope of a
// connection is tried all the same.
bool Connection::is_known_unreachable(uint32_t pair) const {
  if (!recovers() || !rails_.pair(pair).standby) return false;
  bool has_active = false;
  for (uint32_t i = 0; i < rails_.pair_count(); ++i) {
    has_active = has_active || (!rails_.pair(i).standby && !is_excluded(i));
  }
  const auto [local, remote] = ports_of(pair);
  return has_active && watcher_->unreachable_paths().contains(local, remote, options_->now());
}

void Connection::note_reached_ports() const {
  for (uint32_t i = 0; i < rails_.pair_count(); ++i) {
    const ibv_qp* qp = rails_.pair(i).qp.get();
    if (qp == nullptr || qp->state != IBV_QPS_RTS) continue;
    const auto [local, remote] = ports_of(i);
    watcher_->unreachable_paths().remove(local, remote);
  }
}

Status Connection::leave_out_rail(uint32_t rail, const Error& error) {
  const PairCause cause{.reason = wire::PairReason::kWithdrawn, .sys_errno = error.sys_errno};
  for (uint32_t i = 0; i < rails_.pair_count(); ++i) {
    if (rails_.pair(i).rail != rail) continue;
    if (Status status = exclude(i, error, cause); !status) return status;
  }
  warn_of_rail(*watcher_, rails_[rail].device(), stands_by(rail), error);
  return {};
}

// A QP that belongs to no pair is that of a rail's flush, without which the rail is of no use.
Status Connection::exclude_failed_pairs() {
  for (FailedQueuePair& failed : changes_.take_failed()) {
    for (uint32_t i = 0; i < rails_.pair_count(); ++i) {
      const QueuePair& pair = rails_.pair(i);
      const bool concerned = failed.qp == pair.qp.get() || failed.rail == int(pair.rail);
      if (!concerned) continue;
      if (failed.rail < 0 && failed.error.sys_errno == ETIMEDOUT) {
        const auto [local, remote] = ports_of(i);
        watcher_->unreachable_paths().add(local, remote, options_->now());
      }
      if (Status status = exclude(i, failed.error); !status) return status;
    }
  }
  return {};
}

bool Connection::stands_by(uint32_t rail) const {
  for (size_t i = 0; i < rails_.pair_count(); ++i) {
    if (rails_.pair(i).rail == rail && !rails_.pair(i).standby) return false;
  }
  return true;
}

// Without the keys of this end the peer must not use the rail either: it learns that the pairs are
// lost, and this end does not bring them back.
bool Connection::drop_standby(uint32_t rail, const Error& why) const {
  if (recovery_ == nullptr || !stands_by(rail)) return false;
  if (!recovery_->withdraw_rail(rail, why.sys_errno)) return false;
  warn_of_rail(*watcher_, rails_[rail].device(), /*stands_by=*/true, why, "registering");
  return true;
}

}  // namespace gdr::transport
