#include "transport/data/connection.h"

#include <unistd.h>

#include <algorithm>
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

bool is_ipv4_mapped_pair(const wire::RailAddress& a, const wire::RailAddress& b) {
  return is_ipv4_mapped(a.gid) == is_ipv4_mapped(b.gid);
}

Status check_rail_pair(const wire::RailAddress& local, const wire::RailAddress& remote) {
  std::string both = to_string(local) + " and the peer's " + to_string(remote);
  if (remote.mtu < IBV_MTU_256 || remote.mtu > IBV_MTU_4096) {
    return fail(Code::kInternal, "the peer names an impossible MTU for " + to_string(remote));
  }
  if (local.ethernet != remote.ethernet) {
    return fail(Code::kInvalidUsage,
                both +
                    " are of different link layers (InfiniBand and RoCE); choose HCAs of one "
                    "fabric with NCCL_IB_HCA");
  }
  if (local.ethernet == 0) return {};
  if (local.gid_type != remote.gid_type || !is_ipv4_mapped_pair(local, remote)) {
    return fail(Code::kInvalidUsage,
                both +
                    " differ in RoCE version or address family and cannot reach each other; "
                    "set NCCL_IB_GID_INDEX, or NCCL_IB_ROCE_VERSION_NUM and "
                    "NCCL_IB_ADDR_FAMILY, alike on both nodes");
  }
  return {};
}

}  // namespace

Connection::Connection(std::shared_ptr<const TransportOptions> options, Watcher* watcher)
    : options_(std::move(options)),
      watcher_(watcher),
      first_psn_(std::random_device{}() & 0xffffff) {}

Connection::~Connection() {
  if (link_ == nullptr) return;
  link_->send_bye();
  watcher_->remove(link_.get());
}

Status Connection::add_rail(const Device& device, const RailSpec& plan) {
  Result<RailEnd> rail = RailEnd::create(device, plan, *options_);
  if (!rail) return forward_error(rail);
  rails_.push_back(std::move(*rail));
  return {};
}

int Connection::queue_pair_count() const {
  int count = 0;
  for (const RailEnd& rail : rails_) count += static_cast<int>(rail.qps().size());
  return count;
}

const QueuePair& Connection::queue_pair(int index) const {
  int rails = static_cast<int>(rails_.size());
  return rails_[index % rails].qps()[index / rails];
}

std::vector<const QueuePair*> Connection::queue_pairs() const {
  std::vector<const QueuePair*> pairs;
  for (int i = 0; i < queue_pair_count(); ++i) pairs.push_back(&queue_pair(i));
  return pairs;
}

void Connection::describe(const wire::Secret& secret, wire::EndPoint* end) const {
  end->secret = secret;
  std::snprintf(end->host, sizeof(end->host), "%s", host_name().c_str());
  end->pid = static_cast<uint32_t>(getpid());
  end->first_psn = first_psn_;
  end->rails = static_cast<uint8_t>(rails_.size());
  end->qps = static_cast<uint16_t>(queue_pair_count());
  for (size_t r = 0; r < rails_.size(); ++r) {
    uint32_t tables_rkey = end->rail[r].tables_rkey;
    end->rail[r] = rails_[r].address();
    end->rail[r].tables_rkey = tables_rkey;
    for (size_t q = 0; q < rails_[r].qps().size(); ++q) {
      end->qp_numbers[q * rails_.size() + r] = rails_[r].qps()[q].qp->qp_num;
    }
  }
}

Status Connection::accept_peer(const wire::EndPoint& peer) {
  if (peer.rails != rails_.size() || peer.qps != queue_pair_count()) {
    return gdr::fail(Code::kInternal, "the peer's number of rails or QPs differs from ours");
  }
  for (size_t r = 0; r < rails_.size(); ++r) {
    if (Status status = check_rail_pair(rails_[r].address(), peer.rail[r]); !status) return status;
  }
  peer_ = peer;
  return {};
}

Status Connection::connect_queue_pairs(uint8_t traffic_class) {
  for (int i = 0; i < queue_pair_count(); ++i) {
    int rail = i % static_cast<int>(rails_.size());
    QueuePairPath path{&rails_[rail].address(), &peer_.rail[rail], peer_.qp_numbers[i], first_psn_,
                       peer_.first_psn,         traffic_class};
    const verbs::Api& api = rails_[rail].device().hca->api();
    if (Status status = connect_queue_pair(api, queue_pair(i).qp.get(), path, *options_); !status) {
      status.error().text += " (connecting " + text() + ")";
      return status;
    }
  }
  return {};
}

void Connection::keep_link(FrameChannel channel, const char* role) {
  link_ = std::make_shared<PeerLink>(std::move(channel), text(), role);
  std::vector<const void*> objects;
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
  return {std::move(hcas), copy_streams_.get(), link_ != nullptr && link_->has_posted()};
}

std::string Connection::text() const {
  const RailEnd& rail = rails_.front();
  return host_name() + " " + to_string(rail.address()) + " qp " +
         hex(rail.qps().front().qp->qp_num) + " <-> " + peer_.host + " " +
         to_string(peer_.rail[0]) + " qp " + hex(peer_.qp_numbers[0]);
}

void Connection::fail_completion(const ibv_wc& wc) {
  std::string what = std::string("work completion ") + verbs::wc_status_name(wc.status) +
                     " (status " + std::to_string(wc.status) + ", vendor_err " +
                     hex(wc.vendor_err) + ", qp " + hex(wc.qp_num) + "). " +
                     verbs::wc_status_hint(wc.status);
  fail(Code::kRemote, what);
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
