#include "transport/data/excluded_pairs.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/log.h"

namespace gdr::transport {

void ExcludedPairs::exclude_displaced(const std::vector<uint32_t>& displaced) {
  if (!end_.recovers()) return;
  for (uint32_t pair : displaced) {
    const bool last = excluded_.size() + 1 == end_.rails.pair_count();
    const PairCause cause{.reason = wire::PairReason::kRailMissing, .sys_errno = end_.lacks};
    if (!last) (void)exclude(pair, {Code::kSystem, to_string(cause)}, cause);
  }
}

bool ExcludedPairs::has(size_t pair) const {
  return std::ranges::find(excluded_, pair, &LostAtStart::pair) != excluded_.end();
}

Status ExcludedPairs::exclude_without_qp(uint32_t pair) {
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

Status ExcludedPairs::exclude(uint32_t pair, Error error, PairCause cause) {
  if (has(pair)) return {};
  excluded_.push_back({pair, cause});
  if (!end_.recovers() || excluded_.size() == end_.rails.pair_count()) {
    return tl::unexpected<Error>(std::move(error));
  }
  log(pair, error, cause.reason == wire::PairReason::kNotConnected);
  return {};
}

Status ExcludedPairs::exclude_rail(uint32_t rail, const Error& error) {
  const PairCause cause{.reason = wire::PairReason::kWithdrawn, .sys_errno = error.sys_errno};
  for (uint32_t i = 0; i < end_.rails.pair_count(); ++i) {
    if (end_.rails.pair(i).rail != rail) continue;
    if (Status status = exclude(i, error, cause); !status) return status;
  }
  end_.warn_of_rail(end_.rails[rail].device(), end_.stands_by(rail), error);
  return {};
}

void ExcludedPairs::log(uint32_t pair, const Error& why, bool warns) const {
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

void ExcludedPairs::forget(uint32_t pair) {
  std::erase_if(excluded_, [pair](const LostAtStart& lost) { return lost.pair == pair; });
}

}  // namespace gdr::transport
