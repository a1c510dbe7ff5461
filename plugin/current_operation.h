// The operation that NCCL runs on a communicator, as it announces it.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "plugin/abi/net_v11.h"

namespace gdr::plugin {

// What NCCL announced last with setNetAttr. Thread-safe: NCCL calls from its proxy's threads
// whenever the operation changes, and the watchdog reads.
class CurrentOperation {
 public:
  void set(const abi::ncclNetAttr_v11_t& attributes);

  // "AllReduce, Ring, Simple", "Send"; several names, as in "Send or Recv", where NCCL named
  // several, and "" where it named none.
  std::string to_string() const;

 private:
  static constexpr auto kUndefined = static_cast<uint32_t>(abi::kNetAttrUndefined);

  // Bit masks of NCCL's numbers.
  std::atomic<uint32_t> operations_{kUndefined};
  std::atomic<uint32_t> algorithms_{kUndefined};
  std::atomic<uint32_t> protocols_{kUndefined};
};

}  // namespace gdr::plugin
