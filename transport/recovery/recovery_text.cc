#include "transport/recovery/recovery_text.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <set>

#include "base/finding.h"
#include "drivers/verbs/wc_text.h"
#include "transport/link/failure_log.h"
#include "transport/pairs/work_id.h"

namespace gdr::transport {
namespace {

constexpr char kLook[] = "look at `dmesg` for what the HCA's driver reports";
constexpr char kSeeRailWarning[] =
    "see the warning about the rail in the log of the end that goes without it";

// How a PairReason is called, how early it comes in a chain of causes, and what it is likely to
// come from where no status says more, and the fix.
struct ReasonTexts {
  const char* text;
  int rank;
  const char* likely;  // no full stop at the end; "" where nothing is known
  const char* fix;     // an imperative
};
constexpr ReasonTexts kReasons[] = {
    {"no failure", 4, "", kLook},
    {"", 3, "", kLook},  // kCompletion
    {"the HCA refused a work request", 4, "", kLook},
    {"the port is down", 0, "a cable, a transceiver or a switch port has failed",
     "look at `dmesg` and the switch's log"},
    {"the HCA reported a fatal error or was removed", 1, "the HCA has failed or was removed",
     "look at `dmesg`"},
    {"the HCA reported a fatal error of the queue pair", 4, "", kLook},
    {"the queue pair could not be connected", 2,
     "the two ports could not reach each other when the connection was made",
     "see `is not connected` in the log of the end that could not connect it (NCCL_DEBUG=INFO)"},
    {"", 3, "", kLook},  // kProbe
    {"the other end lost it", 4, "", kLook},
    {"the rail was given up", 2, "", kSeeRailWarning},
    {"the address of the other end's port has changed", 4, "", kLook},
    {"the rail that it is meant for is missing", 2, "", kSeeRailWarning}};
static_assert(std::size(kReasons) == static_cast<size_t>(wire::kLastPairReason) + 1);

const ReasonTexts& texts_of(const PairCause& cause) {
  return kReasons[static_cast<size_t>(cause.reason)];
}

// A request is flushed because of something else.
bool is_flushed(const PairCause& cause) { return cause.status == IBV_WC_WR_FLUSH_ERR; }

int rank_of(const PairCause& cause) { return is_flushed(cause) ? 4 : texts_of(cause).rank; }

// Whether the peer has found the cause, or one that explains this end's.
bool is_peers(const RailLoss& loss) {
  const bool is_known = loss.peer_cause.reason != wire::PairReason::kNone;
  return is_known && (loss.cause.reason == wire::PairReason::kPeer ||
                      rank_of(loss.peer_cause) < rank_of(loss.cause));
}

// The cause at the end where it was found.
const PairCause& origin(const RailLoss& loss) {
  return is_peers(loss) ? loss.peer_cause : loss.cause;
}

// "nodeB" of "nodeB mlx5_3:1".
std::string host_of(const std::string& peer) { return peer.substr(0, peer.rfind(' ')); }

// Whether a probe was not answered, or the answer was lost.
bool is_timeout(const PairCause& cause) {
  return cause.reason == wire::PairReason::kProbe &&
         (cause.status == IBV_WC_RETRY_EXC_ERR || cause.status == IBV_WC_RESP_TIMEOUT_ERR);
}

// The hint may have a fix: "The peer did not answer. Fix: look at its log".
TextAndFix likely_cause_of(ibv_wc_status status) {
  std::string hint = verbs::wc_status_hint(status);
  if (hint.starts_with("The ") || hint.starts_with("A ")) {
    hint[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(hint[0])));
  }
  TextAndFix parts = split_fix(hint);
  if (parts.fix.empty()) parts.fix = "look at `dmesg` and the log of both ends";
  return parts;
}

// What has probably happened, and what the user should do.
TextAndFix likely_cause(const PairCause& cause) {
  if (is_timeout(cause)) {
    return {
        "the peer's port cannot be reached, or large packets are dropped on the way, as by a "
        "switch whose MTU is smaller than that of the ports",
        "compare the MTU of all ports and switches (`ping -M do -s <bytes>` on RoCE)"};
  }
  if (!cause.is_of_a_request() || is_flushed(cause)) {
    return {texts_of(cause).likely, texts_of(cause).fix};
  }
  if (loses_pair(cause.status)) return likely_cause_of(cause.status);
  // Of a probe or a statement: data that is refused ends the connection.
  return {
      "an HCA refuses access to the plugin's own tables in host memory, as with a wrong set-up "
      "of the IOMMU or of a virtual function",
      "look at `dmesg` of both hosts, and at `nccl-gdr doctor --check iommu`"};
}

// What becomes of the connections.
std::string effect_text(const RailLoss& loss) {
  if (loss.effect == LossEffect::kStoodBy) return "; it was a standby rail";
  if (loss.effect == LossEffect::kWaits) {
    const auto seconds = std::chrono::ceil<std::chrono::seconds>(loss.waits).count();
    return "; no rail is usable, so that connections wait " + std::to_string(seconds) +
           " s at most for one to return while requests are outstanding, and then fail";
  }
  return "; connections go on over " + loss.usable;
}

// "mlx5_0:1 <-> nodeB mlx5_3:1: the port is down at nodeB mlx5_3:1".
std::string path_text(const RailLoss& loss) {
  return loss.port + " <-> " + loss.peer + ": " + to_string(origin(loss)) + " at " +
         (is_peers(loss) ? loss.peer : loss.host + " " + loss.port);
}

// ". Likely cause: ... . Fix: ...".
std::string advice_text(const PairCause& cause) {
  const TextAndFix likely = likely_cause(cause);
  return (likely.text.empty() ? "" : ". Likely cause: " + likely.text) + ". Fix: " + likely.fix;
}

}  // namespace

