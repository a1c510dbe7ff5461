#include "softhca/verbs/qp.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <utility>

#include "softhca/gpu/copier.h"
#include "softhca/verbs/context.h"
#include "softhca/verbs/cq.h"
#include "softhca/verbs/runtime.h"

namespace softhca {

namespace {

constexpr uint64_t kExtendedOps = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                                  IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
                                  IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                                  IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;

// Returns 0, or the errno with which ibv_create_qp fails.
int check_init(const Context& context, const ibv_qp_init_attr_ex& attr) {
  const DeviceConfig& device = *context.device->config;
  constexpr uint32_t kKnown =
      IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_CREATE_FLAGS;
  if ((attr.comp_mask & ~kKnown) != 0) return EOPNOTSUPP;
  if ((attr.comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0 && attr.create_flags != 0) {
    return EOPNOTSUPP;
  }
  if (attr.qp_type != IBV_QPT_RC && attr.qp_type != IBV_QPT_UC) return EOPNOTSUPP;
  if (device.transport == Transport::kUnspecified) return EOPNOTSUPP;
  if (attr.srq != nullptr) return EOPNOTSUPP;
  if ((attr.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0 &&
      (attr.send_ops_flags & ~kExtendedOps) != 0) {
    return EOPNOTSUPP;
  }
  if ((attr.comp_mask & IBV_QP_INIT_ATTR_PD) == 0 || attr.pd == nullptr) return EINVAL;
  if (attr.send_cq == nullptr || attr.recv_cq == nullptr) return EINVAL;
  // The kernel finds the handles of one open device only.
  for (const ibv_context* owner :
       {attr.pd->context, attr.send_cq->context, attr.recv_cq->context}) {
    if (owner->device != &context.device->verbs) return EINVAL;
  }
  if (attr.cap.max_send_wr > device.max_qp_wr || attr.cap.max_recv_wr > device.max_qp_wr ||
      attr.cap.max_send_sge > kMaxSge || attr.cap.max_recv_sge > kMaxSge ||
      attr.cap.max_inline_data > device.max_inline) {
    return EINVAL;
  }
  return 0;
}

// Bytes of an entry of the ring of receives. A program that posts receives in advance touches all
// of them, so that entries of the most scatter entries would take a multiple of the memory.
uint32_t receive_stride(const ibv_qp_cap& cap) {
  const uint32_t beyond_first = std::max(cap.max_recv_sge, 1u) - 1;
  return static_cast<uint32_t>(sizeof(RecvWqe) + sizeof(ibv_sge) * beyond_first);
}

uint32_t receive_entries(const ibv_qp_cap& cap) {
  return std::bit_ceil(std::max(cap.max_recv_wr, 1u));
}

uint64_t receive_ring_bytes(const ibv_qp_cap& cap) {
  return uint64_t{receive_entries(cap)} * receive_stride(cap);
}

// Bytes of the buffer that a QP has with mlx5 (mlx5_calc_send_wqe() and its neighbours in verbs.c
// of rdma-core): each send has 192 bytes and its data or scatter entries.
uint64_t locked_bytes(const ibv_qp_cap& cap) {
  const uint32_t data = cap.max_inline_data == 0 ? 0 : cap.max_inline_data + 4;
  const uint64_t send = align_up(192 + std::max(16 * cap.max_send_sge, data), 64);
  const uint64_t receive = std::bit_ceil(16 * std::max(cap.max_recv_sge, 1u));
  return std::bit_ceil(send * cap.max_send_wr) + receive_entries(cap) * receive;
}

// Takes an index and the memory of its entry and its ring of receives. -1 when there is no room.
int allocate(Runtime& runtime, const ibv_qp_cap& cap, uint64_t* ring) {
  int index = runtime.qps().take();
  if (index < 0) return -1;
  Process& process = runtime.process();
  SharedQp& shared = process.arena().qp(static_cast<uint32_t>(index));
  *ring = 0;
  if (process.arena().reserve(&shared, sizeof shared)) {
    *ring = process.heap().allocate(receive_ring_bytes(cap));
  }
  if (*ring != 0) return index;
  runtime.qps().give(static_cast<uint32_t>(index));
  return -1;
}

void init_shared(const Qp& qp, const Context& context, const Pd& pd, uint64_t ring) {
  SharedQp& shared = qp.pair.shared();
  const QueuePairConfig& config = qp.pair.config();
  shared.mutex.init();
  shared.inbound.store(0);
  shared.silent.store(0);
  shared.epoch.fetch_add(1);
  shared.qpn = qpn_of(qp.pair.process().slot(), config.index);
  shared.dest_qpn = 0;
  shared.pd = pd.verbs.handle;
  shared.access = 0;
  shared.rq_psn = 0;
  shared.device = context.device->index;
  shared.port = 1;
  shared.global = 0;
  shared.ece_options = 0;
  shared.ece_required = context.device->config->ece.required;
  shared.recv_cq = qp.recv_cq.index;
  shared.async_queue = context.async_events->index();
  shared.rq = ring;
  shared.rq_stride = receive_stride(config.cap);
  shared.rq_entries = receive_entries(config.cap);
  shared.rq_taken = 0;
  shared.rq_head.store(0);
  shared.rq_tail.store(0);
  shared.state.store(IBV_QPS_RESET);
  shared.live.store(1, std::memory_order_release);
}

void init_handle(Qp& qp, ibv_context* context, const ibv_qp_init_attr_ex& attr) {
  ibv_qp& verbs = qp.ex.qp_base;
  verbs.context = context;
  verbs.qp_context = attr.qp_context;
  verbs.pd = attr.pd;
  verbs.send_cq = attr.send_cq;
  verbs.recv_cq = attr.recv_cq;
  verbs.handle = qp.pair.config().index;
  verbs.qp_num = qp.pair.shared().qpn;
  verbs.state = IBV_QPS_RESET;
  verbs.qp_type = attr.qp_type;
  pthread_mutex_init(&verbs.mutex, nullptr);
  pthread_cond_init(&verbs.cond, nullptr);
  set_qp_writers(&qp.ex);
}

QueuePairConfig with_handle(QueuePairConfig config, ibv_qp* handle) {
  config.handle = handle;
  return config;
}

// Drops events of the QP that nobody has read, and waits until those read are acknowledged.
void settle_events(Qp& qp) {
  ibv_qp* handle = qp.handle();
  Context::of(handle->context).async_events->remove_if([&](const SharedEvent& event) {
    return event.type >= IBV_EVENT_QP_FATAL && event.type <= IBV_EVENT_SQ_DRAINED &&
           event.object == qp.pair.config().index;
  });
  pthread_mutex_lock(&handle->mutex);
  while (handle->events_completed != qp.async_events) {
    pthread_cond_wait(&handle->cond, &handle->mutex);
  }
  pthread_mutex_unlock(&handle->mutex);
  pthread_mutex_destroy(&handle->mutex);
  pthread_cond_destroy(&handle->cond);
}

}  // namespace

Qp::Qp(Runtime& owner, const Pd& pd, Cq& sends_to, Cq& receives_to, QueuePairConfig config,
       LinkModel& link)
    : runtime(owner),
      domain(pd.domain),
      send_cq(sends_to),
      recv_cq(receives_to),
      pair(owner.process(), with_handle(config, &ex.qp_base), link),
      send_queue(pair, owner.faults()),
      receive_queue(pair) {}

void Qp::run() { runtime.engine().progress(send_queue); }

void Qp::count_doorbell() const {
  Counters* counters = pair.process().counters();
  if (counters != nullptr) counters->add_doorbell(pair.shared().device, pair.shared().port);
}

ibv_qp* create_qp(ibv_context* handle, ibv_qp_init_attr_ex* attr) {
  Context& context = Context::of(handle);
  Runtime& runtime = *context.runtime;
  if (runtime.orphaned()) {
    errno = EIO;
    return nullptr;
  }
  errno = context.device->error();
  if (errno == 0) errno = check_init(context, *attr);
  if (errno != 0) return nullptr;
  uint64_t ring = 0;
  MemoryLock buffers = runtime.locked_memory().lock(0, locked_bytes(attr->cap));
  const bool room = context.device->qps.fetch_add(1) < context.device->config->max_qp;
  int index = room && buffers != nullptr ? allocate(runtime, attr->cap, &ring) : -1;
  if (index < 0) {
    context.device->qps.fetch_sub(1);
    errno = ENOMEM;
    return nullptr;
  }
  // Before a peer learns the QPN, so that it finds the staging area when it connects.
  if (GpuCopier::get() != nullptr || !runtime.config().process_vm) {
    runtime.process().staging().ensure();
  }
  // Hardware rounds up; programs read these values back.
  attr->cap.max_send_sge = std::max(attr->cap.max_send_sge, 1u);
  attr->cap.max_recv_sge = std::max(attr->cap.max_recv_sge, 1u);
  Cq& send_cq = Cq::of(attr->send_cq);
  Cq& recv_cq = Cq::of(attr->recv_cq);
  Pd& pd = Pd::of(attr->pd);
  QueuePairConfig config = {static_cast<uint32_t>(index),
                            send_cq.index,
                            attr->qp_type,
                            attr->cap,
                            attr->sq_sig_all != 0,
                            nullptr,
                            context.device->config->ack_timeout_factor};
  Qp* qp = new Qp(runtime, pd, send_cq, recv_cq, config,
                  runtime.faults().link(context.device->index, 1));
  qp->buffers = std::move(buffers);
  qp->ece.reported = context.device->config->ece.options;
  init_shared(*qp, context, pd, ring);
  init_handle(*qp, handle, *attr);
  send_cq.qps.fetch_add(1);
  recv_cq.qps.fetch_add(1);
  runtime.qps().publish(config.index, &qp->pair);
  if (Counters* counters = runtime.process().counters()) {
    counters->add_queue_pair(context.device->index,
                             {attr->cap.max_send_wr, attr->cap.max_recv_wr, attr->cap.max_send_sge,
                              attr->cap.max_recv_sge, attr->cap.max_inline_data});
  }
  return qp->handle();
}

int query_qp(ibv_qp* handle, ibv_qp_attr* attr, int, ibv_qp_init_attr* init_attr) {
  Qp& qp = Qp::of(handle);
  if (qp.runtime.orphaned()) return EIO;
  if (int error = Context::of(handle->context).device->error(); error != 0) return error;
  const QueuePairConfig& config = qp.pair.config();
  std::lock_guard lock(qp.send_queue.mutex());
  *attr = qp.pair.attributes();
  attr->qp_state = attr->cur_qp_state = qp.pair.state();
  attr->cap = config.cap;
  {
    SharedLock shared_lock(qp.pair.shared().mutex);
    attr->rq_psn = qp.pair.shared().rq_psn;
  }
  handle->state = attr->qp_state;
  *init_attr = {};
  init_attr->qp_context = handle->qp_context;
  init_attr->send_cq = handle->send_cq;
  init_attr->recv_cq = handle->recv_cq;
  init_attr->cap = config.cap;
  init_attr->qp_type = handle->qp_type;
  init_attr->sq_sig_all = config.signal_all ? 1 : 0;
  return 0;
}

int destroy_qp(ibv_qp* handle) {
  Qp& qp = Qp::of(handle);
  Runtime& runtime = qp.runtime;
  if (runtime.orphaned()) return 0;
  if (Context::of(handle->context).device->removed()) return EIO;
  runtime.engine().forget(qp.send_queue);
  SharedQp& shared = qp.pair.shared();
  {
    SharedLock lock(shared.mutex);
    shared.live.store(0);
    shared.state.store(IBV_QPS_RESET);
    shared.epoch.fetch_add(1);
  }
  {
    std::lock_guard lock(qp.send_queue.mutex());
    qp.send_queue.clear();
  }
  wait_for_inbound(qp.pair, qp.pair.share_peer().get());
  const uint32_t index = qp.pair.config().index;
  runtime.qps().withdraw(index);
  qp.send_cq.forget_qp(shared.qpn);
  qp.recv_cq.forget_qp(shared.qpn);
  settle_events(qp);
  qp.send_cq.qps.fetch_sub(1);
  qp.recv_cq.qps.fetch_sub(1);
  runtime.process().heap().release(shared.rq, receive_ring_bytes(qp.pair.config().cap));
  runtime.qps().give(index);
  Context::of(handle->context).device->qps.fetch_sub(1);
  delete &qp;
  return 0;
}

int post_send(ibv_qp* handle, ibv_send_wr* wr, ibv_send_wr** bad_wr) {
  Qp& qp = Qp::of(handle);
  std::lock_guard lock(qp.send_queue.mutex());
  ibv_qp_state state = qp.pair.state(std::memory_order_relaxed);
  if (state != IBV_QPS_RTS && state != IBV_QPS_ERR && state != IBV_QPS_SQD) {
    *bad_wr = wr;
    return EINVAL;
  }
  int rc = 0;
  const ibv_send_wr* const first = wr;
  for (; wr != nullptr; wr = wr->next) {
    rc = qp.send_queue.post(*wr);
    if (rc != 0) {
      *bad_wr = wr;
      break;
    }
  }
  if (wr != first) qp.count_doorbell();
  qp.run();
  return rc;
}

int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
  return Qp::of(qp).receive_queue.post(wr, bad_wr);
}

}  // namespace softhca
