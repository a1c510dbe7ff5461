// How a receive comm is made and connected, up to keep_link(), which makes what its data path has.
#include <bit>
#include <utility>

#include "transport/data/outgoing_message.h"
#include "transport/data/receive_comm.h"
#include "transport/data/spread_pairs.h"

namespace gdr::transport {
namespace {

// Each arriving chunk consumes one receive of its QP. A sender has kMostChunks on a QP at most, of
// whichever messages. The two batches on top let refills be posted a batch at a time.
constexpr int kRefill = RailSet::kReceiveBatch;
constexpr int kMostChunks = SpreadPairs::kChunks;
constexpr int kReceiveDepth = ReceiveComm::kReceives * wire::kMaxGroup + 2 * kRefill;
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
                                           ReceiveComm::kFlushes + 1}));

// The module may have been loaded since the HCA was opened. Where sysfs does not say, it may be
// there.
bool may_register_gpu_memory(const HcaContext& hca) {
  if (hca.supports_dmabuf()) return true;
  const Peermem peermem = probe_peermem(sysfs_root_of(hca.sysfs_path()));
  return is_present(peermem) || peermem.kind == PeermemKind::kUnknown;
}

}  // namespace

ReceiveComm::ReceiveComm(std::shared_ptr<const ConnectionOptions> options, Watcher* watcher)
    : Comm(std::move(options), watcher, /*sends=*/false) {}

Result<std::unique_ptr<ReceiveComm>> ReceiveComm::create(
    const Device& device, std::shared_ptr<const ConnectionOptions> options, Watcher* watcher,
    int qps) {
  std::unique_ptr<ReceiveComm> comm(new ReceiveComm(std::move(options), watcher));
  comm->receives_each_ = kReceiveDepth;
  return create(std::move(comm), EndRails{{device}, {}},
                [qps](const EndRails&, bool) { return plan_sender_pairs(1, 0, qps, /*peer=*/{}); });
}

Result<std::unique_ptr<ReceiveComm>> ReceiveComm::create(
    const EndRails& rails, std::shared_ptr<const ConnectionOptions> options, Watcher* watcher,
    const wire::EndPoint& sender) {
  std::unique_ptr<ReceiveComm> comm(new ReceiveComm(std::move(options), watcher));
  const bool recovers =
      comm->connection_.options().failover && (sender.flags & wire::kEndRecovers) != 0;
  if (recovers) comm->connection_.end().offers_recovery = true;
  if (!recovers && comm->connection_.options().failover && rails.size() > 1) {
    comm->connection_.end().note_peer_without_recovery(sender.host);
  }
  const auto plan = [recovers, &sender](const EndRails& some, bool lean) {
    const size_t standby = recovers ? some.standby.size() : 0;
    return plan_receiver_pairs(some.active.size(), standby, sender, lean);
  };
  const bool has_many_pairs = active_pairs(plan(rails, /*lean=*/false)) > 1;
  const bool has_many_chunks = has_many_pairs || has_small_messages(rails);
  comm->receives_each_ = has_many_chunks ? kReceiveDepth : kReceiveDepthOfOne;
  return create(std::move(comm), rails, plan);
}

Result<std::unique_ptr<ReceiveComm>> ReceiveComm::create(std::unique_ptr<ReceiveComm> comm,
                                                         const EndRails& rails,
                                                         const Planner& plan) {
  RailSpec spec;
  spec.depths = QueueDepths{ClearToSendWriter::kQueueDepth, comm->receives_each_,
                            ClearToSendWriter::kInlineBytes};
  spec.extra_completions = kFlushes;
  QueueDepths least = spec.depths;
  least.receive = kReceiveDepthOfOne;
  Result<RailTables> tables = comm->set_up_->add_rails(rails, plan, &spec, least);
  if (!tables) return forward_error(tables);
  comm->receives_each_ = spec.depths.receive;
  comm->tables_ = std::move(*tables);
  comm->slots_.observe(ObservedWork::create(comm->connection_.options().observer, wire::kSlots, 1));
  Result<bool> prepared = comm->set_up_->change_states();
  if (!prepared) return forward_error(prepared);
  if (*prepared) comm->post_all_receives();
  return comm;
}

Status ReceiveComm::create_flushes() {
  const ConnectionOptions& options = connection_.options();
  const RailSet& rails = connection_.rails();
  if (options.flush_disabled) return {};
  for (uint32_t rail = 0; rail < rails.size(); ++rail) {
    if (!connection_.end().uses(rail) || !may_register_gpu_memory(*rails[rail].device().hca))
      continue;
    if (connection_.end().stands_by(rail)) {
      flush_.emplace_back(rail, kFlushes);  // its QP is made when data has come over the rail
      continue;
    }
    Result<Flush> flush = Flush::create(rails[rail], rail, kFlushes);
    while (!flush && (set_up_->give_up_standby(rails[rail].device(), flush.error()) ||
                      connection_.end().room.make_room(rails[rail].device(), flush.error()))) {
      flush = Flush::create(rails[rail], rail, kFlushes);
    }
    if (!flush && connection_.end().recovers()) {
      Status status = set_up_->excluded().exclude_rail(rail, flush.error());
      if (!status) return status;
      continue;
    }
    if (!flush) return forward_error(flush);
    flush->connect(rails[rail], of_sender_, options, connection_.end().recovers(),
                   &set_up_->state_changes());
    flush_.push_back(std::move(*flush));
  }
  return {};
}

void ReceiveComm::post_all_receives() {
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
Status ReceiveComm::exclude_pairs_without_receives() {
  for (const ShortQueue& queue : short_queues_) {
    Error error{Code::kSystem, "posting receives on a new QP failed"};
    if (Status status = set_up_->excluded().exclude(queue.pair, std::move(error)); !status)
      return status;
  }
  return {};
}

// NCCL's net_ib does the same (connect.cc, ncclIbReceiverQpsCreateToRts): both ends of a connection
// then travel in one class, even where only the sender knows of it.
ServiceClass ReceiveComm::service_class() const {
  const ConnectionOptions& options = connection_.options();
  return {of_sender_.service_level,
          options.clear_to_send_traffic_class.value_or(of_sender_.traffic_class)};
}

wire::EndPoint ReceiveComm::end_point(const wire::Secret& secret) const {
  wire::EndPoint end{};
  end.sequence_base = connection_.peer().sequence_base;
  end.service_level = service_class().service_level;
  end.traffic_class = service_class().traffic_class;
  connection_.end().describe(secret, &end);
  tables_.describe(&end);
  return end;
}

Result<bool> ReceiveComm::connect(const wire::EndPoint& sender) {
  if (Status status = set_up_->accept_peer(sender); !status) return forward_error(status);
  of_sender_ = {sender.service_level, sender.traffic_class};
  set_up_->begin_connecting(service_class());
  if (Status status = create_flushes(); !status) return forward_error(status);
  return connect_step();
}

Result<bool> ReceiveComm::connect_step() {
  Result<bool> connected = set_up_->change_states();
  if (!connected || !*connected) return connected;
  if (Status status = set_up_->query_accepted_ece(); !status) return forward_error(status);
  if (!receives_posted_) post_all_receives();
  if (Status status = exclude_pairs_without_receives(); !status) return forward_error(status);
  return true;
}

}  // namespace gdr::transport
