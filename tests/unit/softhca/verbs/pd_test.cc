// Protection domains and regions: what shares them, what keeps them, and how they are changed.
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/unit/softhca/endpoint.h"

namespace softhca_test {
namespace {

// An int, since the macro ibv_reg_mr() combines its flags with those of another enum.
constexpr int kLocalWrite = IBV_ACCESS_LOCAL_WRITE;

// The context that another one of this process imports.
ContextPtr import(ibv_context* context) {
  return ContextPtr(ibv_import_device(dup(context->cmd_fd)));
}

TEST(ParentDomain, RegionOfIt_AccessibleByQpsOfItsBase) {
  Pair pair;
  ibv_parent_domain_init_attr attr = {};
  attr.pd = pair.b.pd();
  PdPtr parent(ibv_alloc_parent_domain(pair.b.context(), &attr));
  ASSERT_NE(parent, nullptr);
  Buffer from(pair.a, 8);
  Buffer to(pair.b, 8);
  MrPtr mr(ibv_reg_mr(parent.get(), to.bytes.data(), 8, kAllAccess));
  EXPECT_EQ(status_of(pair.a, Request(IBV_WR_RDMA_WRITE, from.sge(), to.address(), mr->rkey)),
            IBV_WC_SUCCESS);
}

TEST(ParentDomain, InUse_NeitherItNorItsBaseCanGo) {
  ContextPtr context = open_device(0);
  PdPtr pd(ibv_alloc_pd(context.get()));
  ibv_parent_domain_init_attr attr = {};
  attr.pd = pd.get();
  PdPtr parent(ibv_alloc_parent_domain(context.get(), &attr));
  uint64_t memory = 0;
  MrPtr mr(ibv_reg_mr(parent.get(), &memory, 8, kLocalWrite));
  EXPECT_EQ(ibv_dealloc_pd(parent.get()), EBUSY);
  EXPECT_EQ(ibv_dealloc_pd(pd.get()), EBUSY);
  mr.reset();
  EXPECT_EQ(ibv_dealloc_pd(pd.get()), EBUSY);
  EXPECT_EQ(ibv_dealloc_pd(parent.release()), 0);
  EXPECT_EQ(ibv_dealloc_pd(pd.release()), 0);
}

TEST(ParentDomain, WithoutBaseOrOfAParent_Refused) {
  ContextPtr context = open_device(0);
  PdPtr pd(ibv_alloc_pd(context.get()));
  ibv_parent_domain_init_attr attr = {};
  EXPECT_EQ(ibv_alloc_parent_domain(context.get(), &attr), nullptr);
  EXPECT_EQ(errno, EINVAL);
  attr.pd = pd.get();
  PdPtr parent(ibv_alloc_parent_domain(context.get(), &attr));
  attr.pd = parent.get();
  EXPECT_EQ(ibv_alloc_parent_domain(context.get(), &attr), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST(Import, DomainAndRegion_UsableAndKeptByTheirObjects) {
  Endpoint a;
  ContextPtr second = import(a.context());
  ASSERT_NE(second, nullptr);
  ibv_pd* pd = ibv_import_pd(second.get(), a.pd()->handle);
  ASSERT_NE(pd, nullptr);
  Buffer buffer(a, 8);
  ibv_mr* mr = ibv_import_mr(pd, buffer.mr->handle);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(mr->addr, nullptr);
  EXPECT_EQ(mr->length, 8u);
  EXPECT_EQ(mr->lkey, buffer.mr->lkey);
  EXPECT_EQ(mr->rkey, buffer.mr->rkey);
  uint64_t memory = 0;
  MrPtr own(ibv_reg_mr(pd, &memory, 8, kLocalWrite));
  ASSERT_NE(own, nullptr);
  EXPECT_EQ(ibv_dealloc_pd(a.pd()), EBUSY);
  own.reset();
  ibv_unimport_mr(mr);
  ibv_unimport_pd(pd);
  // The original handles are as before.
  EXPECT_EQ(buffer.mr->addr, buffer.bytes.data());
}

TEST(Import, RegionDeregisteredByItsOwner_TheOtherHandleIsOnlyUnimported) {
  Endpoint a;
  uint64_t memory = 0;
  MrPtr mr(ibv_reg_mr(a.pd(), &memory, 8, kLocalWrite));
  ibv_mr* second = ibv_import_mr(a.pd(), mr->handle);
  uint32_t handle = mr->handle;
  mr.reset();
  EXPECT_EQ(ibv_import_mr(a.pd(), handle), nullptr);
  EXPECT_EQ(errno, EINVAL);
  ibv_unimport_mr(second);
}

TEST(Import, WhatDoesNotExist_Refused) {
  Endpoint a;
  Endpoint b;
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_EQ(ibv_import_device(ends[0]), nullptr);
  EXPECT_EQ(errno, EINVAL);
  close(ends[0]);
  close(ends[1]);
  EXPECT_EQ(ibv_import_pd(a.context(), 0), nullptr);
  EXPECT_EQ(errno, EINVAL);
  Buffer of_b(b, 8);
  EXPECT_EQ(ibv_import_mr(a.pd(), of_b.mr->handle), nullptr);
  EXPECT_EQ(errno, EINVAL);
  ContextPtr other_device = open_device(1);
  EXPECT_EQ(ibv_import_pd(other_device.get(), a.pd()->handle), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST(Rereg, Translation_MovesTheRegion) {
  Buffers pair(8);
  std::vector<uint8_t> elsewhere(16);
  pair.from.fill(1);
  ASSERT_EQ(ibv_rereg_mr(pair.to.mr.get(), IBV_REREG_MR_CHANGE_TRANSLATION, nullptr,
                         elsewhere.data(), elsewhere.size(), 0),
            0);
  EXPECT_EQ(pair.to.mr->addr, elsewhere.data());
  EXPECT_EQ(pair.to.mr->length, 16u);
  auto address = reinterpret_cast<uint64_t>(elsewhere.data());
  ASSERT_EQ(
      status_of(pair.a, Request(IBV_WR_RDMA_WRITE, pair.from.sge(), address + 8, pair.to.rkey())),
      IBV_WC_SUCCESS);
  EXPECT_TRUE(std::equal(pair.from.bytes.begin(), pair.from.bytes.end(), elsewhere.begin() + 8));
  EXPECT_EQ(status_of(pair.a, pair.request()), IBV_WC_REM_ACCESS_ERR);
}

TEST(Rereg, OtherDomain_TheRegionBelongsToIt) {
  Buffers pair(8);
  PdPtr other(ibv_alloc_pd(pair.b.context()));
  ASSERT_EQ(ibv_rereg_mr(pair.to.mr.get(), IBV_REREG_MR_CHANGE_PD, other.get(), nullptr, 0, 0), 0);
  EXPECT_EQ(pair.to.mr->pd, other.get());
  EXPECT_EQ(ibv_dealloc_pd(other.get()), EBUSY);
  EXPECT_EQ(status_of(pair.a, pair.request()), IBV_WC_REM_ACCESS_ERR);
  pair.to.mr.reset();
  EXPECT_EQ(ibv_dealloc_pd(other.release()), 0);
}

TEST(Rereg, WrongUse_InputErrorAndTheRegionIsAsBefore) {
  Buffers pair(8);
  ibv_mr* mr = pair.to.mr.get();
  EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, nullptr, 8, 0),
            IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_rereg_mr(mr, 0, nullptr, nullptr, 0, kAllAccess), IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(ibv_rereg_mr(mr, 1 << 10, nullptr, nullptr, 0, 0), IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, pair.a.pd(), nullptr, 0, 0),
            IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(
      ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_REMOTE_WRITE),
      IBV_REREG_MR_ERR_CMD);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(status_of(pair.a, pair.request()), IBV_WC_SUCCESS);
}

TEST(Registration, AccessThatThisHcaLacks_NotSupported) {
  Endpoint a;
  uint64_t memory = 0;
  EXPECT_EQ(ibv_reg_mr(a.pd(), &memory, 8, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

}  // namespace
}  // namespace softhca_test
