#include "plugin/current_operation.h"

#include <span>

namespace gdr::plugin {
namespace {

// In the order of NCCL's numbers: ncclFunc_t, NCCL_ALGO_* and NCCL_PROTO_* in
// src/include/nccl_common.h, which are the same in every release with setNetAttr (2.28 to 2.30).
constexpr const char* kOperations[] = {"Broadcast", "Reduce",   "AllGather", "ReduceScatter",
                                       "AllReduce", "SendRecv", "Send",      "Recv",
                                       "AlltoAll",  "Scatter",  "Gather",    "AllGatherV",
                                       "PutSignal", "Signal",   "WaitSignal"};
// Those that have an algorithm and a protocol (NCCL_NUM_FUNCTIONS). For others NCCL announces the
// algorithm and protocol of the operation before (setXferNetAttrs in src/transport/net.cc).
constexpr uint32_t kCollectives = 0x1f;
constexpr const char* kAlgorithms[] = {"Tree",     "Ring", "CollNetDirect", "CollNetChain", "NVLS",
                                       "NVLSTree", "PAT"};
constexpr const char* kProtocols[] = {"LL", "LL128", "Simple"};

void append_names(uint32_t mask, std::span<const char* const> names, std::string* text) {
  const char* separator = text->empty() ? "" : ", ";
  for (size_t bit = 0; bit < 32; ++bit) {
    if ((mask >> bit & 1) == 0) continue;
    *text += separator;
    *text += bit < names.size() ? names[bit] : "number " + std::to_string(bit);
    separator = " or ";
  }
}

}  // namespace

void CurrentOperation::set(const abi::ncclNetAttr_v11_t& attributes) {
  operations_.store(attributes.op, std::memory_order_relaxed);
  algorithms_.store(attributes.algo, std::memory_order_relaxed);
  protocols_.store(attributes.proto, std::memory_order_relaxed);
}

std::string CurrentOperation::to_string() const {
  std::string text;
  auto append = [&text](const std::atomic<uint32_t>& masks, std::span<const char* const> names) {
    const uint32_t mask = masks.load(std::memory_order_relaxed);
    if (mask != kUndefined) append_names(mask, names, &text);
  };
  append(operations_, kOperations);
  const uint32_t running = operations_.load(std::memory_order_relaxed);
  if (running != kUndefined && (running & kCollectives) == 0) return text;
  append(algorithms_, kAlgorithms);
  append(protocols_, kProtocols);
  return text;
}

}  // namespace gdr::plugin
