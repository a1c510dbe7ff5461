// How a send comm is made and connected.
#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "transport/data/send_comm.h"
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

}  // namespace gdr::transport
