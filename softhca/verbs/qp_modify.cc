// ibv_modify_qp: checks the transition and the attributes, stores the attributes, and changes the
// state.
#include <netinet/in.h>

#include <cerrno>
#include <optional>

#include "softhca/fabric/port_gids.h"
#include "softhca/verbs/context.h"
#include "softhca/verbs/cq.h"
#include "softhca/verbs/qp.h"
#include "softhca/verbs/qp_state.h"
#include "softhca/verbs/runtime.h"

namespace softhca {

namespace {

bool is_ipv4(const ibv_gid& gid) {
  return IN6_IS_ADDR_V4MAPPED(reinterpret_cast<const in6_addr*>(gid.raw)) != 0;
}

// Returns true where Linux finds the MAC of the target: it looks up no IPv4 address from an IPv6
// one or the other way round (rdma_resolve_ip()), and takes a link-local address of RoCE v1 for the
// MAC.
bool resolves(const GidEntry& source, const ibv_gid& target) {
  const bool link_local = IN6_IS_ADDR_LINKLOCAL(reinterpret_cast<const in6_addr*>(target.raw)) != 0;
  return is_ipv4(source.gid) == is_ipv4(target) ||
         (link_local && source.type == IBV_GID_TYPE_ROCE_V1);
}

// Returns 0, or the errno with which the kernel refuses an address vector: EINVAL, or ENODATA for
// an entry of the GID table that has no GID (rdma_get_gid_attr() of Linux).
int check_address(const DeviceConfig& device, const SharedPort& port, uint32_t number,
                  const ibv_ah_attr& address) {
  const PortConfig& config = device.port(number);
  bool grh_needed = config.ethernet() || config.grh == GrhRule::kChecked;
  if (address.is_global == 0) return grh_needed ? EINVAL : 0;
  std::optional<GidEntry> source = read_gid(port, address.grh.sgid_index);
  if (!source) return EINVAL;
  if (!source->valid()) return ENODATA;
  return config.ethernet() && !resolves(*source, address.grh.dgid) ? EINVAL : 0;
}

// Returns 0, or the errno for an attribute that the mask names and that is out of range.
int check_values(const Qp& qp, const ibv_qp_attr& attr, int mask) {
  const DeviceConfig& device = *Context::of(qp.ex.qp_base.context).device->config;
  if ((mask & IBV_QP_PORT) && (attr.port_num == 0 || attr.port_num > device.ports)) {
    return EINVAL;
  }
  const uint32_t port = (mask & IBV_QP_PORT) ? attr.port_num : qp.pair.shared().port;
  if ((mask & IBV_QP_PKEY_INDEX) && attr.pkey_index != 0) return EINVAL;
  if ((mask & IBV_QP_PATH_MTU) && (attr.path_mtu < IBV_MTU_256 || attr.path_mtu > IBV_MTU_4096 ||
                                   (128u << attr.path_mtu) > device.port(port).mtu)) {
    return EINVAL;
  }
  if ((mask & IBV_QP_TIMEOUT) && attr.timeout > 31) return EINVAL;
  if ((mask & IBV_QP_RETRY_CNT) && attr.retry_cnt > 7) return EINVAL;
  if ((mask & IBV_QP_RNR_RETRY) && attr.rnr_retry > 7) return EINVAL;
  if ((mask & IBV_QP_MIN_RNR_TIMER) && attr.min_rnr_timer > 31) return EINVAL;
  if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) && attr.max_rd_atomic > kMaxReads) return EINVAL;
  if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) && attr.max_dest_rd_atomic > kMaxReads) return EINVAL;
  if ((mask & IBV_QP_DEST_QPN) && attr.dest_qp_num > 0xffffff) return EINVAL;
  if ((mask & IBV_QP_AV) == 0) return 0;
  // modify_qp() of Linux, uverbs_cmd.c.
  if (attr.ah_attr.port_num != port) return EINVAL;
  return check_address(device, qp.pair.port(), port, attr.ah_attr);
}

