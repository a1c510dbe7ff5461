// Memory windows as the application holds them (ibv_alloc_mw(3)). Their bindings are in
// fabric/memory_window.h.
#pragma once

#include <infiniband/verbs.h>

namespace softhca {

// As the verbs of these names: null with errno set, or an errno value, on failure.
ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type);
int dealloc_mw(ibv_mw* mw);
// Posts the binding of a window of type 1, which gets a new rkey at once.
int bind_mw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* bind);

}  // namespace softhca
