#include "transport/memory/memory_handle.h"

#include <gtest/gtest.h>

namespace gdr::transport {
namespace {

constexpr GpuAllocation kBuffers{0x7000000, 4 << 20};
constexpr GpuAllocation kUsers{0x9000000, 1 << 20};
constexpr GpuAllocation kUsersOfSameSize{0xa000000, 4 << 20};

TEST(OwnAllocations, FirstAllocation_AllOfItIsOwn) {
  OwnAllocations allocations;
  auto first = allocations.claim(kBuffers, false);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(allocations.claim(kBuffers, false), first);
  EXPECT_EQ(allocations.claim(kUsers, false), nullptr);
}

TEST(OwnAllocations, LastOwnRegistrationEnds_TheNextIsOwn) {
  OwnAllocations allocations;
  allocations.claim(kBuffers, false).reset();
  auto next = allocations.claim(kUsers, false);
  EXPECT_NE(next, nullptr);
  EXPECT_EQ(allocations.claim(kBuffers, false), nullptr) << "its address may be a user's by now";
}

// With PXN a process sends for the other ranks of its machine, and has a buffer for each.
TEST(OwnAllocations, AnotherAllocationOfTheSameSize_IsOwnOnlyWhereRanksRelay) {
  OwnAllocations allocations;
  auto first = allocations.claim(kBuffers, true);
  EXPECT_EQ(allocations.claim(kUsersOfSameSize, false), nullptr);
  auto relayed = allocations.claim(kUsersOfSameSize, true);
  EXPECT_NE(relayed, nullptr);
  EXPECT_EQ(allocations.claim(kUsersOfSameSize, false), relayed);
  EXPECT_EQ(allocations.claim(kUsers, true), nullptr);
}

}  // namespace
}  // namespace gdr::transport