GidEntry source_gid(const QueuePair& qp, const ibv_ah_attr& address) {
  if (address.is_global == 0) return {};
  return read_gid(qp.port(), address.grh.sgid_index).value_or(GidEntry());
}

// Copies the attributes that the mask names to where query_qp() and the peers find them.
void take_values(QueuePair& qp, const ibv_qp_attr& attr, int mask) {
  SharedQp& shared = qp.shared();
  SharedLock lock(shared.mutex);
  ibv_qp_attr& own = qp.attributes();
  if (mask & IBV_QP_PKEY_INDEX) own.pkey_index = attr.pkey_index;
  if (mask & IBV_QP_PORT) shared.port = own.port_num = attr.port_num;
  if (mask & IBV_QP_ACCESS_FLAGS) shared.access = own.qp_access_flags = attr.qp_access_flags;
  if (mask & IBV_QP_PATH_MTU) {
    own.path_mtu = attr.path_mtu;
    shared.path_mtu = static_cast<uint8_t>(attr.path_mtu);
  }
  if (mask & IBV_QP_RQ_PSN) shared.rq_psn = attr.rq_psn & kPsnMask;
  if (mask & IBV_QP_SQ_PSN) own.sq_psn = attr.sq_psn & kPsnMask;
  if (mask & IBV_QP_DEST_QPN) shared.dest_qpn = own.dest_qp_num = attr.dest_qp_num;
  if (mask & IBV_QP_MAX_DEST_RD_ATOMIC) {
    shared.max_dest_rd_atomic = own.max_dest_rd_atomic = attr.max_dest_rd_atomic;
  }
  if (mask & IBV_QP_MAX_QP_RD_ATOMIC) own.max_rd_atomic = attr.max_rd_atomic;
  if (mask & IBV_QP_MIN_RNR_TIMER) shared.min_rnr_timer = own.min_rnr_timer = attr.min_rnr_timer;
  if (mask & IBV_QP_TIMEOUT) own.timeout = attr.timeout;
  if (mask & IBV_QP_RETRY_CNT) own.retry_cnt = attr.retry_cnt;
  if (mask & IBV_QP_RNR_RETRY) own.rnr_retry = attr.rnr_retry;
  if (mask & IBV_QP_AV) {
    own.ah_attr = attr.ah_attr;
    shared.global = attr.ah_attr.is_global;
    shared.dlid = attr.ah_attr.dlid;
    shared.sl = attr.ah_attr.sl;
    shared.hop_limit = attr.ah_attr.grh.hop_limit;
    shared.dgid = attr.ah_attr.grh.dgid;
    const GidEntry source = source_gid(qp, attr.ah_attr);
    shared.sgid = source.gid;
    shared.gid_type = source.type;
  }
  shared.epoch.fetch_add(1);
}

void reset(Qp& qp) {
  SharedQp& shared = qp.pair.shared();
  {
    SharedLock lock(shared.mutex);
    shared.state.store(IBV_QPS_RESET);
    shared.epoch.fetch_add(1);
    shared.rq_head.store(shared.rq_tail.load());
    shared.rq_taken = 0;
    shared.dest_qpn = 0;
    shared.access = 0;
    shared.rq_psn = 0;
    shared.ece_options = 0;
  }
  // Before the queues are emptied: a poller that takes a completion counts its request as free.
  qp.send_cq.forget_qp(shared.qpn);
  qp.recv_cq.forget_qp(shared.qpn);
  qp.pair.attributes() = {};
  qp.ece = {Context::of(qp.handle()->context).device->config->ece.options, 0};
  qp.send_queue.clear();
  qp.receive_queue.clear();
  qp.pair.disconnect();
}

void connect(Qp& qp) {
  qp.pair.connect();
  if (!qp.pair.connected() || qp.pair.peer().self()) return;
  // The peer may ask for copies that only this process can make.
  qp.runtime.engine().start();
  qp.runtime.gpu().pin_staging();
}

