#include "tools/perf/endpoint.h"

namespace gdr::tools {

Result<Registration> register_memory(const abi::ncclNet_v8_t& net, void* comm,
                                     const Buffer& buffer) {
  void* mhandle = nullptr;
  abi::ncclResult_t result =
      net.regMr(comm, buffer.data(), buffer.bytes(), buffer.nccl_type(), &mhandle);
  if (result != abi::ncclSuccess) {
    return fail(Code::kSystem,
                fmt::format("regMr of {} bytes: {}", buffer.bytes(), describe(result)));
  }
  return Registration(mhandle, Deregister{&net, comm});
}

}  // namespace gdr::tools
