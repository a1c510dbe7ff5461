#include "transport/data/connection.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <limits>
#include <new>
#include <utility>

#include "base/log.h"
#include "base/random.h"
#include "transport/data/outgoing_message.h"
#include "transport/memory/registrar.h"
#include "transport/wire/tcp.h"

namespace gdr::transport {
namespace {

constexpr char kUnreachable[] =
    "another connection has found shortly before that the address of the peer's port, or of others "
    "in its subnet, cannot be resolved";

// Read once: each connection names it several times. Never destroyed, as threads may set up
// connections while the process ends.
const std::string& host_name() {
  static const std::string& once = *[] {
    char name[sizeof(wire::EndPoint::host)] = {};
    return new std::string(gethostname(name, sizeof(name) - 1) == 0 ? name : "unknown");
  }();
  return once;
}

}  // namespace

Connection::Connection(std::shared_ptr<const ConnectionOptions> options, Watcher* watcher,
                       bool sends)
    : options_(std::move(options)),
      watcher_(watcher),
      sends_(sends),
      first_psn_(static_cast<uint32_t>(random_bits()) & 0xffffff) {}

Connection::~Connection() { close(); }

void Connection::close() {
  if (std::exchange(closed_, true)) return;
  if (link_ != nullptr) {
    link_->send_bye();
    watcher_->remove(link_.get());
    watcher_->process_counters().close(link_.get());
    if (has_rail_use()) log_rail_use();
  }
  if (recovery_ != nullptr) recovery_->close();
  rails_.destroy_queue_pairs();
}

// A rail that is the only one of this end carries everything.
bool Connection::has_rail_use() const { return rails_.size() > 1; }

void Connection::count_for_process() const {
  std::vector<RailName> rails;
  for (const RailEnd& rail : rails_) {
    rails.push_back({rail.device().hca->name(), rail.device().port});
  }
  watcher_->process_counters().open(link_, recovery_, rails,
                                    sends_ ? DataDirection::kSent : DataDirection::kReceived);
}

void Connection::count_retries(Retry retry, uint64_t times) const {
  if (times > 0) watcher_->process_counters().count_retries(retry, times);
}

// Without memory the lines are left out: the connection is to be closed all the same.
void Connection::log_rail_use() {
  try {
    const std::vector<RailUse> rails = recovery_->rail_use();
    const bool used = std::ranges::any_of(
        rails, [](const RailUse& rail) { return rail.chunks > 0 || rail.losses > 0; });
    if (used) {
      GDR_INFO(log::kNet, "%s: %s over %s", text().c_str(), sends_ ? "sent" : "received",
               to_string(rails).c_str());
    }
    watcher_->rail_totals().close(rails, sends_);
  } catch (const std::bad_alloc&) {
  }
}

void Connection::describe(const wire::Secret& secret, wire::EndPoint* end) const {
  end->secret = secret;
  std::snprintf(end->host, sizeof(end->host), "%s", host_name().c_str());
  end->pid = static_cast<uint32_t>(getpid());
  end->first_psn = first_psn_;
  end->tcp_port = watcher_->reopen_port();
  if (offers_recovery_) end->flags |= wire::kEndRecovers;
  rails_.describe(end);
  ece_->describe(end);
}

Status Connection::accept_peer(const wire::EndPoint& peer) {
  if (Status status = rails_.check_peer(peer); !status) return status;
  peer_ = peer;
  rails_.set_peer_rails(peer);
  excluded_.clear();
  if (offers_recovery_ && !recovers()) note_peer_without_recovery(peer.host);
  for (uint32_t i = 0; i < rails_.pair_count(); ++i) {
    // Without recovery it would never carry anything, and could only fail the connection.
    if (!recovers() && rails_.pair(i).standby) {
      excluded_.push_back({i, {wire::PairReason::kNotConnected}});
      continue;
    }
    if (Status status = exclude_pair_without_qp(i); !status) return status;
    Status fits = rails_.check_pair(i, peer);
    if (fits) continue;
    if (Status status = exclude(i, std::move(fits.error())); !status) return status;
  }
  exclude_displaced_pairs();
  return {};
}

void Connection::note_peer_without_recovery(const std::string& host) {
  peer_declines_recovery_ = true;
  watcher_->failures().note_once("without recovery: " + host,
                                 "connections with " + host +
                                     " end when their rail fails, since it does not recover them "
                                     "(GDR_NCCL_FAILOVER=0 or little memory to lock there)");
}

void Connection::warn_of_missing_flids() const {
  uint32_t logged = 0;  // bit per rail of this end
  for (size_t i = 0; i < rails_.pair_count(); ++i) {
    const QueuePair& pair = rails_.pair(i);
    const wire::RailAddress& local = rails_[pair.rail].address();
    const wire::RailAddress& remote = peer_.rail[pair.peer_rail];
    if ((logged >> pair.rail & 1) != 0 || !lacks_flid(local, remote)) continue;
    logged |= 1u << pair.rail;
    // It is the same for all ports of the peer's subnet, of which a job has thousands.
    const std::string cause = "no FLID: " + std::string(local.hca) + ":" +
                              std::to_string(local.port) + " " +
                              hex(remote.gid[6] << 8 | remote.gid[7]);
    watcher_->failures().warn_once(
        cause, to_string(local) + " and the peer's " + to_string(remote) +
                   " are in different InfiniBand subnets, and the peer's GID " +
                   to_string(remote.gid) +
                   " has no FLID by which routers could reach it; its LID is used, which another "
                   "subnet seldom knows. Fix: set NCCL_IB_ROUTABLE_FLID_GID_INDEX on the nodes of "
                   "the peer's subnet to the index of a GID with a FLID, or choose HCAs of one "
                   "subnet with NCCL_IB_HCA");
  }
}

std::function<Status()> Connection::ece_setter(size_t index, bool again) const {
  if (!options_->ece) return nullptr;
  const QueuePair& pair = rails_.pair(index);
  return [ece = ece_.get(), api = &rails_[pair.rail].device().hca->api(), qp = pair.qp.get(),
          remote = peer_.qp[index], index, again, sends = sends_]() -> Status {
    if (sends) return ece->set_accepted(index, *api, qp, remote);
    if (again) return ece->set_again(index, *api, qp);
    ece->set_offer(index, *api, qp, remote);
    return {};
  };
}

void Connection::query_ece_offers() {
  if (!options_->ece) return;
  for (size_t i = 0; i < rails_.pair_count(); ++i) {
    if (is_excluded(i)) continue;
    const QueuePair& pair = rails_.pair(i);
    ece_->query_offer(i, rails_[pair.rail].device().hca->api(), pair.qp.get());
  }
}

// The reply is what both ends go by when they connect a pair later.
Status Connection::query_accepted_ece() {
  for (size_t i = 0; i < rails_.pair_count(); ++i) {
    if (is_excluded(i)) {
      ece_->forget(i);
      continue;
    }
    const QueuePair& pair = rails_.pair(i);
    const verbs::Api& api = rails_[pair.rail].device().hca->api();
    Status status = ece_->query_accepted(i, api, pair.qp.get());
    if (!status) {
      add_detail(&status.error().text, " (connecting " + text() + ")");
      return status;
    }
  }
  return {};
}

void Connection::begin_connecting(ServiceClass service) {
  warn_of_missing_flids();
  service_ = service;
  for (uint32_t i = 0; i < rails_.pair_count(); ++i) {
    if (is_known_unreachable(i)) {
      (void)exclude(i, {Code::kSystem, kUnreachable, ETIMEDOUT});  // never the last
    }
    if (is_excluded(i)) continue;
    const QueuePair& pair = rails_.pair(i);
    const RailEnd& rail = rails_[pair.rail];
    const QueuePairPath path{&rail.address(),    &peer_.rail[pair.peer_rail],
                             peer_.qp[i].number, first_psn_,
                             peer_.first_psn,    service};
    StateChange to_receive = to_ready_to_receive(rail.device(), pair.qp.get(), path);
    StateChange to_send = to_ready_to_send(rail.device(), pair.qp.get(), path, *options_);
    to_receive.before = ece_setter(i, /*again=*/false);
    to_receive.optional = to_send.optional = recovers();
    to_receive.standby = to_send.standby = recovers() && pair.standby;
    changes_.add(std::move(to_receive));
    changes_.add(std::move(to_send));
  }
}

Result<bool> Connection::change_states() {
  Result<bool> changed = changes_.step(*options_);
  count_retries(Retry::kQueuePair, changes_.take_retries());
  if (changed && peer_.qps > 0) {
    Status spared = exclude_failed_pairs();
    if (!spared) changed = forward_error(spared);
  }
  if (!changed && peer_.qps > 0) {
    add_detail(&changed.error().text, " (connecting " + text() + ")");
  }
  return changed;
}

// An end that does not open the socket asks only where nothing but the peer's host answers.
ReopenTarget Connection::reopen_target(const FrameChannel& channel, bool direct) const {
  ReopenTarget target{.from = own_address(channel.fd()),
                      .own = wire::proof_of(sends_, peer_.secret, peer_.sequence_base),
                      .peers = wire::proof_of(!sends_, peer_.secret, peer_.sequence_base),
                      .opens = sends_,
                      .direct = direct};
  if (peer_.tcp_port == 0 || !(sends_ || direct)) return target;
  target.to = channel.peer();
  if (target.to.ss_family != AF_UNSPEC) set_port(&target.to, peer_.tcp_port);
  return target;
}

void Connection::keep_link(FrameChannel channel, const char* role, bool direct) {
  PeerLinkOptions link_options{.peer = PeerProcess{peer_.host, peer_.pid},
                               .reopen = reopen_target(channel, direct),
                               .owner_text = options_->owner_text};
  if (recovers()) {
    link_options.on_statement = [recovery = recovery_](const wire::PairStatement& statement) {
      recovery->steps().on_statement(statement);
    };
  }
  if (has_rail_use()) {
    link_options.pairs_text = [recovery = recovery_] {
      const std::string bytes = bytes_text(recovery->rail_use());
      return (bytes.empty() ? "" : ", bytes by rail: " + bytes) + recovery->state_text();
    };
  }
  if (has_rail_use()) watcher_->rail_totals().open();
  link_ = std::make_shared<PeerLink>(std::move(channel), text(), role, std::move(link_options));
  count_for_process();
  std::vector<EventSource> sources;
  for (const RailEnd& rail : rails_) {
    const Device& device = rail.device();
    watcher_->moved_counters().watch(device);
    sources.insert(sources.end(),
                   {{device.hca->context()}, {device.hca->context(), device.port}, {rail.cq()}});
  }
  note_reached_ports();  // before the recovery may change the state of a QP
  recovery_->begin(link_, excluded_);
  watcher_->add(link_, std::move(sources), recovery_);
  recovery_->steps().look_at_rails();
}

void Connection::make_recovery(RailTables& tables, int receives) {
  PairSetUp set_up{
      .end = sends_ ? PairEnd::kSender : PairEnd::kReceiver,
      .rails = &rails_,
      .tables = &tables,
      .peer = &peer_,
      .options = options_,
      .service = service_,
      .first_psn = first_psn_,
      .receives = receives,
      .before_receiving = [this](size_t pair) { return ece_setter(pair, /*again=*/true); },
      .unreachable = &watcher_->unreachable_paths(),
      .host = host_name()};
  recovery_ =
      std::make_shared<Recovery>(PairIo(std::move(set_up)), recovers(), watcher_->recovery_hooks());
}

size_t Connection::max_write_bytes() const {
  size_t least = std::numeric_limits<size_t>::max();
  for (const RailEnd& rail : rails_) {
    least = std::min(least, transport::max_write_bytes(rail.device().state.max_message_bytes));
  }
  return least;
}

RegistrationScope Connection::registration_scope() const {
  std::vector<std::shared_ptr<HcaContext>> hcas;
  for (uint32_t rail = 0; rail < rails_.size(); ++rail) {
    const bool used = recovery_ == nullptr || !recovery_->is_given_up(rail);
    hcas.push_back(used ? rails_[rail].device().hca : nullptr);
  }
  auto lose_rail = [recovery = recovery_.get()](size_t rail) {
    return recovery != nullptr && recovery->on_lost_hca(static_cast<uint32_t>(rail));
  };
  auto drop = [this](size_t rail, const Error& why) {
    return drop_standby(static_cast<uint32_t>(rail), why);
  };
  auto make_room = [this, rooms = size_t{0}](size_t rail, size_t bytes, const Error& why) mutable {
    const bool may_go_on = rooms++ < most_rooms(bytes);
    return may_go_on && make_room_to_register(static_cast<uint32_t>(rail), why);
  };
  auto standby = [this](size_t rail) {
    const bool kept = recovery_ != nullptr && stands_by(static_cast<uint32_t>(rail));
    return kept ? recovery_->standby().registrations() : nullptr;
  };
  return {std::move(hcas),      own_allocations_.get(), sends_,
          std::move(lose_rail), std::move(drop),        std::move(make_room),
          std::move(standby)};
}

std::string Connection::text() const {
  if (link_ != nullptr) return link_->description();
  std::string text = host_name();
  text.reserve(256);  // one allocation: the text is made for each connection
  const char* separator = " ";
  auto add_rail = [&](const wire::RailAddress& rail, uint32_t qp, bool standby) {
    text.append(std::exchange(separator, " + ")).append(to_string(rail));
    text.append(" qp ").append(hex(qp)).append(standby ? " (standby)" : "");
  };
  for (uint32_t r = 0; r < rails_.size(); ++r) {
    const ibv_qp* qp = rails_[r].qps().front().qp.get();  // null: it was given up
    add_rail(rails_[r].address(), qp == nullptr ? 0 : qp->qp_num, stands_by(r));
  }
  text.append(" <-> ").append(peer_.host);
  separator = " ";
  const uint32_t pairs = std::min<uint32_t>(peer_.qps, static_cast<uint32_t>(rails_.pair_count()));
  uint32_t active = 0, named = 0;  // bit per rail of the peer
  for (uint32_t i = 0; i < pairs; ++i) {
    if (!rails_.pair(i).standby) active |= 1u << peer_.qp[i].rail;
  }
  for (uint32_t i = 0; i < pairs; ++i) {
    const uint32_t rail = peer_.qp[i].rail;
    if ((named >> rail & 1) != 0) continue;
    add_rail(peer_.rail[rail], peer_.qp[i].number, (active >> rail & 1) == 0);
    named |= 1u << rail;
  }
  return text;
}

}  // namespace gdr::transport