// Enters INIT, RTR, RTS or SQD, or stays in one of them. EINVAL when the QP has left `from`
// meanwhile: a peer may stop it at any time.
int enter_working_state(Qp& qp, const ibv_qp_attr& attr, int mask, ibv_qp_state from,
                        ibv_qp_state to) {
  SharedQp& shared = qp.pair.shared();
  if (to != from) take_ece(qp);
  take_values(qp.pair, attr, mask);
  if (mask & IBV_QP_PORT) qp.pair.set_link(qp.runtime.faults().link(shared.device, shared.port));
  if (to == IBV_QPS_RTR && from != IBV_QPS_RTR) connect(qp);
  uint32_t expected = from;
  if (!shared.state.compare_exchange_strong(expected, to)) return EINVAL;
  qp.run();
  return 0;
}

// Returns 0, or the errno with which a configured fault, or a transport that connects by other
// means, refuses a change of state that is valid otherwise.
int check_change(Qp& qp, const ibv_qp_attr& attr, int mask, ibv_qp_state from, ibv_qp_state to) {
  if (to == from || to == IBV_QPS_RESET || to == IBV_QPS_ERR) return 0;
  const Device& device = *Context::of(qp.handle()->context).device;
  if (to == IBV_QPS_RTR && device.config->transport == Transport::kIwarp) return EINVAL;
  uint32_t port = (mask & IBV_QP_PORT) ? attr.port_num : qp.pair.shared().port;
  return qp.runtime.faults().modify_error(device.index, port, to);
}

// A device in the fatal state can still stop QPs (mlx5_internal_err_ret_value() of Linux), one that
// was removed can do nothing.
int check_device(const Qp& qp, ibv_qp_state to) {
  const Device& device = *Context::of(qp.ex.qp_base.context).device;
  bool stops = to == IBV_QPS_ERR || to == IBV_QPS_RESET;
  return stops && !device.removed() ? 0 : device.error();
}

// The send queue's mutex is held.
int modify(Qp& qp, const ibv_qp_attr& attr, int mask) {
  ibv_qp_state from = qp.pair.state();
  if ((mask & IBV_QP_CUR_STATE) != 0 && attr.cur_qp_state != from) return EINVAL;
  ibv_qp_state to = (mask & IBV_QP_STATE) != 0 ? attr.qp_state : from;
  if (int rc = check_device(qp, to); rc != 0) return rc;
  if (!transition_allowed(qp.handle()->qp_type, from, to, mask)) return EINVAL;
  if (int rc = check_values(qp, attr, mask); rc != 0) return rc;
  if (int rc = check_change(qp, attr, mask, from, to); rc != 0) return rc;
  if (to == IBV_QPS_RESET) {
    reset(qp);
  } else if (to == IBV_QPS_ERR) {
    qp.pair.enter_error();
    qp.run();
  } else {
    if (int rc = enter_working_state(qp, attr, mask, from, to); rc != 0) return rc;
  }
  qp.handle()->state = to;
  qp.pair.attributes().qp_state = to;
  return 0;
}

}  // namespace

int modify_qp(ibv_qp* handle, ibv_qp_attr* attr, int mask) {
  Qp& qp = Qp::of(handle);
  if (qp.runtime.orphaned()) return EIO;
  int rc = 0;
  bool stopped = false;
  std::shared_ptr<Peer> peer;
  {
    std::lock_guard lock(qp.send_queue.mutex());
    peer = qp.pair.share_peer();
    rc = modify(qp, *attr, mask);
    if (rc != 0 && rc != EIO) return rc;
    stopped = qp.pair.state() == IBV_QPS_ERR || qp.pair.state() == IBV_QPS_RESET;
  }
  // Without the lock: the engine may need it to complete what is in progress.
  if (stopped) wait_for_inbound(qp.pair, peer.get());
  return rc;
}

}  // namespace softhca
