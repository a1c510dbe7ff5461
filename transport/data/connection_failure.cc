// How a connection fails and what it reports, and the probe that shows whether its peer is alive.
#include <string>
#include <utility>

#include "base/log.h"
#include "drivers/verbs/wc_text.h"
#include "transport/data/connection.h"
#include "transport/pairs/work_id.h"

namespace gdr::transport {
namespace {

constexpr char kProbeFailed[] =
    "the peer does not answer by RDMA either, after the handshake socket was lost: ";

// How long the failure of a peer is held back while work of this end that needs no peer completes:
// a flush takes microseconds, a copy milliseconds unless the GPU is busy with something else.
constexpr std::chrono::seconds kLocalWork{3};

// Why a failure that another rail could have survived ends the connection; "" for other failures.
std::string no_failover_text(const ConnectionEnd& end, ibv_wc_status status) {
  const bool is_peers_choice = end.peer_declines_recovery && !end.recovers();
  if (!is_peers_choice || classify_failure(status) == FailureClass::kConnectionLost) return "";
  return std::string("; it did not fail over, as failover is off on ") + end.peer.host +
         " (GDR_NCCL_FAILOVER=0, or little memory to lock)";
}

}  // namespace

void Connection::fail_completion(const ibv_wc& wc) {
  failed_here_ = true;
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
    fail_verbs((std::string("posting ") + what).c_str(), err);
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
  } else if (recovery_->recovers() &&
             (is_attempt || classify_failure(wc.status) != FailureClass::kConnectionLost)) {
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

void Connection::fail_verbs(const char* call, int err) {
  fail(Code::kSystem, std::string(call) + " failed with errno " + std::to_string(err));
}

void Connection::fail(Code code, const std::string& what) {
  failed_here_ = true;
  link_->fail_link(Error{code, text() + ": " + what}, true);
  recovery_->on_failed_connection();
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
    end_.watcher->log_failure(*link_);
  }
  return error.code;
}

}  // namespace gdr::transport
