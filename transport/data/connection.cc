#include "transport/data/connection.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <limits>
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

Connection::Connection(std::shared_ptr<const ConnectionOptions> options, Watcher* watcher,
                       bool sends)
    : options_(std::move(options)),
      watcher_(watcher),
      sends_(sends),
      first_psn_(std::random_device{}() & 0xffffff),
      agreement_(std::make_shared<RegistrationAgreement>(options_->stages_all ||
                                                         (sends && options_->stages_large_sends))) {
}

Connection::~Connection() {
  if (link_ == nullptr) return;
  link_->send_bye();
  watcher_->remove(link_.get());
}

Status Connection::add_rail(const Device& device, const RailSpec& spec) {
  return rails_.add(device, spec, *options_);
}

void Connection::describe(const wire::Secret& secret, wire::EndPoint* end) const {
  end->secret = secret;
  std::snprintf(end->host, sizeof(end->host), "%s", host_name().c_str());
  end->pid = static_cast<uint32_t>(getpid());
  end->first_psn = first_psn_;
  if (agreement_->stages()) end->flags |= wire::kEndStages;
  rails_.describe(end);
}

Status Connection::accept_peer(const wire::EndPoint& peer) {
  if (Status status = rails_.check_peer(peer); !status) return status;
  peer_ = peer;
  rails_.set_peer_rails(peer);
  return {};
}

Status Connection::connect_queue_pairs(uint8_t traffic_class) {
  for (size_t i = 0; i < rails_.pair_count(); ++i) {
    const QueuePair& pair = rails_.pair(i);
    const RailEnd& rail = rails_[pair.rail];
    QueuePairPath path{&rail.address(),    &peer_.rail[pair.peer_rail],
                       peer_.qp[i].number, first_psn_,
                       peer_.first_psn,    traffic_class};
    const verbs::Api& api = rail.device().hca->api();
    if (Status status = connect_queue_pair(api, pair.qp.get(), path, *options_); !status) {
      status.error().text += " (connecting " + text() + ")";
      return status;
    }
  }
  return {};
}

void Connection::keep_link(FrameChannel channel, const char* role) {
  link_ = std::make_shared<PeerLink>(std::move(channel), text(), role, agreement_);
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
  watcher_->add(link_, std::move(objects));
}

size_t Connection::max_write_bytes() const {
  size_t least = std::numeric_limits<uint32_t>::max();
  for (const RailEnd& rail : rails_) {
    least = std::min<size_t>(least, rail.device().state.max_message_bytes);
  }
  return std::max(least / wire::kSplitAlignment, size_t{1}) * wire::kSplitAlignment;
}

RegistrationScope Connection::registration_scope() const {
  std::vector<std::shared_ptr<HcaContext>> hcas;
  for (const RailEnd& rail : rails_) hcas.push_back(rail.device().hca);
  auto traffic_started = [link = link_] { return link != nullptr && link->has_posted(); };
  return {std::move(hcas), copy_streams_.get(), agreement_.get(),
          sends_,          max_write_bytes(),   std::move(traffic_started)};
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
