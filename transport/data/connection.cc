#include "transport/data/connection.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <limits>
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

// How long the failure of a peer is held back while work of this end that needs no peer completes:
// a flush takes microseconds, a copy milliseconds unless the GPU is busy with something else.
constexpr std::chrono::seconds kLocalWork{3};

std::string host_name() {
  char name[sizeof(wire::EndPoint::host)] = {};
  if (gethostname(name, sizeof(name) - 1) != 0) return "unknown";
  return name;
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
  }
  rails_.destroy_queue_pairs();
}

Status Connection::add_rail(const Device& device, const RailSpec& spec) {
  if (Status status = rails_.add(device, spec, *options_); !status) return status;
  const RailEnd& rail = rails_[rails_.size() - 1];
  for (const QueuePair& pair : rail.qps()) {
    changes_.add(to_init(device, pair.qp.get(), *options_));
  }
  return {};
}

void Connection::describe(const wire::Secret& secret, wire::EndPoint* end) const {
  end->secret = secret;
  std::snprintf(end->host, sizeof(end->host), "%s", host_name().c_str());
  end->pid = static_cast<uint32_t>(getpid());
  end->first_psn = first_psn_;
  if (agreement_->stages()) end->flags |= wire::kEndStages;
  rails_.describe(end);
  ece_->describe(end);
}

Status Connection::accept_peer(const wire::EndPoint& peer) {
  if (Status status = rails_.check_peer(peer); !status) return status;
  peer_ = peer;
  rails_.set_peer_rails(peer);
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

std::function<Status()> Connection::ece_setter(size_t index) const {
  if (!options_->ece) return nullptr;
  const QueuePair& pair = rails_.pair(index);
  return [ece = ece_.get(), api = &rails_[pair.rail].device().hca->api(), qp = pair.qp.get(),
          remote = peer_.qp[index], index, sends = sends_]() -> Status {
    if (sends) return ece->set_accepted(index, *api, qp, remote);
    ece->set_offer(index, *api, qp, remote);
    return {};
  };
}

void Connection::query_ece_offers() {
  if (!options_->ece) return;
  for (size_t i = 0; i < rails_.pair_count(); ++i) {
    const QueuePair& pair = rails_.pair(i);
    ece_->query_offer(i, rails_[pair.rail].device().hca->api(), pair.qp.get());
  }
}

Status Connection::query_accepted_ece() {
  for (size_t i = 0; i < rails_.pair_count(); ++i) {
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
  for (size_t i = 0; i < rails_.pair_count(); ++i) {
    const QueuePair& pair = rails_.pair(i);
    const RailEnd& rail = rails_[pair.rail];
    const QueuePairPath path{&rail.address(),    &peer_.rail[pair.peer_rail],
                             peer_.qp[i].number, first_psn_,
                             peer_.first_psn,    service};
    StateChange to_receive = to_ready_to_receive(rail.device(), pair.qp.get(), path);
    to_receive.before = ece_setter(i);
    changes_.add(std::move(to_receive));
    changes_.add(to_ready_to_send(rail.device(), pair.qp.get(), path, *options_));
  }
}

Result<bool> Connection::change_states() {
  Result<bool> changed = changes_.step(*options_);
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
  link_ = std::make_shared<PeerLink>(std::move(channel), text(), role, std::move(link_options));
  agreement_->open((peer_.flags & wire::kEndStages) != 0,
                   [link = std::weak_ptr<PeerLink>(link_)](uint32_t flags) {
                     if (auto alive = link.lock()) alive->send_memory(flags);
                   });
  std::vector<const void*> objects;
  for (const RailEnd& rail : rails_) {
    objects.push_back(rail.device().hca->context());
    objects.push_back(rail.cq());
    for (const QueuePair& pair : rail.qps()) objects.push_back(pair.qp.get());
  }
  objects.insert(objects.end(), own_queue_pairs.begin(), own_queue_pairs.end());
  watcher_->add(link_, std::move(objects));
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
  for (const RailEnd& rail : rails_) hcas.push_back(rail.device().hca);
  auto traffic_started = [link = link_] { return link != nullptr && link->has_posted(); };
  return {std::move(hcas), copy_streams_.get(), agreement_.get(),
          sends_,          max_write_bytes(),   std::move(traffic_started)};
}

std::string Connection::text() const {
  if (link_ != nullptr) return link_->description();
  std::string local = host_name();
  std::string remote = peer_.host;
  auto add_rail = [](std::string* text, const wire::RailAddress& rail, uint32_t qp, bool first) {
    *text += (first ? " " : " + ") + to_string(rail) + " qp " + hex(qp);
  };
  for (size_t r = 0; r < rails_.size(); ++r) {
    add_rail(&local, rails_[r].address(), rails_[r].qps().front().qp->qp_num, r == 0);
  }
  uint32_t named = 0;  // bit per rail of the peer
  for (size_t i = 0; i < peer_.qps; ++i) {
    const uint32_t rail = peer_.qp[i].rail;
    if ((named >> rail & 1) != 0) continue;
    add_rail(&remote, peer_.rail[rail], peer_.qp[i].number, named == 0);
    named |= 1u << rail;
  }
  return local + " <-> " + remote;
}

void Connection::fail_completion(const ibv_wc& wc) {
  failed_here_ = true;
  if (failed()) return;  // what was posted on a QP in error is flushed: hundreds of completions
  std::string what = wc.wr_id == probe_id() ? kProbeFailed : "";
  what += std::string("work completion ") + verbs::wc_status_name(wc.status) + " (status " +
          std::to_string(wc.status) + ", vendor_err " + hex(wc.vendor_err) + ", qp " +
          hex(wc.qp_num) + "). " + verbs::wc_status_hint(wc.status);
  fail(Code::kRemote, what);
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
  if (!std::exchange(surfaced_, true)) watcher_->log_failure(*link_);
  return error.code;
}

}  // namespace gdr::transport
