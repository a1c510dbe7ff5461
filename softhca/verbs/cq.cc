#include "softhca/verbs/cq.h"

#include <bit>
#include <cerrno>
#include <new>
#include <utility>

#include "softhca/fabric/process_order.h"
#include "softhca/verbs/context.h"
#include "softhca/verbs/runtime.h"

namespace softhca {

namespace {

constexpr uint32_t kMaxCqe = 1 << 20;

// Bytes of the buffer that a CQ has with mlx5 (mlx5_alloc_cq_buf() of rdma-core).
uint64_t locked_bytes(uint32_t cqe) { return 64 * std::bit_ceil(uint64_t{cqe} + 1); }

ibv_wc to_wc(const Cqe& entry) {
  ibv_wc wc = {};
  wc.wr_id = entry.wr_id;
  wc.status = static_cast<ibv_wc_status>(entry.status);
  wc.opcode = static_cast<ibv_wc_opcode>(entry.opcode);
  wc.byte_len = entry.byte_len;
  wc.imm_data = entry.imm;
  wc.qp_num = entry.qp_num;
  wc.src_qp = entry.src_qp;
  wc.wc_flags = entry.wc_flags;
  wc.slid = entry.slid;
  wc.sl = entry.sl;
  return wc;
}

}  // namespace

bool Cq::pop(Cqe* entry) {
  uint64_t head = shared->head.load(std::memory_order_relaxed);
  if (head == shared->tail.load(std::memory_order_acquire)) return false;
  *entry = ring[head & (shared->entries - 1)];
  shared->head.store(head + 1, std::memory_order_release);
  order_poll_after_copies(runtime->process().arena().header());
  if (QueuePair* qp = runtime->qps().find(qpn_index(entry->qp_num))) {
    qp->polled(*entry);
    if (Counters* counters = runtime->process().counters()) {
      counters->add_completion(qp->shared().device, qp->shared().port, entry->is_send != 0,
                               entry->status == IBV_WC_SUCCESS);
    }
  }
  return true;
}

void Cq::forget_qp(uint32_t qp_num) {
  std::lock_guard poll_lock(poll_mutex);
  SharedLock lock(shared->mutex);
  Cqe* entries = runtime->process().arena().at<Cqe>(shared->ring);
  const uint64_t mask = shared->entries - 1;
  const uint64_t tail = shared->tail.load();
  uint64_t kept = shared->head.load();
  for (uint64_t i = kept; i != tail; ++i) {
    const Cqe& entry = entries[i & mask];
    if (entry.qp_num != qp_num) entries[kept++ & mask] = entry;
  }
  shared->tail.store(kept);
}

int poll_cq(ibv_cq* handle, int count, ibv_wc* completions) {
  Cq& cq = Cq::of(handle);
  if (cq.shared->head.load(std::memory_order_relaxed) ==
      cq.shared->tail.load(std::memory_order_acquire)) {
    return 0;
  }
  std::lock_guard lock(cq.poll_mutex);
  int polled = 0;
  Cqe entry;
  while (polled < count && cq.pop(&entry)) completions[polled++] = to_wc(entry);
  return polled;
}

int req_notify_cq(ibv_cq* handle, int solicited_only) {
  Cq& cq = Cq::of(handle);
  if (cq.ex.channel == nullptr) return 0;  // nobody is notified
  SharedLock lock(cq.shared->mutex);
  // A request for any completion is not reduced by a later one for solicited completions.
  if (solicited_only == 0) {
    cq.shared->armed = Armed::kAny;
  } else if (cq.shared->armed == Armed::kNo) {
    cq.shared->armed = Armed::kSolicited;
  }
  return 0;
}

ibv_cq* create_cq(ibv_context* handle, const ibv_cq_init_attr_ex& attr) {
  Context& context = Context::of(handle);
  Runtime& runtime = *context.runtime;
  Process& process = runtime.process();
  errno = context.device->error();
  if (errno != 0) return nullptr;
  if (attr.cqe == 0 || attr.cqe > kMaxCqe ||
      attr.comp_vector >= static_cast<uint32_t>(handle->num_comp_vectors)) {
    errno = EINVAL;
    return nullptr;
  }
  MemoryLock buffer = runtime.locked_memory().lock(0, locked_bytes(attr.cqe));
  int index = buffer == nullptr ? -1 : runtime.cqs().take();
  uint32_t entries = std::bit_ceil(attr.cqe);
  SharedCq* shared = index < 0 ? nullptr : &process.arena().cq(static_cast<uint32_t>(index));
  uint64_t ring = 0;
  if (shared != nullptr && process.arena().reserve(shared, sizeof *shared)) {
    ring = process.heap().allocate(uint64_t{entries} * sizeof(Cqe));
  }
  Cq* cq = ring == 0 ? nullptr : new (std::nothrow) Cq{};
  if (cq == nullptr) {
    process.heap().release(ring, uint64_t{entries} * sizeof(Cqe));
    if (index >= 0) runtime.cqs().give(static_cast<uint32_t>(index));
    errno = ENOMEM;
    return nullptr;
  }
  shared->mutex.init();
  shared->entries = entries;
  shared->limit = attr.cqe;
  shared->ring = ring;
  shared->event_queue = attr.channel == nullptr ? 0 : Channel::of(attr.channel).events->index();
  shared->async_queue = context.async_events->index();
  shared->event_queued = 0;
  shared->armed = Armed::kNo;
  shared->overrun.store(0);
  shared->head.store(0);
  shared->tail.store(0);
  shared->live.store(1, std::memory_order_release);

  cq->runtime = &runtime;
  cq->buffer = std::move(buffer);
  cq->shared = shared;
  cq->ring = process.arena().at<Cqe>(ring);
  cq->index = static_cast<uint32_t>(index);
  cq->ex.context = handle;
  cq->ex.channel = attr.channel;
  cq->ex.cq_context = attr.cq_context;
  cq->ex.handle = cq->index;
  cq->ex.cqe = static_cast<int>(attr.cqe);
  pthread_mutex_init(&cq->ex.mutex, nullptr);
  pthread_cond_init(&cq->ex.cond, nullptr);
  set_cq_readers(&cq->ex);
  if (attr.channel != nullptr) Channel::of(attr.channel).cqs.fetch_add(1);
  context.objects.fetch_add(1);
  runtime.cqs().publish(cq->index, cq);
  if (Counters* counters = process.counters()) {
    counters->add_completion_queue(context.device->index, attr.cqe);
  }
  return cq->handle();
}

int resize_cq(ibv_cq* handle, int count) {
  Cq& cq = Cq::of(handle);
  if (cq.runtime->orphaned() || Context::of(handle->context).device->error() != 0) return EIO;
  if (count <= 0 || static_cast<uint32_t>(count) > kMaxCqe) return EINVAL;
  const auto limit = static_cast<uint32_t>(count);
  const uint32_t entries = std::bit_ceil(limit);
  Process& process = cq.runtime->process();
  std::lock_guard poll_lock(cq.poll_mutex);
  SharedLock lock(cq.shared->mutex);
  const uint64_t head = cq.shared->head.load(), tail = cq.shared->tail.load();
  if (tail - head > limit) return EINVAL;
  MemoryLock buffer = cq.runtime->locked_memory().lock(0, locked_bytes(limit));
  if (buffer == nullptr) return ENOMEM;
  if (entries != cq.shared->entries) {
    uint64_t offset = process.heap().allocate(uint64_t{entries} * sizeof(Cqe));
    if (offset == 0) return ENOMEM;
    Cqe* ring = process.arena().at<Cqe>(offset);
    for (uint64_t i = head; i != tail; ++i) {
      ring[i & (entries - 1)] = cq.ring[i & (cq.shared->entries - 1)];
    }
    process.heap().release(cq.shared->ring, uint64_t{cq.shared->entries} * sizeof(Cqe));
    cq.shared->ring = offset;
    cq.shared->entries = entries;
    cq.ring = ring;
  }
  cq.buffer = std::move(buffer);
  cq.shared->limit = limit;
  cq.ex.cqe = count;
  return 0;
}

int destroy_cq(ibv_cq* handle) {
  Cq& cq = Cq::of(handle);
  Runtime& runtime = *cq.runtime;
  Context& context = Context::of(cq.ex.context);
  if (runtime.orphaned()) return 0;
  if (context.device->removed()) return EIO;
  if (cq.qps.load() != 0) return EBUSY;
  runtime.cqs().withdraw(cq.index);
  cq.shared->live.store(0);
  if (cq.ex.channel != nullptr) {
    Channel& channel = Channel::of(cq.ex.channel);
    channel.events->remove_if([&](const SharedEvent& event) { return event.object == cq.index; });
    channel.cqs.fetch_sub(1);
  }
  context.async_events->remove_if([&](const SharedEvent& event) {
    return event.type == IBV_EVENT_CQ_ERR && event.object == cq.index;
  });
  pthread_mutex_lock(&cq.ex.mutex);
  while (cq.ex.comp_events_completed != cq.comp_events ||
         cq.ex.async_events_completed != cq.async_events) {
    pthread_cond_wait(&cq.ex.cond, &cq.ex.mutex);
  }
  pthread_mutex_unlock(&cq.ex.mutex);
  pthread_mutex_destroy(&cq.ex.mutex);
  pthread_cond_destroy(&cq.ex.cond);
  runtime.process().heap().release(cq.shared->ring, uint64_t{cq.shared->entries} * sizeof(Cqe));
  runtime.cqs().give(cq.index);
  context.objects.fetch_sub(1);
  delete &cq;
  return 0;
}

}  // namespace softhca
