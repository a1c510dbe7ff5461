#include "transport/pairs/queue_pair.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transport/memory/system_facts.h"

namespace gdr::transport {
namespace {

constexpr uint8_t kHopLimit = 255;  // routed fabrics may be deep; NCCL's net_ib uses 255 too
// A sender that finds no receive posted waits this long and tries again, for as long as it takes:
// the receiver's thread, which posts them, may be delayed without anything being wrong.
constexpr uint8_t kMinRnrTimer = 12;  // 0.64 ms, the code of IBTA table 45
constexpr uint8_t kRnrRetryForever = 7;

// An HCA that cannot grant the inline data is asked for one clear-to-send slot less, and so on:
// bnxt_re and irdma have about 100 bytes in a work request, room for one slot.
constexpr uint32_t kOneSlot = sizeof(wire::ClearToSend);

// The subnet as NCCL's net_ib compares it (connect.cc, "GID Format"): of the prefix only the last
// 16 bits, as a FLID may be in front of them, and the bytes before that differ with the GID's
// index.
bool in_one_subnet(const wire::RailAddress& a, const wire::RailAddress& b) {
  return a.gid[6] == b.gid[6] && a.gid[7] == b.gid[7];
}

void fill_global_route(const QueuePairPath& path, ibv_ah_attr* ah) {
  ah->is_global = 1;
  std::memcpy(ah->grh.dgid.raw, path.remote->gid.data(), path.remote->gid.size());
  ah->grh.sgid_index = path.local->gid_index;
  ah->grh.hop_limit = kHopLimit;
  // The traffic class is the user's choice for RoCE; NCCL's net_ib leaves it at 0 on InfiniBand.
  if (path.local->ethernet != 0) ah->grh.traffic_class = path.service.traffic_class;
}

void fill_address_vector(const QueuePairPath& path, ibv_ah_attr* ah) {
  const wire::RailAddress& local = *path.local;
  const wire::RailAddress& remote = *path.remote;
  ah->port_num = local.port;
  ah->sl = path.service.service_level;
  if (local.ethernet != 0) return fill_global_route(path, ah);
  // Within one subnet the LID is enough, unless a port needs a GRH: the HCA selects a virtual
  // port by GID. NCCL's net_ib asks its own port only; the peer's may need it for what we send.
  const bool one_subnet = in_one_subnet(local, remote);
  const uint16_t flid = flid_of(remote.gid);
  ah->dlid = one_subnet || flid == 0 ? remote.lid : flid;
  if (!one_subnet || remote.lid == 0 || (local.needs_grh | remote.needs_grh) != 0) {
    fill_global_route(path, ah);
  }
}

}  // namespace

bool lacks_flid(const wire::RailAddress& local, const wire::RailAddress& remote) {
  return local.ethernet == 0 && !in_one_subnet(local, remote) && flid_of(remote.gid) == 0;
}

StateChange to_plain_state(const Device& device, ibv_qp* qp, ibv_qp_state state) {
  StateChange change{.hca = device.hca.get(), .port = device.port, .qp = qp};
  change.attr.qp_state = state;
  change.mask = IBV_QP_STATE;
  return change;
}

StateChange to_init(const Device& device, ibv_qp* qp, const ConnectionOptions& options) {
  StateChange change = to_plain_state(device, qp, IBV_QPS_INIT);
  ibv_qp_attr& attr = change.attr;
  attr.pkey_index = options.pkey_index;
  attr.port_num = static_cast<uint8_t>(device.port);
  attr.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  change.mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  return change;
}

StateChange to_ready_to_receive(const Device& device, ibv_qp* qp, const QueuePairPath& path) {
  StateChange change = to_plain_state(device, qp, IBV_QPS_RTR);
  ibv_qp_attr& attr = change.attr;
  attr.path_mtu = static_cast<ibv_mtu>(std::min(path.local->mtu, path.remote->mtu));
  attr.dest_qp_num = path.remote_qp_number;
  attr.rq_psn = path.remote_psn;
  attr.max_dest_rd_atomic = 1;
  attr.min_rnr_timer = kMinRnrTimer;
  fill_address_vector(path, &attr.ah_attr);
  change.mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  change.resolves = path.local->ethernet != 0;
  return change;
}

StateChange to_ready_to_send(const Device& device, ibv_qp* qp, const QueuePairPath& path,
                             const ConnectionOptions& options) {
  StateChange change = to_plain_state(device, qp, IBV_QPS_RTS);
  ibv_qp_attr& attr = change.attr;
  attr.timeout = options.ack_timeout;
  attr.retry_cnt = options.retry_count;
  attr.rnr_retry = kRnrRetryForever;
  attr.sq_psn = path.local_psn;
  attr.max_rd_atomic = 1;
  change.mask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
  return change;
}

Result<QueuePair> create_queue_pair(const Device& device, ibv_cq* cq, const QueueDepths& depths) {
  const verbs::Api& api = device.hca->api();
  ibv_qp_init_attr attr{};
  attr.qp_type = IBV_QPT_RC;
  attr.send_cq = cq;
  attr.recv_cq = cq;
  attr.cap.max_send_wr = depths.send;
  attr.cap.max_recv_wr = depths.receive;
  attr.cap.max_send_sge = 1;
  attr.cap.max_recv_sge = 1;
  attr.cap.max_inline_data = depths.inline_bytes;
  ibv_qp* raw = api.create_qp(device.hca->pd(), &attr);
  for (auto bytes = static_cast<uint32_t>(depths.inline_bytes); raw == nullptr && bytes > 0;) {
    bytes = bytes > kOneSlot ? (bytes - 1) / kOneSlot * kOneSlot : 0;
    attr.cap.max_inline_data = bytes;
    raw = api.create_qp(device.hca->pd(), &attr);
  }
  if (raw == nullptr) {
    const int err = errno;
    return fail_making(*device.hca,
                       "creating a QP with " + std::to_string(depths.send) + " send and " +
                           std::to_string(depths.receive) + " receive requests on " +
                           to_string(device) + " failed (the HCA allows " +
                           std::to_string(device.hca->max_work_requests()) +
                           " requests in a queue)",
                       err);
  }
  return QueuePair{.qp = verbs::UniqueQp(raw, {&api}),
                   .number = raw->qp_num,
                   .send_entries = static_cast<uint32_t>(depths.send),
                   .inline_bytes = attr.cap.max_inline_data};
}

}  // namespace gdr::transport
