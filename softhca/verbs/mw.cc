#include "softhca/verbs/mw.h"

#include <cerrno>

#include "softhca/fabric/memory_window.h"
#include "softhca/verbs/context.h"
#include "softhca/verbs/pd.h"
#include "softhca/verbs/qp.h"
#include "softhca/verbs/runtime.h"

namespace softhca {

namespace {

// Behind ibv_alloc_mw.
struct Mw {
  ibv_mw verbs;
  DomainUse domain;
};

// Returns a key of the same window that differs from `key`; 0 names nothing.
uint32_t next_key(uint32_t key) {
  uint32_t next = (key & ~0xffu) | ((key + 1) & 0xff);
  return next != 0 ? next : 1;
}

}  // namespace

ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type) {
  Context& context = Context::of(pd->context);
  Runtime& runtime = *context.runtime;
  int index = -1;
  errno = runtime.orphaned()                               ? EIO
          : context.device->error() != 0                   ? EIO
          : type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2 ? EINVAL
          : (index = runtime.take_registration()) < 0      ? ENOMEM
                                                           : 0;
  if (errno != 0) return nullptr;
  auto* mw = new Mw{{}, DomainUse(Pd::of(pd).domain)};
  mw->verbs.context = pd->context;
  mw->verbs.pd = pd;
  mw->verbs.handle = static_cast<uint32_t>(index);
  mw->verbs.rkey = runtime.make_key(mw->verbs.handle);
  mw->verbs.type = type;
  return &mw->verbs;
}

int dealloc_mw(ibv_mw* handle) {
  Runtime& runtime = *Context::of(handle->context).runtime;
  if (runtime.orphaned()) return 0;
  if (Context::of(handle->context).device->removed()) return EIO;
  unbind_window(runtime.process().self(), handle->handle);
  runtime.give_registration(handle->handle);
  delete reinterpret_cast<Mw*>(handle);
  return 0;
}

int bind_mw(ibv_qp* handle, ibv_mw* mw, ibv_mw_bind* bind) {
  Qp& qp = Qp::of(handle);
  std::lock_guard lock(qp.send_queue.mutex());
  ibv_qp_state state = qp.pair.state();
  if (state != IBV_QPS_RTS && state != IBV_QPS_ERR && state != IBV_QPS_SQD) return EINVAL;
  Wqe* wqe = qp.send_queue.claim();
  if (wqe == nullptr) return ENOMEM;
  uint32_t key = next_key(mw->rkey);
  wqe->wr_id = bind->wr_id;
  wqe->flags = bind->send_flags & ~unsigned{IBV_SEND_INLINE};
  if (int error = qp.send_queue.set_binding(*wqe, *mw, key, bind->bind_info); error != 0) {
    qp.send_queue.abandon();
    return error;
  }
  qp.send_queue.commit(1);
  qp.run();
  mw->rkey = key;
  return 0;
}

}  // namespace softhca
