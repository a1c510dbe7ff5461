// The exported functions of libibverbs for completion channels and asynchronous events.
//
// An event that was read counts against its object until it is acknowledged: destroying the object
// waits for that (ibv_get_async_event(3), ibv_get_cq_event(3)).
#include <cerrno>
#include <memory>

#include "softhca/verbs/context.h"
#include "softhca/verbs/cq.h"
#include "softhca/verbs/qp.h"
#include "softhca/verbs/runtime.h"

namespace softhca {

namespace {

// Events of a port, and of the device, which has no object.
bool of_port(ibv_event_type type) {
  switch (type) {
    case IBV_EVENT_PORT_ACTIVE:
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_LID_CHANGE:
    case IBV_EVENT_CLIENT_REREGISTER:
    case IBV_EVENT_GID_CHANGE:
    case IBV_EVENT_DEVICE_FATAL:
      return true;
    default:
      return false;
  }
}

// Fills in the object that an event is about, and counts the event for it. Returns false when the
// object was destroyed in the meantime. The event's queue is locked.
bool describe(Runtime& runtime, const SharedEvent& from, ibv_async_event* event) {
  event->event_type = static_cast<ibv_event_type>(from.type);
  if (of_port(event->event_type)) {
    event->element.port_num = static_cast<int>(from.object);
    return true;
  }
  if (event->event_type == IBV_EVENT_CQ_ERR) {
    Cq* cq = runtime.cqs().find(from.object);
    if (cq == nullptr) return false;
    pthread_mutex_lock(&cq->ex.mutex);
    ++cq->async_events;
    pthread_mutex_unlock(&cq->ex.mutex);
    event->element.cq = cq->handle();
    return true;
  }
  QueuePair* pair = runtime.qps().find(from.object);
  if (pair == nullptr) return false;
  Qp& qp = Qp::of(pair->config().handle);
  pthread_mutex_lock(&qp.handle()->mutex);
  ++qp.async_events;
  pthread_mutex_unlock(&qp.handle()->mutex);
  event->element.qp = qp.handle();
  return true;
}

}  // namespace

}  // namespace softhca

extern "C" {

int ibv_get_async_event(ibv_context* handle, ibv_async_event* event) {
  softhca::Context& context = softhca::Context::of(handle);
  if (context.runtime->orphaned()) return -1;
  bool found = context.async_events->next([&](const softhca::SharedEvent& from) {
    return softhca::describe(*context.runtime, from, event);
  });
  return found ? 0 : -1;
}

void ibv_ack_async_event(ibv_async_event* event) {
  if (softhca::of_port(event->event_type)) return;
  pthread_mutex_t* mutex = nullptr;
  pthread_cond_t* cond = nullptr;
  uint32_t* completed = nullptr;
  switch (event->event_type) {
    case IBV_EVENT_CQ_ERR:
      mutex = &event->element.cq->mutex;
      cond = &event->element.cq->cond;
      completed = &event->element.cq->async_events_completed;
      break;
    default:
      mutex = &event->element.qp->mutex;
      cond = &event->element.qp->cond;
      completed = &event->element.qp->events_completed;
  }
  pthread_mutex_lock(mutex);
  ++*completed;
  pthread_cond_signal(cond);
  pthread_mutex_unlock(mutex);
}

ibv_comp_channel* ibv_create_comp_channel(ibv_context* handle) {
  softhca::Context& context = softhca::Context::of(handle);
  errno = context.device->error();
  if (errno != 0) return nullptr;
  auto* channel = new softhca::Channel{};
  channel->events = std::make_unique<softhca::EventQueue>(context.runtime->process());
  if (!channel->events->valid()) {
    delete channel;
    errno = ENOMEM;
    return nullptr;
  }
  channel->verbs.context = handle;
  channel->verbs.fd = channel->events->fd();
  context.objects.fetch_add(1);
  return &channel->verbs;
}

int ibv_destroy_comp_channel(ibv_comp_channel* handle) {
  softhca::Channel& channel = softhca::Channel::of(handle);
  if (channel.cqs.load() != 0) return EBUSY;
  softhca::Context::of(handle->context).objects.fetch_sub(1);
  delete &channel;
  return 0;
}

int ibv_get_cq_event(ibv_comp_channel* handle, ibv_cq** cq, void** cq_context) {
  softhca::Channel& channel = softhca::Channel::of(handle);
  softhca::Runtime& runtime = *softhca::Context::of(handle->context).runtime;
  if (runtime.orphaned()) return -1;
  softhca::Cq* found = nullptr;
  bool taken = channel.events->next([&](const softhca::SharedEvent& event) {
    found = runtime.cqs().find(event.object);
    if (found == nullptr) return false;
    pthread_mutex_lock(&found->ex.mutex);
    ++found->comp_events;
    pthread_mutex_unlock(&found->ex.mutex);
    return true;
  });
  if (!taken) return -1;
  {
    softhca::SharedLock lock(found->shared->mutex);
    found->shared->event_queued = 0;
  }
  *cq = found->handle();
  *cq_context = found->ex.cq_context;
  return 0;
}

void ibv_ack_cq_events(ibv_cq* cq, unsigned count) {
  pthread_mutex_lock(&cq->mutex);
  cq->comp_events_completed += count;
  pthread_cond_signal(&cq->cond);
  pthread_mutex_unlock(&cq->mutex);
}

}  // extern "C"
