#include "transport/recovery/pair_io.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "base/finding.h"
#include "transport/pairs/rdma_write.h"
#include "transport/pairs/work_id.h"

namespace gdr::transport {
namespace {

// On RoCE the change to RTR needs the peer's address.
Status resolve(const PairSetUp& set_up, const QueuePairPath& path, const StateChange& to_receive) {
  Status changed = make_now(to_receive);
  if (changed) {
    set_up.unreachable->remove(*path.local, *path.remote);
  } else if (changed.error().sys_errno == ETIMEDOUT) {
    set_up.unreachable->add(*path.local, *path.remote, set_up.options->now());
  }
  return changed;
}

// Where the ports reached each other by the addresses of the handshake, one that is lost is to
// return, and no setting to be changed.
Result<wire::RailAddress> present_address(const PairIo& io, uint32_t pair,
                                          const wire::RailAddress& remote) {
  const RailEnd& rail = io.rail_of(pair);
  Result<wire::RailAddress> local = rail.present_address(io.options());
  Status fits = local ? check_rail_pair(*local, remote) : forward_error(local);
  if (fits) return local;
  if (fits.error().code == Code::kInvalidUsage) {
    TextAndFix parts = split_fix(fits.error().text);
    parts.fix = "give the network interfaces of " + io.path_text(pair) + " the addresses " +
                to_string(rail.address().gid) + " and " + to_string(io.peer_rail(pair).gid) +
                " again, with which the connection was made";
    fits.error().text = to_string(parts);
  }
  return forward_error(fits);
}

}  // namespace

// Nothing was sent over a QP that was never in RTS, and nothing has arrived: the peer has seen no
// sign that it is ready. One in RESET cannot be moved to ERROR, the receives of one in INIT, of
// which there may be only some, would be flushed, and libmlx5 takes no send before RTS, not even in
// ERROR, so that no marker could end its send queue.
int PairIo::stop(uint32_t pair) const {
  const QueuePair& queue_pair = at(pair);
  if (queue_pair.qp == nullptr) return 0;
  const ibv_qp_state from = queue_pair.qp->state;
  if (from == IBV_QPS_RESET) return 0;
  const bool was_ready = from != IBV_QPS_INIT && from != IBV_QPS_RTR;
  const ibv_qp_state to = was_ready ? IBV_QPS_ERR : IBV_QPS_RESET;
  return modify(to_plain_state(rail_of(pair).device(), queue_pair.qp.get(), to));
}

int PairIo::reset(uint32_t pair) const {
  return modify(to_plain_state(rail_of(pair).device(), at(pair).qp.get(), IBV_QPS_RESET));
}

bool PairIo::is_gone(int err) { return err == EIO || err == ENODEV; }

int PairIo::destroy(verbs::UniqueQp* qp) {
  const int err = std::abs(qp->get_deleter().api->destroy_qp(qp->get()));
  if (err == 0) (void)qp->release();
  return err;
}

int PairIo::destroy_queue(uint32_t rail) const {
  const RailEnd& end = rails()[rail];
  return std::abs(end.device().hca->api().destroy_cq(end.cq()));
}

bool PairIo::is_port_active(uint32_t rail) const {
  const Device& device = rails()[rail].device();
  return device.hca->port_states().is_active(device.port, is_.options->now());
}

template <class Entry>
RdmaWrite PairIo::copy_to_peer(uint32_t pair, const Entry* entries, size_t count) const {
  return is_.tables->copy_to_peer(entries, count, *is_.peer, at(pair));
}

// Without bytes the keys are not used, but valid, in case that an HCA looks at them.
int PairIo::post_probe(uint32_t pair, uint64_t wr_id, size_t bytes) const {
  WriteRequest request(at(pair), copy_to_peer(pair, (*is_.tables)->scratch.data(), bytes));
  request.wr().wr_id = wr_id;
  request.wr().send_flags |= IBV_SEND_SIGNALED;
  return post(at(pair), &request.wr());
}

// Writes of one QP arrive in order.
int PairIo::post_return_probe(uint32_t pair, uint32_t epoch, uint64_t wr_id) const {
  const RailTables& tables = *is_.tables;
  wire::ProbedEpochs& both = tables->probed[pair];
  uint32_t& own = is_.end == PairEnd::kSender ? both.by_sender : both.by_receiver;
  own = epoch;
  WriteRequest probe(at(pair), copy_to_peer(pair, tables->scratch.data(), wire::kProbeBytes));
  WriteRequest mark(at(pair), copy_to_peer(pair, &own, 1));
  probe.wr().wr_id = mark.wr().wr_id = wr_id;
  probe.wr().next = &mark.wr();
  mark.wr().send_flags |= IBV_SEND_SIGNALED;
  return post(at(pair), &probe.wr());
}

uint32_t PairIo::peer_probed(uint32_t pair) const {
  const wire::ProbedEpochs& both = (*is_.tables)->probed[pair];
  return __atomic_load_n(is_.end == PairEnd::kSender ? &both.by_receiver : &both.by_sender,
                         __ATOMIC_ACQUIRE);
}

int PairIo::post_statement(uint32_t carrier, const wire::PairStatement& statement,
                           uint64_t wr_id) const {
  wire::PairStatements& both = (*is_.tables)->pairs[statement.pair];
  wire::PairStatement& own = is_.end == PairEnd::kSender ? both.of_sender : both.of_receiver;
  own = statement;
  WriteRequest request(at(carrier), copy_to_peer(carrier, &own, 1));
  request.wr().wr_id = wr_id;
  request.wr().send_flags |= IBV_SEND_SIGNALED;
  return post(at(carrier), &request.wr());
}

const wire::PairStatement& PairIo::peer_statement(uint32_t pair) const {
  const wire::PairStatements& both = (*is_.tables)->pairs[pair];
  return is_.end == PairEnd::kSender ? both.of_receiver : both.of_sender;
}

std::string PairIo::port_text(uint32_t pair) const {
  return is_rail_missing(pair) ? at(pair).missing_port : to_string(rail_of(pair).device());
}

// A pair without a QP is on rail 0 where the peer goes without its rail (ConnectionSetUp).
std::string PairIo::peer_text(uint32_t pair) const {
  const wire::QpAddress& peers = is_.peer->qp[pair];
  if (peers.number == 0 && peers.rail == 0) return std::string(is_.peer->host) + " (unnamed)";
  const wire::RailAddress& remote = peer_rail(pair);
  return std::string(is_.peer->host) + " " + remote.hca + ":" + std::to_string(remote.port);
}

std::string PairIo::path_text(uint32_t pair) const {
  return port_text(pair) + " <-> " + peer_text(pair);
}

bool is_held_unreachable(const PairIo& io, uint32_t pair, const wire::PortAddress& peer,
                         bool urgent) {
  const PairSetUp& is = io.set_up();
  const wire::RailAddress remote = wire::at_address(io.peer_rail(pair), peer);
  return is.unreachable->contains(io.rail_of(pair).address(), remote, is.options->now(), urgent);
}

Result<wire::PortAddress> connect_again(const PairIo& io, uint32_t pair, uint32_t epoch,
                                        const wire::PortAddress& peer) {
  const PairSetUp& is = io.set_up();
  const RailEnd& rail = io.rail_of(pair);
  ibv_qp* qp = io.at(pair).qp.get();
  const wire::RailAddress remote = wire::at_address(io.peer_rail(pair), peer);
  Result<wire::RailAddress> local = present_address(io, pair, remote);
  if (!local) return forward_error(local);
  Status ready = make_now(to_plain_state(rail.device(), qp, IBV_QPS_RESET));
  if (ready) ready = make_now(to_init(rail.device(), qp, *is.options));
  if (!ready) return forward_error(ready);
  const uint64_t wr_id = encode(WorkId{WorkKind::kReceive, pair, epoch, 0});
  for (int posted = 0; posted < is.receives; posted += RailSet::kReceiveBatch) {
    const int count = std::min(RailSet::kReceiveBatch, is.receives - posted);
    if (is.rails->post_receives(pair, count, wr_id) != count) {
      return fail(Code::kSystem, "posting receives on a QP of " + io.port_text(pair) + " failed");
    }
  }
  const QueuePairPath path{&*local,
                           &remote,
                           is.peer->qp[pair].number,
                           psn_in_epoch(is.first_psn, epoch),
                           psn_in_epoch(is.peer->first_psn, epoch),
                           is.service};
  StateChange to_receive = to_ready_to_receive(rail.device(), qp, path);
  to_receive.before = is.before_receiving ? is.before_receiving(pair) : nullptr;
  Status connected = resolve(is, path, to_receive);
  if (connected) connected = make_now(to_ready_to_send(rail.device(), qp, path, *is.options));
  if (!connected) return forward_error(connected);
  return wire::port_address(*local);
}

}  // namespace gdr::transport
