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

TEST(CurrentOperation, NothingAnnounced_IsEmpty) { EXPECT_EQ(CurrentOperation().to_string(), ""); }

// Numbers of NCCL's: ncclFuncAllReduce 4, NCCL_ALGO_RING 1, NCCL_PROTO_SIMPLE 2.
TEST(CurrentOperation, OneOfEach_IsNamed) {
  EXPECT_EQ(text_of(1u << 4, 1u << 1, 1u << 2), "AllReduce, Ring, Simple");
  EXPECT_EQ(text_of(1u << 0, 1u << 0, 1u << 0), "Broadcast, Tree, LL");
  EXPECT_EQ(text_of(1u << 2, 1u << 6, 1u << 1), "AllGather, PAT, LL128");
}

TEST(CurrentOperation, UndefinedParts_AreLeftOut) {
  EXPECT_EQ(text_of(1u << 6, kUndefined, kUndefined), "Send");
  EXPECT_EQ(text_of(kUndefined, 1u << 1, kUndefined), "Ring");
  EXPECT_EQ(text_of(kUndefined, kUndefined, kUndefined), "");
  EXPECT_EQ(text_of(0, 0, 0), "");
}

TEST(CurrentOperation, SeveralNames_AreAlternatives) {
  EXPECT_EQ(text_of(1u << 6 | 1u << 7, kUndefined, kUndefined), "Send or Recv");
  EXPECT_EQ(text_of(1u << 4, kUndefined, 1u << 0 | 1u << 2), "AllReduce, LL or Simple");
}

// NCCL leaves there what it announced before.
TEST(CurrentOperation, PointToPoint_HasNoAlgorithm) {
  EXPECT_EQ(text_of(1u << 8, 1u << 1, 1u << 0), "AlltoAll");
  EXPECT_EQ(text_of(1u << 12, 1u << 1, 1u << 2), "PutSignal");
}

// Of a later release.
TEST(CurrentOperation, UnknownNumbers_AreShown) {
  EXPECT_EQ(text_of(1u << 4 | 1u << 20, 1u << 30, kUndefined), "AllReduce or number 20, number 30");
}

TEST(CurrentOperation, LastAnnouncement_Counts) {
  abi::ncclNetAttr_v11_t attributes{};
  attributes.op = 1u << 4;
  attributes.algo = attributes.proto = kUndefined;
  CurrentOperation operation;
  operation.set(attributes);
  attributes.op = 1u << 2;
  operation.set(attributes);
  EXPECT_EQ(operation.to_string(), "AllGather");
}

}  // namespace
}  // namespace gdr::plugin
