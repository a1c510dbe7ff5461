#include "tools/perf/endpoint.h"

#include <climits>

namespace gdr::tools {

Status flush_received(const Endpoint& end, char* at, size_t bytes, StallGuard& guard) {
  void* address = at;
  int size = static_cast<int>(std::min<size_t>(bytes, INT_MAX));
  void* handle = end.mhandle;
  void* request = nullptr;
  abi::ncclResult_t result = end.net->iflush(end.comm, 1, &address, &size, &handle, &request);
  if (result != abi::ncclSuccess) {
    return fail(Code::kRemote, fmt::format("iflush of {} bytes: {}", bytes, describe(result)));
  }
  // A plugin that has nothing to wait for returns no request.
  guard.progress();
  for (int done = request == nullptr ? 1 : 0; done == 0;) {
    result = end.net->test(request, &done, nullptr);
    if (result != abi::ncclSuccess) {
      return fail(Code::kRemote, fmt::format("test of an iflush: {}", describe(result)));
    }
    if (done == 0 && !guard.keep_waiting()) {
      return fail(Code::kRemote, fmt::format("gave up waiting for an iflush of {} bytes", bytes));
    }
  }
  return {};
}

}  // namespace gdr::tools
