#include "plugin/current_operation.h"

#include <gtest/gtest.h>

namespace gdr::plugin {
namespace {

constexpr auto kUndefined = static_cast<uint32_t>(abi::kNetAttrUndefined);

std::string text_of(uint32_t op, uint32_t algo, uint32_t proto) {
  abi::ncclNetAttr_v11_t attributes{};
  attributes.op = op;
  attributes.algo = algo;
  attributes.proto = proto;
  CurrentOperation operation;
  operation.set(attributes);
  return operation.to_string();
}

// Numbers of NCCL's: ncclFuncAllReduce 4, NCCL_ALGO_RING 1, NCCL_PROTO_SIMPLE 2.
TEST(CurrentOperation, Announcement_IsNamed) {
  struct Case {
    uint32_t op, algo, proto;
    const char* text;
  };
  for (const Case& one : {
           Case{1u << 4, 1u << 1, 1u << 2, "AllReduce, Ring, Simple"},
           Case{1u << 0, 1u << 0, 1u << 0, "Broadcast, Tree, LL"},
           Case{1u << 2, 1u << 6, 1u << 1, "AllGather, PAT, LL128"},
           Case{1u << 6, kUndefined, kUndefined, "Send"},
           Case{kUndefined, 1u << 1, kUndefined, "Ring"},
           Case{kUndefined, kUndefined, kUndefined, ""},
           Case{0, 0, 0, ""},
           Case{1u << 6 | 1u << 7, kUndefined, kUndefined, "Send or Recv"},
           Case{1u << 4, kUndefined, 1u << 0 | 1u << 2, "AllReduce, LL or Simple"},
           // Point-to-point has no algorithm: NCCL leaves there what it announced before.
           Case{1u << 8, 1u << 1, 1u << 0, "AlltoAll"},
           Case{1u << 12, 1u << 1, 1u << 2, "PutSignal"},
           // Of a later release.
           Case{1u << 4 | 1u << 20, 1u << 30, kUndefined, "AllReduce or number 20, number 30"},
       }) {
    EXPECT_EQ(text_of(one.op, one.algo, one.proto), one.text);
  }
  EXPECT_EQ(CurrentOperation().to_string(), "");
}

}  // namespace
}  // namespace gdr::plugin
