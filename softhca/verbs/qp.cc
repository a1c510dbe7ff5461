#include "softhca/verbs/qp.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <thread>

#include "softhca/datapath/engine.h"
#include "softhca/gpu/copier.h"
#include "softhca/model/clock.h"
#include "softhca/model/faults.h"
#include "softhca/verbs/context.h"
#include "softhca/verbs/qp_state.h"

namespace softhca {

namespace {

constexpr uint64_t kExtendedOps = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                                  IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
                                  IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                                  IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;

// 0, or what errno says.
int check_init(const Context& context, const ibv_qp_init_attr_ex& attr) {
  const DeviceConfig& device = *context.device->config;
  constexpr uint32_t kKnown = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  if ((attr.comp_mask & ~kKnown) != 0) return EOPNOTSUPP;
  if (attr.qp_type != IBV_QPT_RC && attr.qp_type != IBV_QPT_UC) return EOPNOTSUPP;
  if (attr.srq != nullptr) return EOPNOTSUPP;
  if ((attr.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0 &&
      (attr.send_ops_flags & ~kExtendedOps) != 0) {
    return EOPNOTSUPP;
  }
  if ((attr.comp_mask & IBV_QP_INIT_ATTR_PD) == 0 || attr.pd == nullptr) return EINVAL;
  if (attr.send_cq == nullptr || attr.recv_cq == nullptr) return EINVAL;
  if (attr.cap.max_send_wr > device.max_qp_wr || attr.cap.max_recv_wr > device.max_qp_wr ||
      attr.cap.max_send_sge > kMaxSge || attr.cap.max_recv_sge > kMaxSge ||
      attr.cap.max_inline_data > device.max_inline) {
    return EINVAL;
  }
  return 0;
}

void init_shared(const Qp& qp, const Context& context, const Pd& pd, uint64_t rq) {
  SharedQp& shared = *qp.shared;
  shared.mutex.init();
  shared.inbound.store(0);
  shared.epoch.fetch_add(1);
  shared.qpn = qpn_of(qp.process->slot(), qp.index);
  shared.dest_qpn = 0;
  shared.pd = pd.verbs.handle;
  shared.access = 0;
  shared.device = context.device->index;
  shared.port = 1;
  shared.global = 0;
  shared.recv_cq = qp.recv_cq->index;
  shared.async_queue = context.async_events->index();
  shared.rq = rq;
  shared.rq_stride = static_cast<uint32_t>(sizeof(RecvWqe) + sizeof(ibv_sge) * kMaxSge);
  shared.rq_entries = std::bit_ceil(std::max(qp.cap.max_recv_wr, 1u));
  shared.rq_head.store(0);
  shared.rq_tail.store(0);
  shared.state.store(IBV_QPS_RESET);
  shared.live.store(1, std::memory_order_release);
}

uint64_t rq_bytes(const ibv_qp_cap& cap) {
  return uint64_t{std::bit_ceil(std::max(cap.max_recv_wr, 1u))} *
         (sizeof(RecvWqe) + sizeof(ibv_sge) * kMaxSge);
}

// Transfers that peers have under way touch this QP's memory; a dead peer's are not waited for.
void wait_for_inbound(Qp& qp) {
  while (qp.shared->inbound.load(std::memory_order_acquire) != 0) {
    if (qp.peer != nullptr && !qp.peer->alive()) {
      qp.shared->inbound.store(0);
      return;
    }
    std::this_thread::yield();
  }
}

void reset(Qp& qp) {
  {
    SharedLock lock(qp.shared->mutex);
    qp.shared->state.store(IBV_QPS_RESET);
    qp.shared->epoch.fetch_add(1);
    qp.shared->rq_head.store(qp.shared->rq_tail.load());
    qp.shared->dest_qpn = 0;
  }
  qp.sq->clear();
  qp.rq_polled.store(qp.shared->rq_tail.load());
  qp.send_cq->forget_qp(qp.shared->qpn);
  qp.recv_cq->forget_qp(qp.shared->qpn);
  qp.remote = nullptr;
  qp.peer = nullptr;
}

int check_values(const Qp& qp, const ibv_qp_attr& attr, int mask) {
  const Device& device = *Context::of(qp.ex.qp_base.context).device;
  if ((mask & IBV_QP_PORT) && (attr.port_num == 0 || attr.port_num > device.config->ports)) {
    return EINVAL;
  }
  if ((mask & IBV_QP_PKEY_INDEX) && attr.pkey_index != 0) return EINVAL;
  if ((mask & IBV_QP_PATH_MTU) && (attr.path_mtu < IBV_MTU_256 || attr.path_mtu > IBV_MTU_4096 ||
                                   (128u << attr.path_mtu) > device.config->mtu)) {
    return EINVAL;
  }
  if ((mask & IBV_QP_TIMEOUT) && attr.timeout > 31) return EINVAL;
  if ((mask & IBV_QP_RETRY_CNT) && attr.retry_cnt > 7) return EINVAL;
  if ((mask & IBV_QP_RNR_RETRY) && attr.rnr_retry > 7) return EINVAL;
  if ((mask & IBV_QP_MIN_RNR_TIMER) && attr.min_rnr_timer > 31) return EINVAL;
  if ((mask & IBV_QP_DEST_QPN) && attr.dest_qp_num > 0xffffff) return EINVAL;
  if ((mask & IBV_QP_AV) == 0) return 0;
  const SharedPort& port = qp.process->port(device.index, qp.shared->port);
  if (device.config->ethernet && attr.ah_attr.is_global == 0) return EINVAL;
  if (attr.ah_attr.is_global != 0 && attr.ah_attr.grh.sgid_index >= port.gid_count) return EINVAL;
  return 0;
}

// Copies what the mask names into the stored and the shared attributes.
void take_values(Qp& qp, const ibv_qp_attr& attr, int mask) {
  SharedQp& shared = *qp.shared;
  SharedLock lock(shared.mutex);
  ibv_qp_attr& own = qp.attr;
  if (mask & IBV_QP_PKEY_INDEX) own.pkey_index = attr.pkey_index;
  if (mask & IBV_QP_PORT) shared.port = own.port_num = attr.port_num;
  if (mask & IBV_QP_ACCESS_FLAGS) shared.access = own.qp_access_flags = attr.qp_access_flags;
  if (mask & IBV_QP_PATH_MTU) own.path_mtu = attr.path_mtu;
  if (mask & IBV_QP_RQ_PSN) own.rq_psn = attr.rq_psn;
  if (mask & IBV_QP_SQ_PSN) own.sq_psn = attr.sq_psn;
  if (mask & IBV_QP_DEST_QPN) shared.dest_qpn = own.dest_qp_num = attr.dest_qp_num;
  if (mask & IBV_QP_MAX_DEST_RD_ATOMIC) own.max_dest_rd_atomic = attr.max_dest_rd_atomic;
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
    shared.dgid = attr.ah_attr.grh.dgid;
  }
  shared.epoch.fetch_add(1);
}

void connect(Qp& qp) {
  uint32_t slot = qpn_slot(qp.shared->dest_qpn);
  qp.peer = qp.process->peer(slot);
  qp.remote = qp.peer == nullptr ? nullptr : &qp.peer->arena().qp(qpn_index(qp.shared->dest_qpn));
  if (qp.peer == nullptr || qp.peer->self()) return;
  // The peer may want copies that only this process can make.
  qp.process->engine().start();
  qp.process->gpu().pin_staging();
}

}  // namespace

void Qp::run() {
  Pending pending = sq->progress();
  if (pending.any && !sq->with_engine) process->engine().add(*this);
}

void Qp::enter_error() {
  SharedLock lock(shared->mutex);
  uint32_t state = shared->state.load();
  if (state == IBV_QPS_ERR || state == IBV_QPS_RESET) return;
  shared->state.store(IBV_QPS_ERR);
  flush_receives(*process, process->self(), *shared);
}

void Qp::fatal() {
  if (shared->state.load() == IBV_QPS_ERR) return;
  enter_error();
  post_event(*process, process->self(), shared->async_queue, {IBV_EVENT_QP_FATAL, index});
}

ibv_qp* create_qp(ibv_context* handle, ibv_qp_init_attr_ex* attr) {
  Context& context = Context::of(handle);
  Process& process = *context.process;
  if (process.orphaned()) {
    errno = EIO;
    return nullptr;
  }
  errno = check_init(context, *attr);
  if (errno != 0) return nullptr;
  int index = process.qp_indices.take();
  if (index < 0) {
    errno = ENOMEM;
    return nullptr;
  }
  SharedQp& shared = process.arena().qp(static_cast<uint32_t>(index));
  uint64_t rq = 0;
  if (process.arena().reserve(&shared, sizeof shared)) {
    rq = process.heap().allocate(rq_bytes(attr->cap));
  }
  if (rq == 0) {
    process.qp_indices.give(static_cast<uint32_t>(index));
    errno = ENOMEM;
    return nullptr;
  }
  // Before the peer learns the QPN, so that it finds the chunks when it connects.
  if (GpuCopier::get() != nullptr || !process.config().process_vm) process.staging().ensure();
  Pd& pd = Pd::of(attr->pd);
  // Hardware rounds up; these are the figures that programs read back.
  attr->cap.max_send_sge = std::max(attr->cap.max_send_sge, 1u);
  attr->cap.max_recv_sge = std::max(attr->cap.max_recv_sge, 1u);
  Qp* qp = new Qp{};
  qp->process = &process;
  qp->shared = &shared;
  qp->index = static_cast<uint32_t>(index);
  qp->send_cq = &Cq::of(attr->send_cq);
  qp->recv_cq = &Cq::of(attr->recv_cq);
  qp->sq_sig_all = attr->sq_sig_all != 0;
  qp->cap = attr->cap;
  qp->link = &process.faults().link(context.device->index, 1);
  qp->sq = std::make_unique<SendQueue>(*qp, qp->cap);
  init_shared(*qp, context, pd, rq);
  ibv_qp& verbs = qp->ex.qp_base;
  verbs.context = handle;
  verbs.qp_context = attr->qp_context;
  verbs.pd = attr->pd;
  verbs.send_cq = attr->send_cq;
  verbs.recv_cq = attr->recv_cq;
  verbs.handle = qp->index;
  verbs.qp_num = shared.qpn;
  verbs.state = IBV_QPS_RESET;
  verbs.qp_type = attr->qp_type;
  pthread_mutex_init(&verbs.mutex, nullptr);
  pthread_cond_init(&verbs.cond, nullptr);
  set_qp_writers(&qp->ex);
  pd.objects.fetch_add(1);
  qp->send_cq->qps.fetch_add(1);
  qp->recv_cq->qps.fetch_add(1);
  process.qps[qp->index].store(qp, std::memory_order_release);
  return qp->handle();
}

int modify_qp(ibv_qp* handle, ibv_qp_attr* attr, int mask) {
  Qp& qp = Qp::of(handle);
  if (qp.process->orphaned()) return EIO;
  {
    std::lock_guard lock(qp.sq->mutex);
    auto from = static_cast<ibv_qp_state>(qp.shared->state.load());
    if ((mask & IBV_QP_CUR_STATE) != 0 && attr->cur_qp_state != from) return EINVAL;
    ibv_qp_state to = (mask & IBV_QP_STATE) != 0 ? attr->qp_state : from;
    if (!transition_allowed(handle->qp_type, from, to, mask)) return EINVAL;
    if (int rc = check_values(qp, *attr, mask); rc != 0) return rc;
    if (to == IBV_QPS_RESET) {
      reset(qp);
    } else if (to == IBV_QPS_ERR) {
      if (from == IBV_QPS_RESET) {
        qp.shared->state.store(IBV_QPS_ERR);
      }
      qp.enter_error();
      qp.run();
    } else {
      take_values(qp, *attr, mask);
      if (mask & IBV_QP_PORT) {
        qp.link = &qp.process->faults().link(qp.shared->device, qp.shared->port);
      }
      if (to == IBV_QPS_RTR && from != IBV_QPS_RTR) connect(qp);
      qp.shared->state.store(to, std::memory_order_release);
      qp.run();
    }
    handle->state = to;
    qp.attr.qp_state = to;
  }
  // Without the lock: the engine may need it to finish what is under way.
  if (handle->state == IBV_QPS_ERR || handle->state == IBV_QPS_RESET) wait_for_inbound(qp);
  return 0;
}

int query_qp(ibv_qp* handle, ibv_qp_attr* attr, int, ibv_qp_init_attr* init_attr) {
  Qp& qp = Qp::of(handle);
  if (qp.process->orphaned()) return EIO;
  std::lock_guard lock(qp.sq->mutex);
  *attr = qp.attr;
  attr->qp_state = attr->cur_qp_state = static_cast<ibv_qp_state>(qp.shared->state.load());
  attr->cap = qp.cap;
  handle->state = attr->qp_state;
  *init_attr = {};
  init_attr->qp_context = handle->qp_context;
  init_attr->send_cq = handle->send_cq;
  init_attr->recv_cq = handle->recv_cq;
  init_attr->cap = qp.cap;
  init_attr->qp_type = handle->qp_type;
  init_attr->sq_sig_all = qp.sq_sig_all ? 1 : 0;
  return 0;
}

int destroy_qp(ibv_qp* handle) {
  Qp& qp = Qp::of(handle);
  Process& process = *qp.process;
  if (process.orphaned()) return 0;
  qp.dying.store(true);
  process.engine().forget(qp);
  {
    SharedLock lock(qp.shared->mutex);
    qp.shared->live.store(0);
    qp.shared->state.store(IBV_QPS_RESET);
    qp.shared->epoch.fetch_add(1);
  }
  {
    std::lock_guard lock(qp.sq->mutex);
    qp.sq->clear();
  }
  wait_for_inbound(qp);
  process.qps[qp.index].store(nullptr);
  qp.send_cq->forget_qp(qp.shared->qpn);
  qp.recv_cq->forget_qp(qp.shared->qpn);
  Context::of(handle->context).async_events->remove_if([&](const SharedEvent& event) {
    return event.type >= IBV_EVENT_QP_FATAL && event.type <= IBV_EVENT_SQ_DRAINED &&
           event.object == qp.index;
  });
  pthread_mutex_lock(&handle->mutex);
  while (handle->events_completed != qp.async_events) {
    pthread_cond_wait(&handle->cond, &handle->mutex);
  }
  pthread_mutex_unlock(&handle->mutex);
  pthread_mutex_destroy(&handle->mutex);
  pthread_cond_destroy(&handle->cond);
  qp.send_cq->qps.fetch_sub(1);
  qp.recv_cq->qps.fetch_sub(1);
  Pd::of(handle->pd).objects.fetch_sub(1);
  process.heap().release(qp.shared->rq, rq_bytes(qp.cap));
  process.qp_indices.give(qp.index);
  delete &qp;
  return 0;
}

int post_send(ibv_qp* handle, ibv_send_wr* wr, ibv_send_wr** bad_wr) {
  Qp& qp = Qp::of(handle);
  std::lock_guard lock(qp.sq->mutex);
  uint32_t state = qp.shared->state.load(std::memory_order_relaxed);
  if (state != IBV_QPS_RTS && state != IBV_QPS_ERR && state != IBV_QPS_SQD) {
    *bad_wr = wr;
    return EINVAL;
  }
  int rc = 0;
  for (; wr != nullptr; wr = wr->next) {
    rc = qp.sq->post(*wr);
    if (rc != 0) {
      *bad_wr = wr;
      break;
    }
  }
  qp.run();
  return rc;
}

}  // namespace softhca
