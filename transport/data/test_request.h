// The test of a request, inline: NCCL calls it more often than anything else, and whoever calls it
// for NCCL saves no registers for a further call.
#pragma once

#include <algorithm>
#include <climits>
#include <cstddef>

#include "base/result.h"
#include "transport/data/receive_comm.h"
#include "transport/data/request.h"
#include "transport/data/send_comm.h"

namespace gdr::transport {

// NCCL adds the sizes of a group up in an int (recvProxyProgress in its src/transport/net.cc).
[[gnu::noinline]] inline void report_sizes_of_group(const Request& request, int* sizes) {
  for (int i = 0; i < request.buffers; ++i) {
    sizes[i] = static_cast<int>(std::min<size_t>(request.bytes[i], INT_MAX / wire::kMaxGroup));
  }
}

template <class Comm>
[[gnu::always_inline]] inline bool test_on(Comm* comm, Request* request, int* done, int* sizes,
                                           Code* error) {
  *done = 0;
  if (request->pending != 0) {
    const bool alive = comm->progress();
    if (request->pending != 0) {
      if (!alive) [[unlikely]]
        *error = comm->connection().surface_failure();
      return alive;
    }
  }
  *done = 1;
  if (sizes != nullptr) {
    if (request->buffers == 1) [[likely]] {
      sizes[0] = static_cast<int>(std::min<size_t>(request->bytes[0], INT_MAX));
    } else {
      report_sizes_of_group(*request, sizes);
    }
  }
  comm->release(request);
  return true;
}

// Makes progress on a request's comm and reports whether the request is done: *done is 1 or 0. Once
// done, the request is free again, and `sizes`, unless null, holds the bytes of each buffer, at
// most INT_MAX.
// Returns false when the comm has failed, with the code in *error; the text is logged at the first
// such call.
[[gnu::always_inline]] inline bool test(Request* request, int* done, int* sizes, Code* error) {
  if (request->kind == RequestKind::kSend) {
    return test_on(static_cast<SendComm*>(request->comm), request, done, sizes, error);
  }
  return test_on(static_cast<ReceiveComm*>(request->comm), request, done, sizes, error);
}

}  // namespace gdr::transport
