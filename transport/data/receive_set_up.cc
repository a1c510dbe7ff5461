#include "transport/data/receive_set_up.h"

#include <bit>
#include <utility>

#include "transport/data/clear_to_send_writer.h"
#include "transport/data/outgoing_message.h"
#include "transport/data/spread_pairs.h"

namespace gdr::transport {
namespace {

// Each arriving chunk consumes one receive of its QP. A sender has kMostChunks on a QP at most, of
// whichever messages. The two batches on top let refills be posted a batch at a time.
constexpr int kRefill = RailSet::kReceiveBatch;
constexpr int kMostChunks = SpreadPairs::kChunks;
constexpr int kReceiveDepth = ReceiveSetUp::kReceives * wire::kMaxGroup + 2 * kRefill;
static_assert(kMostChunks + 2 * kRefill <= kReceiveDepth);
// The same of a connection of one active QP whose messages are a chunk each, unless the sender's
// ports are of another kind than this end's: for as many as its sender has requests, and a batch
// that has yet to be refilled. More may be under way to a receiver that is not polled, as a request
// is free again once its chunk is acknowledged: those wait (RNR NAK), and the sender's HCA tries
// again.
constexpr int kReceiveDepthOfOne = kSendRequests + kRefill;
// mlx5 and rxe give a completion queue the next power of two above what is asked for (rdma-core's
// mlx5_create_cq; the kernel's rxe_queue_init), so that one entry more would double it.
static_assert(std::has_single_bit(unsigned{ClearToSendWriter::kQueueDepth + kReceiveDepthOfOne +
                                           Flushes::kRequests + 1}));

// The module may have been loaded since the HCA was opened. Where sysfs does not say, it may be
// there.
bool may_register_gpu_memory(const HcaContext& hca) {
  if (hca.supports_dmabuf()) return true;
  const Peermem peermem = probe_peermem(sysfs_root_of(hca.sysfs_path()));
  return is_present(peermem) || peermem.kind == PeermemKind::kUnknown;
}

}  // namespace

Status ReceiveSetUp::make(const EndRails& rails, const wire::EndPoint& sender) {
  ConnectionEnd& end = connection_.end();
  end.offers_recovery = end.options->failover && (sender.flags & wire::kEndRecovers) != 0;
  if (!end.offers_recovery && end.options->failover && rails.size() > 1) {
    end.note_peer_without_recovery(sender.host);
  }
  const auto plan = [recovers = end.offers_recovery, &sender](const EndRails& some, bool lean) {
    const size_t standby = recovers ? some.standby.size() : 0;
    return plan_receiver_pairs(some.active.size(), standby, sender, lean);
  };
  const bool has_many_pairs = active_pairs(plan(rails, /*lean=*/false)) > 1;
  const bool has_many_chunks = has_many_pairs || has_small_messages(rails);
  receives_each_ = has_many_chunks ? kReceiveDepth : kReceiveDepthOfOne;
  RailSpec spec;
  spec.depths =
      QueueDepths{ClearToSendWriter::kQueueDepth, receives_each_, ClearToSendWriter::kInlineBytes};
  spec.extra_completions = Flushes::kRequests;
  QueueDepths least = spec.depths;
  least.receive = kReceiveDepthOfOne;
  Result<RailTables> tables = set_up_.add_rails(rails, plan, &spec, least);
  if (!tables) return forward_error(tables);
  receives_each_ = spec.depths.receive;
  tables_ = std::move(*tables);
  Result<bool> prepared = set_up_.change_states();
  if (!prepared) return forward_error(prepared);
  if (*prepared) post_all_receives();
  return {};
}

Status ReceiveSetUp::create_flushes() {
  const ConnectionOptions& options = connection_.options();
  const RailSet& rails = connection_.rails();
  if (options.flush_disabled) return {};
  for (uint32_t rail = 0; rail < rails.size(); ++rail) {
    if (!connection_.end().uses(rail) || !may_register_gpu_memory(*rails[rail].device().hca))
      continue;
    const bool stands_by = connection_.end().stands_by(rail);
    const Device& device = rails[rail].device();
    Status added = flushes_.add_rail(rail, stands_by);
    while (!added && (set_up_.give_up_standby(device, added.error()) ||
                      connection_.end().room.make_room(device, added.error()))) {
      added = flushes_.add_rail(rail, stands_by);
    }
    if (!added && connection_.end().recovers()) {
      added = set_up_.excluded().exclude_rail(rail, added.error());
    }
    if (!added) return added;
  }
  return {};
}

void ReceiveSetUp::post_all_receives() {
  receives_posted_ = true;
  RailSet& rails = connection_.rails();
  for (uint32_t pair = 0; pair < rails.pair_count(); ++pair) {
    int posted = 0;
    for (int taken = kRefill; posted < receives_each_ && taken == kRefill; posted += taken) {
      taken = rails.post_receives(pair, kRefill, encode(WorkId{WorkKind::kReceive, pair, 0, 0}));
    }
    if (posted < receives_each_) short_queues_.push_back({pair, posted});
  }
}

// A QP that did not come to INIT takes none, and an HCA that fails may take some.
Status ReceiveSetUp::exclude_pairs_without_receives() {
  for (const ShortQueue& queue : short_queues_) {
    Error error{Code::kSystem, "posting receives on a new QP failed"};
    if (Status status = set_up_.excluded().exclude(queue.pair, std::move(error)); !status)
      return status;
  }
  return {};
}

// What this end writes has the sender's service level and, unless the user has chosen one for
// clear-to-send, its traffic class. NCCL's net_ib does the same (connect.cc,
// ncclIbReceiverQpsCreateToRts): both ends of a connection then travel in one class, even where
// only the sender knows of it.
Result<bool> ReceiveSetUp::connect(const wire::EndPoint& sender) {
  if (Status status = set_up_.accept_peer(sender); !status) return forward_error(status);
  connection_.end().service = {sender.service_level, sender.traffic_class};
  if (const auto& own = connection_.options().clear_to_send_traffic_class) {
    connection_.end().service.traffic_class = *own;
  }
  set_up_.begin_connecting();
  if (Status status = create_flushes(); !status) return forward_error(status);
  return connect_step();
}

Result<bool> ReceiveSetUp::connect_step() {
  Result<bool> connected = set_up_.change_states();
  if (!connected || !*connected) return connected;
  if (Status status = set_up_.query_accepted_ece(); !status) return forward_error(status);
  if (!receives_posted_) post_all_receives();
  if (Status status = exclude_pairs_without_receives(); !status) return forward_error(status);
  return true;
}

void ReceiveSetUp::keep_link(FrameChannel channel, bool direct) {
  set_up_.drop_unused();
  connection_.make_recovery(tables_, receives_each_);
  for (const ShortQueue& queue : short_queues_) {
    if (queue.pair >= connection_.rails().pair_count()) continue;  // it was dropped
    connection_.recovery()->arrivals(queue.pair).count_receives(queue.posted - receives_each_);
  }
  connection_.keep_link(set_up_, std::move(channel), direct);
}

}  // namespace gdr::transport
