#include "tools/net/net.h"

#include <fmt/format.h>

namespace gdr::tools {

std::string describe(abi::ncclResult_t result) {
  switch (result) {
    case abi::ncclSuccess:
      return "success";
    case abi::ncclUnhandledCudaError:
      return "unhandled CUDA error (1)";
    case abi::ncclSystemError:
      return "system error (2)";
    case abi::ncclInternalError:
      return "internal error (3)";
    case abi::ncclInvalidArgument:
      return "invalid argument (4)";
    case abi::ncclInvalidUsage:
      return "invalid usage (5)";
    case abi::ncclRemoteError:
      return "remote error (6)";
  }
  return fmt::format("unknown result ({})", static_cast<int>(result));
}

}  // namespace gdr::tools
