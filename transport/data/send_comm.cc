#include "transport/data/send_comm.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <string>
#include <utility>

#include "transport/pairs/ece_agreement.h"

namespace gdr::transport {
namespace {

// mlx5 rounds each send work request up to 64 bytes and the queue to a power of two: 192 bytes for
// any RC request and 4 + 60 of inline data are 256 (rdma-core, providers/mlx5/qp.c: sq_overhead,
// mlx5_calc_send_wqe); 4 bytes more would take 320, and a queue of the next power of two.
constexpr int kInlineBytes = 60;
// Entries of a send queue, as many as its completion queue then has: one less than a power of two,
// as mlx5 and rxe give a completion queue, and rxe a send queue, the next power of two above what
// is asked for (rdma-core's mlx5_create_cq; the kernel's rxe_queue_init). One of mlx5 takes 256
// bytes, pinned. Where a chunk may end in a write of its own, there is room for half as many
// chunks: SpreadPairs counts entries. Standby rails add none: what they keep of the memory that may
// be locked cannot be given back.
constexpr int kDepth = SendComm::kRequests - 1;
// Of a standby pair's send queue, beside one active pair. It carries data only while that is lost:
// enough for large messages, and half of the memory.
constexpr int kStandbyDepth = SendComm::kRequests / 2 - 1;
static_assert(2 * kChunksThatFit <= kStandbyDepth - Recovery::kReservedSends);
// The same for a connection that spreads each message over several pairs: room for the chunks of
// several messages, all of which may have to go over the last pair that is left.
constexpr int kSpreadDepth = 2 * SendComm::kRequests - 1;

constexpr char kNoUserBuffers[] =
    "set NCCL_GRAPH_REGISTER=0 and NCCL_LOCAL_REGISTER=0 on all ranks";

// Whether one end uses a user's buffer, and the other one of NCCL's own because it has declined a
// user's buffer. NCCL may then send and expect messages of other sizes, or over other channels
// (docs/gpu-memory.md).
bool is_after_decline(const Send& send, const wire::ClearToSend& slot) {
  const uint32_t own_flags = (slot.group_and_flags & wire::kUsersBuffer) != 0
                                 ? send.memory.slot_flags->load(std::memory_order_relaxed)
                                 : (send.memory.is_users() ? slot.group_and_flags : 0u);
  return (own_flags & wire::kAfterDecline) != 0;
}

// Why a send into the slot is refused; nothing: it is not.
std::optional<Error> rejection_of(const Send& send, const wire::ClearToSend& slot) {
  if (send.bytes > slot.bytes) {
    return Error{Code::kInvalidUsage,
                 "a send of " + std::to_string(send.bytes) + " bytes with tag " +
                     std::to_string(slot.tag) + " matches a receive of " +
                     std::to_string(slot.bytes) +
                     " bytes. Fix: call the collective with the same count on all ranks; if they "
                     "do, and register their buffers, " +
                     kNoUserBuffers};
  }
  if (!wire::is_known(slot)) {
    return Error{Code::kInternal, "the peer's clear-to-send has flags of another version"};
  }
  if (!is_after_decline(send, slot)) return {};
  return Error{
      Code::kSystem,
      std::string(send.memory.is_users() ? "the receiver" : "the sender") +
          " has declined a user's buffer, which its HCA cannot register, and the other end uses "
          "one: NCCL may exchange wrong data. Fix: " +
          kNoUserBuffers + "; or see the warning of that end"};
}

}  // namespace

SendComm::SendComm(std::shared_ptr<const ConnectionOptions> options, Watcher* watcher)
    : Comm(std::move(options), watcher, /*sends=*/true),
      sequence_base_(connection_.end().sequence_base) {
  const ConnectionOptions& of = connection_.options();
  connection_.end().service = {of.service_level.value_or(0), of.traffic_class.value_or(0)};
}

Result<std::unique_ptr<SendComm>> SendComm::create(const EndRails& rails,
                                                   std::shared_ptr<const ConnectionOptions> options,
                                                   Watcher* watcher, ListenerRails peer) {
  std::unique_ptr<SendComm> comm(new SendComm(options, watcher));
  if (!options->failover) peer = {};
  if (options->failover && (rails.size() > 1 || peer.has_spare())) {
    comm->connection_.end().offers_recovery = true;
  }
  const bool separate_ends =
      options->adaptive_routing.value_or(!rails.active.front().state.ethernet);
  const size_t standby = options->failover ? rails.standby.size() : 0;
  const PairPlan plan =
      plan_sender_pairs(rails.active.size(), standby, options->qps_per_connection, peer);
  const bool has_many_pairs = active_pairs(plan) > 1;
  RailSpec spec;
  const int spread_depth = std::min(kSpreadDepth, rails.max_work_requests());
  spec.depths = QueueDepths{has_many_pairs ? spread_depth : kDepth, 1, kInlineBytes};
  if (!has_many_pairs) spec.standby_sends = kStandbyDepth;
  spec.posts_receives = false;
  Result<RailTables> tables = comm->set_up_->add_rails(rails, plan, spec);
  if (!tables) return forward_error(tables);
  comm->tables_ = std::move(*tables);
  // An RC write's requester is what limits it.
  size_t& most = comm->cutter_.max_write_bytes = std::numeric_limits<size_t>::max();
  for (const RailEnd& rail : comm->connection_.rails()) {
    most = std::min(most, max_write_bytes(rail.device().state.max_message_bytes));
  }
  if (separate_ends) comm->cutter_.separate_end_above = options->adaptive_routing_threshold;
  comm->cutter_.split_data_on_qps = options->split_data_on_qps;
  if (Result<bool> prepared = comm->prepare(); !prepared) return forward_error(prepared);
  return comm;
}

Result<bool> SendComm::prepare() {
  if (prepared_) return true;
  Result<bool> changed = set_up_->change_states();
  if (!changed || !*changed) return changed;
  set_up_->query_ece_offers();
  prepared_ = true;
  return true;
}

Result<bool> SendComm::connect(const wire::EndPoint& receiver) {
  if (Status status = set_up_->accept_peer(receiver); !status) return forward_error(status);
  set_up_->begin_connecting();
  return connect_step();
}

void SendComm::keep_link(FrameChannel channel, bool direct) {
  set_up_->drop_unused();
  connection_.make_recovery(tables_, /*receives=*/0);
  connection_.keep_link(*set_up_, std::move(channel), direct);
  set_up_.reset();
  spread_.emplace(connection_, tables_, requests_, cutter_);
}

std::string SendComm::text() const {
  std::string text =
      connection_.text() + ", " + std::to_string(connection_.rails().pair_count()) + " QP(s)";
  const bool several = connection_.rails().active_count() > 1;
  if (several && cutter_.split_data_on_qps) text += ", messages split over them";
  text += ece_text(connection_.rails());
  if (cutter_.separate_end_above == std::numeric_limits<size_t>::max()) return text;
  return text + ", adaptive routing above " + std::to_string(cutter_.separate_end_above) + " bytes";
}

// Returns the buffer of the group at the head, of which `first` is the first slot and has arrived,
// that has the tag and is still to be served; none while its clear-to-send has not arrived.
std::optional<uint64_t> SendComm::match(const wire::ClearToSend& first, int tag) {
  const int count = wire::group_of(first);
  if (count < 1 || count > wire::kMaxGroup) {
    connection_.fail(Code::kInternal, "the peer's clear-to-send names a group of impossible size");
    return {};
  }
  for (int i = 0; i < count; ++i) {
    const uint64_t buffer = head_ + i;
    const wire::ClearToSend& candidate = slot(buffer);
    if ((served_ >> i & 1) == 0 && has_arrived(candidate, buffer) && candidate.tag == tag) {
      return buffer;
    }
  }
  return {};
}

// Marks a buffer as served; with the last of its group, the head moves on to the next group.
void SendComm::advance(uint64_t buffer) {
  const int count = wire::group_of(slot(head_));
  served_ |= 1u << (buffer - head_);
  if (std::popcount(served_) < count) return;
  served_ = 0;
  head_ += count;
}

// Most messages are the only one of their receive and go as one write: one comparison stands for
// all checks of the slot's group and flags. A message counts as posted before the look at what the
// recovery has for this thread: where nothing counts, the watcher may take the news of a loss, and
// bring the pair back (recovery_steps.cc, acts_for_data_path), a second after the loss.
bool SendComm::isend(const void* data, size_t bytes, int tag, const MemoryHandle& memory,
                     Request** request) {
  const uint64_t buffer = head_;
  const wire::ClearToSend& to = slot(buffer);
  if (!has_arrived(to, buffer)) {
    *request = nullptr;
    return spread_->is_quiet(connection_.link()) || progress();
  }
  if (to.group_and_flags != 1 || to.tag != tag || bytes > to.bytes ||
      !spread_->sends_whole(bytes)) {
    return isend_further(data, bytes, tag, memory, request);
  }
  SpreadPair* pair = spread_->pair_of_whole();
  Request* taken = pair != nullptr && pair->free > 0 ? requests_.take() : nullptr;
  *request = taken;
  if (taken == nullptr) [[unlikely]]
    return progress();
  connection_.link().count_posted();
  if (connection_.link().needs_attention()) [[unlikely]] {
    connection_.link().take_back_posted();
    requests_.give_back(taken);
    return isend_further(data, bytes, tag, memory, request);
  }
  head_ = buffer + 1;
  if (spread_->send_whole({bytes, data, buffer, memory, nullptr}, to, *pair, taken)) [[likely]]
    return true;
  *request = nullptr;
  return false;
}

// Takes the same arguments as isend, so that they stay in their registers.
bool SendComm::isend_further(const void* data, size_t bytes, int tag, const MemoryHandle& memory,
                             Request** request) {
  return send({bytes, data, 0, memory, nullptr}, tag, request);
}

bool SendComm::isend_observed(const void* data, size_t bytes, int tag, const MemoryHandle& memory,
                              void* parent, Request** request) {
  return send({bytes, data, 0, memory, parent}, tag, request);
}

// The same for all messages.
bool SendComm::send(Send send, int tag, Request** request) {
  *request = nullptr;
  const wire::ClearToSend& first = slot(head_);
  if (!has_arrived(first, head_)) return progress();
  const std::optional<uint64_t> buffer = match(first, tag);
  if (!buffer) return progress();
  send.buffer = *buffer;
  if (send.bytes > slot(*buffer).bytes || !wire::is_plain(slot(*buffer))) [[unlikely]] {
    if (const std::optional<Error> rejection = rejection_of(send, slot(*buffer))) {
      connection_.fail(rejection->code, rejection->text);
      return false;
    }
  }
  connection_.link().count_posted();
  // A message of a group is held back where nothing about it or the connection is special.
  const int group = wire::group_of(first);
  const bool holds = group > 1 && wire::is_plain(slot(*buffer)) && spread_->holds(send.bytes);
  const bool is_last = std::popcount(served_) + 1 >= group;
  const bool sent = spread_->send(send, holds, is_last, request);
  if (*request == nullptr) connection_.link().take_back_posted();
  if (!sent) return spread_->end_observation();
  if (*request == nullptr) return progress();
  advance(*buffer);
  return true;
}

}  // namespace gdr::transport
