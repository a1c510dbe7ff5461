#include "transport/data/receive_comm.h"

#include <algorithm>
#include <bit>
#include <utility>

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
                                           Flushes::kRequests + 1}));

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
    const EndRails& rails, std::shared_ptr<const ConnectionOptions> options, Watcher* watcher,
    const wire::EndPoint& sender) {
  std::unique_ptr<ReceiveComm> comm(new ReceiveComm(std::move(options), watcher));
  ConnectionEnd& end = comm->connection_.end();
  end.offers_recovery = end.options->failover && sender.recovers != 0;
  end.peer_declines_recovery = !end.offers_recovery && end.options->failover && rails.size() > 1;
  const size_t standby = end.offers_recovery ? rails.standby.size() : 0;
  const PairPlan plan = plan_receiver_pairs(rails.active.size(), standby, sender);
  const bool has_many_pairs = active_pairs(plan) > 1;
  // Chunks that find no receive wait, as with kReceiveDepthOfOne.
  const int depth = std::min(kReceiveDepth, rails.max_work_requests() / kRefill * kRefill);
  RailSpec spec;
  spec.depths =
      QueueDepths{ClearToSendWriter::kQueueDepth, has_many_pairs ? depth : kReceiveDepthOfOne,
                  ClearToSendWriter::kInlineBytes};
  spec.extra_completions = Flushes::kRequests;
  Result<RailTables> tables = comm->set_up_->add_rails(rails, plan, spec);
  if (!tables) return forward_error(tables);
  comm->receives_each_ = spec.depths.receive;
  comm->slots_.tables() = std::move(*tables);
  if (Result<bool> made = comm->set_up_->change_states(); !made) return forward_error(made);
  return comm;
}

Status ReceiveComm::create_flushes() {
  ConnectionEnd& end = connection_.end();
  if (end.options->flush_disabled) return {};
  for (uint32_t rail = 0; rail < end.rails.size(); ++rail) {
    const Device& device = end.rails[rail].device();
    const bool stands_by = end.stands_by(rail);
    const bool is_used = end.recovers() || !stands_by;
    if (!is_used || !may_register_gpu_memory(*device.hca)) continue;
    Status added = flushes_.add_rail(rail, stands_by);
    while (!added && (set_up_->give_up_standby(device, added.error()) ||
                      end.watcher->room().make_room(*device.hca, added.error(), &end.rooms))) {
      added = flushes_.add_rail(rail, stands_by);
    }
    if (!added && end.recovers()) added = set_up_->exclude_rail(rail, added.error());
    if (!added) return added;
  }
  return {};
}

// What this end writes has the sender's service level and, unless the user has chosen one for
// clear-to-send, its traffic class. NCCL's net_ib does the same (connect.cc,
// ncclIbReceiverQpsCreateToRts): both ends of a connection then travel in one class, even where
// only the sender knows of it.
Result<bool> ReceiveComm::connect(const wire::EndPoint& sender) {
  if (Status status = set_up_->accept_peer(sender); !status) return forward_error(status);
  connection_.end().service = {sender.service_level, sender.traffic_class};
  if (const auto& own = connection_.options().clear_to_send_traffic_class) {
    connection_.end().service.traffic_class = *own;
  }
  set_up_->begin_connecting();
  if (Status status = create_flushes(); !status) return forward_error(status);
  return connect_step();
}

Result<bool> ReceiveComm::connect_step() {
  Result<bool> connected = set_up_->change_states();
  if (!connected || !*connected) return connected;
  if (Status status = set_up_->query_accepted_ece(); !status) return forward_error(status);
  return true;
}

// Data arrives only for what the data path has announced, so that this is early enough. A QP that
// did not come to INIT takes none, and an HCA that fails may take some.
Status ReceiveComm::post_all_receives() {
  const RailSet& rails = connection_.rails();
  for (uint32_t pair = 0; pair < rails.pair_count(); ++pair) {
    int posted = 0;
    for (int taken = kRefill; posted < receives_each_ && taken == kRefill; posted += taken) {
      taken = rails.post_receives(pair, kRefill, encode(WorkId{WorkKind::kReceive, pair, 0, 0}));
    }
    if (posted == receives_each_) continue;
    connection_.recovery()->arrivals(pair).count_receives(posted - receives_each_);
    Error error{Code::kSystem, "posting receives on a new QP failed"};
    Status spared = set_up_->exclude(pair, std::move(error));
    if (!spared) return spared;
  }
  return {};
}

void ReceiveComm::keep_link(FrameChannel channel, bool direct) {
  set_up_->drop_unused();
  connection_.make_recovery(slots_.tables(), receives_each_);
  const Status posted = post_all_receives();
  connection_.keep_link(*set_up_, std::move(channel), direct);
  if (!posted) connection_.fail(posted.error().code, posted.error().text);
  set_up_.reset();
  spread_ = std::make_unique<SpreadReceives>(connection_, slots_, flushes_);
}

bool ReceiveComm::irecv(const ReceiveArrays& buffers, Request** request) {
  *request = nullptr;
  const int count = buffers.count;
  if (!slots_.announcements().has_room() || !slots_.are_free(count)) [[unlikely]]
    return wait_for_room();
  if (connection_.failed()) [[unlikely]]
    return false;
  Request* taken = receives_.take();
  if (taken == nullptr) return progress();
  const uint64_t first = slots_.head();
  taken->buffers = static_cast<uint8_t>(count);
  taken->pending = static_cast<uint16_t>(count);
  taken->first = first;
  taken->whole = wire::encode({wire::slot_of(first), 1, wire::stamp_of(first), false});
  size_t sizes = 0;
  int index = 0;
  do {
    slots_.fill(buffers, index, taken, connection_.peer().sequence_base);
    sizes |= buffers.bytes[index];
  } while (++index < count);
  slots_.advance(count);
  // Before the sender can know of it: PeerLink::is_idle.
  connection_.link().count_posted();
  if (!slots_.announcements().on_posted(first + count, sizes)) return false;
  *request = taken;
  return true;
}

bool ReceiveComm::wait_for_room() {
  connection_.link().set_awaits_pair(slots_.announcements().is_paused());
  return progress();
}

// The receives of the QPs are posted in advance and belong to no buffer. So what is observed is the
// buffer: from its clear-to-send, which is what this end posts for it, to its last chunk.
bool ReceiveComm::irecv_observed(const ReceiveArrays& buffers, void* const* parents,
                                 Request** request) {
  if (!irecv(buffers, request)) return false;
  if (*request == nullptr || parents == nullptr) return true;
  const QueuePair& pair = connection_.rails().clear_to_send_pair();
  for (int i = 0; i < buffers.count; ++i) {
    if (parents[i] == nullptr) continue;
    const uint64_t number = (*request)->first + i;
    const ObservedWorkRequest work{static_cast<int>(pair.rail), number, IBV_WC_RECV_RDMA_WITH_IMM,
                                   pair.number, buffers.bytes[i]};
    const WorkRequestObserver& observer = connection_.options().observer;
    void* event = observer.posted(observer.context, parents[i], work);
    if (event != nullptr) slots_.observe(*request, number, event);
  }
  return true;
}

bool ReceiveComm::iflush(const ReceiveArrays& buffers, Request** request) {
  *request = nullptr;
  if (connection_.options().flush_disabled) return true;
  for (int last = buffers.count - 1; last >= 0; --last) {
    const auto* memory = static_cast<const MemoryHandle*>(buffers.memory[last]);
    if (buffers.bytes[last] == 0 || memory->host) continue;
    return flushes_.post(buffers.data[last], *memory, request);
  }
  return true;
}

}  // namespace gdr::transport
