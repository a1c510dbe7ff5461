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
#include "drivers/verbs/wc_text.h"
#include "transport/data/outgoing_message.h"
#include "transport/data/rdma_write.h"
#include "transport/memory/registrar.h"
#include "transport/wire/kept_socket.h"

namespace gdr::transport {
namespace {

constexpr char kProbeFailed[] =
    "the peer does not answer by RDMA either, after the handshake socket was lost: ";

constexpr char kUnreachable[] =
    "another connection has found shortly before that the address of the peer's port, or of others "
    "in its subnet, cannot be resolved";

const char* missing_rail_text(bool stands_by) {
  return stands_by ? ": connections go without it as their standby rail, so that they fail when "
                     "their other rails do: "
                   : ": connections go without it, over their other rails: ";
}

// One warning for each port, as its connections fail alike.
void warn_of_rail(Watcher& watcher, const Device& device, bool stands_by, const Error& why) {
  const std::string port = to_string(device);
  const std::string cause = "without rail: " + port;
  watcher.warn_once(cause, port + missing_rail_text(stands_by) + why.text);
}

// How long the failure of a peer is held back while work of this end that needs no peer completes:
// a flush takes microseconds, a copy milliseconds unless the GPU is busy with something else.
constexpr std::chrono::seconds kLocalWork{3};

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
      first_psn_(static_cast<uint32_t>(random_bits()) & 0xffffff),
      agreement_(std::make_shared<RegistrationAgreement>(options_->stages_all ||
                                                         (sends && options_->stages_large_sends))) {
}

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
bool Connection::has_rail_use() const { return recovery_ != nullptr && rails_.size() > 1; }

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

Result<RailTables> Connection::add_rails(EndRails rails, const Planner& plan, RailSpec each) {
  std::vector<size_t> missing;
  for (;;) {
    size_t failed = 0;
    const size_t active = rails.active.size();
    const PairPlan intended = plan(rails);
    const PairPlan places = plan_without(intended, active, rails.standby.size(), missing);
    Result<RailTables> added = try_rails(rails, places, each, &failed);
    for (uint32_t i = 0; added && i < places.size(); ++i) {
      if (places[i] != intended[i]) displaced_.push_back(i);
    }
    if (added || !offers_recovery_ || rails.size() - missing.size() == 1) return added;
    warn_of_rail(*watcher_, rails[failed], failed >= active, added.error());
    if (failed < active) {
      missing.push_back(failed);
    } else {
      rails.standby.erase(rails.standby.begin() + static_cast<ptrdiff_t>(failed - active));
    }
  }
}

Result<RailTables> Connection::try_rails(const EndRails& rails, const PairPlan& plan, RailSpec each,
                                         size_t* failed) {
  rails_ = RailSet();
  changes_ = StateChanges();
  PairPlan compact = plan;  // numbers only the rails that have a pair
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

void Connection::describe(const wire::Secret& secret, wire::EndPoint* end) const {
  end->secret = secret;
  std::snprintf(end->host, sizeof(end->host), "%s", host_name().c_str());
  end->pid = static_cast<uint32_t>(getpid());
  end->first_psn = first_psn_;
  if (agreement_->stages()) end->flags |= wire::kEndStages;
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
      excluded_.push_back(i);
      continue;
    }
    Status fits = rails_.check_pair(i, peer);
    if (fits) continue;
    if (Status status = exclude(i, std::move(fits.error())); !status) return status;
  }
  exclude_displaced_pairs();
  return {};
}

// They are between rails that the fabric need not connect, so that they are used only once a probe
// has come through, like pairs that return. Without recovery there are no probes.
void Connection::exclude_displaced_pairs() {
  if (!recovers()) return;
  for (uint32_t pair : displaced_) {
    const bool last = excluded_.size() + 1 == rails_.pair_count();
    if (!last) (void)exclude(pair, {Code::kSystem, "the rail that it is meant for is missing"});
  }
}

bool Connection::is_excluded(size_t pair) const {
  return std::ranges::find(excluded_, pair) != excluded_.end();
}

Status Connection::exclude(uint32_t pair, Error error) {
  if (is_excluded(pair)) return {};
  excluded_.push_back(pair);
  if (!recovers() || excluded_.size() == rails_.pair_count()) {
    return tl::unexpected<Error>(std::move(error));
  }
  log_excluded(pair, error);
  return {};
}

void Connection::drop_unused() {
  if (recovers()) return;
  rails_.drop_standby();
  excluded_.clear();
}

void Connection::note_peer_without_recovery(const std::string& host) {
  peer_declines_recovery_ = true;
  watcher_->note_once("without recovery: " + host,
                      "connections with " + host +
                          " end when their rail fails, since it does not recover them "
                          "(GDR_NCCL_FAILOVER=0 there)");
}

// One warning for the standby pairs between two ports, as all nodes name theirs alike.
void Connection::log_excluded(uint32_t pair, const Error& why) const {
  const auto [local, remote] = ports_of(pair);
  const bool warned = std::ranges::find(given_up_, rails_.pair(pair).rail) != given_up_.end();
  if (warned || !rails_.pair(pair).standby) {
    // The warning of the loss points to it, so that NCCL_DEBUG=INFO alone shows it.
    GDR_INFO(log::kInit | log::kNet, "%s: queue pair %u is not connected: %s", text().c_str(), pair,
             why.text.c_str());
    return;
  }
  auto port = [](const wire::RailAddress& rail) {
    return std::string(rail.hca) + ":" + std::to_string(rail.port);
  };
  const std::string ports = port(local) + " and the peers' " + port(remote);
  watcher_->warn_once("standby pair: " + ports,
                      text() + ": the standby rail between " + ports +
                          " is not connected, so that connections fail when their other rails do. "
                          "It is tried again from time to time. " +
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

Status Connection::give_up_rail(uint32_t rail, const Error& error) {
  given_up_.push_back(rail);
  for (uint32_t i = 0; i < rails_.pair_count(); ++i) {
    if (rails_.pair(i).rail != rail) continue;
    if (Status status = exclude(i, error); !status) return status;
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
    watcher_->warn_once(
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
    if (is_known_unreachable(i)) (void)exclude(i, {Code::kSystem, kUnreachable});  // never the last
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

void Connection::keep_link(FrameChannel channel, const char* role,
                           const std::vector<const void*>& own_queue_pairs) {
  tune_kept_socket(channel.fd());
  PeerLinkOptions link_options{PeerProcess{peer_.host, peer_.pid}, options_->peer_watch, agreement_,
                               options_->owner_text};
  if (recovers() && recovery_ != nullptr) {
    link_options.on_statement = [recovery = recovery_](const wire::PairStatement& statement) {
      recovery->on_statement(statement);
    };
  }
  if (recovery_ != nullptr) {
    link_options.pairs_text = [recovery = recovery_] {
      const std::string bytes = bytes_text(recovery->rail_use());
      return (bytes.empty() ? "" : ", bytes by rail: " + bytes) + recovery->state_text();
    };
  }
  if (has_rail_use()) watcher_->rail_totals().open();
  first_cq_ = rails_[0].cq();
  polled_rails_ = static_cast<uint32_t>(rails_.size());
  link_ = std::make_shared<PeerLink>(std::move(channel), text(), role, std::move(link_options));
  count_for_process();
  agreement_->open((peer_.flags & wire::kEndStages) != 0,
                   [link = std::weak_ptr<PeerLink>(link_)](uint32_t flags) {
                     if (auto alive = link.lock()) alive->send_memory(flags);
                   });
  std::vector<const void*> objects;
  for (const RailEnd& rail : rails_) {
    watcher_->moved_counters().watch(rail.device());
    objects.push_back(rail.device().hca->context());
    objects.push_back(rail.cq());
    for (const QueuePair& pair : rail.qps()) objects.push_back(pair.qp.get());
  }
  objects.insert(objects.end(), own_queue_pairs.begin(), own_queue_pairs.end());
  note_reached_ports();  // before the recovery may change the state of a QP
  if (recovery_ != nullptr) {
    for (uint32_t rail : given_up_) (void)recovery_->withdraw_rail(rail);
    recovery_->begin(link_, excluded_);
  }
  watcher_->add(link_, std::move(objects), recovery_);
  if (recovery_ != nullptr) recovery_->look_at_rails();
}

void Connection::make_recovery(const RailTables& tables, int receives) {
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

void Connection::use_spread_path(SpreadPath* path) {
  spread_path_ = path;
  link_->set_spread(path != nullptr);
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
  auto traffic_started = [link = link_] { return link != nullptr && link->has_posted(); };
  auto lose_rail = [recovery = recovery_.get()](size_t rail) {
    return recovery != nullptr && recovery->on_lost_hca(static_cast<uint32_t>(rail));
  };
  auto drop = [this](size_t rail, const Error& why) {
    return drop_standby(static_cast<uint32_t>(rail), why);
  };
  return {std::move(hcas),   copy_streams_.get(),        agreement_.get(),     sends_,
          max_write_bytes(), std::move(traffic_started), std::move(lose_rail), std::move(drop)};
}

// Whether the rail carries nothing while others are usable.
bool Connection::stands_by(uint32_t rail) const {
  for (size_t i = 0; i < rails_.pair_count(); ++i) {
    if (rails_.pair(i).rail == rail && !rails_.pair(i).standby) return false;
  }
  return true;
}

// Without the keys of this end the peer must not use the rail either: it learns that the pairs are
// lost, and this end does not bring them back.
bool Connection::drop_standby(uint32_t rail, const Error& why) const {
  if (recovery_ == nullptr || !stands_by(rail) || !recovery_->withdraw_rail(rail)) return false;
  warn_of_rail(*watcher_, rails_[rail].device(), /*stands_by=*/true, why);
  return true;
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
    const uint32_t qp = rails_[r].qps().front().qp->qp_num;
    add_rail(rails_[r].address(), qp, stands_by(r));
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

// Why a failure that another rail could have survived ends the connection; "" where it is none.
std::string Connection::no_failover_text(ibv_wc_status status) const {
  const bool is_peers_choice = peer_declines_recovery_ && !recovers();
  if (!is_peers_choice || classify_failure(status) == FailureClass::kConnectionLost) return "";
  return std::string("; it did not fail over, as failover is off on ") + peer_.host +
         " (GDR_NCCL_FAILOVER=0)";
}

void Connection::fail_completion(const ibv_wc& wc) {
  failed_here_ = true;
  if (failed()) return;  // what was posted on a QP in error is flushed: hundreds of completions
  std::string what = wc.wr_id == probe_id() ? kProbeFailed : "";
  what += std::string("work completion ") + verbs::wc_status_name(wc.status) + " (status " +
          std::to_string(wc.status) + ", vendor_err " + hex(wc.vendor_err) + ", qp " +
          hex(wc.qp_num) + ")" + no_failover_text(wc.status) + ". " +
          verbs::wc_status_hint(wc.status);
  fail(Code::kRemote, what);
}

bool Connection::on_failed_post(const QueuePair& pair, uint32_t epoch, const char* what, int err) {
  if (!recovery_->recovers()) {
    fail_verbs((std::string("posting ") + what).c_str(), err);
    return false;
  }
  recovery_->on_failed_post(pair.index, epoch);
  return !failed();
}

void Connection::on_failed_poll(uint32_t rail) {
  if (!recovery_->recovers()) {
    (void)fail_polling();
  } else {
    recovery_->on_failed_poll(rail);
  }
}

// Takes a completion that is an error, or one of a probe or a statement.
void Connection::on_failed_work(const ibv_wc& wc) {
  const WorkId id = decode_work_id(wc.wr_id);
  if (wc.status == IBV_WC_SUCCESS) {
    recovery_->on_written(id);
  } else if (recovery_->recovers() &&
             classify_failure(wc.status) != FailureClass::kConnectionLost) {
    recovery_->on_failed_work(id, wc.status);
  } else {
    fail_completion(wc);
  }
}

// The probe of a link whose socket is lost.
void Connection::attend_spread() {
  if (!link_->probe_wanted() || failed()) return;
  if (!recovery_->probe_peer()) link_->end_probe();
}

void Connection::fail_verbs(const char* call, int err) {
  fail(Code::kSystem, std::string(call) + " failed with errno " + std::to_string(err));
}

bool Connection::fail_polling() {
  fail(Code::kSystem, "polling the completion queue failed");
  return false;
}

void Connection::fail(Code code, const std::string& what) {
  failed_here_ = true;
  link_->fail_link(Error{code, text() + ": " + what}, true);
  if (recovery_ != nullptr) recovery_->on_failed_connection();
}

void Connection::attend() {
  if (!link_->probe_wanted() || failed() || probe_posted_) return;
  if (sends_ && link_->has_outstanding()) {
    // The data shows as well whether the peer answers, and its queue may have no entry left.
    link_->end_probe();
    return;
  }
  const QueuePair& pair = rails_.clear_to_send_pair();
  // The keys are not used, but valid, in case that an HCA looks at them.
  WriteRequest request(pair, RdmaWrite{.source = 0,
                                       .bytes = 0,
                                       .lkey = 0,
                                       .target = peer_.tables_address,
                                       .rkey = peer_.rail[pair.peer_rail].tables_rkey,
                                       .cpu_readable = false});
  request.wr().wr_id = probe_id();
  request.wr().send_flags |= IBV_SEND_SIGNALED;
  probe_posted_ = post(pair, &request.wr()) == 0;
  // Where the send queue is full, the requests in it find out the same.
  if (!probe_posted_) link_->end_probe();
}

void Connection::end_probe() {
  probe_posted_ = false;
  link_->end_probe();
}

bool Connection::may_finish_local_work() {
  if (failed_here_ || link_->failure().code != Code::kRemote) return false;
  const PeerLink::Clock::time_point now = PeerLink::Clock::now();
  if (!local_work_until_) local_work_until_ = now + kLocalWork;
  return now < *local_work_until_;
}

Code Connection::surface_failure() {
  Error error = link_->failure();
  if (!std::exchange(surfaced_, true)) {
    watcher_->log_failure(*link_);
    log_moved_counters();
  }
  return error.code;
}

// Before the call returns, as NCCL may end the process then.
void Connection::log_moved_counters() const {
  std::vector<std::string> ports;
  for (const RailEnd& rail : rails_) ports.push_back(to_string(rail.device()));
  for (const std::string& text : watcher_->moved_counters().read_now(ports)) {
    GDR_WARN("%s", text.c_str());
  }
}

}  // namespace gdr::transport
