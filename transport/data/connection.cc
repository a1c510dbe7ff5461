#include "transport/data/connection.h"

#include <new>
#include <string>
#include <utility>

#include "base/log.h"
#include "drivers/verbs/wc_text.h"
#include "transport/data/connection_set_up.h"
#include "transport/memory/registrar.h"
#include "transport/pairs/work_id.h"
#include "transport/wire/tcp.h"

namespace gdr::transport {

namespace {

constexpr char kProbeFailed[] =
    "the peer does not answer by RDMA either, after the handshake socket was lost: ";

// Where an end whose socket has ended reaches the peer's process. An end that does not open the
// socket asks only where nothing but the peer's host answers. direct: ReopenTarget::direct.
ReopenTarget reopen_target(const ConnectionEnd& end, const FrameChannel& channel, bool direct) {
  ReopenTarget target{.from = own_address(channel.fd()),
                      .own = wire::proof_of(end.sends, end.peer.secret, end.peer.sequence_base),
                      .peers = wire::proof_of(!end.sends, end.peer.secret, end.peer.sequence_base),
                      .opens = end.sends,
                      .direct = direct};
  if (end.peer.tcp_port == 0 || !(end.sends || direct)) return target;
  target.to = channel.peer();
  if (target.to.ss_family != AF_UNSPEC) set_port(&target.to, end.peer.tcp_port);
  return target;
}

// Why a failure that another rail could have survived ends the connection; "" for other failures.
std::string no_failover_text(const ConnectionEnd& end, ibv_wc_status status) {
  const bool is_peers_choice = end.peer_declines_recovery && !end.recovers();
  if (!is_peers_choice || !loses_pair(status)) return "";
  return std::string("; it did not fail over, as failover is off on ") + end.peer.host +
         " (GDR_NCCL_FAILOVER=0, or little memory to lock)";
}

std::string text_of(const RailName& rail) { return rail.hca + ":" + std::to_string(rail.port); }

std::string text_of(const RailSums::Moved& moved) {
  return counted(moved.bytes, "byte") + " in " + counted(moved.messages, "chunk");
}

// What shows that one of several rails carries little. Without memory the lines are left out: the
// connection is to be closed all the same.
void log_rails(const Watcher& watcher) {
  if (watcher.connections() > 0) return;
  try {
    const ProcessSums sums = watcher.sums();
    for (const auto& [rail, sum] : sums.rails) {
      if (sum.sent.messages + sum.received.messages + sum.losses == 0) continue;
      GDR_INFO(log::kInit | log::kNet, "rail %s: sent %s, received %s; %s lost, %zu returned",
               text_of(rail).c_str(), text_of(sum.sent).c_str(), text_of(sum.received).c_str(),
               counted(sum.losses, "queue pair").c_str(), static_cast<size_t>(sum.returns));
    }
  } catch (const std::bad_alloc&) {
  }
}

}  // namespace

std::string Connection::text() const {
  return link_ != nullptr ? link_->description() : end_.text();
}

void Connection::close() {
  if (std::exchange(closed_, true)) return;
  if (link_ != nullptr) {
    link_->send_bye();
    end_.watcher->remove(link_.get());
    if (end_.rails.size() > 1) log_rails(*end_.watcher);
  }
  if (recovery_ != nullptr) recovery_->close();
  end_.rails.destroy_queue_pairs();
}

void Connection::make_recovery(RailTables& tables, int receives) {
  PairSetUp set_up{
      .end = end_.sends ? PairEnd::kSender : PairEnd::kReceiver,
      .rails = &end_.rails,
      .tables = &tables,
      .peer = &end_.peer,
      .options = end_.options,
      .service = end_.service,
      .first_psn = end_.first_psn,
      .receives = receives,
      .before_receiving = [this](size_t pair) { return end_.ece_setter(pair, /*again=*/true); },
      .unreachable = &end_.watcher->unreachable_paths(),
      .host = host_name()};
  recovery_ = std::make_shared<Recovery>(PairIo(std::move(set_up)), end_.recovers(),
                                         end_.watcher->recovery_hooks());
}

void Connection::keep_link(ConnectionSetUp& set_up, FrameChannel channel, bool direct) {
  PeerLinkOptions link_options{.peer = PeerProcess{end_.peer.host, end_.peer.pid},
                               .reopen = reopen_target(end_, channel, direct),
                               .owner = end_.options->owner};
  if (end_.recovers()) {
    link_options.on_statement = [recovery = recovery_](const wire::PairStatement& statement) {
      recovery->steps().on_statement(statement);
    };
  }
  std::vector<WatchedRail> rails;
  for (const RailEnd& rail : end_.rails) {
    const Device& device = rail.device();
    rails.push_back({device.hca, {device.hca->name(), device.port}, rail.cq()});
  }
  if (rails.size() > 1) {
    link_options.pairs_text = [recovery = recovery_, rails] {
      std::string text = ", bytes by rail:";
      for (uint32_t i = 0; i < rails.size(); ++i) {
        text += " " + text_of(rails[i].name) + " " + std::to_string(recovery->counters(i).bytes);
      }
      return text + recovery->state_text();
    };
  }
  link_ = std::make_shared<PeerLink>(std::move(channel), text(), end_.sends ? "sender" : "receiver",
                                     std::move(link_options));
  set_up.note_reached_ports();
  recovery_->begin(link_, set_up.excluded());
  end_.watcher->add({link_, std::move(rails), recovery_, end_.sends});
  recovery_->steps().look_at_rails();
}

RegistrationScope Connection::registration_scope() const {
  RegistrationScope scope{{}, own_allocations_.get(), end_.sends};
  for (uint32_t rail = 0; rail < end_.rails.size(); ++rail) {
    const bool used = recovery_ == nullptr || !recovery_->is_given_up(rail);
    const bool kept = recovery_ != nullptr && end_.stands_by(rail);
    scope.rails.push_back({used ? end_.rails[rail].device().hca : nullptr,
                           kept ? recovery_->standby().registrations() : nullptr});
  }
  // Without the keys of this end the peer must not use the rail either: it learns that the pairs
  // are lost, and this end does not bring them back.
  scope.on_failure = [this, asked = RoomRequests{}](size_t index, size_t room_for,
                                                    const Error& why) mutable {
    const auto rail = static_cast<uint32_t>(index);
    const Device& device = end_.rails[rail].device();
    const bool stands_by = end_.stands_by(rail);
    if (device.hca->is_gone()) {
      const bool survives = recovery_ != nullptr && recovery_->on_lost_hca(rail);
      return survives ? AfterFailure::kGoOn : AfterFailure::kFail;
    }
    if (!stands_by && room_for > 0 &&
        end_.watcher->room().make_room(*device.hca, why, &asked, room_for)) {
      return AfterFailure::kTryAgain;
    }
    if (!stands_by || recovery_ == nullptr || !recovery_->withdraw_rail(rail, why.sys_errno)) {
      return AfterFailure::kFail;
    }
    end_.warn_of_rail(device, /*standby=*/true, why, "registering");
    return AfterFailure::kGoOn;
  };
  return scope;
}

void Connection::fail_completion(const ibv_wc& wc) {
  // What was posted on a QP in error is flushed: hundreds of completions.
  if (failed() && wc.status == IBV_WC_WR_FLUSH_ERR) return;
  const std::string name = verbs::wc_status_name(wc.status);
  const bool is_probe = decode_work_id(wc.wr_id).kind == WorkKind::kProbe;
  std::string what = is_probe ? kProbeFailed : "";
  what += "work completion " + name + " (status " + std::to_string(wc.status) + ", vendor_err " +
          hex(wc.vendor_err) + ", qp " + hex(wc.qp_num) + ")" + no_failover_text(end_, wc.status) +
          ". " + verbs::wc_status_hint(wc.status, !end_.sends);
  if (!failed()) return fail(Code::kRemote, what);
  // An event at the other end was reported first. It does not say what this completion does.
  if (link_->failure().text.find(name) != std::string::npos) return;
  end_.watcher->failures().warn_once(name + " with " + to_string(link_->peer()),
                                     text() + ": " + what);
}

bool Connection::on_failed_post(const QueuePair& pair, uint32_t epoch, const char* what, int err) {
  if (!recovery_->recovers()) {
    fail(Code::kSystem,
         std::string("posting ") + what + " failed with errno " + std::to_string(err));
    return false;
  }
  recovery_->on_failed_post(pair.index, epoch);
  return !failed();
}

void Connection::on_failed_poll(uint32_t rail) {
  if (!recovery_->recovers()) {
    fail(Code::kSystem, "polling the completion queue failed");
  } else {
    recovery_->on_failed_poll(rail);
  }
}

// Takes a completion that is an error, or one of a probe or a statement. Those write to the peer's
// tables over a rail that need not carry anything, so that no status of theirs is more than a rail
// that does not work.
void Connection::on_failed_work(const ibv_wc& wc) {
  const WorkId id = decode_work_id(wc.wr_id);
  const bool is_attempt = id.kind == WorkKind::kProbe || id.kind == WorkKind::kStatement;
  if (wc.status == IBV_WC_SUCCESS) {
    recovery_->on_written(id);
  } else if (recovery_->recovers() && (is_attempt || loses_pair(wc.status))) {
    recovery_->on_failed_work(id, wc.status);
  } else {
    fail_completion(wc);
  }
}

// The probe of a link whose socket is lost.
void Connection::attend() {
  if (!link_->probe_wanted() || failed()) return;
  if (!recovery_->probe_peer()) link_->end_probe();
}

void Connection::fail(Code code, const std::string& what) {
  link_->fail_link(Error{code, text() + ": " + what}, true);
}

Code Connection::surface_failure() {
  Error error = link_->failure();
  if (!std::exchange(surfaced_, true)) {
    end_.watcher->failures().link_failed(*link_, Clock::now());
  }
  return error.code;
}

}  // namespace gdr::transport
