#include "transport/recovery/recovery_text.h"

#include <algorithm>
#include <cctype>
#include <iterator>

#include "base/finding.h"
#include "drivers/verbs/wc_text.h"
#include "transport/link/episodes.h"
#include "transport/link/failure_log.h"
#include "transport/pairs/failure_class.h"

namespace gdr::transport {
namespace {

constexpr char kFormerAddress[] =
    " is no longer an address of the port, but connections were made with it";
constexpr char kAddressChange[] = "the subnet manager, or on RoCE DHCP, has changed it";
constexpr char kKeepAddresses[] = "keep the addresses of ports while jobs run";

// Whether the peer found the cause. LostPair and RailLoss have both ends' causes.
template <class Loss>
bool is_peers(const Loss& loss) {
  return loss.cause.reason == wire::PairReason::kPeer;
}

// The cause at the end where it was found.
template <class Loss>
const PairCause& origin(const Loss& loss) {
  return is_peers(loss) ? loss.peer_cause : loss.cause;
}

// "nodeB" of "nodeB mlx5_3:1".
std::string host_of(const std::string& peer) { return peer.substr(0, peer.rfind(' ')); }

std::string cause_text(const PairCause& origin, bool is_peers) {
  return (is_peers ? "the peer reports: " : "") + to_string(origin);
}

// What has probably happened, and what the user should do, by order of probability.
struct LikelyCause {
  int rank;
  std::string text;  // no full stop at the end; "" where nothing is known
  std::string fix;   // an imperative

