#include "transport/data/connection_end.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/finding.h"
#include "base/random.h"
#include "transport/pairs/ece_agreement.h"

namespace gdr::transport {

// Never destroyed, as threads may set up connections while the process ends.
const std::string& host_name() {
  static const std::string& once = *[] {
    char name[sizeof(wire::EndPoint::host)] = {};
    return new std::string(gethostname(name, sizeof(name) - 1) == 0 ? name : "unknown");
  }();
  return once;
}

ConnectionEnd::ConnectionEnd(std::shared_ptr<const ConnectionOptions> own, Watcher* watching,
                             bool is_sender)
    : options(std::move(own)),
      watcher(watching),
      sends(is_sender),
      first_psn(static_cast<uint32_t>(random_bits()) & 0xffffff),
      sequence_base(is_sender ? random_bits() : 0) {}

bool ConnectionEnd::stands_by(uint32_t rail) const {
  for (size_t i = 0; i < rails.pair_count(); ++i) {
    if (rails.pair(i).rail == rail && !rails.pair(i).standby) return false;
  }
  return true;
}

std::pair<const wire::RailAddress&, const wire::RailAddress&> ConnectionEnd::ports_of(
    uint32_t pair) const {
  const QueuePair& of = rails.pair(pair);
  return {rails[of.rail].address(), peer.rail[of.peer_rail]};
}

wire::EndPoint ConnectionEnd::point(const wire::Secret& secret, const RailTables& tables) const {
  wire::EndPoint point{};
  point.secret = secret;
  std::snprintf(point.host, sizeof(point.host), "%s", host_name().c_str());
  point.pid = static_cast<uint32_t>(getpid());
  point.sequence_base = sequence_base;
  point.service_level = service.service_level;
  point.traffic_class = service.traffic_class;
  point.first_psn = first_psn;
  point.tcp_port = watcher->reopen_port();
  point.recovers = offers_recovery ? 1 : 0;
  rails.describe(&point);
  tables.describe(&point);
  return point;
}

std::string ConnectionEnd::text() const {
  std::string text = host_name();
  text.reserve(256);  // one allocation: the text is made for each connection
  const char* separator = " ";
  auto add_rail = [&](const wire::RailAddress& rail, uint32_t qp, bool standby) {
    text.append(std::exchange(separator, " + ")).append(to_string(rail));
    text.append(" qp ").append(hex(qp)).append(standby ? " (standby)" : "");
  };
  for (uint32_t r = 0; r < rails.size(); ++r) {
    const ibv_qp* qp = rails[r].qps().front().qp.get();  // null: it was given up
    add_rail(rails[r].address(), qp == nullptr ? 0 : qp->qp_num, stands_by(r));
  }
  text.append(" <-> ").append(peer.host);
  separator = " ";
  const uint32_t pairs = std::min<uint32_t>(peer.qps, static_cast<uint32_t>(rails.pair_count()));
  uint32_t active = 0, named = 0;  // bit per rail of the peer
  for (uint32_t i = 0; i < pairs; ++i) {
    if (!rails.pair(i).standby) active |= 1u << peer.qp[i].rail;
  }
  for (uint32_t i = 0; i < pairs; ++i) {
    const uint32_t rail = peer.qp[i].rail;
    if ((named >> rail & 1) != 0) continue;
    add_rail(peer.rail[rail], peer.qp[i].number, (active >> rail & 1) == 0);
    named |= 1u << rail;
  }
  return text;
}

std::function<Status()> ConnectionEnd::ece_setter(size_t index, bool again) const {
  if (!options->ece) return nullptr;
  QueuePair* pair = &rails.pair(index);
  return [pair, &api = rails[pair->rail].device().hca->api(), remote = peer.qp[index],
          is_agreed = sends || again]() -> Status {
    if (is_agreed) return set_agreed_ece(api, pair);
    set_offered_ece(api, remote, pair);
    return {};
  };
}

void ConnectionEnd::warn_of_rail(const Device& device, bool standby, const Error& why,
                                 const std::string& doing) const {
  const std::string missing = std::string(": connections go without it") +
                              (standby ? " as their standby rail, so that they fail when their "
                                         "other rails do: "
                                       : ", over their other rails: ");
  std::string cause = missing + doing + ", errno " + std::to_string(why.sys_errno);
  if (!standby) cause += " on " + to_string(device);  // each of them is missed
  TextAndFix parts = split_fix(missing + why.text);
  if (parts.fix.empty()) {
    parts.fix = "look at `dmesg` for what the HCA's driver reports, or exclude it with NCCL_IB_HCA";
  }
  watcher->rails().warn_of(cause, to_string(device), to_string(device), to_string(parts));
}

}  // namespace gdr::transport
