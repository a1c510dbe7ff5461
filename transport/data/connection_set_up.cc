#include "transport/data/connection_set_up.h"

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "base/log.h"
#include "transport/pairs/ece_agreement.h"

namespace gdr::transport {
namespace {

constexpr char kUnreachable[] =
    "another connection has found shortly before that the address of the peer's port, or of others "
    "in its subnet, cannot be resolved";

}  // namespace

Status ConnectionSetUp::accept_peer(const wire::EndPoint& peer) {
  if (Status status = end_.rails.check_peer(peer); !status) return status;
  end_.peer = peer;
  if (!end_.sends) end_.sequence_base = peer.sequence_base;
  end_.rails.set_peer_rails(peer);
  excluded_.clear();
  if (end_.offers_recovery && !end_.recovers()) end_.peer_declines_recovery = true;
  for (uint32_t i = 0; i < end_.rails.pair_count(); ++i) {
    // Without recovery it would never carry anything, and could only fail the connection.
    if (!end_.recovers() && end_.rails.pair(i).standby) {
      (void)exclude(i, {});  // as it cannot be spared, there is an error
      continue;
    }
    if (Status status = exclude_without_qp(i); !status) return status;
    Status fits = end_.rails.check_pair(i, peer);
    if (fits) continue;
    if (Status status = exclude(i, std::move(fits.error())); !status) return status;
  }
  exclude_displaced();
  return {};
}

void ConnectionSetUp::warn_of_missing_flids() const {
  for (size_t i = 0; i < end_.rails.pair_count(); ++i) {
    const QueuePair& pair = end_.rails.pair(i);
    const wire::RailAddress& local = end_.rails[pair.rail].address();
    const wire::RailAddress& remote = end_.peer.rail[pair.peer_rail];
    if (!lacks_flid(local, remote)) continue;
    // It is the same for all ports of the peer's subnet, of which a job has thousands.
    const std::string cause = "no FLID: " + std::string(local.hca) + ":" +
                              std::to_string(local.port) + " " +
                              hex(remote.gid[6] << 8 | remote.gid[7]);
    end_.watcher->failures().warn_once(
        cause, to_string(local) + " and the peer's " + to_string(remote) +
                   " are in different InfiniBand subnets, and the peer's GID " +
                   to_string(remote.gid) +
                   " has no FLID by which routers could reach it; its LID is used, which another "
                   "subnet seldom knows. Fix: set NCCL_IB_ROUTABLE_FLID_GID_INDEX on the nodes of "
                   "the peer's subnet to the index of a GID with a FLID, or choose HCAs of one "
                   "subnet with NCCL_IB_HCA");
  }
}

void ConnectionSetUp::query_ece_offers() {
  if (!end_.options->ece) return;
  for (size_t i = 0; i < end_.rails.pair_count(); ++i) {
    QueuePair& pair = end_.rails.pair(i);
    if (is_excluded(i) || pair.qp == nullptr) continue;
    query_offered_ece(end_.rails[pair.rail].device().hca->api(), &pair);
  }
}

// The reply is what both ends go by when they connect a pair later.
Status ConnectionSetUp::query_accepted_ece() {
  for (size_t i = 0; i < end_.rails.pair_count(); ++i) {
    QueuePair& pair = end_.rails.pair(i);
    if (is_excluded(i)) {
      pair.ece.reset();
      continue;
    }
    Status status = transport::query_accepted_ece(end_.rails[pair.rail].device().hca->api(), &pair);
    if (!status) {
      add_detail(&status.error().text, " (connecting " + end_.text() + ")");
      return status;
    }
  }
  return {};
}

void ConnectionSetUp::begin_connecting() {
  warn_of_missing_flids();
  for (uint32_t i = 0; i < end_.rails.pair_count(); ++i) {
    if (is_known_unreachable(i)) {
      (void)exclude(i, {Code::kSystem, kUnreachable, ETIMEDOUT});  // never the last
    }
    QueuePair& pair = end_.rails.pair(i);
    if (end_.sends) take_accepted_ece(end_.peer.qp[i], &pair);
    if (is_excluded(i)) continue;
    const RailEnd& rail = end_.rails[pair.rail];
    const QueuePairPath path{&rail.address(),        &end_.peer.rail[pair.peer_rail],
                             end_.peer.qp[i].number, end_.first_psn,
                             end_.peer.first_psn,    end_.service};
    StateChange to_receive = to_ready_to_receive(rail.device(), pair.qp.get(), path);
    StateChange to_send = to_ready_to_send(rail.device(), pair.qp.get(), path, *end_.options);
    to_receive.before = end_.ece_setter(i, /*again=*/false);
    to_receive.optional = to_send.optional = end_.recovers();
    to_receive.standby = to_send.standby = end_.recovers() && pair.standby;
    changes_.add(std::move(to_receive));
    changes_.add(std::move(to_send));
  }
}

Result<bool> ConnectionSetUp::change_states() {
  Result<bool> changed = changes_.step(*end_.options);
  if (changed && end_.peer.qps > 0) {
    Status spared = exclude_failed_pairs();
    if (!spared) changed = forward_error(spared);
  }
  if (!changed && end_.peer.qps > 0) {
    add_detail(&changed.error().text, " (connecting " + end_.text() + ")");
  }
  return changed;
}

// Whether the pair stands by and would most likely be waited for in vain. The last hope of a
// connection is tried all the same.
bool ConnectionSetUp::is_known_unreachable(uint32_t pair) const {
  if (!end_.recovers() || !end_.rails.pair(pair).standby) return false;
  const auto [local, remote] = end_.ports_of(pair);
  return has_active() &&
         end_.watcher->unreachable_paths().contains(local, remote, end_.options->now());
}

// Whether an active pair is left, as far as is known.
bool ConnectionSetUp::has_active() const {
  for (uint32_t i = 0; i < end_.rails.pair_count(); ++i) {
    if (!end_.rails.pair(i).standby && !is_excluded(i)) return true;
  }
  return false;
}

void ConnectionSetUp::note_reached_ports() const {
  for (uint32_t i = 0; i < end_.rails.pair_count(); ++i) {
    const ibv_qp* qp = end_.rails.pair(i).qp.get();
    if (qp == nullptr || qp->state != IBV_QPS_RTS) continue;
    const auto [local, remote] = end_.ports_of(i);
    end_.watcher->unreachable_paths().remove(local, remote);
  }
}

Status ConnectionSetUp::exclude_failed_pairs() {
  for (FailedQueuePair& failed : changes_.take_failed()) {
    for (uint32_t i = 0; i < end_.rails.pair_count(); ++i) {
      const QueuePair& pair = end_.rails.pair(i);
      if (failed.qp != pair.qp.get()) continue;
      if (failed.error.sys_errno == ETIMEDOUT) {
        const auto [local, remote] = end_.ports_of(i);
        end_.watcher->unreachable_paths().add(local, remote, end_.options->now());
      }
      if (Status status = exclude(i, failed.error); !status) return status;
    }
  }
  return {};
}

bool ConnectionSetUp::give_up_standby(const Device& device, const Error& lack) {
  if (!RoomMaker::is_shared_lack(lack.sys_errno)) return false;
  return give_up_standby(lack.sys_errno == ENOMEM ? nullptr : device.hca.get(), lack.sys_errno);
}

bool ConnectionSetUp::give_up_standby(const HcaContext* hca, int lack) {
  const bool knows_peer = end_.peer.qps > 0;
  if (knows_peer ? !end_.recovers() : !end_.offers_recovery) return false;
  if (!has_active()) return false;
  for (uint32_t i = 0; i < end_.rails.pair_count(); ++i) {
    QueuePair& pair = end_.rails.pair(i);
    const bool helps = hca == nullptr || end_.rails[pair.rail].device().hca.get() == hca;
    if (!pair.standby || pair.qp == nullptr || !helps) continue;
    changes_.drop(pair.qp.get());
    pair.qp.reset();
    pair.number = pair.send_entries = 0;
    std::erase_if(excluded_, [i](const LostAtStart& lost) { return lost.pair == i; });
    end_.lacks = lack;
    return !knows_peer || exclude_without_qp(i).has_value();
  }
  return false;
}

// They are between rails that the fabric need not connect, so that they are used only once a probe
// has come through, like pairs that return. Without recovery there are no probes.
void ConnectionSetUp::exclude_displaced() {
  if (!end_.recovers()) return;
  for (uint32_t pair : displaced_) {
    const bool last = excluded_.size() + 1 == end_.rails.pair_count();
    const PairCause cause{.reason = wire::PairReason::kRailMissing, .sys_errno = end_.lacks};
    if (!last) (void)exclude(pair, {Code::kSystem, to_string(cause)}, cause);
  }
}

bool ConnectionSetUp::is_excluded(size_t pair) const {
  return std::ranges::find(excluded_, pair, &LostAtStart::pair) != excluded_.end();
}

// Where this end or the peer has no QP for the pair.
Status ConnectionSetUp::exclude_without_qp(uint32_t pair) {
  const bool lacks = end_.rails.pair(pair).qp == nullptr;
  const bool peer_lacks = end_.peer.qp[pair].number == 0;
  if (!lacks && !peer_lacks) return {};
  // A receiver makes none where the sender has none, and the sender learns of that.
  const bool here = lacks && (end_.sends || !peer_lacks);
  const PairCause cause{.reason = here ? wire::PairReason::kWithdrawn : wire::PairReason::kPeer,
                        .sys_errno = end_.lacks};
  return exclude(pair, {Code::kSystem, here ? to_string(cause) : "the peer has no QP for it"},
                 cause);
}

Status ConnectionSetUp::exclude(uint32_t pair, Error error, PairCause cause) {
  if (is_excluded(pair)) return {};
  excluded_.push_back({pair, cause});
  if (!end_.recovers() || excluded_.size() == end_.rails.pair_count()) {
    return tl::unexpected<Error>(std::move(error));
  }
  log_excluded(pair, error, cause.reason == wire::PairReason::kNotConnected);
  return {};
}

Status ConnectionSetUp::exclude_rail(uint32_t rail, const Error& error) {
  const PairCause cause{.reason = wire::PairReason::kWithdrawn, .sys_errno = error.sys_errno};
  for (uint32_t i = 0; i < end_.rails.pair_count(); ++i) {
    if (end_.rails.pair(i).rail != rail) continue;
    if (Status status = exclude(i, error, cause); !status) return status;
  }
  end_.warn_of_rail(end_.rails[rail].device(), end_.stands_by(rail), error);
  return {};
}

void ConnectionSetUp::log_excluded(uint32_t pair, const Error& why, bool warns) const {
  if (!warns || !end_.rails.pair(pair).standby) {
    // The warning of the loss points to it, so that NCCL_DEBUG=INFO alone shows it.
    GDR_INFO(log::kInit | log::kNet, "%s: queue pair %u is not connected: %s", end_.text().c_str(),
             pair, why.text.c_str());
    return;
  }
  const std::string port = to_string(end_.rails[end_.rails.pair(pair).rail].device());
  const wire::RailAddress& remote = end_.ports_of(pair).second;
  const std::string rail =
      port + " <-> " + end_.peer.host + " " + remote.hca + ":" + std::to_string(remote.port);
  const std::string cause = why.sys_errno != 0 ? std::to_string(why.sys_errno) : why.text;
  end_.watcher->rails().warn_of(
      "not connected, errno " + cause, port, rail,
      ": the standby rail between these ports is not connected, so that "
      "connections fail when their other rails do. It is tried again from time "
      "to time. " +
          why.text);
}

void ConnectionSetUp::drop_unused() {
  if (end_.recovers()) return;
  end_.rails.drop_standby();
  excluded_.clear();
}

}  // namespace gdr::transport
