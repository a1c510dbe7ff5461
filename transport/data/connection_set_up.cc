#include "transport/data/connection_set_up.h"

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

namespace gdr::transport {
namespace {

constexpr char kUnreachable[] =
    "another connection has found shortly before that the address of the peer's port, or of others "
    "in its subnet, cannot be resolved";

}  // namespace

Result<RailTables> ConnectionSetUp::add_rails(EndRails rails, const Planner& plan, RailSpec* each,
                                              const QueueDepths& least) {
  RailMaker maker(end_, changes_);
  const EndRails all = rails;
  Result<RailTables> tables = maker.make(std::move(rails), plan, each, least);
  displaced_ = maker.displaced();
  if (tables) name_missing_ports(all, plan);
  return tables;
}

// By the plan of all rails: where those that stand by are left out, a pair has another one.
void ConnectionSetUp::name_missing_ports(const EndRails& all, const Planner& plan) {
  const PairPlan intended = plan(all, /*lean=*/false);
  end_.missing_ports.clear();
  for (uint32_t i = 0; i < std::min(end_.rails.pair_count(), intended.size()); ++i) {
    const QueuePair& pair = end_.rails.pair(i);
    if (pair.qp != nullptr) continue;
    const std::string port = to_string(all[intended[i].rail]);
    if (port != to_string(end_.rails[pair.rail].device())) end_.missing_ports.emplace(i, port);
  }
}

Status ConnectionSetUp::accept_peer(const wire::EndPoint& peer) {
  if (Status status = end_.rails.check_peer(peer); !status) return status;
  end_.peer = peer;
  if (!end_.sends) end_.sequence_base = peer.sequence_base;
  end_.rails.set_peer_rails(peer);
  excluded_.clear();
  if (end_.offers_recovery && !end_.recovers()) end_.note_peer_without_recovery(peer.host);
  for (uint32_t i = 0; i < end_.rails.pair_count(); ++i) {
    // Without recovery it would never carry anything, and could only fail the connection.
    if (!end_.recovers() && end_.rails.pair(i).standby) {
      (void)excluded_.exclude(i, {});  // as it cannot be spared, there is an error
      continue;
    }
    if (Status status = excluded_.exclude_without_qp(i); !status) return status;
    Status fits = end_.rails.check_pair(i, peer);
    if (fits) continue;
    if (Status status = excluded_.exclude(i, std::move(fits.error())); !status) return status;
  }
  excluded_.exclude_displaced(displaced_);
  return {};
}

void ConnectionSetUp::warn_of_missing_flids() const {
  uint32_t logged = 0;  // bit per rail of this end
  for (size_t i = 0; i < end_.rails.pair_count(); ++i) {
    const QueuePair& pair = end_.rails.pair(i);
    const wire::RailAddress& local = end_.rails[pair.rail].address();
    const wire::RailAddress& remote = end_.peer.rail[pair.peer_rail];
    if ((logged >> pair.rail & 1) != 0 || !lacks_flid(local, remote)) continue;
    logged |= 1u << pair.rail;
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
    const QueuePair& pair = end_.rails.pair(i);
    if (excluded_.has(i) || pair.qp == nullptr) continue;
    end_.ece->query_offer(i, end_.rails[pair.rail].device().hca->api(), pair.qp.get());
  }
}

// The reply is what both ends go by when they connect a pair later.
Status ConnectionSetUp::query_accepted_ece() {
  for (size_t i = 0; i < end_.rails.pair_count(); ++i) {
    if (excluded_.has(i)) {
      end_.ece->forget(i);
      continue;
    }
    const QueuePair& pair = end_.rails.pair(i);
    const verbs::Api& api = end_.rails[pair.rail].device().hca->api();
    Status status = end_.ece->query_accepted(i, api, pair.qp.get());
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
      (void)excluded_.exclude(i, {Code::kSystem, kUnreachable, ETIMEDOUT});  // never the last
    }
    if (excluded_.has(i)) continue;
    const QueuePair& pair = end_.rails.pair(i);
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
  const uint64_t retries = changes_.take_retries();
  if (retries > 0) end_.watcher->process_counters().count_retries(Retry::kQueuePair, retries);
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
    if (!end_.rails.pair(i).standby && !excluded_.has(i)) return true;
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
      if (Status status = excluded_.exclude(i, failed.error); !status) return status;
    }
  }
  return {};
}

bool ConnectionSetUp::give_up_standby(const Device& device, const Error& lack) {
  if (!RoomRequests::is_shared_lack(lack.sys_errno)) return false;
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
    pair.number = 0;
    excluded_.forget(i);
    end_.lacks = lack;
    return !knows_peer || excluded_.exclude_without_qp(i).has_value();
  }
  return false;
}

void ConnectionSetUp::drop_unused() {
  if (end_.recovers()) return;
  end_.rails.drop_standby();
  excluded_.clear();
}

}  // namespace gdr::transport