std::string to_string(const PairCause& cause) {
  const std::string text = texts_of(cause).text, status = verbs::wc_status_name(cause.status);
  const std::string err = cause.sys_errno == 0 ? "" : ", errno " + std::to_string(cause.sys_errno);
  switch (cause.reason) {
    case wire::PairReason::kCompletion:
      return status;
    case wire::PairReason::kProbe:
      return "the probe of " + std::to_string(wire::kProbeBytes) + " bytes failed with " + status;
    case wire::PairReason::kPortDown:
      return cause.status == IBV_WC_SUCCESS ? text : text + " (" + status + ")";
    case wire::PairReason::kWithdrawn:
    case wire::PairReason::kRailMissing:
      return text + " for lack of queue pairs, queues or memory that can be registered" + err;
    default:
      return text;
  }
}

std::string cause_text(const RailLoss& loss) {
  return (is_peers(loss) ? host_of(loss.peer) + " reports: " : "") + to_string(origin(loss));
}

std::string failed_return_text(const RailLoss& loss) {
  return cause_text(loss) + advice_text(origin(loss));
}

std::string lost_rail_text(const RailLoss& loss, int left_out) {
  return loss.port + " <-> " + loss.peer + " is lost: " + cause_text(loss) + effect_text(loss) +
         left_out_text(left_out) +
         (loss.may_return ? ". It is used again when it returns"
                          : ". It is not used again for the rest of the job") +
         advice_text(origin(loss));
}

std::string no_pair_is_left_text(const std::vector<RailLoss>& losses,
                                 std::chrono::steady_clock::duration waited) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(waited).count();
  std::string text = "no rail is left";
  if (seconds > 0) text += ", and none has returned for " + std::to_string(seconds) + " s";
  text += ". ";
  std::set<std::string> paths;
  for (const RailLoss& loss : losses) {
    const std::string path = path_text(loss);
    if (paths.insert(path).second) text += (paths.size() == 1 ? "" : "; ") + path;
  }
  const auto rank = [](const RailLoss& loss) { return rank_of(origin(loss)); };
  return text + advice_text(origin(*std::ranges::min_element(losses, {}, rank)));
}

std::string work_fails_text(const std::string& what, const FailedWork& work, const RailLoss& last) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(work.failing_for).count();
  return what + " has failed " + std::to_string(work.failures) + " times in " +
         std::to_string(seconds) + " s, over every rail, each of which carries a probe of " +
         std::to_string(wire::kProbeBytes) + " bytes. The last failure: " + path_text(last) +
         advice_text(origin(last));
}

}  // namespace gdr::transport
