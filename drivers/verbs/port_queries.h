// Queries of a port that reach past what the exported symbols and the build's verbs.h offer.
// Source: rdma-core's libibverbs/verbs.h (___ibv_query_port, ibv_port_attr) and verbs.c
// (__lib_query_port).
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

namespace gdr::verbs {

// ibv_query_port through the context's extended table, which fills all of attr: the exported symbol
// fills only the structure of 2010. Every provider since rdma-core 17 has the extended entry.
// EOPNOTSUPP without one.
int query_port(ibv_context* context, uint8_t port, ibv_port_attr* attr);

// Reads ibv_port_attr::active_speed_ex, a code as in active_speed but wide enough for XDR (256) and
// faster links, which not every verbs.h has. `code` becomes 0 where the library is
// older, or where the code is in active_speed. Fails as query_port() does.
int query_active_speed_ex(ibv_context* context, uint8_t port, uint32_t* code);

}  // namespace gdr::verbs
