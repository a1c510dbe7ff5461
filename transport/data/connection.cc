#include "transport/data/connection.h"

#include <unistd.h>

#include <cstdio>
#include <random>

#include "base/log.h"
#include "drivers/verbs/wc_text.h"
#include "transport/memory/registrar.h"

namespace gdr::transport {
namespace {

std::string host_name() {
  char name[sizeof(wire::EndPoint::host)] = {};
  if (gethostname(name, sizeof(name) - 1) != 0) return "unknown";
  return name;
}

std::string hex(uint32_t value) {
  char text[16];
  std::snprintf(text, sizeof(text), "0x%x", value);
  return text;
}

}  // namespace

Connection::Connection(std::shared_ptr<const ConnectionOptions> options, Watcher* watcher)
    : options_(std::move(options)),
      watcher_(watcher),
      first_psn_(std::random_device{}() & 0xffffff) {}

Connection::~Connection() {
  if (link_ == nullptr) return;
  link_->send_bye();
  watcher_->remove(link_.get());
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
  rails_.describe(end);
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
    GDR_WARN(
        "%s and the peer's %s are in different InfiniBand subnets, and the peer's GID %s has no "
        "FLID by which routers could reach it; its LID is used, which another subnet seldom knows. "
        "Fix: set NCCL_IB_ROUTABLE_FLID_GID_INDEX on the peer's node to the index of a GID with a "
        "FLID, or choose HCAs of one subnet with NCCL_IB_HCA",
        to_string(local).c_str(), to_string(remote).c_str(), to_string(remote.gid).c_str());
  }
}

void Connection::begin_connecting(ServiceClass service) {
  warn_of_missing_flids();
  for (size_t i = 0; i < rails_.pair_count(); ++i) {
    const QueuePair& pair = rails_.pair(i);
    const RailEnd& rail = rails_[pair.rail];
    const QueuePairPath path{&rail.address(),    &peer_.rail[pair.peer_rail],
                             peer_.qp[i].number, first_psn_,
                             peer_.first_psn,    service};
    changes_.add(to_ready_to_receive(rail.device(), pair.qp.get(), path));
    changes_.add(to_ready_to_send(rail.device(), pair.qp.get(), path, *options_));
  }
}

Result<bool> Connection::change_states() {
  Result<bool> changed = changes_.step(*options_);
  if (!changed && peer_.qps > 0) changed.error().text += " (connecting " + text() + ")";
  return changed;
}

void Connection::keep_link(FrameChannel channel, const char* role) {
  link_ = std::make_shared<PeerLink>(std::move(channel), text(), role);
  std::vector<const void*> objects = std::move(watched_);
  for (const RailEnd& rail : rails_) {
    objects.push_back(rail.device().hca->context());
    objects.push_back(rail.cq());
    for (const QueuePair& pair : rail.qps()) objects.push_back(pair.qp.get());
  }
  watcher_->add(link_, std::move(objects));
}

RegistrationScope Connection::registration_scope() const {
  std::vector<std::shared_ptr<HcaContext>> hcas;
  for (const RailEnd& rail : rails_) hcas.push_back(rail.device().hca);
  auto traffic_started = [link = link_] { return link != nullptr && link->has_posted(); };
  return {std::move(hcas), copy_streams_.get(), std::move(traffic_started)};
}

std::string Connection::text() const {
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
  std::string what = std::string("work completion ") + verbs::wc_status_name(wc.status) +
                     " (status " + std::to_string(wc.status) + ", vendor_err " +
                     hex(wc.vendor_err) + ", qp " + hex(wc.qp_num) + "). " +
                     verbs::wc_status_hint(wc.status);
  fail(Code::kRemote, what);
}

void Connection::fail_verbs(const char* call, int err) {
  fail(Code::kSystem, std::string(call) + " failed with errno " + std::to_string(err));
}

void Connection::fail(Code code, const std::string& what) {
  link_->fail_link(Error{code, text() + ": " + what}, true);
}

Code Connection::surface_failure() {
  Error error = link_->failure();
  if (!surfaced_) GDR_WARN("%s", error.text.c_str());
  surfaced_ = true;
  return error.code;
}

}  // namespace gdr::transport