  bool operator==(const LikelyCause&) const = default;
};

constexpr char kLook[] = "look at `dmesg` for what the HCA's driver reports";
constexpr char kSeeRailWarning[] =
    "see the warning about the rail in the log of the end that goes without it";

// How a PairReason is called, and what it is likely to come from where no status says more.
struct ReasonTexts {
  const char* text;
  int rank;
  const char* likely;
  const char* fix;
};
constexpr ReasonTexts kReasons[] = {
    {"no failure", 4, "", kLook},
    {"", 4, "", kLook},  // kCompletion
    {"the HCA refused a work request", 4, "", kLook},
    {"the port is down", 0, "a cable, a transceiver or a switch port has failed",
     "look at `dmesg` and the switch's log"},
    {"the HCA reported a fatal error or was removed", 1, "the HCA has failed or was removed",
     "look at `dmesg`"},
    {"the HCA reported a fatal error of the queue pair", 4, "", kLook},
    {"the queue pair could not be connected", 3,
     "the two ports could not reach each other when the connection was made",
     "see `is not connected` in the log of the end that could not connect it (NCCL_DEBUG=INFO)"},
    {"", 4, "", kLook},  // kProbe
    {"the other end lost it", 4, "", kLook},
    {"the rail was given up", 3, "", kSeeRailWarning},
    {"the address of the other end's port has changed", 4, "", kLook},
    {"the rail that it is meant for is missing", 3, "", kSeeRailWarning}};
static_assert(std::size(kReasons) == static_cast<size_t>(wire::kLastPairReason) + 1);

const ReasonTexts& texts_of(const PairCause& cause) {
  return kReasons[static_cast<size_t>(cause.reason)];
}

// Takes the hint apart, which may have a fix: "The peer did not answer. Fix: look at its log".
LikelyCause likely_cause_of(ibv_wc_status status) {
  constexpr int kRank = 2;
  std::string hint = verbs::wc_status_hint(status);
  if (hint.starts_with("The ") || hint.starts_with("A ")) {
    hint[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(hint[0])));
  }
  const TextAndFix parts = split_fix(hint);
  if (parts.fix.empty()) return {kRank, hint, "look at `dmesg` and the log of both ends"};
  return {kRank, parts.text, parts.fix};
}

// Whether a probe was not answered, or the answer was lost.
bool is_timeout(const PairCause& cause) {
  return cause.reason == wire::PairReason::kProbe &&
         (cause.status == IBV_WC_RETRY_EXC_ERR || cause.status == IBV_WC_RESP_TIMEOUT_ERR);
}

LikelyCause large_packets_are_lost() {
  return {2,
          "the peer's port cannot be reached, or large packets are dropped on the way, as by a "
          "switch whose MTU is smaller than that of the ports",
          "compare the MTU of all ports and switches (`ping -M do -s <bytes>` on RoCE)"};
}

// Of a probe or a statement: data that is refused ends the connection.
LikelyCause tables_are_refused() {
  return {2,
          "an HCA refuses access to the plugin's own tables in host memory, as with a wrong set-up "
          "of the IOMMU or of a virtual function",
          "look at `dmesg` of both hosts, and at `nccl-gdr doctor --check iommu`"};
}

// host: where the cause was found, so that there is to look.
LikelyCause likely_cause(const PairCause& cause, const std::string& host = "") {
  const bool has_status =
      cause.reason == wire::PairReason::kCompletion || cause.reason == wire::PairReason::kProbe;
  if (is_timeout(cause)) return large_packets_are_lost();
  const ReasonTexts& texts = texts_of(cause);
  LikelyCause likely{texts.rank, texts.likely, texts.fix};
  if (has_status && cause.status != IBV_WC_WR_FLUSH_ERR) {
    const bool refused = classify_failure(cause.status) == FailureClass::kConnectionLost;
    likely = refused ? tables_are_refused() : likely_cause_of(cause.status);
  }
  const std::string look = "look at ", log = "`dmesg`";
  const bool both = likely.fix.find("both ends") != std::string::npos;
  if (likely.fix.starts_with(look + log) && !both && !host.empty()) {
    likely.fix.insert(look.size(), host + "'s ");
  }
  return likely;
}

template <class T>
bool add_once(std::vector<T>* to, T value) {
  if (std::ranges::find(*to, value) != to->end()) return false;
  to->push_back(std::move(value));
  return true;
}

// "the port is down at nodeB mlx5_3:1".
std::string placed(const PairCause& cause, const std::string& place) {
  return to_string(cause) + " at " + place;
}

bool is_port_down_as_well(const LostPair& pair) {
  return pair.port_down && pair.cause.reason != wire::PairReason::kPortDown;
}

// Whether the peer has found a cause of its own, which does not follow from this end's.
bool has_peers_as_well(const LostPair& pair) {
  using wire::PairReason;
  constexpr PairReason kOwn[] = {PairReason::kPortDown, PairReason::kDeviceLost,
                                 PairReason::kQueuePair, PairReason::kAddress,
                                 PairReason::kWithdrawn};
  return !is_peers(pair) && std::ranges::find(kOwn, pair.peer_cause.reason) != std::end(kOwn);
}

std::vector<std::string> causes_of(const LostPair& pair) {
  const std::string here = pair.host + (pair.host.empty() ? "" : " ") + pair.port;
  std::vector<std::string> causes{placed(origin(pair), is_peers(pair) ? pair.peer : here)};
  if (is_port_down_as_well(pair)) {
    causes.push_back(placed({wire::PairReason::kPortDown}, here));
  }
  if (has_peers_as_well(pair)) causes.push_back(placed(pair.peer_cause, pair.peer));
  return causes;
}

// "mlx5_0:1 <-> nodeB mlx5_3:1: the port is down at nodeB mlx5_3:1", with what the pairs of the
// path were lost for.
std::string path_text(const std::string& path, const std::vector<LostPair>& pairs) {
  std::string text = path + ": ";
  std::vector<std::string> causes;
  for (const LostPair& pair : pairs) {
    if (pair.path != path) continue;
    for (std::string& cause : causes_of(pair)) {
      if (add_once(&causes, std::move(cause))) {
        text += (causes.size() == 1 ? "" : ", ") + causes.back();
      }
    }
  }
  return text;
}

void add_likely_causes(const LostPair& pair, std::vector<LikelyCause>* to) {
  add_once(to, likely_cause(origin(pair), is_peers(pair) ? host_of(pair.peer) : pair.host));
  if (is_port_down_as_well(pair)) {
    add_once(to, likely_cause({wire::PairReason::kPortDown}, pair.host));
  }
  if (!has_peers_as_well(pair)) return;
  add_once(to, likely_cause(pair.peer_cause, host_of(pair.peer)));
}

std::string in_order_text(std::vector<LikelyCause> causes) {
  std::ranges::stable_sort(causes, {}, &LikelyCause::rank);
  std::string text = ". Likely causes, in order: ";
  for (size_t i = 0; i < causes.size(); ++i) {
    const LikelyCause& likely = causes[i];
    text += (i == 0 ? "(" : " (") + std::to_string(i + 1) + ") " + likely.text +
            (likely.text.empty() ? "" : "; ") + likely.fix;
  }
  return text;
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

std::string failed_return_text(const PairCause& cause, const PairCause& peers) {
  const bool reported =
      cause.reason == wire::PairReason::kPeer && peers.reason != wire::PairReason::kNone;
  const PairCause& found = reported ? peers : cause;
  const std::string text = cause_text(found, reported);
  return is_timeout(found) ? text + ". Fix: " + large_packets_are_lost().fix : text;
}

std::string ports_text(const std::vector<std::string>& ports) {
  if (ports.size() == 1) return ports[0];
  return ports[0] + " and " + counted(ports.size() - 1, "other port");
}

std::string former_address_text() {
  return std::string(kFormerAddress) +
         ": packets to it may be lost. Likely cause: " + kAddressChange +
         ". Fix: " + kKeepAddresses +
         ", or let connections fail over to standby rails (GDR_NCCL_FAILOVER=1 with "
         "GDR_NCCL_STANDBY_RAILS above 0)";
}

bool blames_the_path(const RailLoss& loss) {
  const wire::PairReason reason = origin(loss).reason;
  return reason == wire::PairReason::kCompletion || reason == wire::PairReason::kProbe;
}

void RailLosses::add(const RailLoss& loss) {
  port_ = loss.port;
  add_once(&peers_, loss.peer);
  add_cause(loss);
  effect_ = loss.effect;
  (loss.stands_by ? stood_by_ : connections_).insert(loss.connection);
  for (const std::string& port : loss.usable) {
    if (!loss.stands_by) add_once(&usable_, port);
  }
  may_return_ = may_return_ || loss.may_return;
  waits_ = std::max(waits_, loss.waits);
}

void RailLosses::add_cause(const RailLoss& loss) {
  const Cause added{origin(loss), is_peers(loss), is_peers(loss) ? host_of(loss.peer) : ""};
  const auto is_same = [&](const Cause& one) {
    return one.cause == added.cause && one.is_peers == added.is_peers;
  };
  if (std::ranges::any_of(causes_, is_same)) return;
  causes_.push_back(added);
  std::ranges::stable_sort(causes_, {}, [](const Cause& one) {
    return std::pair(likely_cause(one.cause).rank, one.is_peers);
  });
}

std::string RailLosses::causes_text() const {
  std::vector<std::string> texts;
  std::string text;
  for (const Cause& one : causes_) {
    if (!add_once(&texts, cause_text(one.cause, one.is_peers))) continue;
    text += (text.empty() ? "" : ", ") + texts.back();
  }
  return text;
}

std::string RailLosses::rails_text() const { return port_ + " <-> " + ports_text(peers_); }

std::string RailLosses::text(int left_out) const {
  LikelyCause likely = likely_cause(causes_[0].cause, causes_[0].host);
  std::string text = rails_text() + " is lost: " + causes_text();
  if (!former_address_.empty()) {
    likely = {1, kAddressChange, kKeepAddresses};
    text += "; " + former_address_ + kFormerAddress;
  }
  text += effect_text() + left_out_text(left_out) + ". ";
  if (!likely.text.empty()) text += "Likely cause: " + likely.text + ". ";
  return text +
         (may_return_ ? "It is used again when it returns"
                      : "It is not used again for the rest of the job") +
         ". Fix: " + likely.fix;
}

std::string RailLosses::effect_text() const {
  if (effect_ == LossEffect::kWaits) {
    Connections all = connections_;
    all.insert(stood_by_.begin(), stood_by_.end());
    const auto seconds = std::chrono::ceil<std::chrono::seconds>(waits_).count();
    return "; no rail is usable for " + counted(all.size(), "connection") + ", which will wait " +
           std::to_string(seconds) +
           " s at most for one to return while requests are outstanding, and then fail";
  }
  std::string text = going_on_text();
  if (!stood_by_.empty()) {
    text += "; it was the standby rail of " + counted(stood_by_.size(), "connection");
  }
  return text;
}

std::string RailLosses::going_on_text() const {
  if (connections_.empty()) return "";
  std::string text = "; " + counted(connections_.size(), "connection") +
                     (connections_.size() == 1 ? " goes on over " : " go on over ");
  for (size_t i = 0; i < usable_.size(); ++i) text += (i == 0 ? "" : " + ") + usable_[i];
  return text;
}

std::string no_pair_is_left_text(const std::vector<LostPair>& pairs,
                                 std::chrono::steady_clock::duration waited) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(waited).count();
  std::string text = "no rail is left";
  if (seconds > 0) text += ", and none has returned for " + std::to_string(seconds) + " s";
  text += ". ";
  std::vector<std::string> paths;
  std::vector<LikelyCause> causes;
  for (const LostPair& pair : pairs) {
    if (add_once(&paths, pair.path)) {
      text += (paths.size() == 1 ? "" : "; ") + path_text(pair.path, pairs);
    }
    add_likely_causes(pair, &causes);
  }
  return text + in_order_text(std::move(causes));
}

std::string work_fails_text(const std::string& what, const FailedWork& work, const LostPair& last) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(work.failing_for).count();
  std::vector<LikelyCause> causes;
  add_likely_causes(last, &causes);
  return what + " has failed " + std::to_string(work.failures) + " times in " +
         std::to_string(seconds) + " s, over every rail, each of which carries a probe of " +
         std::to_string(wire::kProbeBytes) +
         " bytes. The last failure: " + path_text(last.path, {last}) +
         in_order_text(std::move(causes));
}

}  // namespace gdr::transport
